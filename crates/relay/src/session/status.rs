//! What an agent says of itself, for people at the receiver.
//!
//! ```text
//! │ memory │ spool │ spool may have │ files │ quarantine │ given up         numbers
//! │ destinations │ (sized name │ flags: 1 connected, 2 lag │ milliseconds gone │ milliseconds lag) × destinations
//! ```

use crate::ack::DESTINATIONS_MAX;
use crate::key::Name;
use crate::wire::{self, Front, Malformed};

/// How an agent is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Bytes of segments in memory.
    pub memory_bytes: u64,
    /// Bytes of refill files.
    pub spool_bytes: u64,
    /// How many there may be.
    pub spool_bytes_max: u64,
    /// Refill files.
    pub files: u64,
    /// Bytes of what was set aside.
    pub quarantine_bytes: u64,
    /// Segments and files that were given up since it started.
    pub given_up: u64,
    /// Whom it sends to.
    pub destinations: Vec<DestinationStatus>,
}

/// One of those an agent sends to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DestinationStatus {
    /// What the agent calls it.
    pub name: Name,
    /// Whether they talk.
    pub connected: bool,
    /// For how long it has not answered, in milliseconds.
    pub gone_millis: u64,
    /// How old the oldest is that it has not confirmed, in milliseconds; none if it has everything.
    pub lag_millis: Option<u64>,
}

impl Status {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for number in [
            self.memory_bytes,
            self.spool_bytes,
            self.spool_bytes_max,
            self.files,
            self.quarantine_bytes,
            self.given_up,
            self.destinations.len() as u64,
        ] {
            wire::put(out, number);
        }
        for DestinationStatus { name, connected, gone_millis, lag_millis } in &self.destinations {
            wire::put_bytes(out, name.as_str().as_bytes());
            out.push(u8::from(*connected) | u8::from(lag_millis.is_some()) << 1);
            wire::put(out, *gone_millis);
            if let Some(lag) = lag_millis {
                wire::put(out, *lag);
            }
        }
    }

    pub(super) fn read(front: &mut Front<'_>) -> Result<Self, Malformed> {
        let mut status = Self {
            memory_bytes: front.number()?,
            spool_bytes: front.number()?,
            spool_bytes_max: front.number()?,
            files: front.number()?,
            quarantine_bytes: front.number()?,
            given_up: front.number()?,
            destinations: Vec::new(),
        };
        let count = front.number()?;
        if count > DESTINATIONS_MAX as u64 {
            return Err(Malformed("has too many destinations"));
        }
        for _ in 0..count {
            let name = std::str::from_utf8(front.sized()?).ok();
            let name = name.and_then(|name| Name::try_from(name).ok());
            let name = name.ok_or(Malformed("has no proper name of a destination"))?;
            let flags = front.byte()?;
            if flags > 3 {
                return Err(Malformed("has flags that are not known"));
            }
            let connected = flags & 1 != 0;
            let gone_millis = front.number()?;
            let lag_millis = if flags & 2 != 0 { Some(front.number()?) } else { None };
            status.destinations.push(DestinationStatus {
                name,
                connected,
                gone_millis,
                lag_millis,
            });
        }
        Ok(status)
    }
}
