//! Where a group goes on, and what a message is to it.

use serde::{Deserialize, Serialize};

use crate::streams::reader::Start;

/// Where a group is to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[must_use]
pub struct Seek {
    topic: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    to: Start,
}

impl Seek {
    /// All partitions of a topic.
    pub fn new(topic: impl Into<String>, to: Start) -> Self {
        Self { topic: topic.into(), partition: None, to }
    }

    /// Only this partition.
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }
}

/// What a seek does, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Sought {
    /// Partition by partition.
    pub partitions: Vec<SeekStep>,
    /// Whether nothing was changed.
    #[serde(default)]
    pub preview: bool,
}

/// What a seek does to one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SeekStep {
    /// Of this topic.
    pub topic: String,
    /// Its number.
    pub partition: u32,
    /// Everything below was done before.
    pub from: u64,
    /// Everything below counts as done then.
    pub to: u64,
    /// Messages that are delivered again.
    #[serde(default)]
    pub again: u64,
    /// Messages that are never delivered.
    #[serde(default)]
    pub skipped: u64,
    /// Messages that members hold, and whose answers will not count.
    #[serde(default)]
    pub voided: u64,
}

/// How far a message is for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Standing {
    /// It is to be delivered, the first time or again.
    Pending,
    /// A member holds it.
    Processing,
    /// It is done.
    Processed,
    /// It was given up.
    Dead,
    /// Something a newer server says.
    #[serde(other)]
    Other,
}

/// What a message is to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MessageStatus {
    /// How far it is.
    pub status: Standing,
    /// How often it was delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_left_ms: Option<u64>,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where its copy is, if it was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub letter: Option<Place>,
}

/// Where a message is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Place {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
}
