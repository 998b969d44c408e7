//! What is known of a partition.

use std::fmt;

use handoff_types::Wall;

use crate::TopicId;

/// A partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// The topic's number.
    pub topic: TopicId,
    /// Which one.
    pub number: u32,
}

impl PartitionId {
    /// The one number that stores know it by.
    #[must_use]
    pub const fn lane(self) -> u64 {
        (self.topic.0 as u64) << 32 | self.number as u64
    }

    /// The partition with this number.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "two halves")]
    pub const fn from_lane(lane: u64) -> Self {
        Self { topic: TopicId((lane >> 32) as u32), number: lane as u32 }
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// Where a partition begins and ends. What is in it is bulk data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Partition {
    /// The first offset that is kept.
    pub start: u64,
    /// The offset of the next message.
    pub end: u64,
    /// Bytes of the batches between them, about: retention takes whole segments.
    pub bytes: u64,
    /// The timestamp of the last message; the next is not below it.
    pub last: Wall,
}
