//! What a caller may ask of the counter room.

use std::fmt;

use bytes::Bytes;
use handoff_types::Span;

use super::Name;

/// A request to the counter room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Changes a value.
    Add {
        /// Whose value.
        key: Name,
        /// By how much.
        by: i64,
        /// What makes a repetition of this command known as one.
        ticket: u64,
    },
    /// Freezes a key.
    Hold {
        /// Which.
        key: Name,
        /// For how long.
        span: Span,
    },
    /// Takes a hold away.
    Release {
        /// From which key.
        key: Name,
        /// Which hold.
        hold: u64,
    },
    /// Moves an amount between two keys, in one commit.
    Move {
        /// Who loses it.
        from: Name,
        /// Who gets it.
        to: Name,
        /// The amount.
        by: i64,
        /// What makes a repetition of this command known as one.
        ticket: u64,
    },
    /// Stores a body.
    Note {
        /// With which key.
        key: Name,
        /// The body.
        body: Bytes,
    },
    /// Ends the holds that stand no longer. Sent by the shell at the room's deadline.
    Tick,
    /// Asks what a key looks like.
    Read {
        /// Which.
        key: Name,
    },
}

impl Command {
    /// The keys the answer depends on, or `None` if it depends on all there are.
    #[must_use]
    pub fn keys(&self) -> Option<Vec<Name>> {
        match self {
            Self::Add { key, .. }
            | Self::Hold { key, .. }
            | Self::Release { key, .. }
            | Self::Note { key, .. }
            | Self::Read { key } => Some(vec![*key]),
            Self::Move { from, to, .. } => Some(vec![*from, *to]),
            Self::Tick => None,
        }
    }

    /// The bulk data that is committed with the changes of this command.
    #[must_use]
    pub const fn body(&self) -> Option<&Bytes> {
        match self {
            Self::Note { body, .. } => Some(body),
            _ => None,
        }
    }

    /// What kind of command it is, for counting.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Add { .. } => "add",
            Self::Hold { .. } => "hold",
            Self::Release { .. } => "release",
            Self::Move { .. } => "move",
            Self::Note { .. } => "note",
            Self::Tick => "tick",
            Self::Read { .. } => "read",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { key, by, ticket } => write!(f, "add {by:+} to {key}, ticket {ticket}"),
            Self::Hold { key, span } => write!(f, "hold {key} for {} µs", span.0),
            Self::Release { key, hold } => write!(f, "release {key} from hold {hold:016x}"),
            Self::Move { from, to, by, ticket } => {
                write!(f, "move {by:+} from {from} to {to}, ticket {ticket}")
            }
            Self::Note { key, body } => {
                write!(f, "note {} bytes, crc {:08x}, with {key}", body.len(), crc32c::crc32c(body))
            }
            Self::Tick => f.write_str("tick"),
            Self::Read { key } => write!(f, "read {key}"),
        }
    }
}
