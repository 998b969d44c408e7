//! Checkpoints: a room's state, cut into chunks, so that the journal may forget.
//!
//! # Constraints
//! * A checkpoint never stops a room. The room gives one range of its keys at a time and goes on
//!   working; each chunk says at which record of the room it is true.
//! * Recovery restores the chunks, replays the journal from the lowest mark, and passes over a
//!   change when the chunk that holds its key already has it ([`Marks`]).
//! * A checkpoint counts from the moment its name is durable. Until then the one before it does,
//!   and only then may the journal be trimmed.
//! * Damage closes the room whose checkpoint it hit.
//!
//! # File
//! `checkpoints/<room>-<number>.checkpoint`, written under another name first:
//!
//! ```text
//! header 64 │ chunk │ chunk │ … │ footer 72
//! chunk     │ header 48 │ first key │ key behind the last │ state │ zeros up to 8 │
//! ```
//! The chunks follow each other without a gap in the keys: from the lowest to the end.

mod format;
mod read;
mod write;

use bytes::Bytes;
use handoff_types::{Code, Position, Room, Sequence};
use std::io;
use thiserror::Error;

pub use self::read::{Checkpoint, Marks, Reader, latest};
pub use self::write::Writer;

/// The directory of the checkpoints.
pub const DIR: &str = "checkpoints";

/// The record of its room up to which a piece of state is true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The room's last record that the state has.
    pub sequence: Sequence,
    /// Everything of the room below this position is in the state.
    pub position: Position,
}

/// The state of one range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// The first key of the range. The first chunk begins with the empty key.
    pub from: Bytes,
    /// The key behind the range; none for the last chunk.
    pub to: Option<Bytes>,
    /// When it is true.
    pub mark: Mark,
    /// The state, as the room encodes it.
    pub state: Bytes,
}

/// Why a checkpoint could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The checkpoint's bytes are not what was written.
    #[error("checkpoint {path} of {room} is damaged at byte {offset}")]
    Damaged {
        /// The room it belongs to.
        room: Room,
        /// The file.
        path: String,
        /// Where reading stopped.
        offset: u64,
    },
    /// A file of a later version.
    #[error("checkpoint {path} has format {found}, this version reads up to 1")]
    Newer {
        /// The file.
        path: String,
        /// The version found.
        found: u16,
    },
    /// The disk answered with an error.
    #[error("the disk failed checkpoint {path}: {fault}")]
    Disk {
        /// The file.
        path: String,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
}

impl Error {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Damaged { .. } => Code::RoomDamaged,
            Self::Newer { .. } => Code::DirectoryNewer,
            Self::Disk { fault, .. } if fault.kind() == io::ErrorKind::StorageFull => {
                Code::DiskFull
            }
            Self::Disk { .. } => Code::DiskFault,
        }
    }

    fn disk(path: &str) -> impl FnOnce(io::Error) -> Self + '_ {
        move |fault| Self::Disk { path: path.to_owned(), fault }
    }
}

fn path_of(room: Room, number: u64) -> String {
    format!("{DIR}/{room}-{number:020}.checkpoint")
}

fn writing_path_of(room: Room) -> String {
    format!("{DIR}/{room}.writing")
}

fn number_of(name: &str, room: Room) -> Option<u64> {
    name.strip_suffix(".checkpoint")?.strip_prefix(room.name())?.strip_prefix('-')?.parse().ok()
}
