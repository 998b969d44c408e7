//! What stands in a partition: every message that was ever put there, at its offset.

use bytes::Bytes;
use handoff_streams::Message;
use handoff_streams::batch::Record;

/// The header that says when a message is not wanted any more.
const EXPIRES: &[u8] = b"handoff.expires";

/// A partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) start: u64,
    /// From offset 0 on, those that are not kept any more as well.
    pub(super) messages: Vec<Kept>,
    /// Bytes as the room counts them.
    pub(super) bytes: u64,
    /// Whether messages were given up, so that nobody knows how many bytes are left.
    pub(super) trimmed: bool,
    /// The timestamp of the last message, in microseconds.
    pub(super) last: i64,
}

/// A message that has its offset.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    message: Message,
    /// In microseconds, whole milliseconds.
    timestamp: i64,
}

impl Log {
    pub(super) fn end(&self) -> u64 {
        self.messages.len() as u64
    }

    /// The timestamp a message gets that is stored now.
    pub(super) fn timestamp(&self, wall: i64) -> i64 {
        (wall - wall.rem_euclid(1_000)).max(self.last)
    }

    pub(super) fn append(&mut self, message: &Message, wall: i64) {
        let timestamp = self.timestamp(wall);
        self.last = timestamp;
        self.messages.push(Kept { message: message.clone(), timestamp });
    }

    /// What is wrong with a record that was read.
    pub(super) fn objection(&self, record: &Record) -> Option<String> {
        let at = usize::try_from(record.offset).unwrap_or(usize::MAX);
        let Some(Kept { message, timestamp }) = self.messages.get(at) else {
            return Some("nobody was told of it".to_owned());
        };
        if record.key != message.key {
            return Some("it has another key".to_owned());
        }
        if record.payload.as_ref() != Some(&message.payload) {
            return Some("it has another payload".to_owned());
        }
        if record.timestamp.0 != *timestamp {
            return Some(format!("it is of {}, not of {timestamp}", record.timestamp.0));
        }
        let expires = message.ttl.map(|ttl| {
            let millis = timestamp.saturating_add_unsigned(ttl.0).div_euclid(1_000);
            (Bytes::from_static(EXPIRES), Bytes::from(millis.to_string()))
        });
        let sent = message.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
        let expected: Vec<_> = sent.chain(expires).collect();
        let found = record.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
        (found.collect::<Vec<_>>() != expected).then(|| "it has other headers".to_owned())
    }
}
