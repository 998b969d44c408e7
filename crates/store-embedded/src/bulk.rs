//! The room's side of its bulk data.

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{Journal, ReadError, Receipt};
use handoff_log::segments::{self, CopyError, Lane, Move, Read, Segments, SyncError, WriteError};
use handoff_types::Sequence;
use thiserror::Error;

use crate::books::Shared;
use crate::filing::Filing;
use crate::lanes::Lanes;
use crate::moving::Moving;
use crate::persist::Frame;
use crate::reader::Reader;

/// Why bulk data could not be read or moved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BulkError {
    /// The journal could not give a body.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// A lane could not be read.
    #[error(transparent)]
    Segments(#[from] segments::ReadError),
    /// A body could not be copied.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The copies could not be made durable.
    #[error(transparent)]
    Sync(#[from] SyncError),
    /// The segments could not be opened again, or a lane not be changed.
    #[error(transparent)]
    Open(#[from] WriteError),
    /// The offsets are damaged on disk.
    #[error("offsets {from} to {to} of lane {lane} are damaged on disk")]
    Corrupt {
        /// The lane.
        lane: Lane,
        /// The first offset.
        from: u64,
        /// The offset behind the last.
        to: u64,
    },
}

/// The bodies of a room that segments do not have yet. For a room whose bodies go to files, read
/// "files" wherever this says segments: what [`Bulk::want`] and [`Bulk::has`] mean is that they may
/// leave the journal.
#[derive(Debug)]
pub struct Bulk {
    shared: Arc<Shared>,
    /// Unless it works elsewhere.
    moving: Option<Moving>,
}

impl Bulk {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        moves: Vec<(Sequence, Vec<Move>)>,
    ) -> Self {
        let shared = Arc::new(Shared::new(journal, segments));
        for (sequence, moves) in moves {
            shared.durable(sequence, moves);
        }
        let moving = Some(Moving::new(Arc::clone(&shared)));
        Self { shared, moving }
    }

    /// Bodies that go to files, and what files them.
    pub(crate) fn filed(
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        moves: Vec<(Sequence, Vec<Move>)>,
    ) -> (Self, Filing) {
        let Self { shared, .. } = Self::new(journal, segments, moves);
        let filing = Filing::new(Arc::clone(&shared));
        (Self { shared, moving: None }, filing)
    }

    /// Notes the frames of an entry that was just appended, and the bytes of each.
    pub(crate) fn expect(&self, sequence: Sequence, receipt: Receipt, frames: Vec<(Frame, u32)>) {
        self.shared.expect(sequence, receipt, frames);
    }

    /// Hands the mover over, to be driven elsewhere. There is one: the second time there is none.
    pub fn take_moving(&mut self) -> Option<Moving> {
        self.moving.take()
    }

    /// [`Moving::copy`], if the mover is here; nothing is copied otherwise.
    ///
    /// # Errors
    /// As there.
    pub fn copy(&mut self, entries_max: usize) -> Result<usize, BulkError> {
        self.moving.as_mut().map_or(Ok(0), |moving| moving.copy(entries_max))
    }

    /// [`Moving::sync`], if the mover is here; nothing is synced otherwise.
    ///
    /// # Errors
    /// As there.
    pub fn sync(&mut self) -> Result<(), BulkError> {
        self.moving.as_mut().map_or(Ok(()), Moving::sync)
    }

    /// Sees to it that segments get every body up to a record of the room, which is durable: now,
    /// if the mover is here, else in a while. Gives whether they have it.
    ///
    /// # Errors
    /// [`BulkError`] of a mover that is here.
    pub fn want(&mut self, through: Sequence) -> Result<bool, BulkError> {
        if self.has(through) {
            return Ok(true);
        }
        match &mut self.moving {
            Some(moving) => {
                moving.copy(usize::MAX)?;
                moving.sync()?;
            }
            None => self.shared.ask(through),
        }
        Ok(self.has(through))
    }

    /// Whether the mover works elsewhere.
    #[must_use]
    pub fn is_handed_over(&self) -> bool {
        self.moving.is_none()
    }

    /// Whether segments durably have every body up to a record of the room.
    #[must_use]
    pub fn has(&self, through: Sequence) -> bool {
        self.shared.has(through)
    }

    /// The segments the bodies go to at this moment; after a failed sync they are others.
    #[must_use]
    pub fn segments(&self) -> Arc<Segments> {
        self.shared.segments()
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    pub(crate) fn lanes(&self) -> Lanes {
        Lanes::new(Arc::clone(&self.shared))
    }

    /// A body, if it is durable and kept.
    ///
    /// # Errors
    /// [`BulkError`]; damage is answered as such, and so is a lane that ends before a body that
    /// had left the journal: the end of a lane is the one thing that its files cannot witness.
    pub(crate) fn read(&self, frame: Frame) -> Result<Option<Bytes>, BulkError> {
        let Frame { lane, base, count, .. } = frame;
        match self.shared.place(frame) {
            (Some(at), _) => return Ok(Some(self.shared.records.body(at)?)),
            (None, true) => return Ok(None),
            (None, false) => {}
        }
        match self.shared.segments().read(lane, base, 0)? {
            Read::Frames(frames) => {
                let found = frames.into_iter().find(|found| found.base == base);
                Ok(found.map(|found| found.body))
            }
            Read::Corrupt { from, to } => Err(BulkError::Corrupt { lane, from, to }),
            Read::End { .. } => {
                let to = base.saturating_add(count.into());
                Err(BulkError::Corrupt { lane, from: base, to })
            }
            Read::Trimmed { .. } => Ok(None),
        }
    }
}
