//! Keeping lanes: how large they are, what of them may go, taking it away.
//!
//! A room decides what goes, and only when that is durable it is taken away here. In between a
//! crash may come: what is taken away twice is gone once.

use std::sync::Arc;

use handoff_log::segments::{Lane, WriteError};
use handoff_types::Wall;

use crate::books::Shared;
use crate::bulk::BulkError;

/// The lanes of a room, for whoever keeps them. May block for the disk.
#[derive(Clone, Debug)]
pub struct Lanes {
    shared: Arc<Shared>,
}

/// What of a lane may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// The first offset that stays; nothing goes if the lane begins there.
    pub below: u64,
    /// Bytes that stay in segments.
    pub bytes: u64,
}

impl Lanes {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The lanes that hold something on disk, of whatever room.
    ///
    /// # Errors
    /// [`BulkError::Segments`]
    pub fn on_disk(&self) -> Result<Vec<Lane>, BulkError> {
        Ok(self.shared.segments().lanes()?)
    }

    /// Bytes of bodies that only the journal has for sure. Those that an earlier process took in
    /// count as none. Does not wait for a disk.
    #[must_use]
    pub fn backlog(&self) -> u64 {
        self.shared.backlog()
    }

    /// What a lane takes in segments. What the journal still has is not counted.
    ///
    /// # Errors
    /// [`BulkError::Segments`]
    pub fn bytes(&self, lane: Lane) -> Result<u64, BulkError> {
        Ok(self.shared.segments().bytes(lane)?)
    }

    /// What of a lane may go if this many bytes are to be kept and nothing from before a time.
    /// Changes nothing. Whole segments go, and never the one that is written to.
    ///
    /// # Errors
    /// [`BulkError::Segments`]
    pub fn retained(
        &self,
        lane: Lane,
        keep_bytes: Option<u64>,
        older_than: Option<Wall>,
    ) -> Result<Retained, BulkError> {
        let segments = self.shared.segments();
        let (below, bytes) = segments.retained(lane, keep_bytes, older_than)?;
        Ok(Retained { below, bytes })
    }

    /// Takes away segments that hold only offsets below this one, and gives the lane's new start.
    /// The room has decided so, durably.
    ///
    /// # Errors
    /// [`BulkError::Open`]; some of them may be left, trim again.
    pub fn trim(&self, lane: Lane, below: u64) -> Result<u64, BulkError> {
        let trimmed = self.shared.segments().trim(lane, below);
        if matches!(trimmed, Err(WriteError::Poisoned | WriteError::Disk { .. })) {
            self.shared.suspect();
        }
        Ok(trimmed?)
    }

    /// Gives up lanes with all they hold, in the journal as well. The room has decided so, durably,
    /// and appends nothing to them any more. Does not wait: the mover removes the files.
    pub fn remove(&self, lanes: &[Lane]) {
        self.shared.remove(lanes);
    }
}
