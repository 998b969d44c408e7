//! The conversation of an agent and a receiver, as messages.
//!
//! ```text
//!  agent ── Hello ──────────────────────────────▶ receiver
//!        ◀──────────── HelloAck: marks, where the decoders stand, credit, frame limit ──
//!        ── KeyFrame? Segment Segment … ────────▶
//!        ◀──────────────── Ack (all up to here) · Reject (this one, and why) ──
//!        ── Skip · End · Ping ──────────────────▶
//! ```
//!
//! One connection for a block; on it an ordered stream for each shard, with a credit of its own.
//! Segments up to a mark count as confirmed. `docs/relay-format.md` has the bytes.

mod frames;
mod message;
mod status;

pub use frames::{Frames, SESSION_HEAD_BYTES, encode};
pub use message::{Hello, HelloAck, Message, Reason, ShardState};
pub use status::{DestinationStatus, Status};

/// The version of the conversation.
pub const PROTOCOL_VERSION: u8 = 1;

/// The most bytes of a message before the receiver has said what it allows.
pub const GREETING_BYTES_MAX: usize = 8 << 10;

/// The longest explanation a peer may give.
pub const WORDS_BYTES_MAX: usize = 512;

/// The longest token.
pub const TOKEN_BYTES_MAX: usize = 1 << 10;
