//! A process: one pass of an ERP over messages, in two phases.
//!
//! ```text
//!  STARTED ──prepare──▶ READY_TO_COMMIT ──commit──▶ CLEANUP ──files moved──▶ DONE
//!   │  │                 │  │                        │   ▲
//!   │  └─too long─▶ EXPIRED │                  a file cannot be moved
//!   │                    │  └─rollback─▶ ROLLED_BACK  ▼   │ moved at last
//!   └─interrupt, rollback▶ INTERRUPTED               FAILED
//!                        └─too long─▶ UNKNOWN ──commit, rollback──▶ RESOLVED
//! ```

use std::fmt;
use std::str::FromStr;

use handoff_types::{Steady, Wall};

use crate::{DatabaseNo, Seq};

/// What an ERP calls its process by. The number counts processes; the rest cannot be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    /// The number.
    pub number: u64,
    /// Drawn.
    pub nonce: u64,
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:016x}", self.number, self.nonce)
    }
}

/// A text that is no id of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no process id")]
pub struct BadProcessId;

impl FromStr for ProcessId {
    type Err = BadProcessId;

    fn from_str(text: &str) -> Result<Self, BadProcessId> {
        let hex = |part: &str| u64::from_str_radix(part, 16).map_err(|_| BadProcessId);
        let (number, nonce) = text.split_once('-').ok_or(BadProcessId)?;
        let id = Self { number: hex(number)?, nonce: hex(nonce)? };
        // Only as it is written: no other text is the same process.
        if id.to_string() == text { Ok(id) } else { Err(BadProcessId) }
    }
}

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Messages were given out.
    Started,
    /// Verdicts and replies are on disk; the database decides.
    Ready,
    /// The database has committed; files are being moved.
    Cleanup,
    /// The same, and a file could not be moved. It is tried again.
    Failed,
    /// Over, committed.
    Done,
    /// Over, rolled back.
    RolledBack,
    /// Over, given up by the ERP before it was ready.
    Interrupted,
    /// Over, the ERP was too slow before it was ready.
    Expired,
    /// The database has decided, and nobody said what.
    Unknown,
    /// The same, and it was said later.
    Resolved {
        /// What was said.
        committed: bool,
    },
}

impl Phase {
    /// The name that ERPs and administrators read.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Started => "STARTED",
            Self::Ready => "READY_TO_COMMIT",
            Self::Cleanup => "CLEANUP",
            Self::Failed => "FAILED",
            Self::Done => "DONE",
            Self::RolledBack => "ROLLED_BACK",
            Self::Interrupted => "INTERRUPTED",
            Self::Expired => "EXPIRED",
            Self::Unknown => "UNKNOWN",
            Self::Resolved { .. } => "RESOLVED",
        }
    }

    /// Whether it keeps its database busy.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::Started | Self::Ready)
    }

    /// How often a process has decided where its files belong: never while it is live, once when it
    /// is not, and once more when what nobody knew is said.
    #[must_use]
    pub const fn round(self) -> u8 {
        match self {
            Self::Started | Self::Ready => 0,
            Self::Resolved { .. } => 2,
            Self::Cleanup
            | Self::Failed
            | Self::Done
            | Self::RolledBack
            | Self::Interrupted
            | Self::Expired
            | Self::Unknown => 1,
        }
    }

    /// Whether it is kept only to be known again.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Done
                | Self::RolledBack
                | Self::Interrupted
                | Self::Expired
                | Self::Resolved { .. }
        )
    }
}

/// What the ERP says of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Its effects are in the transaction.
    Processed,
    /// It met a deadlock; it is to be served again.
    Deadlock,
    /// It cannot be processed.
    Incorrect,
}

impl Status {
    /// As it is written.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Processed => "PROCESSED",
            Self::Deadlock => "PROCESSED_DEADLOCK",
            Self::Incorrect => "PROCESSED_INCORRECT",
        }
    }
}

impl FromStr for Status {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        [Self::Processed, Self::Deadlock, Self::Incorrect]
            .into_iter()
            .find(|status| status.text() == text)
            .ok_or(())
    }
}

/// A message in a process, and what the ERP said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Which.
    pub seq: Seq,
    /// From the second phase on.
    pub status: Option<Status>,
    /// What was said of one that cannot be processed, until the process is over.
    pub error: Option<Box<str>>,
}

/// A message to a device in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Which.
    pub seq: Seq,
    /// It tells a device that one of its messages cannot be processed. It rests on no transaction,
    /// so it is told also when nobody knows what became of that.
    pub notice: bool,
}

/// A process as the room knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: ProcessId,
    /// Its database.
    pub database: DatabaseNo,
    /// How far it is.
    pub phase: Phase,
    /// When it was started.
    pub started: Wall,
    /// When it is given up, while it is live.
    pub deadline: Steady,
    /// How long it may take without a word, in this phase.
    pub lease: handoff_types::Span,
    /// By which a start that is repeated is known again, until the second or third call.
    pub request_key: Option<Box<str>>,
    /// Messages given to the ERP.
    pub to_erp: Vec<Served>,
    /// Messages taken from the ERP.
    pub from_erp: Vec<Prepared>,
    /// Of the third call, to know it again.
    pub digest: u64,
    /// When it was ready.
    pub ready: Option<Wall>,
    /// When it was over, or nobody knew.
    pub ended: Option<Wall>,
    /// What was said of why it ended, or why files could not be moved.
    pub words: Option<Box<str>>,
    /// The folders show what it decided.
    pub settled: bool,
    /// The ERP reported the opposite of an earlier report.
    pub contradicted: bool,
}
