//! What people should know of: the log that the exchange keeps of itself.

use handoff_types::Wall;

use crate::{DatabaseNo, MessageId, ProcessId, Seq};

/// How many entries are kept.
pub const LOG_KEPT: u64 = 20_000;

/// The most words of an entry, in bytes.
pub const WORDS_BYTES_MAX: usize = 1024;

/// What happened. The number is part of the file formats and never given another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Happened {
    /// A message met a deadlock.
    Deadlock = 1,
    /// A message could not be processed.
    Incorrect = 2,
    /// A process took too long before it was ready.
    Expired = 3,
    /// A process was rolled back.
    RolledBack = 4,
    /// A process was interrupted.
    Interrupted = 5,
    /// Nobody said what became of a process that was ready. An administrator is to be told.
    Unknown = 6,
    /// It was said later.
    Resolved = 7,
    /// A file could not be moved. An administrator is to be told.
    Failed = 8,
    /// It could be moved at last.
    Mended = 9,
    /// A report contradicts an earlier one. An administrator is to be told.
    Contradiction = 10,
    /// A process is ready after a restart, and nobody said yet what became of it. An administrator
    /// is to be told.
    InDoubt = 11,
    /// A message was tried too often and set aside. An administrator is to be told.
    Poison = 12,
    /// A body is damaged or gone; its message was set aside. An administrator is to be told.
    Damaged = 13,
    /// A message was put back into its queue.
    Requeued = 14,
    /// A file was taken in.
    TakenIn = 15,
    /// An interruption came too late and was not followed.
    TooLate = 16,
    /// A process that nobody decided has been there for long. An administrator is to be told.
    StillUnknown = 17,
}

impl Happened {
    /// All there are.
    pub const ALL: [Self; 17] = [
        Self::Deadlock,
        Self::Incorrect,
        Self::Expired,
        Self::RolledBack,
        Self::Interrupted,
        Self::Unknown,
        Self::Resolved,
        Self::Failed,
        Self::Mended,
        Self::Contradiction,
        Self::InDoubt,
        Self::Poison,
        Self::Damaged,
        Self::Requeued,
        Self::TakenIn,
        Self::TooLate,
        Self::StillUnknown,
    ];

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == number)
    }

    /// As programs read it. Never changed.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Deadlock => "deadlock",
            Self::Incorrect => "incorrect",
            Self::Expired => "expired",
            Self::RolledBack => "rolled_back",
            Self::Interrupted => "interrupted",
            Self::Unknown => "unknown",
            Self::Resolved => "resolved",
            Self::Failed => "failed",
            Self::Mended => "mended",
            Self::Contradiction => "contradiction",
            Self::InDoubt => "in_doubt",
            Self::Poison => "poison",
            Self::Damaged => "damaged",
            Self::Requeued => "requeued",
            Self::TakenIn => "taken_in",
            Self::TooLate => "too_late",
            Self::StillUnknown => "still_unknown",
        }
    }

    /// Whether an administrator is to be told at once.
    #[must_use]
    pub const fn is_alarming(self) -> bool {
        matches!(
            self,
            Self::Unknown
                | Self::Failed
                | Self::Contradiction
                | Self::InDoubt
                | Self::Poison
                | Self::Damaged
                | Self::StillUnknown
        )
    }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Entries are numbered, from 1.
    pub number: u64,
    /// When.
    pub at: Wall,
    /// Whose.
    pub database: DatabaseNo,
    /// What.
    pub what: Happened,
    /// Of which process.
    pub process: Option<ProcessId>,
    /// Of which message.
    pub message: Option<(Seq, MessageId)>,
    /// The database's number for what went wrong.
    pub code: Option<i64>,
    /// In words.
    pub words: Box<str>,
}
