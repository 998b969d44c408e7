//! What the shell does for the counter room, once the changes behind it are durable.

use std::fmt;

use super::Name;

/// A consequence of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Tells that a value passed a multiple of 100.
    Announce {
        /// Whose value.
        key: Name,
        /// The value now.
        value: i64,
    },
    /// Tells that a hold's time was over and it has been ended.
    HoldEnded {
        /// Whose hold.
        key: Name,
        /// Which.
        hold: u64,
    },
}

impl Action {
    /// What kind of action it is, for counting.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Announce { .. } => "announce",
            Self::HoldEnded { .. } => "hold ended",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Announce { key, value } => write!(f, "announce {key} at {value}"),
            Self::HoldEnded { key, hold } => write!(f, "hold {hold:016x} of {key} ended"),
        }
    }
}
