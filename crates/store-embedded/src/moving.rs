//! The mover's side: copies bodies from the journal into segments and makes the copies durable.
//!
//! The journal keeps a body until the sync that covers it. If that sync fails, the segments are
//! opened again and everything since the last good one is moved again.

use std::sync::Arc;
use std::time::Duration;

use handoff_log::journal::Journal;
use handoff_log::segments::{BodyError, CopyError, Lane, MoveError, Mover, Segments};

use crate::books::{Batch, Called, Shared, Unsynced};
use crate::bulk::BulkError;

/// Moves the bodies of one room. There is one, wherever it is: in the room, for whoever drives both
/// with one hand, or on a thread of its own, so that no copy and no sync is ever between a room and
/// its callers.
#[derive(Debug)]
pub struct Moving {
    shared: Arc<Shared>,
    mover: Mover<Arc<dyn Journal>>,
}

/// How far a batch is.
#[derive(Debug, Default)]
struct Done {
    moves: usize,
    /// The same in the queue, void ones included.
    queued: usize,
    entries: usize,
}

/// Ends the waiting of a [`Moving`] that is elsewhere.
#[derive(Clone, Debug)]
pub struct Bell {
    shared: Arc<Shared>,
}

impl Bell {
    /// From now on nothing more is copied, also of what is being copied, and every wait says
    /// [`Called::Closing`]. Does not wait.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Moving {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let mover = mover(&shared, shared.segments());
        Self { shared, mover }
    }

    /// What ends the waiting.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell { shared: Arc::clone(&self.shared) }
    }

    /// From now on copies wait for so many bytes while bodies arrive faster than a disk likes to take
    /// them twice. Whoever asks for a copy has it at once all the same.
    pub fn be_patient(&self, bytes: u64) {
        self.shared.be_patient(bytes);
    }

    /// Blocks until somebody asks, or there is enough to be worth a copy, or there is something and
    /// `tick` has passed. While there is nothing it takes no time at all.
    #[must_use]
    pub fn wait(&self, tick: Duration) -> Called {
        self.shared.wait(tick)
    }

    /// Blocks for a while, whatever there is to do; whether to go on.
    #[must_use]
    pub fn rest(&self, pause: Duration) -> bool {
        self.shared.rest(pause)
    }

    /// Copies durable bodies into segments, those of `entries_max` entries at most. Gives how many
    /// entries that were.
    ///
    /// # Errors
    /// [`BulkError`]; what was not copied is copied by a later call.
    pub fn copy(&mut self, entries_max: usize) -> Result<usize, BulkError> {
        self.shared.settle();
        let mut copied = 0;
        while copied < entries_max {
            match self.copy_batch(entries_max - copied)? {
                Some(entries) => copied += entries,
                None => break,
            }
        }
        Ok(copied)
    }

    /// Copies as many durable bodies as are worth it at once, some MiB at most. Gives whether there
    /// were any.
    ///
    /// # Errors
    /// As [`Self::copy`].
    pub fn copy_some(&mut self) -> Result<bool, BulkError> {
        self.shared.settle();
        Ok(self.copy_batch(usize::MAX)?.is_some())
    }

    /// Makes the copies durable. From then on the journal is not needed for them.
    ///
    /// # Errors
    /// [`BulkError`]; everything since the last success is copied again by later calls.
    pub fn sync(&mut self) -> Result<(), BulkError> {
        self.heal()?;
        let covered = self.shared.unsynced().bodies;
        self.mover.sync()?;
        self.shared.synced(covered);
        Ok(())
    }

    /// Whether the bell was closed.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.shared.is_closing()
    }

    /// What was copied and not synced.
    #[must_use]
    pub fn unsynced(&self) -> Unsynced {
        self.shared.unsynced()
    }

    /// The offsets that lanes had lost to damage when their first body came, each told once.
    pub fn take_lost(&mut self) -> Vec<(Lane, std::ops::Range<u64>)> {
        self.mover.take_lost()
    }

    /// Copies one batch. Gives how many entries that completed, nothing if there was none.
    fn copy_batch(&mut self, entries_max: usize) -> Result<Option<usize>, BulkError> {
        self.heal()?;
        self.remove_doomed()?;
        if self.is_closing() {
            return Ok(None);
        }
        let batch = self.shared.next_batch(entries_max);
        if batch.is_empty() {
            return Ok(None);
        }
        let mut done = Done::default();
        while let Err(error) = self.copy_rest(&batch, &mut done) {
            if matches!(error.error, MoveError::Halted) {
                return Ok(None);
            }
            let gone = matches!(error.error, MoveError::Body { source: BodyError::Corrupt, .. });
            let failed = batch.moves.get(done.moves).filter(|_| gone);
            let Some(failed) = failed else { return Err(error.into()) };
            // Damage costs what it hits: this body is answered as damaged from now on, and the
            // lane goes on behind it.
            self.mover.leave_out(failed)?;
            self.made(&batch, &mut done, 1);
        }
        Ok(Some(done.entries))
    }

    fn copy_rest(&mut self, batch: &Batch, done: &mut Done) -> Result<(), CopyError> {
        let rest = batch.moves.get(done.moves..).unwrap_or_default();
        let result = self.mover.copy(rest);
        let made = result.as_ref().map_or_else(|error| error.done, |()| rest.len());
        self.made(batch, done, made);
        result
    }

    fn made(&self, batch: &Batch, done: &mut Done, moves: usize) {
        done.moves += moves;
        let queued = batch.through(done.moves);
        done.entries += self.shared.made(queued - done.queued);
        done.queued = queued;
    }

    /// Removes lanes that nobody knows any more. Here, because a lane that is removed must not be
    /// written to at the same time.
    fn remove_doomed(&mut self) -> Result<(), BulkError> {
        let mut doomed = self.shared.take_doomed().into_iter();
        let segments = self.shared.segments();
        while let Some(lane) = doomed.next() {
            if self.is_closing() {
                self.shared.doom(doomed.chain([lane]));
                return Ok(());
            }
            self.mover.forget(lane);
            if let Err(error) = segments.remove_lane(lane) {
                self.shared.doom(doomed.chain([lane]));
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// After a failed sync nobody knows what the segments hold since the last good one.
    fn heal(&mut self) -> Result<(), BulkError> {
        let segments = self.shared.segments();
        if !segments.is_poisoned() {
            return Ok(());
        }
        let again = Arc::new(segments.reopen()?);
        self.mover = mover(&self.shared, Arc::clone(&again));
        self.shared.move_again(again);
        Ok(())
    }
}

fn mover(shared: &Shared, segments: Arc<Segments>) -> Mover<Arc<dyn Journal>> {
    Mover::new(segments, Arc::clone(&shared.journal)).halted_by(shared.closing())
}
