//! The scripts: texts that Redis is given once and called by their digest.
//!
//! A text is the clock and the header, as far as the body needs them, and the body. A server that was restarted or flushed has forgotten
//! it and says so (`NOSCRIPT`); it is then given the text again and the call is repeated, which is
//! safe because nothing of it was done.

use std::sync::{Mutex, PoisonError};

use crate::address::Address;
use crate::header;
use crate::line::Line;
use crate::resp::Value;
use crate::trouble::Trouble;

const CLOCK: &str = include_str!("../lua/clock.lua");
const CLOCK_TOLD: &str = include_str!("../lua/clock_told.lua");
const HEADER: &str = include_str!("../lua/header.lua");

/// A script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Script {
    Init,
    Ping,
    Request,
    RequestAck,
    Response,
    ResponseAck,
    Stop,
    Apply,
    Guard,
}

impl Script {
    const ALL: [Self; 9] = [
        Self::Init,
        Self::Ping,
        Self::Request,
        Self::RequestAck,
        Self::Response,
        Self::ResponseAck,
        Self::Stop,
        Self::Apply,
        Self::Guard,
    ];

    /// Those that take the steps of clients, several in one call: first what somebody waits for.
    pub(crate) const STEPS: [Self; 4] =
        [Self::Response, Self::RequestAck, Self::Request, Self::ResponseAck];

    const fn body(self) -> &'static str {
        match self {
            Self::Init => include_str!("../lua/init.lua"),
            Self::Ping => include_str!("../lua/ping.lua"),
            Self::Request => include_str!("../lua/request.lua"),
            Self::RequestAck => include_str!("../lua/request_ack.lua"),
            Self::Response => include_str!("../lua/response.lua"),
            Self::ResponseAck => include_str!("../lua/response_ack.lua"),
            Self::Stop => include_str!("../lua/stop.lua"),
            Self::Apply => include_str!("../lua/apply.lua"),
            Self::Guard => include_str!("../lua/guard.lua"),
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// Whose clock scripts go by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Redis' own, which all its peers share.
    #[default]
    Redis,
    /// What key `origami:x:now` says, in microseconds: for tests that move time.
    Told,
}

/// The texts, and the digests that Redis gave them.
#[derive(Debug)]
pub(crate) struct Scripts {
    clock: Clock,
    address: Address,
    digests: Mutex<[Option<String>; Script::ALL.len()]>,
}

impl Scripts {
    pub(crate) fn new(address: Address, clock: Clock) -> Self {
        Self { clock, address, digests: Mutex::default() }
    }

    fn text(&self, script: Script) -> String {
        let clock = match self.clock {
            Clock::Redis => CLOCK,
            Clock::Told => CLOCK_TOLD,
        };
        header::before(&[clock, HEADER], script.body())
    }

    /// Calls a script. An error of Redis or of the script is an answer.
    ///
    /// # Errors
    /// [`Trouble`]: it may have been done all the same, unless Redis refused the text.
    pub(crate) async fn run(
        &self,
        line: &Line,
        script: Script,
        arguments: &[&[u8]],
    ) -> Result<Value, Trouble> {
        let known = self.digest(script);
        let digest = match known {
            Some(digest) => digest,
            None => self.load(line, script).await?,
        };
        match self.call(line, &digest, arguments).await? {
            Value::Error(words) if words.starts_with("NOSCRIPT") => {
                let digest = self.load(line, script).await?;
                self.call(line, &digest, arguments).await
            }
            answer => Ok(answer),
        }
    }

    /// Calls a script several times, one behind the other.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub(crate) async fn run_all(
        &self,
        line: &Line,
        script: Script,
        several: &[Vec<Vec<u8>>],
    ) -> Result<Vec<Value>, Trouble> {
        let Some((first, rest)) = several.split_first() else { return Ok(Vec::new()) };
        // The first makes sure that Redis knows the text.
        let words: Vec<&[u8]> = first.iter().map(|word| &**word).collect();
        let mut values = vec![self.run(line, script, &words).await?];
        let digest = self.digest(script).unwrap_or_default();
        let with_digest = |arguments: &Vec<Vec<u8>>| {
            let mut command = vec![b"EVALSHA".to_vec(), digest.clone().into_bytes(), b"0".to_vec()];
            command.extend_from_slice(arguments);
            command
        };
        let commands: Vec<Vec<Vec<u8>>> = rest.iter().map(with_digest).collect();
        values.extend(line.ask_all(&commands).await?);
        Ok(values)
    }

    async fn call(&self, line: &Line, digest: &str, arguments: &[&[u8]]) -> Result<Value, Trouble> {
        let mut parts: Vec<&[u8]> = vec![b"EVALSHA", digest.as_bytes(), b"0"];
        parts.extend_from_slice(arguments);
        line.ask(parts.into_iter()).await
    }

    async fn load(&self, line: &Line, script: Script) -> Result<String, Trouble> {
        let text = self.text(script);
        let parts: [&[u8]; 3] = [b"SCRIPT", b"LOAD", text.as_bytes()];
        match line.ask(parts.into_iter()).await? {
            Value::Bulk(digest) => {
                let digest = String::from_utf8_lossy(&digest).into_owned();
                let mut digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(place) = digests.get_mut(script.index()) {
                    *place = Some(digest.clone());
                }
                Ok(digest)
            }
            Value::Error(words) => Err(Trouble::refused(&self.address, &words)),
            other => Err(Trouble::refused(&self.address, &format!("no digest but {other:?}"))),
        }
    }

    /// What Redis calls a script, if it was given it.
    pub(crate) fn digest(&self, script: Script) -> Option<String> {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.get(script.index()).cloned().flatten()
    }
}
