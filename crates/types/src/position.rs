//! Where a record is in the journal, and which record of its room it is.

use std::fmt;

/// A place in the journal: a byte position in one endless virtual log.
///
/// Positions only grow and are never reused. They outlive the file that holds them, so whoever
/// keeps one asks the journal for its bytes and never for a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// The first position of a new journal.
    pub const START: Self = Self(0);
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a record among the records of its room: 1, 2, 3, … without a gap.
///
/// Density is what makes loss visible: a room whose next record is not its last plus one has
/// lost something, and says so instead of going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Before the first record of a room.
    pub const NONE: Self = Self(0);
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
