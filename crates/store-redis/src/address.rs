//! Where a Redis server is and how one is let in.
//!
//! ```text
//!  redis://[user[:password]@]host[:port][/database]     rediss:// the same through TLS
//! ```

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The port that is meant when none is named.
const PORT: u16 = 6379;

/// Where a server is and how one is let in.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: u32,
}

/// An address that is none.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}; it should look like redis://user:password@host:6379/0, or rediss:// for TLS")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let bad = |why: &str| BadAddress(format!("the address of Redis {why}"));
        let (tls, rest) = match text.split_once("://") {
            Some(("redis", rest)) => (false, rest),
            Some(("rediss", rest)) => (true, rest),
            _ => return Err(bad("does not begin with redis:// or rediss://")),
        };
        if rest.contains(['?', '#']) {
            return Err(bad("has a part that is not known, behind ? or #"));
        }
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| bad("has a database that is no number"))?,
        };
        let (login, place) = match place.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, place),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            Some((user, password)) => (word(user), word(password)),
            None => (Ok(None), Ok(None)),
        };
        let (user, password) = match (user, password) {
            (Ok(user), Ok(password)) => (user, password),
            _ => return Err(bad("has a user or password with a % that begins no byte")),
        };
        if user.is_some() && password.is_none() {
            return Err(bad("names a user without a password"));
        }
        let (host, port) = place_of(place).ok_or_else(|| bad("names no host, or no sound port"))?;
        Ok(Self { host, port, tls, user, password, database })
    }
}

/// Host and port; an IPv6 address stands in brackets.
fn place_of(place: &str) -> Option<(String, u16)> {
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some(""))?)
        }
        None => place.split_once(':').unwrap_or((place, "")),
    };
    let port = if port.is_empty() { PORT } else { port.parse().ok().filter(|port| *port > 0)? };
    (!host.is_empty() && !host.contains(char::is_whitespace)).then(|| (host.to_owned(), port))
}

/// A word with `%40` and the like put back; none if it is empty.
fn word(text: &str) -> Result<Option<String>, ()> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit().ok_or(())?, digit().ok_or(())?);
                u8::try_from(high * 16 + low).map_err(|_| ())?
            }
            plain => plain,
        };
        bytes.push(byte);
    }
    let word = String::from_utf8(bytes).map_err(|_| ())?;
    Ok(Some(word).filter(|word| !word.is_empty()))
}

/// Without the password, for people.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{scheme}://{open}{}{close}:{}/{}", self.host, self.port, self.database)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    fn parts(text: &str) -> (String, u16, bool, Option<String>, Option<String>, u32) {
        let Address { host, port, tls, user, password, database } = text.parse().unwrap();
        (host, port, tls, user, password, database)
    }

    #[test]
    fn an_address_is_read_with_all_its_parts() {
        let some = |text: &str| Some(text.to_owned());
        let host = |text: &str| text.to_owned();
        assert_eq!(parts("redis://there"), (host("there"), 6379, false, None, None, 0));
        assert_eq!(
            parts("rediss://me:p%40ss%3a@there:7000/3"),
            (host("there"), 7000, true, some("me"), some("p@ss:"), 3)
        );
        assert_eq!(parts("redis://:word@[::1]:7/"), (host("::1"), 7, false, None, some("word"), 0));
        assert_eq!(parts("redis://[::1]"), (host("::1"), 6379, false, None, None, 0));
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_an_example_and_without_its_password() {
        for text in [
            "",
            "there:6379",
            "http://there",
            "redis://",
            "redis://:7000",
            "redis://there:0",
            "redis://there:70000",
            "redis://there/x",
            "redis://there/-1",
            "redis://me@there",
            "redis://me:secret%zz@there",
            "redis://there?db=1",
            "redis://[::1",
            "redis://a b:1",
        ] {
            let words = text.parse::<Address>().unwrap_err().to_string();
            assert!(words.contains("redis://user:password@host:6379/0"), "{text}: {words}");
            assert!(!words.contains("secret"), "{words}");
        }
    }

    #[test]
    fn an_address_never_shows_its_password() {
        let address: Address = "rediss://me:secret@there:7000/3".parse().unwrap();
        assert_eq!(address.to_string(), "rediss://there:7000/3");
        assert_eq!(format!("{address:?}"), "rediss://there:7000/3");
    }
}
