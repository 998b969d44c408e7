//! Topics: what they are, and how they are asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Target, Time};

/// When a producer is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Durability {
    /// When its messages are on disk.
    Fsync,
    /// When they are in the server's hands; a crash may lose the last of them. Readers still see
    /// only what is on disk.
    Os,
    /// Something a newer server says.
    #[serde(other)]
    Other,
}

/// How what is stored is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip
    Gzip,
    /// Snappy
    Snappy,
    /// LZ4
    Lz4,
    /// Zstandard
    Zstd,
    /// Something a newer server says.
    #[serde(other)]
    Other,
}

/// A topic to be made. What is not said is as the server's configuration has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
#[non_exhaustive]
pub struct NewTopic {
    /// Its name: 1 to 249 of `a-z A-Z 0-9 . _ -`.
    pub name: String,
    /// How many partitions; one unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partitions: Option<u32>,
    #[serde(rename = "retentionMs", skip_serializing_if = "Option::is_none")]
    retention: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_bytes: Option<Option<u64>>,
    /// When a producer is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Durability>,
    /// How what is stored is compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<Compression>,
}

impl NewTopic {
    /// A topic with one partition.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            partitions: None,
            retention: None,
            retention_bytes: None,
            durability: None,
            compression: None,
        }
    }

    /// With so many partitions.
    pub fn partitions(mut self, partitions: u32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// Messages older than this may go. None: never for their age.
    pub fn retention(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.retention = Some(time.into().map(millis));
        self
    }

    /// The oldest messages of a partition that has more bytes than this may go. None: never for
    /// their size.
    pub fn retention_bytes(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.retention_bytes = Some(bytes.into());
        self
    }

    /// When a producer is answered.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How what is stored is compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }
}

/// What is to be different about a topic. What is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
#[non_exhaustive]
pub struct TopicChanges {
    #[serde(rename = "retentionMs", skip_serializing_if = "Option::is_none")]
    retention: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_bytes: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    durability: Option<Durability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compression: Option<Compression>,
}

impl TopicChanges {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Messages older than this may go. None: never for their age.
    pub fn retention(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.retention = Some(time.into().map(millis));
        self
    }

    /// The oldest messages of a partition that has more bytes than this may go. None: never for
    /// their size.
    pub fn retention_bytes(mut self, bytes: impl Into<Option<u64>>) -> Self {
        self.retention_bytes = Some(bytes.into());
        self
    }

    /// When a producer is answered.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How what is stored from now on is compressed.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Whether everything stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Its number. A topic of the same name that is made later has another.
    #[serde(default)]
    pub id: u64,
    /// How many partitions: 0 to this, exclusive.
    pub partitions: u32,
    /// How long messages are kept; none: never removed for their age.
    #[serde(default)]
    pub retention_ms: Option<u64>,
    /// How many bytes of a partition are kept; none: never removed for their size.
    #[serde(default)]
    pub retention_bytes: Option<u64>,
    /// When a producer is answered.
    pub durability: Durability,
    /// How what is stored is compressed.
    pub compression: Compression,
    /// When it was made.
    pub created_at: Time,
    /// Messages it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    /// Their bytes, as stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// How unevenly they lie. Only of a topic that is shown alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skew: Option<Skew>,
    /// Its partitions. Only of a topic that is shown alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partition_list: Vec<Partition>,
    /// Everything else that was said.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How unevenly bytes lie on partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Skew {
    /// Bytes of the fullest.
    pub most: u64,
    /// Bytes of the emptiest.
    pub least: u64,
    /// How much fuller the fullest is than the average.
    pub ratio: Option<f64>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Partition {
    /// Its number.
    pub partition: u32,
    /// The first offset there is.
    pub start: u64,
    /// The offset the next message gets.
    pub end: u64,
    /// Bytes, as stored.
    #[serde(default)]
    pub bytes: u64,
    /// When its last message got its offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<Time>,
}

/// One page of topics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TopicPage {
    /// In the order of their names.
    pub topics: Vec<Topic>,
    /// What to give as `after` for the next page; none: this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A message that waits for its time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Waiting {
    /// By what it can be cancelled.
    pub id: String,
    /// When it gets its partition and offset.
    pub deliver_at: Time,
    /// Its key, as JSON has it: text, or `{"base64":…}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Value>,
    /// How large it is.
    #[serde(default)]
    pub bytes: u64,
}

/// One page of messages that wait for their time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct WaitingPage {
    /// The next due first.
    pub scheduled: Vec<Waiting>,
    /// What to give as `after` for the next page; none: this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Where a topic is.
pub(super) fn target(topic: &str) -> Target {
    Target::new("/v1/streams/topics").segment(topic)
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
