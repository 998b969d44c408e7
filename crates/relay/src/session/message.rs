//! What the two sides say.

use bytes::Bytes;
use handoff_types::Span;

use super::status::Status;
use crate::key::{Origin, SegmentKey, Shards};

/// The first message of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Who sends, and which block.
    pub origin: Origin,
    /// How many shards the block has.
    pub shards: Shards,
    /// The version of the codec.
    pub encoder: u8,
    /// Whether this is backlog: a block that is closed, from a file.
    pub backlog: bool,
    /// What proves that the agent may send; empty without authentication.
    pub token: String,
    /// The first segment of each shard that the agent can still send.
    pub first: Vec<u32>,
}

/// What a receiver knows of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardState {
    /// The last segment that is durable there; everything up to it is confirmed.
    pub mark: Option<u32>,
    /// The segment its decoder could take. None if it has none: then it begins with the first
    /// segment or with a key frame.
    pub stands: Option<u32>,
}

/// The answer to [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloAck {
    /// The largest message it takes.
    pub frame_bytes_max: u32,
    /// How many bytes of each shard may be on their way.
    pub credit: u32,
    /// What it knows, shard by shard.
    pub shards: Vec<ShardState>,
}

/// Why something is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// It will never be taken.
    Permanent = 1,
    /// Not now: again after the time that is given.
    RetryAfter = 2,
    /// Its decoder is not there: a key frame, then again.
    NeedSnapshot = 3,
    /// It is larger than allowed. It will never be taken.
    TooLarge = 4,
    /// Whoever sends may not.
    Unauthorized = 5,
}

impl Reason {
    pub(super) const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Permanent,
            2 => Self::RetryAfter,
            3 => Self::NeedSnapshot,
            4 => Self::TooLarge,
            5 => Self::Unauthorized,
            _ => return None,
        })
    }

    /// Whether sending the same again is of no use.
    #[must_use]
    pub const fn is_permanent(self) -> bool {
        matches!(self, Self::Permanent | Self::TooLarge)
    }
}

/// A message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Agent: who I am.
    Hello(Hello),
    /// Agent: what a decoder needs to continue with this segment. Without bytes: a new decoder,
    /// before the first.
    KeyFrame {
        /// The segment that follows.
        key: SegmentKey,
        /// A key frame.
        bytes: Bytes,
    },
    /// Agent: a segment.
    Segment {
        /// Its name.
        key: SegmentKey,
        /// Its bytes.
        bytes: Bytes,
    },
    /// Agent: the shard goes on behind this segment; it and what was before it never comes.
    Skip(SegmentKey),
    /// Agent: the block is complete. What was sent is all there is.
    End,
    /// Either: are you there?
    Ping,
    /// Either: I am.
    Pong,
    /// Agent: how I am, for people. It is not answered.
    Status(Status),
    /// Receiver: what I have.
    HelloAck(HelloAck),
    /// Receiver: this segment and all before it are durable.
    Ack(SegmentKey),
    /// Receiver: this segment is not taken. What follows it is dropped until it comes again, or
    /// what the reason asks for.
    Reject {
        /// Which segment.
        key: SegmentKey,
        /// Why.
        reason: Reason,
        /// When to try again.
        retry_after: Span,
        /// The same for people.
        words: String,
    },
    /// Receiver: no conversation. The connection is closed.
    Refuse {
        /// Why.
        reason: Reason,
        /// When to try again.
        retry_after: Span,
        /// The same for people.
        words: String,
    },
}
