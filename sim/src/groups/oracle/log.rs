//! What stands in a partition, as groups need to know it.

use bytes::Bytes;
use handoff_streams::batch::Record;
use handoff_streams::groups::GroupName;
use handoff_streams::{Header, Message};

const EXPIRES: &[u8] = b"handoff.expires";
const REPLAY_FOR: &[u8] = b"handoff.replay-for";

/// A header whose value is words that nobody promised.
const ERROR: &[u8] = b"handoff.error";

/// A partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) start: u64,
    /// From offset 0 on. None: somebody's letter of whom nothing is known any more.
    messages: Vec<Option<Kept>>,
    /// The timestamp of the last message.
    pub(crate) last: i64,
}

/// A message.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) key: Option<Bytes>,
    pub(crate) payload: Bytes,
    pub(crate) headers: Vec<Header>,
    /// In microseconds, whole milliseconds.
    pub(crate) timestamp: i64,
    /// The words of its `handoff.error` are the room's own.
    pub(crate) any_error: bool,
}

impl Kept {
    fn header(&self, name: &[u8]) -> Option<&str> {
        let header = self.headers.iter().find(|header| header.name == name)?;
        str::from_utf8(&header.value).ok()
    }

    /// Whether nobody in a group is to get it at this time.
    pub(crate) fn is_unwanted(&self, group: &GroupName, wall: i64) -> bool {
        let millis = self.header(EXPIRES).and_then(|millis| millis.parse::<i64>().ok());
        let expired = millis.is_some_and(|millis| millis.saturating_mul(1_000) <= wall);
        expired || self.header(REPLAY_FOR).is_some_and(|only| only != group.as_str())
    }

    /// Its own headers, without the server's.
    pub(crate) fn own_headers(&self) -> impl Iterator<Item = Header> {
        self.headers.iter().filter(|header| !header.name.starts_with(b"handoff.")).cloned()
    }

    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.name.len() + header.value.len());
        let key = self.key.as_ref().map_or(0, Bytes::len);
        key + self.payload.len() + headers.sum::<usize>()
    }
}

impl Log {
    pub(crate) fn end(&self) -> u64 {
        self.messages.len() as u64
    }

    pub(crate) fn get(&self, offset: u64) -> Option<&Kept> {
        self.messages.get(usize::try_from(offset).ok()?)?.as_ref()
    }

    /// The message as it is read; one of which nothing is known, as some message.
    pub(crate) fn record(&self, offset: u64) -> Option<Record> {
        if offset < self.start || offset >= self.end() {
            return None;
        }
        let Some(kept) = self.get(offset) else {
            let (timestamp, key, payload, headers) = Default::default();
            return Some(Record { offset, timestamp, key, payload, headers });
        };
        Some(Record {
            offset,
            timestamp: handoff_types::Wall(kept.timestamp),
            key: kept.key.clone(),
            payload: Some(kept.payload.clone()),
            headers: kept.headers.clone(),
        })
    }

    /// The time of a message that is stored now.
    fn stamp(&mut self, wall: i64) -> i64 {
        self.last = (wall - wall.rem_euclid(1_000)).max(self.last);
        self.last
    }

    pub(crate) fn append(&mut self, message: &Message, wall: i64, any_error: bool) {
        let timestamp = self.stamp(wall);
        let mut headers = message.headers.clone();
        if let Some(ttl) = message.ttl {
            let millis = timestamp.saturating_add_unsigned(ttl.0).div_euclid(1_000);
            let (name, value) = (Bytes::from_static(EXPIRES), Bytes::from(millis.to_string()));
            headers.push(Header { name, value });
        }
        let (key, payload) = (message.key.clone(), message.payload.clone());
        self.messages.push(Some(Kept { key, payload, headers, timestamp, any_error }));
    }

    /// Something of which nothing is known is stored.
    pub(crate) fn append_unknown(&mut self, wall: i64) {
        self.stamp(wall);
        self.messages.push(None);
    }

    /// What is wrong with a record that was read.
    pub(crate) fn objection(&self, record: &Record) -> Option<String> {
        let at = usize::try_from(record.offset).unwrap_or(usize::MAX);
        let kept = match self.messages.get(at) {
            None => return Some("nobody was told of it".to_owned()),
            Some(None) => return None,
            Some(Some(kept)) => kept,
        };
        if record.key != kept.key {
            return Some("it has another key".to_owned());
        }
        if record.payload.as_ref() != Some(&kept.payload) {
            return Some("it has another payload".to_owned());
        }
        if record.timestamp.0 != kept.timestamp {
            return Some(format!("it is of {}, not of {}", record.timestamp.0, kept.timestamp));
        }
        let known = |header: &Header| {
            let any = kept.any_error && header.name == ERROR;
            (header.name.clone(), if any { Bytes::new() } else { header.value.clone() })
        };
        let found = record.headers.iter().map(known);
        let same = found.eq(kept.headers.iter().map(known));
        let why = || format!("its headers are {:?}, not {:?}", record.headers, kept.headers);
        (!same).then(why)
    }
}
