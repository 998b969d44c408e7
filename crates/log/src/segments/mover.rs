//! The mover: copies bodies from the journal into their lanes.
//!
//! It writes without a sync; [`Mover::sync`] then makes everything durable at once and says up to
//! which position the journal need not keep bodies any more. After a restart it is handed the
//! same moves again, in order, and begins each lane by cutting it at the first of them, because
//! from there on the files may be torn.

use super::{Frame, Lane, Segments, SyncError, WriteError};
use crate::journal::{Ahead, BodyAt, Journal, ReadError};
use bytes::Bytes;
use handoff_types::{Code, Position, Wall};
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How much of the journal is in memory at a time, give or take one body. With a thousand lanes
/// it still makes runs of some KiB for each.
const CHUNK_BYTES: usize = 16 << 20;

/// Where bodies are until they have been moved.
pub trait Bodies {
    /// The body with this number among those of the record at this position.
    ///
    /// # Errors
    /// See [`BodyError`].
    fn body(&self, position: Position, index: u32) -> Result<Bytes, BodyError>;

    /// All bodies of the record at this position, read at once, perhaps with some that stand behind
    /// it.
    ///
    /// # Errors
    /// See [`BodyError`]. If a part of it is damaged, [`Self::body`] may still give others.
    fn bodies(&self, position: Position, ahead: &mut Ahead) -> Result<Vec<Bytes>, BodyError>;
}

/// A body that cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The disk lost it.
    #[error("the body is damaged")]
    Corrupt,
    /// The journal does not keep this position any more, or never had this body.
    #[error("the journal does not have the body")]
    Gone,
    /// The disk answered with an error.
    #[error("the disk did not answer: {0}")]
    Disk(#[from] io::Error),
}

impl<J: Journal + ?Sized> Bodies for Arc<J> {
    fn body(&self, position: Position, index: u32) -> Result<Bytes, BodyError> {
        Ok(Journal::body(&**self, BodyAt { position, index })?)
    }

    fn bodies(&self, position: Position, ahead: &mut Ahead) -> Result<Vec<Bytes>, BodyError> {
        Ok(Journal::bodies_ahead(&**self, position, ahead)?)
    }
}

impl From<ReadError> for BodyError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Corrupt(_) => Self::Corrupt,
            ReadError::Disk { fault, .. } => Self::Disk(fault),
            ReadError::Trimmed(_) | ReadError::NotYet(_) | ReadError::NoSuchBody { .. } => {
                Self::Gone
            }
        }
    }
}

/// A body to be moved, and the frame it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The lane it goes to.
    pub lane: Lane,
    /// The first offset.
    pub base: u64,
    /// How many offsets.
    pub count: u32,
    /// The largest timestamp inside.
    pub max_timestamp: Wall,
    /// The record in the journal and the number of the body in it.
    pub body: (Position, u32),
}

impl Move {
    /// The offsets of the frame.
    #[must_use]
    pub const fn offsets(&self) -> Range<u64> {
        self.base..self.base.saturating_add(self.count as u64)
    }
}

/// How far the moves are durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// All bodies handed over at or below this position are durable in their lanes. Nothing
    /// before the first move.
    pub through: Option<Position>,
}

/// Moves that were not all made.
#[derive(Debug, thiserror::Error)]
#[error("{done} moves made, then: {error}")]
pub struct CopyError {
    /// How many moves were made. The next [`Mover::copy`] begins with the one after them, unless
    /// that one is [left out](Mover::leave_out).
    pub done: usize,
    /// Why the next one was not.
    #[source]
    pub error: MoveError,
}

/// A move that was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// The journal does not have the body. The lane stays where it is.
    #[error("offsets {} to {} of lane {lane} cannot be moved out of the journal: {source}; move them again, or leave them out", offsets.start, offsets.end)]
    Body {
        /// The lane.
        lane: Lane,
        /// The offsets of the frame.
        offsets: Range<u64>,
        /// Why.
        source: BodyError,
    },
    /// The lane did not take the frame.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An earlier move was not made and must be made or left out first.
    #[error("offsets {} to {} of lane {lane} were not moved yet and come first; move them again, or leave them out", offsets.start, offsets.end)]
    Owed {
        /// The lane.
        lane: Lane,
        /// The offsets of the frame.
        offsets: Range<u64>,
    },
    /// It was told to stop.
    #[error("the mover was told to stop; what it did not move is moved after the next start")]
    Halted,
}

/// Copies bodies from the journal into their lanes. There is one.
#[derive(Debug)]
pub struct Mover<B> {
    segments: Arc<Segments>,
    bodies: B,
    /// Lanes that were cut where their first move begins.
    resumed: HashSet<Lane>,
    /// Every move handed over at or below this position was made.
    made: Option<Position>,
    /// What resuming found missing, not yet told.
    lost: Vec<(Lane, Range<u64>)>,
    /// The move that failed. None is made before it is made or left out, so that no mark can pass
    /// it.
    owed: Option<Move>,
    /// Whether the last pass over lanes went down. The next one goes up, so that with more lanes
    /// than open files half of them are still open.
    went_down: bool,
    /// Set by whoever wants it to stop.
    halt: Arc<AtomicBool>,
}

impl<B: Bodies> Mover<B> {
    /// A mover for segments that were just opened.
    #[must_use]
    pub fn new(segments: Arc<Segments>, bodies: B) -> Self {
        Self {
            segments,
            bodies,
            resumed: HashSet::new(),
            made: None,
            lost: Vec::new(),
            owed: None,
            went_down: false,
            halt: Arc::default(),
        }
    }

    /// The same mover, which stops between two lanes once `halt` is set: with thousands of lanes a
    /// copy takes as many opened files, and whoever ends a server does not have that time. What was
    /// copied may be copied again.
    #[must_use]
    pub fn halted_by(self, halt: Arc<AtomicBool>) -> Self {
        Self { halt, ..self }
    }

    /// Makes moves. They come in the order of their positions, all those of one record in one
    /// call, and may come again. Nothing is durable before [`Self::sync`].
    ///
    /// # Errors
    /// The moves up to [`CopyError::done`] were made.
    pub fn copy(&mut self, moves: &[Move]) -> Result<(), CopyError> {
        if let Some(owed) = self.owed.filter(|owed| moves.first().is_some_and(|m| m != owed)) {
            let error = MoveError::Owed { lane: owed.lane, offsets: owed.offsets() };
            return Err(CopyError { done: 0, error });
        }
        let mut done = 0;
        while let Some(rest) = moves.get(done..).filter(|rest| !rest.is_empty()) {
            let (frames, failed) = self.fetch(rest);
            let taken = frames.len();
            self.store(rest, frames).map_err(|error| self.owe(moves, done, error))?;
            done += taken;
            if let Some(error) = failed {
                return Err(self.owe(moves, done, error));
            }
        }
        self.owed = None;
        self.made = self.made.max(moves.last().map(|last| last.body.0));
        Ok(())
    }

    /// Gives up the move that failed. Its offsets are answered as
    /// [`Read::Corrupt`](super::Read::Corrupt) and the lane goes on behind them.
    ///
    /// # Errors
    /// As [`Segments::resume`].
    ///
    /// # Panics
    /// If this move has not failed.
    pub fn leave_out(&mut self, failed: &Move) -> Result<(), WriteError> {
        assert_eq!(self.owed.as_ref(), Some(failed), "only a move that failed can be left out");
        self.resume(failed.lane, failed.base)?;
        self.segments.resume(failed.lane, failed.offsets().end)?;
        self.owed = None;
        Ok(())
    }

    /// The offsets that lanes had lost to damage when their first move came, each told once.
    pub fn take_lost(&mut self) -> Vec<(Lane, Range<u64>)> {
        std::mem::take(&mut self.lost)
    }

    /// Makes all moves durable that were made so far.
    ///
    /// # Errors
    /// After an error open the segments again, and move again from the last mark with a new
    /// mover.
    pub fn sync(&mut self) -> Result<Mark, SyncError> {
        self.segments.sync()?;
        Ok(Mark { through: self.made })
    }

    /// Gives up everything that is still to be moved to a lane that is being removed.
    pub fn forget(&mut self, lane: Lane) {
        self.owed = self.owed.filter(|owed| owed.lane != lane);
        self.resumed.remove(&lane);
        self.lost.retain(|(lost, _)| *lost != lane);
    }

    /// Reads bodies, at least one and about [`CHUNK_BYTES`], up to one that cannot be had. Each
    /// record is read once.
    fn fetch(&self, moves: &[Move]) -> (Vec<Frame>, Option<MoveError>) {
        let mut frames = Vec::new();
        let mut bytes = 0;
        let mut ahead = Ahead::default();
        for record in moves.chunk_by(|one, next| one.body.0 == next.body.0) {
            if bytes >= CHUNK_BYTES {
                break;
            }
            let mut bodies = None;
            for next in record {
                match self.body(&mut bodies, &mut ahead, next) {
                    Ok(body) => {
                        bytes += body.len();
                        let Move { base, count, max_timestamp, .. } = *next;
                        frames.push(Frame { base, count, max_timestamp, body });
                    }
                    Err(source) => {
                        let (lane, offsets) = (next.lane, next.offsets());
                        return (frames, Some(MoveError::Body { lane, offsets, source }));
                    }
                }
            }
        }
        (frames, None)
    }

    /// A body of the record whose bodies are kept in `bodies` once they were read.
    fn body(
        &self,
        bodies: &mut Option<Vec<Bytes>>,
        ahead: &mut Ahead,
        next: &Move,
    ) -> Result<Bytes, BodyError> {
        let (position, index) = next.body;
        let bodies = match bodies {
            Some(bodies) => bodies,
            None => match self.bodies.bodies(position, ahead) {
                // What damages one piece of an entry leaves the bodies in others as they are.
                Err(BodyError::Corrupt) => bodies.insert(Vec::new()),
                read => bodies.insert(read?),
            },
        };
        match bodies.get(index as usize) {
            Some(body) => Ok(body.clone()),
            None => self.bodies.body(position, index),
        }
    }

    /// Writes the frames of the first moves, each lane's in one go.
    fn store(&mut self, moves: &[Move], frames: Vec<Frame>) -> Result<(), MoveError> {
        let mut lanes: BTreeMap<Lane, Vec<Frame>> = BTreeMap::new();
        for (next, frame) in moves.iter().zip(frames) {
            lanes.entry(next.lane).or_default().push(frame);
        }
        let mut lanes: Vec<(Lane, Vec<Frame>)> = lanes.into_iter().collect();
        self.went_down = !self.went_down;
        if self.went_down {
            lanes.reverse();
        }
        for (lane, frames) in lanes {
            if self.halt.load(Ordering::Acquire) {
                return Err(MoveError::Halted);
            }
            for run in frames.chunk_by(|one, next| next.base <= one.end()) {
                if let Some(first) = run.first() {
                    self.join(lane, first.base)?;
                }
                self.segments.append(lane, run)?;
            }
        }
        Ok(())
    }

    /// Makes a lane ready for frames from an offset on. What is missing before it was lost with a
    /// record of the journal, and nothing will ever bring it.
    fn join(&mut self, lane: Lane, base: u64) -> Result<(), WriteError> {
        self.resume(lane, base)?;
        if self.segments.end(lane)? < base {
            let resumed = self.segments.resume(lane, base)?;
            self.lost.extend(resumed.lost.map(|offsets| (lane, offsets)));
        }
        Ok(())
    }

    /// Cuts a lane where its first move after the opening begins.
    fn resume(&mut self, lane: Lane, base: u64) -> Result<(), WriteError> {
        if !self.resumed.contains(&lane) {
            let resumed = self.segments.resume(lane, base)?;
            self.resumed.insert(lane);
            self.lost.extend(resumed.lost.map(|offsets| (lane, offsets)));
        }
        Ok(())
    }

    /// Remembers that `moves[done]` is not made. Bodies of the same record do not count as moved
    /// either: the journal keeps or drops a record as a whole.
    fn owe(&mut self, moves: &[Move], done: usize, error: MoveError) -> CopyError {
        self.owed = moves.get(done).copied();
        let whole = |position: &Position| self.owed.is_none_or(|owed| *position < owed.body.0);
        let made = moves.iter().take(done).map(|made| made.body.0).filter(whole).max();
        self.made = self.made.max(made);
        CopyError { done, error }
    }
}

impl MoveError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Body { source: BodyError::Corrupt, .. } => Code::Corrupt,
            Self::Body { source: BodyError::Gone, .. } => Code::Trimmed,
            Self::Body { source: BodyError::Disk(_), .. } => Code::DiskFault,
            Self::Write(error) => error.code(),
            Self::Owed { .. } => Code::Corrupt,
            Self::Halted => Code::ServerStopping,
        }
    }
}
