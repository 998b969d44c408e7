//! What the counter room answers.

use std::fmt;

use handoff_types::Steady;

use super::state::Hold;
use super::{Name, VALUE_LIMIT};

/// An answer. All of them reveal state, so all of them wait until it is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To an add: done.
    Value {
        /// The value now.
        value: i64,
    },
    /// To an add or a move: done before, under the same ticket.
    Repeated {
        /// The value it led to then; for a move that of `from`.
        value: i64,
    },
    /// To a move: done.
    Moved {
        /// The value of `from` now.
        from: i64,
        /// The value of `to` now.
        to: i64,
    },
    /// To a hold: yours.
    Taken {
        /// Its id.
        hold: u64,
        /// The first instant at which it stands no longer.
        until: Steady,
    },
    /// To a release: done.
    Released,
    /// To a note: stored.
    Noted {
        /// Its number among the notes of its key, from 0.
        offset: u64,
    },
    /// To a tick: what it ended, the longest past first.
    Ticked {
        /// The holds.
        ended: Vec<Ended>,
    },
    /// To a read.
    Seen(Seen),
    /// No, and why. Nothing changed.
    Refused(Refusal),
}

/// A hold that a tick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whose.
    pub key: Name,
    /// Which.
    pub hold: u64,
}

/// What a key looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Its value.
    pub value: i64,
    /// How many adds and moves have changed it.
    pub accepted: u64,
    /// Its hold, even one that stands no longer, until something ends it.
    pub hold: Option<Hold>,
    /// How many notes it has.
    pub notes: u64,
    /// CRC-32C of its last note.
    pub last: Option<u32>,
}

/// Why something was not done. Reveals state, so it waits for durability like any answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The value would leave its limits.
    OverLimit {
        /// Whose value.
        key: Name,
        /// The value as it is.
        value: i64,
        /// How far from zero it may be.
        limit: i64,
    },
    /// A hold stands.
    Held {
        /// Whose.
        key: Name,
        /// The hold.
        by: Hold,
    },
    /// The key does not have the hold that was to be released.
    NotHeld,
    /// A move needs two keys.
    SameKey,
}

impl Reply {
    /// Why it was not done, if it was not.
    #[must_use]
    pub const fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

impl Refusal {
    /// What kind of refusal it is, for counting.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::OverLimit { .. } => "over limit",
            Self::Held { .. } => "held",
            Self::NotHeld => "not held",
            Self::SameKey => "same key",
        }
    }

    pub(super) const fn over_limit(key: Name, value: i64) -> Self {
        Self::OverLimit { key, value, limit: VALUE_LIMIT }
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { value } => write!(f, "value {value}"),
            Self::Repeated { value } => write!(f, "repeated, value was {value}"),
            Self::Moved { from, to } => write!(f, "moved, {from} and {to} now"),
            Self::Taken { hold, until } => {
                write!(f, "taken, {}", Hold { id: *hold, until: *until })
            }
            Self::Released => f.write_str("released"),
            Self::Noted { offset } => write!(f, "noted at {offset}"),
            Self::Ticked { ended } => {
                write!(f, "ticked")?;
                ended.iter().try_for_each(|end| write!(f, ", {} {:016x}", end.key, end.hold))
            }
            Self::Seen(seen) => write!(f, "{seen}"),
            Self::Refused(refusal) => write!(f, "refused: {refusal}"),
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "value {} after {} changes, {} notes", self.value, self.accepted, self.notes)?;
        if let Some(crc) = self.last {
            write!(f, ", last crc {crc:08x}")?;
        }
        self.hold.map_or(Ok(()), |hold| write!(f, ", {hold}"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OverLimit { key, value, limit } => {
                write!(f, "{key} is {value} and must stay within ±{limit}")
            }
            Self::Held { key, by } => write!(f, "{key} has {by}"),
            Self::NotHeld => f.write_str("not that hold"),
            Self::SameKey => f.write_str("a move needs two keys"),
        }
    }
}
