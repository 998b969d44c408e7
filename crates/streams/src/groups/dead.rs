//! Dead letters: messages that could not be processed, kept in a topic with what is known of them,
//! and sent back from there.
//!
//! A letter is the message with these headers behind its own:
//!
//! ```text
//! handoff.origin-topic │ handoff.origin-partition │ handoff.origin-offset
//! handoff.origin-timestamp   milliseconds since 1970
//! handoff.group              whose it is
//! handoff.attempt            how often it was handed out
//! handoff.error              what was said
//! handoff.lost               instead of the message, if it was gone when it died
//! ```
//!
//! A letter that is replayed is the message again, at the end of the partition it came from, with
//! `handoff.replay-for`: other groups have had it and pass it by. Names that begin with `handoff.`
//! are the server's, so nobody can forge one.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_types::Wall;

use super::command::Fact;
use super::position::Run;
use super::settings::GroupName;
use crate::batch::Record;
use crate::{Header, Message, PartitionId, TopicName};

const ORIGIN_TOPIC: &str = "handoff.origin-topic";
const ORIGIN_PARTITION: &str = "handoff.origin-partition";
const ORIGIN_OFFSET: &str = "handoff.origin-offset";
const ORIGIN_TIMESTAMP: &str = "handoff.origin-timestamp";
const GROUP: &str = "handoff.group";
const ATTEMPT: &str = "handoff.attempt";
const ERROR: &str = "handoff.error";
const LOST: &str = "handoff.lost";
const REPLAY_FOR: &str = "handoff.replay-for";
const EXPIRES: &str = "handoff.expires";
const OWN: &[u8] = b"handoff.";

/// Bytes of an error that are kept.
pub(crate) const ERROR_BYTES_MAX: usize = 1024;

/// Single letters and runs of letters of a partition that are known to be replayed.
pub(crate) const LETTER_RUNS_MAX: usize = 65_536;

/// Letters of a dead-letter partition that were replayed: firsts and lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Letters(BTreeMap<u64, u64>);

impl Letters {
    /// Whether one was.
    #[must_use]
    pub fn contains(&self, offset: u64) -> bool {
        self.0.range(..=offset).next_back().is_some_and(|(_, last)| *last >= offset)
    }

    /// The runs of them, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Run> {
        self.0.iter().map(|(first, last)| (*first, *last))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn add(&mut self, (mut first, mut last): Run) {
        if first > last {
            return;
        }
        let before = first.saturating_sub(1);
        while let Some((from, to)) = self.overlapping(before, last.saturating_add(1)) {
            self.0.remove(&from);
            (first, last) = (first.min(from), last.max(to));
        }
        self.0.insert(first, last);
    }

    fn overlapping(&self, first: u64, last: u64) -> Option<Run> {
        let (from, to) = self.0.range(..=last).next_back()?;
        (*to >= first).then_some((*from, *to))
    }
}

/// A dead letter, as it is read from its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Whose it is.
    pub group: GroupName,
    /// Where the message came from.
    pub topic: TopicName,
    /// Its partition there.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// When it was stored there; none if it was gone when it died.
    pub timestamp: Option<Wall>,
    /// How often it was handed out.
    pub attempt: u32,
    /// What was said.
    pub error: String,
    /// Why there is no message in it.
    pub lost: Option<String>,
    /// The message: key, payload and its own headers.
    pub message: Message,
}

impl Letter {
    /// The letter in a record of a dead-letter topic; none if it is something else.
    #[must_use]
    pub fn of(record: &Record) -> Option<Self> {
        let text = |name: &str| {
            let mut headers = record.headers.iter().rev();
            let header = headers.find(|header| header.name == name.as_bytes())?;
            str::from_utf8(&header.value).ok()
        };
        let millis = text(ORIGIN_TIMESTAMP).and_then(|millis| millis.parse::<i64>().ok());
        let own = record.headers.iter().filter(|header| !header.name.starts_with(OWN));
        Some(Self {
            group: text(GROUP)?.parse().ok()?,
            topic: text(ORIGIN_TOPIC)?.parse().ok()?,
            partition: text(ORIGIN_PARTITION)?.parse().ok()?,
            offset: text(ORIGIN_OFFSET)?.parse().ok()?,
            timestamp: millis.map(|millis| Wall(millis.saturating_mul(1000))),
            attempt: text(ATTEMPT)?.parse().ok()?,
            error: text(ERROR).unwrap_or_default().to_owned(),
            lost: text(LOST).map(str::to_owned),
            message: Message {
                key: record.key.clone(),
                payload: record.payload.clone().unwrap_or_default(),
                headers: own.cloned().collect(),
                ..Message::default()
            },
        })
    }

    /// The message on its way back.
    pub(crate) fn back(self) -> Message {
        let mut message = self.message;
        message.partition = Some(self.partition);
        message.headers.push(header(REPLAY_FOR, self.group.as_str()));
        message
    }
}

/// A message that died.
#[derive(Clone, Debug)]
pub(crate) struct Death<'a> {
    pub(crate) topic: Option<&'a TopicName>,
    pub(crate) partition: PartitionId,
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    pub(crate) error: &'a str,
    pub(crate) record: Option<&'a Record>,
}

impl Death<'_> {
    /// The letter, for a topic with so many partitions. Letters of one partition stay in order.
    pub(crate) fn letter(&self, group: &GroupName, partitions: u32) -> Message {
        let mut headers: Vec<Header> = Vec::new();
        if let Some(record) = self.record {
            let own = record.headers.iter().filter(|header| !header.name.starts_with(OWN));
            headers.extend(own.map(|Header { name, value }| Header {
                name: Bytes::copy_from_slice(name),
                value: Bytes::copy_from_slice(value),
            }));
        }
        // A topic that is gone has no name any more; its number still tells letters apart.
        let number = self.partition.topic.to_string();
        let topic = self.topic.map_or(&*number, TopicName::as_str);
        headers.push(header(ORIGIN_TOPIC, topic));
        headers.push(header(ORIGIN_PARTITION, &self.partition.number.to_string()));
        headers.push(header(ORIGIN_OFFSET, &self.offset.to_string()));
        if let Some(record) = self.record {
            let millis = record.timestamp.0.div_euclid(1000).to_string();
            headers.push(header(ORIGIN_TIMESTAMP, &millis));
        }
        headers.push(header(GROUP, group.as_str()));
        headers.push(header(ATTEMPT, &self.attempt.to_string()));
        headers.push(header(ERROR, self.error));
        if self.record.is_none() {
            headers.push(header(LOST, "the message was not kept any more when it died"));
        }
        let payload = self.record.and_then(|record| record.payload.clone()).unwrap_or_default();
        Message {
            key: self.record.and_then(|record| record.key.clone()),
            payload,
            headers,
            partition: Some(self.partition.number.checked_rem(partitions).unwrap_or(0)),
            deliver_at: None,
            ttl: None,
        }
    }
}

/// What is kept of an error.
pub(crate) fn error_of(text: &str) -> &str {
    text.get(..text.floor_char_boundary(ERROR_BYTES_MAX)).unwrap_or_default()
}

pub(crate) fn fact_of(record: &Record) -> Fact {
    let value = |name: &str| {
        let mut headers = record.headers.iter();
        let header = headers.find(|header| header.name == name.as_bytes())?;
        str::from_utf8(&header.value).ok()
    };
    let headers = record.headers.iter().map(|header| header.name.len() + header.value.len());
    let len = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
    let bytes = len(&record.key) + len(&record.payload) + headers.sum::<usize>();
    let expires = value(EXPIRES).and_then(|millis| millis.parse::<i64>().ok());
    Fact {
        offset: record.offset,
        key: record.key.as_deref().map_or(0, hash),
        bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
        expires: expires.map(|millis| Wall(millis.saturating_mul(1000))),
        only_for: value(REPLAY_FOR).and_then(|name| name.parse().ok()),
    }
}

/// What a key hashes to; never 0, which says that there is none. Two keys that hash to the same
/// wait for each other, which nobody notices.
fn hash(key: &[u8]) -> u32 {
    crc32c::crc32c(key).max(1)
}

fn header(name: &'static str, value: &str) -> Header {
    Header {
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}
