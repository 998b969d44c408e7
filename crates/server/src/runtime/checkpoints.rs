//! Checkpoints of one room, taken while it works.
//!
//! # Constraints
//! * The room's task only cuts: it encodes one chunk at a time and asks for a barrier. A thread of
//!   its own waits for the barrier, writes and syncs, so no sync of a checkpoint is ever between
//!   an occurrence and whoever waits for it.
//! * Whether a checkpoint is due is told by the *whole* journal, not by what this room wrote: the
//!   ring is trimmed up to the room that needs the oldest part of it, and a room that is silent
//!   would otherwise pin it.
//! * A checkpoint that fails is given up and begun again later, after longer and longer pauses. The
//!   one before it stays in force.

use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use handoff_log::checkpoint::{Chunk, Mark, Writer};
use handoff_log::directory::Directory;
use handoff_log::journal::{Journal, Receipt, Ticket};
use handoff_store_embedded::{Host, Persist, StepError};
use handoff_types::{Now, Position, Room, Sequence, Span, Steady};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::settings;

/// Between two chunks the room works on.
const PACE: Duration = Duration::from_millis(2);

/// How long until a look at something that cannot be waited for is worth repeating.
const LOOK: Duration = Duration::from_millis(10);

/// How often a room without a checkpoint under way looks whether one is due.
const REST: Duration = Duration::from_secs(1);

/// Chunks that are cut and not written.
const AHEAD_MAX: usize = 4;

/// Pauses after a failure: the first, and what doubling ends at.
const PAUSE_MIN: Span = Span::from_secs(1);
const PAUSE_MAX: Span = Span::from_secs(60);

/// A checkpoint is due when this part of the ring was written, whatever else was decided.
const RING_SHARE: u64 = 4;

/// Takes checkpoints of a room while it works.
///
/// Dropped, it gives up the checkpoint under way and waits for its thread.
#[derive(Debug)]
pub struct Checkpoints<M: Persist> {
    directory: Directory,
    chunk_bytes: usize,
    bytes: u64,
    every: Span,
    /// Where the journal was when the last checkpoint was begun.
    position: Position,
    /// The room's last record that the last checkpoint has.
    sequence: Sequence,
    /// When the last one was begun; none before the first look at the clock.
    begun: Option<Steady>,
    /// The journal holds what earlier processes wrote, and no checkpoint has it yet.
    inherited: bool,
    /// Not before this, after a failure.
    pause: Option<(Steady, Span)>,
    taking: Option<Taking>,
    /// When the one under way goes on.
    next: Option<Instant>,
    room: PhantomData<fn(M)>,
}

/// A checkpoint under way.
#[derive(Debug)]
struct Taking {
    /// The first key not cut yet; none when all are.
    next: Option<Bytes>,
    /// A chunk the thread had no space for.
    refused: Option<Cut>,
    /// The barrier of the last chunk.
    last: Option<Receipt>,
    /// Gone once the thread was told to finish.
    orders: Option<SyncSender<Order>>,
    thread: JoinHandle<Result<Option<Mark>, StepError>>,
}

#[derive(Debug)]
enum Order {
    Write(Cut),
    Finish(Now),
}

/// A chunk that may hold changes which are not durable yet.
#[derive(Debug)]
struct Cut {
    from: Bytes,
    state: Bytes,
    to: Option<Bytes>,
    /// Fulfilled when everything that the state has is durable, and says up to where that is.
    ticket: Ticket,
}

impl<M: Persist> Checkpoints<M> {
    /// For the room of `M` in a data directory, as if it had none yet.
    #[must_use]
    pub fn new(directory: Directory, log: &settings::Log) -> Self {
        let every = u64::try_from(log.checkpoint_every.as_micros()).unwrap_or(u64::MAX);
        Self {
            directory,
            chunk_bytes: log.limits.checkpoint_chunk_bytes,
            bytes: log.checkpoint_bytes.min(log.limits.journal_bytes_max / RING_SHARE),
            every: Span::from_micros(every),
            position: Position::START,
            sequence: Sequence::NONE,
            begun: None,
            inherited: false,
            pause: None,
            taking: None,
            next: None,
            room: PhantomData,
        }
    }

    /// Goes on from the checkpoint that is in force: its lowest and its highest mark.
    #[must_use]
    pub fn after(mut self, (low, high): (Mark, Mark)) -> Self {
        (self.position, self.sequence) = (low.position, high.sequence);
        self
    }

    /// Takes a step if it is time for one, however often it is asked, and says when to come again.
    /// For a room that looks every turn.
    pub fn turn(&mut self, host: &mut Host<M>, now: Now) -> Option<Duration> {
        let left = self.next.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Some(left);
        }
        let wait = self.step(host, now);
        self.next = wait.filter(|_| self.is_under_way()).map(|wait| Instant::now() + wait);
        wait
    }

    /// Does a bounded piece of work and says when to come again. Never waits for a disk.
    ///
    /// Call it at least that often, also when the room has nothing else to do. None: the journal
    /// has stopped, there will be no more.
    pub fn step(&mut self, host: &mut Host<M>, now: Now) -> Option<Duration> {
        let begun = *self.begun.get_or_insert_with(|| {
            self.inherited = host.journal().durable() > self.position;
            now.steady
        });
        if let Some(taking) = &mut self.taking {
            match taking.advance(host, now, self.chunk_bytes) {
                Ok(Some(pause)) => return Some(pause),
                Ok(None) => {}
                Err(error) => {
                    warn!(room = %M::ROOM, %error, "what a checkpoint needs cannot be moved")
                }
            }
            return self.end(now);
        }
        if self.pause.is_some_and(|(until, _)| now.steady < until) || !self.is_due(host, begun, now)
        {
            return Some(REST);
        }
        self.begun = Some(now.steady);
        let position = host.journal().durable();
        match Taking::begin::<M>(&self.directory, host.journal()) {
            Ok(taking) => {
                debug!(room = %M::ROOM, %position, "checkpoint begun");
                self.taking = Some(taking);
                self.inherited = false;
                self.position = position;
                Some(Duration::ZERO)
            }
            Err(error) => {
                warn!(room = %M::ROOM, %error, "no thread for a checkpoint");
                self.pause_from(now);
                Some(REST)
            }
        }
    }

    /// After how much of the journal one is due.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether a checkpoint is under way.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.taking.is_some()
    }

    fn is_due(&self, host: &Host<M>, begun: Steady, now: Now) -> bool {
        let journal = host.journal();
        let Position(written) = journal.durable();
        // Every start takes a fresh file of the ring, however little is written to it. Servers
        // that live shortly, one after the other, would use it up and never take a checkpoint.
        let enough = if self.inherited { 1 } else { self.bytes };
        if written.saturating_sub(self.position.0) >= enough {
            return true;
        }
        now.steady.since(begun) >= self.every
            && match journal.barrier(M::ROOM).outcome() {
                None => true,
                Some(Ok(committed)) => committed.sequence > self.sequence,
                Some(Err(_)) => false,
            }
    }

    /// The thread has ended or must: hears how it went.
    fn end(&mut self, now: Now) -> Option<Duration> {
        let taking = self.taking.take()?;
        let result = match taking.end() {
            Ok(Some(high)) => {
                debug!(room = %M::ROOM, record = %high.sequence, "checkpoint in force");
                self.sequence = high.sequence;
                self.pause = None;
                return Some(REST);
            }
            Ok(None) => "it was given up".to_owned(),
            Err(StepError::Journal(_)) => return None,
            Err(error) => error.to_string(),
        };
        let pause = self.pause_from(now);
        let secs = pause.0 / 1_000_000;
        warn!(room = %M::ROOM, error = result, again_in_secs = secs, "a checkpoint failed");
        Some(REST)
    }

    fn pause_from(&mut self, now: Now) -> Span {
        let pause = self.pause.map_or(PAUSE_MIN, |(_, last)| Span(last.0 * 2).min(PAUSE_MAX));
        self.pause = Some((now.steady + pause, pause));
        // It is due again at once, but for the pause.
        self.position = Position(self.position.0.saturating_sub(self.bytes));
        pause
    }
}

impl<M: Persist> Drop for Checkpoints<M> {
    fn drop(&mut self) {
        // What was not finished never counts, so there is nothing to hear.
        drop(self.taking.take().map(Taking::end));
    }
}

impl Taking {
    fn begin<M: Persist>(directory: &Directory, journal: &Arc<dyn Journal>) -> io::Result<Self> {
        let (orders, ordered) = sync_channel(AHEAD_MAX);
        let (directory, journal) = (directory.clone(), Arc::clone(journal));
        let name = format!("checkpoint-{}", M::ROOM);
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || write(&directory, &*journal, M::ROOM, &ordered))?;
        let next = Some(Bytes::new());
        Ok(Self { next, refused: None, last: None, orders: Some(orders), thread })
    }

    /// Takes the next step; none when there is no more to do here.
    fn advance<M: Persist>(
        &mut self,
        host: &mut Host<M>,
        now: Now,
        chunk_bytes: usize,
    ) -> Result<Option<Duration>, StepError> {
        let Some(orders) = &self.orders else {
            return Ok((!self.thread.is_finished()).then_some(LOOK));
        };
        let cut = match (self.refused.take(), self.next.take()) {
            (Some(cut), next) => {
                self.next = next;
                cut
            }
            (None, Some(from)) => {
                let (state, to) = M::snapshot(host.state(), &from, chunk_bytes);
                self.next = to.clone();
                let ticket = host.journal().barrier(M::ROOM);
                self.last = Some(ticket.receipt());
                Cut { from, state, to, ticket }
            }
            (None, None) => return self.finish(host, now),
        };
        match orders.try_send(Order::Write(cut)) {
            Ok(()) => Ok(Some(PACE)),
            Err(TrySendError::Full(Order::Write(cut))) => {
                self.refused = Some(cut);
                Ok(Some(LOOK))
            }
            // The thread has failed and says why.
            Err(_) => Ok(None),
        }
    }

    /// What the state says of bodies must be true of segments before the journal forgets them.
    fn finish<M: Persist>(
        &mut self,
        host: &mut Host<M>,
        now: Now,
    ) -> Result<Option<Duration>, StepError> {
        let Some(outcome) = self.last.as_ref().and_then(Receipt::outcome) else {
            return Ok(Some(LOOK));
        };
        let high = outcome?.sequence;
        if !host.bulk().want(high)? {
            return Ok(Some(LOOK));
        }
        match self.orders.as_ref().map(|orders| orders.try_send(Order::Finish(now))) {
            Some(Err(TrySendError::Full(_))) => Ok(Some(LOOK)),
            _ => {
                self.orders = None;
                Ok(Some(LOOK))
            }
        }
    }

    fn end(self) -> Result<Option<Mark>, StepError> {
        let Self { orders, thread, .. } = self;
        drop(orders);
        // A panic there has been reported by itself.
        thread.join().unwrap_or(Ok(None))
    }
}

/// Writes what is cut, once it is durable. Gives the highest mark of a checkpoint that is in force,
/// none of one that was given up.
fn write(
    directory: &Directory,
    journal: &dyn Journal,
    room: Room,
    ordered: &Receiver<Order>,
) -> Result<Option<Mark>, StepError> {
    let mut writer = Writer::begin(Arc::clone(&directory.disk), room, directory.id)?;
    let mut high = Mark::default();
    while let Ok(order) = ordered.recv() {
        match order {
            Order::Write(Cut { from, state, to, ticket }) => {
                let committed = ticket.wait()?;
                high = Mark { sequence: committed.sequence, position: committed.position };
                writer.chunk(&Chunk { from, to, mark: high, state })?;
            }
            Order::Finish(now) => {
                let low = writer.finish(now)?;
                journal.trim(room, low.position);
                return Ok(Some(high));
            }
        }
    }
    Ok(None)
}
