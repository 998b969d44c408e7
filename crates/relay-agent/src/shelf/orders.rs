//! What is ordered of the thread with the disk, and what it says when it is done.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use handoff_relay::refill::{Entry, Frame, Ledger, Refill, RefillError};
use handoff_relay::{AckStatus, BlockId, SegmentKey, Spooling};
use handoff_types::Wall;

use crate::line::LineId;

/// Something to be done. Files go by the block they are about.
#[derive(Debug)]
pub(crate) enum Order {
    /// Append what a block spools; the file is made if it is not there.
    Append { file: BlockId, begun: Wall, acks: AckStatus, spooling: Box<Spooling> },
    /// Append what lets a later process go on with the block.
    Farewell { file: BlockId, frames: Vec<Frame> },
    /// Write what was confirmed, and seal the file.
    Seal { file: BlockId, acks: AckStatus },
    /// Write what was confirmed.
    Statuses { file: BlockId, acks: AckStatus },
    /// Read a piece for a line.
    Read { file: BlockId, line: LineId, key: SegmentKey, entry: Entry },
    /// Put a copy of a segment aside.
    Keep { file: BlockId, line: LineId, key: SegmentKey },
    /// Everything of it is delivered.
    Finish { file: BlockId },
    /// It is too old.
    GiveUp { file: BlockId },
    /// See how much there is.
    Look,
}

/// What was done.
#[derive(Debug)]
pub(crate) enum Done {
    Appended {
        file: BlockId,
        spooling: Box<Spooling>,
        appended: Result<(), RefillError>,
    },
    Wrote {
        file: BlockId,
        acks: Option<AckStatus>,
        wrote: Result<(), RefillError>,
    },
    Sealed {
        file: BlockId,
        sealed: Result<Option<Sealed>, RefillError>,
    },
    Read {
        file: BlockId,
        line: LineId,
        key: SegmentKey,
        entry: Entry,
        bytes: Result<Bytes, RefillError>,
    },
    Kept {
        file: BlockId,
        line: LineId,
        key: SegmentKey,
        kept: Result<bool, RefillError>,
    },
    Ended {
        file: BlockId,
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
    pub(crate) file: BlockId,
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) ledger: Arc<Ledger>,
}

impl Sealed {
    pub(crate) fn of(refill: &Refill) -> Self {
        Self {
            file: refill.ledger().block(),
            name: refill.name().to_owned(),
            bytes: refill.bytes(),
            ledger: Arc::new(refill.ledger().clone()),
        }
    }

    /// When it was begun, as its name says.
    pub(crate) fn begun(&self) -> Wall {
        let millis = self.name.split('-').next().and_then(|digits| digits.parse::<i64>().ok());
        Wall(millis.unwrap_or(0).saturating_mul(1_000))
    }
}
