//! How the journal says no.

use std::io;
use std::sync::Arc;

use handoff_types::{Code, Outcome, Position, Room};
use thiserror::Error;

/// A refusal at the door: nothing was taken, nothing changed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Refused {
    /// The room has as much on its way to the disk as it may.
    #[error("{room} has {waiting} bytes on their way to the disk and may have {limit}")]
    Busy {
        /// The room.
        room: Room,
        /// What is on its way.
        waiting: u64,
        /// `log.room_queue_bytes_max`.
        limit: u64,
    },
    /// The ring has no space left but what is kept to finish promised work.
    #[error("the journal has {free} bytes free and keeps {reserve} to finish what was promised")]
    Full {
        /// What is free.
        free: u64,
        /// What this purpose has to leave.
        reserve: u64,
    },
    /// The ring could go on, but the disk does not give it the next file: it is full, or fails.
    /// The journal keeps asking.
    #[error("the disk gives the journal no next file: {fault}")]
    NoFile {
        /// What the disk answered.
        fault: Arc<io::Error>,
    },
    /// The disk failed a write or a sync; the journal is moving to a fresh file.
    #[error("the disk failed the journal, which is being continued on a fresh file: {fault}")]
    Poisoned {
        /// What the disk answered.
        fault: Arc<io::Error>,
    },
    /// The journal has stopped.
    #[error("the journal is closed")]
    Closed,
    /// The room lost records and stays closed until it is repaired.
    #[error("{room} is closed because the disk damaged records of it at position {at}")]
    Damaged {
        /// The room.
        room: Room,
        /// Where the damage begins.
        at: Position,
    },
    /// The change is larger than one change may be.
    #[error("a change of {bytes} bytes is above the limit of {limit}")]
    TooLarge {
        /// The change with its bodies.
        bytes: u64,
        /// `log.change_bytes_max`.
        limit: u64,
    },
}

impl Refused {
    /// The stable code of this refusal.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Busy { .. } => Code::RoomBusy,
            Self::Full { .. } => Code::JournalFull,
            Self::NoFile { fault } if fault.kind() == io::ErrorKind::StorageFull => Code::DiskFull,
            Self::NoFile { .. } => Code::DiskFault,
            Self::Poisoned { .. } => Code::JournalPoisoned,
            Self::Closed => Code::JournalClosed,
            Self::Damaged { .. } => Code::RoomDamaged,
            Self::TooLarge { .. } => Code::ChangeTooLarge,
        }
    }
}

/// An admitted entry that the journal could not make durable before it stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the journal stopped before this was durable ({})", match outcome {
    Outcome::NotApplied => "it was not written",
    Outcome::Unknown => "whether it was kept shows at the next start",
})]
pub struct Lost {
    /// Whether the entry may be found after the next start all the same.
    pub outcome: Outcome,
}

/// Why a position could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It was trimmed; what was there has moved on.
    #[error("position {0} has been trimmed from the journal")]
    Trimmed(Position),
    /// Nothing durable is there yet.
    #[error("position {0} is not durable yet")]
    NotYet(Position),
    /// The disk no longer holds what was written.
    #[error("the record at position {0} is damaged on disk")]
    Corrupt(Position),
    /// The entry has no such body.
    #[error("the entry at position {position} has no body {index}")]
    NoSuchBody {
        /// The entry.
        position: Position,
        /// The body asked for.
        index: u32,
    },
    /// The disk answered with an error.
    #[error("the disk failed a read at position {position}: {fault}")]
    Disk {
        /// Where.
        position: Position,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
}

impl ReadError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Trimmed(_) => Code::Trimmed,
            Self::NotYet(_) | Self::NoSuchBody { .. } | Self::Disk { .. } => Code::DiskFault,
            Self::Corrupt(_) => Code::Corrupt,
        }
    }
}

/// Why a journal could not be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Both copies of a file's header are gone, so nobody can say what the file held.
    #[error(
        "the header of journal file {path} is unreadable; restore the data directory from a backup"
    )]
    Header {
        /// The file.
        path: String,
    },
    /// A file of a later version.
    #[error(
        "journal file {path} has format {found}, this version reads up to 1; start a newer version"
    )]
    Newer {
        /// The file.
        path: String,
        /// The version found.
        found: u16,
    },
    /// A file that belongs to another data directory.
    #[error(
        "journal file {path} belongs to another data directory; remove what was copied in by hand"
    )]
    Foreign {
        /// The file.
        path: String,
    },
    /// The disk answered with an error.
    #[error("the disk failed while opening the journal at {path}: {fault}")]
    Disk {
        /// The file or directory.
        path: String,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
}

impl OpenError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Header { .. } | Self::Foreign { .. } => Code::DirectoryUnreadable,
            Self::Newer { .. } => Code::DirectoryNewer,
            Self::Disk { .. } => Code::DiskFault,
        }
    }

    pub(crate) fn disk(path: &str) -> impl FnOnce(io::Error) -> Self + '_ {
        move |fault| Self::Disk { path: path.to_owned(), fault }
    }
}
