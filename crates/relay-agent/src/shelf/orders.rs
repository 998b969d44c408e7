//! What is ordered of the thread with the disk, and what it says when it is done.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use handoff_relay::refill::{Entry, Ledger, Refill, RefillError};
use handoff_relay::{AckStatus, BlockId, SegmentKey, Spooling};
use handoff_types::Wall;

use crate::line::LineId;

/// A refill file: when it was begun, and its block. Mostly a block has one; one whose file failed, or
/// found no room, goes on in another, which is begun later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId {
    millis: i64,
    pub(crate) block: BlockId,
}

impl FileId {
    pub(crate) const fn new(begun: Wall, block: BlockId) -> Self {
        Self { millis: begun.0.div_euclid(1_000), block }
    }

    /// The file that follows it, begun now or just after it, whatever the clock says.
    pub(crate) fn next(self, now: Wall) -> Self {
        let after = Self::new(now, self.block);
        Self { millis: after.millis.max(self.millis + 1), ..after }
    }

    /// When it was begun.
    pub(crate) const fn begun(self) -> Wall {
        Wall(self.millis.saturating_mul(1_000))
    }
}

/// Something to be done.
#[derive(Debug)]
pub(crate) enum Order {
    /// Append what a block spools; the file is made if it is not there.
    Append { file: FileId, acks: AckStatus, spooling: Box<Spooling> },
    /// Write what was confirmed, and seal the file.
    Seal { file: FileId, acks: AckStatus },
    /// Write what was confirmed.
    Statuses { file: FileId, acks: AckStatus },
    /// Read a piece for a line.
    Read { file: FileId, line: LineId, key: SegmentKey, entry: Entry },
    /// Put a copy of a segment aside.
    Keep { file: FileId, line: LineId, key: SegmentKey },
    /// Everything of it is delivered.
    Finish { file: FileId },
    /// It is too old.
    GiveUp { file: FileId },
    /// See how much there is.
    Look,
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    Appended {
        file: FileId,
        spooling: Box<Spooling>,
        appended: Result<(), RefillError>,
    },
    Wrote {
        file: FileId,
        acks: Option<AckStatus>,
        wrote: Result<(), RefillError>,
    },
    Sealed {
        file: FileId,
        sealed: Result<Option<Sealed>, RefillError>,
    },
    Read {
        file: FileId,
        line: LineId,
        key: SegmentKey,
        entry: Entry,
        bytes: Result<Bytes, RefillError>,
    },
    Kept {
        file: FileId,
        line: LineId,
        key: SegmentKey,
        kept: Result<bool, RefillError>,
    },
    Ended {
        ended: io::Result<()>,
    },
    Looked {
        spool_bytes: io::Result<u64>,
        quarantine_bytes: io::Result<u64>,
        free_bytes: io::Result<u64>,
    },
}

/// A file that is complete. What is in it does not change any more, except what was confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) file: FileId,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) ledger: Arc<Ledger>,
}

impl Sealed {
    pub(crate) fn of(file: FileId, refill: &Refill) -> Self {
        Self {
            file,
            name: refill.name().to_owned(),
            bytes: refill.bytes(),
            ledger: Arc::new(refill.ledger().clone()),
        }
    }
}
