//! What can go wrong with segments, by what was asked.

use super::Lane;
use handoff_types::Code;
use std::io;

/// A read that the disk did not answer, or whose answer this program does not know.
///
/// Damage is not an error but an answer, see [`Read::Corrupt`](super::Read::Corrupt).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The disk answered with an error.
    #[error("reading {path} failed: {source}; look at the kernel log for the disk's error")]
    Disk {
        /// The file or directory.
        path: String,
        /// What the disk said.
        source: io::Error,
    },
    /// A later version wrote this file.
    #[error(
        "{path} has format version {version}, which this program does not know; start the version that wrote it"
    )]
    Newer {
        /// The file.
        path: String,
        /// The version it has.
        version: u16,
    },
}

/// A change to a lane that was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// An earlier sync failed, so nobody knows what the disk holds.
    #[error(
        "the segments refuse changes because an earlier sync failed; open them again and move again what was not synced"
    )]
    Poisoned,
    /// The frame does not begin where the lane ends.
    #[error(
        "lane {lane} ends at offset {end}, so a frame at {base} does not join; move again from {end}"
    )]
    Gap {
        /// The lane.
        lane: Lane,
        /// Where it ends.
        end: u64,
        /// Where the frame begins.
        base: u64,
    },
    /// The frame has no offsets, or offsets past the last there can be, or a body of 4 GiB.
    #[error(
        "the frame at offset {base} of lane {lane} cannot be stored: it holds {count} offsets and {bytes} bytes; split it"
    )]
    Unstorable {
        /// The lane.
        lane: Lane,
        /// Where the frame begins.
        base: u64,
        /// How many offsets it has.
        count: u32,
        /// The length of its body.
        bytes: usize,
    },
    /// The lane cannot be cut at an offset inside a frame.
    #[error(
        "lane {lane} cannot be cut at offset {offset}, inside the frame at {base}; cut at {base}"
    )]
    InsideFrame {
        /// The lane.
        lane: Lane,
        /// Where it was to be cut.
        offset: u64,
        /// Where the frame begins.
        base: u64,
    },
    /// The disk did not take a change. What was stored before is as it was.
    #[error("writing {path} failed: {source}; repeat the change when the disk is well")]
    Disk {
        /// The file or directory.
        path: String,
        /// What the disk said.
        source: io::Error,
    },
    /// The lane could not be read before changing it.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A sync that failed. The segments are poisoned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// An earlier sync failed; a failed sync is never repeated.
    #[error(
        "the segments do not sync because an earlier sync failed; open them again and move again what was not synced"
    )]
    Poisoned,
    /// The disk answered with an error. Nobody knows what it holds since the last success.
    #[error(
        "syncing the segments failed: {source}; open them again and move again what was not synced"
    )]
    Disk {
        /// What the disk said.
        source: io::Error,
    },
}

impl ReadError {
    pub(super) fn disk(path: String) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Disk { path, source }
    }

    /// Whether the file is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self, Self::Disk { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Disk { .. } => Code::DiskFault,
            Self::Newer { .. } => Code::DirectoryNewer,
        }
    }
}

impl WriteError {
    pub(super) fn disk(path: String) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Disk { path, source }
    }

    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Poisoned => Code::JournalPoisoned,
            Self::Gap { .. } | Self::InsideFrame { .. } => Code::RoomDamaged,
            Self::Unstorable { .. } => Code::ChangeTooLarge,
            Self::Disk { source, .. } => disk_code(source),
            Self::Read(error) => error.code(),
        }
    }
}

impl SyncError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Poisoned => Code::JournalPoisoned,
            Self::Disk { source } => disk_code(source),
        }
    }
}

fn disk_code(error: &io::Error) -> Code {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::DiskFull,
        _ => Code::DiskFault,
    }
}
