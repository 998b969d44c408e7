//! Where a destination is.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Where receivers listen if nobody says otherwise.
pub const DEFAULT_PORT: u16 = 7071;

const PLAIN: &str = "handoff://";
const INSIDE_TLS: &str = "handoffs://";

/// The address of a receiver: `handoff://HOST:PORT`, or `handoffs://HOST:PORT` inside TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Whether the conversation is inside TLS.
    pub tls: bool,
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "`{0}` is no address of a receiver: write handoff://HOST:PORT, or handoffs://HOST:PORT for TLS (without a port it is {DEFAULT_PORT})"
)]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = || BadAddress(text.chars().take(200).collect());
        let (rest, tls) = match (text.strip_prefix(PLAIN), text.strip_prefix(INSIDE_TLS)) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Err(bad()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(inside) => {
                let (host, behind) = inside.split_once(']').ok_or_else(bad)?;
                (host, (!behind.is_empty()).then(|| behind.strip_prefix(':').unwrap_or("")))
            }
            None => rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)?,
            None => DEFAULT_PORT,
        };
        let fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '%');
        if host.is_empty() || !host.chars().all(fit) {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port, tls })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { INSIDE_TLS } else { PLAIN };
        if self.host.contains(':') {
            write!(f, "{scheme}[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read_as_they_are_shown() {
        for (text, shown) in [
            ("handoff://127.0.0.1:7071", "handoff://127.0.0.1:7071"),
            ("handoffs://relay.example.org", "handoffs://relay.example.org:7071"),
            ("handoff://[::1]:9/", "handoff://[::1]:9"),
            ("handoffs://[fe80::1%eth0]", "handoffs://[fe80::1%eth0]:7071"),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_an_example() {
        for bad in [
            "",
            "127.0.0.1:7071",
            "http://127.0.0.1:7071",
            "handoff://",
            "handoff://:7071",
            "handoff://host:0",
            "handoff://host:99999",
            "handoff://host:7071/path",
            "handoff://user@host",
            "handoff://[::1",
            "handoff://[::1]x",
        ] {
            let words = bad.parse::<Address>().unwrap_err().to_string();
            assert!(words.contains("handoff://HOST:PORT"), "{bad}: {words}");
        }
    }
}
