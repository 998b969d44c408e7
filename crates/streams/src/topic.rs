//! What a topic is.

use std::fmt;
use std::str::FromStr;

use handoff_types::{Span, Wall};
use thiserror::Error;

/// The longest name of a topic, as in Kafka.
const NAME_BYTES_MAX: usize = 249;

/// The name of a topic: 1 to 249 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`. Kafka's rule, so
/// that every name can be used through every door.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Box<str>);

/// A text that is no name of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no name of a topic: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and neither '.' nor '..'"
)]
pub struct BadTopicName(pub String);

impl TopicName {
    /// The name as people write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicName {
    type Err = BadTopicName;

    fn from_str(text: &str) -> Result<Self, BadTopicName> {
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text != "."
            && text != ".."
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        match fits {
            true => Ok(Self(text.into())),
            false => {
                let shown = text.get(..text.floor_char_boundary(64)).unwrap_or_default();
                Err(BadTopicName(shown.to_owned()))
            }
        }
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A topic's number. Never used again, so that nothing of a deleted topic shows under a new one of
/// the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u32);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// When a producer is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Durability {
    /// When its messages are on disk.
    #[default]
    Fsync,
    /// When they are in the server's hands. Readers still see only what is on disk.
    Os,
}

/// How batches made by the server are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// gzip
    Gzip,
    /// Snappy
    Snappy,
    /// LZ4
    Lz4,
    /// Zstandard
    Zstd,
}

/// What may be changed of a topic while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TopicSettings {
    /// Messages older than this may go; none: never for their age.
    pub retention: Option<Span>,
    /// The oldest messages of a partition that has more bytes than this may go; none: never for
    /// their size.
    pub retention_bytes: Option<u64>,
    /// When a producer is answered.
    pub durability: Durability,
    /// How batches are compressed.
    pub compression: Compression,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Topic {
    /// Its number.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// How many partitions it has: numbers 0 to this, exclusive.
    pub partitions: u32,
    /// What may be changed.
    pub settings: TopicSettings,
    /// When it was made.
    pub created: Wall,
}
