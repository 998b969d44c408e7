//! A room's bulk data on its way from the journal to segments.
//!
//! ```text
//!  expected ──durable──▶ unmoved ──copy──▶ unsynced ──sync──▶ (in segments)
//!  body not readable     read from the journal                read from segments
//! ```
//!
//! The journal keeps a body until the sync that covers it. If that sync fails, the segments are
//! opened again and everything since the last good one is moved again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{BodyAt, Journal, ReadError, Receipt};
use handoff_log::segments::{
    self, BodyError, CopyError, Lane, Move, MoveError, Mover, Read, Segments, SyncError, WriteError,
};
use handoff_types::Sequence;
use thiserror::Error;

use crate::persist::Frame;

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
    /// The segments could not be opened again.
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

pub(crate) fn move_of(frame: Frame, body: BodyAt) -> Move {
    let Frame { lane, base, count, max_timestamp } = frame;
    Move { lane, base, count, max_timestamp, body: (body.position, body.index) }
}

/// How many bodies are handed to the mover at once, give or take those of one entry.
const MOVES_AT_ONCE: usize = 4096;

/// The bodies of a room that segments do not have yet.
#[derive(Debug)]
pub struct Bulk {
    journal: Arc<dyn Journal>,
    segments: Arc<Segments>,
    mover: Mover<Arc<dyn Journal>>,
    /// Appended, not known to be durable.
    expected: VecDeque<(Sequence, Receipt, Vec<Frame>)>,
    /// Durable in the journal, not copied.
    unmoved: VecDeque<(Sequence, Vec<Move>)>,
    /// How many moves of the first unmoved entry were made or left out.
    done: usize,
    /// Copied, not synced.
    unsynced: VecDeque<(Sequence, Vec<Move>)>,
    /// Where to find what segments do not have for sure.
    places: BTreeMap<(Lane, u64), BodyAt>,
    poisoned: bool,
}

impl Bulk {
    pub(crate) fn new(
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
        moves: Vec<(Sequence, Vec<Move>)>,
    ) -> Self {
        let mover = Mover::new(Arc::clone(&segments), Arc::clone(&journal));
        let mut bulk = Self {
            journal,
            segments,
            mover,
            expected: VecDeque::new(),
            unmoved: VecDeque::new(),
            done: 0,
            unsynced: VecDeque::new(),
            places: BTreeMap::new(),
            poisoned: false,
        };
        for (sequence, moves) in moves {
            bulk.durable(sequence, moves);
        }
        bulk
    }

    /// Notes the frames of an entry that was just appended.
    pub(crate) fn expect(&mut self, sequence: Sequence, receipt: Receipt, frames: Vec<Frame>) {
        self.expected.push_back((sequence, receipt, frames));
    }

    /// Copies durable bodies into segments, those of `entries_max` entries at most. Gives how many
    /// entries that were.
    ///
    /// # Errors
    /// [`BulkError`]; what was not copied is copied by a later call.
    pub fn copy(&mut self, entries_max: usize) -> Result<usize, BulkError> {
        self.settle();
        self.heal()?;
        let mut copied = 0;
        while copied < entries_max && !self.unmoved.is_empty() {
            let moves = self.next_moves(entries_max - copied);
            let result = self.mover.copy(&moves);
            let made = result.as_ref().map_or_else(|error| error.done, |()| moves.len());
            copied += self.made(made);
            let Err(error) = result else { continue };
            let gone = matches!(error.error, MoveError::Body { source: BodyError::Corrupt, .. });
            if let Some(failed) = moves.get(error.done).filter(|_| gone) {
                // Damage costs what it hits: this body is answered as damaged from now on, and the
                // lane goes on behind it.
                self.mover.leave_out(failed)?;
                copied += self.made(1);
                continue;
            }
            // Taking away old segments syncs too, and poisons when that fails.
            self.poisoned |= matches!(error.error, MoveError::Write(WriteError::Poisoned));
            return Err(error.into());
        }
        Ok(copied)
    }

    /// The moves of the next entries, each entry whole. Many at once, because the mover writes a
    /// lane's frames in one go.
    fn next_moves(&self, entries_max: usize) -> Vec<Move> {
        let mut moves = Vec::new();
        for (_, entry) in self.unmoved.iter().take(entries_max) {
            moves.extend_from_slice(entry);
            if moves.len() >= MOVES_AT_ONCE {
                break;
            }
        }
        moves.split_off(self.done)
    }

    /// Notes that so many more moves were made or left out. Gives how many entries that completed.
    fn made(&mut self, moves: usize) -> usize {
        self.done += moves;
        let mut entries = 0;
        while let Some((_, first)) = self.unmoved.front()
            && self.done >= first.len()
        {
            self.done -= first.len();
            self.unsynced.extend(self.unmoved.pop_front());
            entries += 1;
        }
        entries
    }

    /// Makes the copies durable. From then on the journal is not needed for them.
    ///
    /// # Errors
    /// [`BulkError`]; everything since the last success is copied again by later calls.
    pub fn sync(&mut self) -> Result<(), BulkError> {
        self.heal()?;
        if let Err(error) = self.mover.sync() {
            self.poisoned = true;
            return Err(error.into());
        }
        for (_, moves) in self.unsynced.drain(..) {
            for moved in moves {
                self.places.remove(&(moved.lane, moved.base));
            }
        }
        Ok(())
    }

    /// Whether segments durably have every body up to a record of the room.
    #[must_use]
    pub fn has(&self, through: Sequence) -> bool {
        let first = [
            self.unsynced.front().map(|(sequence, _)| *sequence),
            self.unmoved.front().map(|(sequence, _)| *sequence),
            self.expected.front().map(|(sequence, ..)| *sequence),
        ];
        first.into_iter().flatten().all(|sequence| sequence > through)
    }

    /// The segments the bodies go to.
    #[must_use]
    pub fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// A body, if it is durable and kept.
    ///
    /// # Errors
    /// [`BulkError`]; damage is answered as such, and so is a lane that ends before a body that
    /// had left the journal: the end of a lane is the one thing that its files cannot witness.
    pub(crate) fn read(&self, frame: Frame) -> Result<Option<Bytes>, BulkError> {
        let Frame { lane, base, count, .. } = frame;
        if let Some(at) = self.places.get(&(lane, base)) {
            return Ok(Some(self.journal.body(*at)?));
        }
        if let Some(awaited) = self.place_of_expected(frame) {
            return Ok(awaited.map(|at| self.journal.body(at)).transpose()?);
        }
        match self.segments.read(lane, base, 0)? {
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

    /// Where a frame is that was appended in this life and not settled: nowhere yet, unless its
    /// entry has become durable.
    fn place_of_expected(&self, wanted: Frame) -> Option<Option<BodyAt>> {
        self.expected.iter().find_map(|(_, receipt, frames)| {
            let index = frames.iter().position(|frame| *frame == wanted)?;
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let Some(Ok(committed)) = receipt.outcome() else { return Some(None) };
            Some(Some(BodyAt { position: committed.position, index }))
        })
    }

    /// Moves what has become durable from expected to unmoved.
    fn settle(&mut self) {
        while let Some((_, receipt, _)) = self.expected.front()
            && let Some(Ok(committed)) = receipt.outcome()
        {
            let Some((sequence, _, frames)) = self.expected.pop_front() else { break };
            let moves = (0..).zip(frames).map(|(index, frame)| {
                move_of(frame, BodyAt { position: committed.position, index })
            });
            let moves = moves.collect();
            self.durable(sequence, moves);
        }
    }

    fn durable(&mut self, sequence: Sequence, moves: Vec<Move>) {
        for one in &moves {
            let at = BodyAt { position: one.body.0, index: one.body.1 };
            self.places.insert((one.lane, one.base), at);
        }
        self.unmoved.push_back((sequence, moves));
    }

    /// After a failed sync nobody knows what the segments hold since the last good one.
    fn heal(&mut self) -> Result<(), BulkError> {
        if !self.poisoned {
            return Ok(());
        }
        self.segments = Arc::new(self.segments.reopen()?);
        self.mover = Mover::new(Arc::clone(&self.segments), Arc::clone(&self.journal));
        while let Some(again) = self.unsynced.pop_back() {
            self.unmoved.push_front(again);
        }
        self.done = 0;
        self.poisoned = false;
        Ok(())
    }
}
