//! How a session behaves, and where it goes.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::{Error, Tls};

/// The port of a sevent server.
const PORT: u16 = 5987;

/// No request is ever longer than this, whatever is asked for.
const REQUEST_BYTES_CEILING: u32 = 256 << 20;

/// No queue is longer.
const QUEUE_CEILING: usize = 1_000_000;

/// How a session behaves.
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(super) token: Option<String>,
    pub(super) tls: Option<Tls>,
    pub(super) connect_timeout: Duration,
    pub(super) request_timeout: Duration,
    pub(super) silence_max: Duration,
    pub(super) frame_bytes_max: u32,
    pub(super) request_bytes_max: u32,
    pub(super) requests_max: usize,
    pub(super) notifications_max: usize,
}

impl Options {
    /// No token, no TLS.
    pub fn new() -> Self {
        Self {
            token: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            silence_max: Duration::from_secs(60),
            frame_bytes_max: 64 << 20,
            request_bytes_max: 1 << 20,
            requests_max: 1024,
            notifications_max: 1024,
        }
    }

    /// Shows this token with the first request.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.token = Some(token.into());
        self
    }

    /// Speaks TLS.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// How long making a connection may take, TLS included. 5 s unless said otherwise.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a request may wait for its place in the queue, and again for its answer. 30 s
    /// unless said otherwise.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long nothing may be heard from a server that was asked something. 60 s unless said
    /// otherwise. If nothing was heard for between half and all of it and nothing is under way, the
    /// server is asked for the filter; so a dead connection is noticed after twice of it at most.
    pub fn silence_max(mut self, time: Duration) -> Self {
        self.silence_max = time;
        self
    }

    /// The longest message that is taken from the server. 64 MiB unless said otherwise: the ids of
    /// ten million events.
    pub fn frame_bytes_max(mut self, bytes: u32) -> Self {
        self.frame_bytes_max = bytes;
        self
    }

    /// The longest message that is sent. 1 MiB unless said otherwise, as a server takes by
    /// default; never more than 256 MiB.
    pub fn request_bytes_max(mut self, bytes: u32) -> Self {
        self.request_bytes_max = bytes.min(REQUEST_BYTES_CEILING);
        self
    }

    /// How many requests may be under way, and as many again in the queue. 1024 unless said
    /// otherwise, at least 1 and at most a million.
    pub fn requests_max(mut self, requests: usize) -> Self {
        self.requests_max = requests.clamp(1, QUEUE_CEILING);
        self
    }

    /// How many notifications may wait to be taken. 1024 unless said otherwise, at least 1 and at
    /// most a million.
    pub fn notifications_max(mut self, notifications: usize) -> Self {
        self.notifications_max = notifications.clamp(1, QUEUE_CEILING);
        self
    }

    pub(super) fn unreachable(&self, address: &str, error: io::Error) -> Error {
        let url = address.to_owned();
        match error.kind() {
            io::ErrorKind::TimedOut => {
                Error::Timeout { url, waited: self.connect_timeout, sent: false }
            }
            _ => Error::Unreachable { url, cause: error.into() },
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("tls", &self.tls)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .field("silence_max", &self.silence_max)
            .field("frame_bytes_max", &self.frame_bytes_max)
            .field("request_bytes_max", &self.request_bytes_max)
            .field("requests_max", &self.requests_max)
            .field("notifications_max", &self.notifications_max)
            .finish()
    }
}

/// Host and port of `host`, `host:port`, `1.2.3.4:port`, `[::1]:port`, `[::1]` or `::1`.
pub(super) fn parse(address: &str) -> Result<(&str, u16), Error> {
    let bad = |why: &str| {
        Error::Invalid(format!("`{address}` is no address ({why}); write it like 127.0.0.1:{PORT}"))
    };
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| bad("a [ without a ]"))?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err(bad("something after the ]")),
            }
        }
        None if address.matches(':').count() > 1 => (address, None),
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() || host.contains(['/', '@', ' ']) {
        return Err(bad("it names no host"));
    }
    match port.map_or(Ok(PORT), str::parse) {
        Ok(port) if port > 0 => Ok((host, port)),
        _ => Err(bad("its port is not a number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_address_is_a_host_and_perhaps_a_port() {
        let cases = [
            ("localhost", ("localhost", 5987)),
            ("localhost:1", ("localhost", 1)),
            ("127.0.0.1:65535", ("127.0.0.1", 65535)),
            ("::1", ("::1", 5987)),
            ("[::1]", ("::1", 5987)),
            ("[::1]:7", ("::1", 7)),
        ];
        for (address, expected) in cases {
            assert_eq!(parse(address).unwrap(), expected, "{address}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_with_words() {
        for address in
            ["", ":5987", "a:", "a:b", "a:0", "a:65536", "[::1", "[::1]x", "http://a", "a b", "a@b"]
        {
            let error = parse(address).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:5987"), "{address}: {error}");
        }
    }
}
