//! The journal of a running server: a committer thread and a supplier of files.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;
use handoff_types::{Outcome, Position, Room, Sequence, Steady};

use super::ahead::Ahead;
use super::desk::Desk;
use super::entry::{BodyAt, Entry};
use super::error::{Lost, ReadError, Refused};
use super::floors::Floors;
use super::gate::{Gate, Permit, Purpose};
use super::ring::Ring;
use super::round::Round;
use super::shelf::Shelf;
use super::stats::{Counters, Stats};
use super::ticket::Ticket;
use super::writer::{CommitFault, Writer};
use super::{Journal, Opened};
use crate::disk::Disk;

/// Bytes that a room appends at most before what it holds is written all the same: the disk need not
/// wait for more.
const HELD_BYTES: usize = 64 << 10;

/// How long the supplier waits before it asks a failing disk again.
const FAULT_PAUSE: Duration = Duration::from_millis(250);

/// A journal with its own threads. Cheap to share behind an `Arc`; dropping it closes it.
#[derive(Debug)]
pub struct Threaded {
    shared: Arc<Shared>,
    committer: Option<JoinHandle<()>>,
    supplier: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    gate: Arc<Gate>,
    shelf: Arc<Shelf>,
    floors: Floors,
    ring: Arc<Mutex<Ring>>,
    /// Signalled when a file becomes ready, or the supplier met a fault.
    ready: Condvar,
    /// Signalled when the supplier may have work.
    wanted: Condvar,
    rest: AtomicU64,
    closing: AtomicBool,
    desk: Mutex<DeskState>,
    work: Condvar,
    counters: Counters,
}

#[derive(Debug)]
struct DeskState {
    desk: Desk,
    idle: bool,
    /// The bytes that rooms have appended since they hold; none if a room does not.
    held: [Option<usize>; Room::MAX],
    stopped: Option<Arc<io::Error>>,
}

impl Threaded {
    /// Continues a journal. Tickets and barriers wait until its last round is durable again.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(opened: Opened) -> io::Result<Self> {
        let writer =
            Writer::new(Arc::clone(&opened.ring), Arc::clone(&opened.shelf), opened.last_number);
        let patience = Duration::from_secs(opened.limits.poison_secs_max);
        let shared = Arc::new(Shared {
            gate: Arc::new(Gate::new(&opened.limits, opened.geometry, opened.damaged)),
            shelf: opened.shelf,
            floors: opened.floors,
            ring: opened.ring,
            ready: Condvar::new(),
            wanted: Condvar::new(),
            rest: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            desk: Mutex::new(DeskState {
                desk: opened.desk,
                idle: false,
                held: [None; Room::MAX],
                stopped: None,
            }),
            work: Condvar::new(),
            counters: Counters::default(),
        });
        shared.publish_space();
        let supplier = Supplier { shared: Arc::clone(&shared), disk: opened.disk };
        let committer = Committer { shared: Arc::clone(&shared), writer, patience };
        let unsure = opened.unsure;
        let mut journal = Self { shared, committer: None, supplier: None };
        let name = |name: &str| thread::Builder::new().name(name.to_owned());
        journal.supplier = Some(name("journal-supply").spawn(move || supplier.run())?);
        journal.committer = Some(name("journal-commit").spawn(move || committer.run(unsure))?);
        Ok(journal)
    }

    /// What the journal has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// When the oldest entry was decided that is not durable yet, by the clock of its room. How old
    /// that makes it is for whoever has the clock to say.
    #[must_use]
    pub fn oldest_waiting(&self) -> Option<Steady> {
        self.shared.desk().desk.oldest_waiting()
    }

    /// Why the journal stopped for good, if it did. The process must then exit, so that its
    /// supervisor starts it into recovery.
    #[must_use]
    pub fn stopped(&self) -> Option<Arc<io::Error>> {
        self.shared.desk().stopped.clone()
    }

    /// What a room has on its way to the disk, in bytes.
    #[must_use]
    pub fn waiting(&self, room: Room) -> u64 {
        self.shared.gate.waiting(room)
    }
}

impl Drop for Threaded {
    /// Writes what was appended, leaves the mark of a clean end and stops the threads.
    fn drop(&mut self) {
        self.shared.gate.close();
        self.shared.closing.store(true, Ordering::Release);
        // The lock orders the flag before the waiters' next look at it.
        drop(self.shared.desk());
        drop(self.shared.ring());
        self.shared.work.notify_all();
        self.shared.ready.notify_all();
        // The committer goes first, it may still want a file. A thread that panicked has said so.
        drop(self.committer.take().map(JoinHandle::join));
        self.shared.ring().close();
        self.shared.wanted.notify_all();
        drop(self.supplier.take().map(JoinHandle::join));
    }
}

impl Journal for Threaded {
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused> {
        self.shared.gate.admit(room, bytes, purpose)
    }

    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        let (room, bytes) = (entry.room, entry.bytes());
        permit.spend(bytes);
        let mut state = self.shared.desk();
        if state.stopped.is_some() {
            return (Sequence::NONE, Ticket::lost(Lost { outcome: Outcome::NotApplied }));
        }
        let appended = state.desk.push(entry);
        if !state.holds(room, bytes) {
            self.shared.wake(state);
        }
        appended
    }

    fn hold(&self, room: Room) {
        if let Some(held) = self.shared.desk().held.get_mut(room.index()) {
            *held = Some(0);
        }
    }

    fn let_go(&self, room: Room) {
        let mut state = self.shared.desk();
        let held = state.held.get_mut(room.index()).and_then(Option::take);
        if held.is_some_and(|bytes| bytes > 0) {
            self.shared.wake(state);
        }
    }

    fn barrier(&self, room: Room) -> Ticket {
        let mut state = self.shared.desk();
        if state.stopped.is_some() {
            return Ticket::lost(Lost { outcome: Outcome::Unknown });
        }
        state.desk.barrier(room)
    }

    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        self.shared.shelf.body(at)
    }

    fn bodies(&self, position: Position) -> Result<Vec<Bytes>, ReadError> {
        self.shared.shelf.bodies(position)
    }

    fn bodies_ahead(&self, position: Position, ahead: &mut Ahead) -> Result<Vec<Bytes>, ReadError> {
        self.shared.shelf.bodies_ahead(position, ahead)
    }

    fn trim(&self, room: Room, below: Position) {
        if let Some(low) = self.shared.floors.raise(room, below.0) {
            self.shared.shelf.trim(low);
            self.shared.ring().trim(low);
            self.shared.wanted.notify_one();
            self.shared.publish_space();
        }
    }

    fn durable(&self) -> Position {
        self.shared.shelf.durable()
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, DeskState> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the committer if it sleeps.
    fn wake(&self, mut state: MutexGuard<'_, DeskState>) {
        let wake = std::mem::take(&mut state.idle);
        drop(state);
        if wake {
            self.work.notify_one();
        }
    }

    fn publish_space(&self) {
        let ring = self.ring();
        let rest = self.rest.load(Ordering::Relaxed);
        self.gate.set_free(ring.free_bytes(rest), ring.fault());
    }
}

impl DeskState {
    /// Whether a room that has appended so many bytes has more to come.
    fn holds(&mut self, room: Room, bytes: u64) -> bool {
        let Some(Some(held)) = self.held.get_mut(room.index()) else { return false };
        *held = held.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX).max(1));
        *held < HELD_BYTES
    }
}

/// Keeps files ready ahead of the committer.
struct Supplier {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
}

impl Supplier {
    fn run(self) {
        let mut ring = self.shared.ring();
        while !ring.is_closed() {
            let Some(order) = ring.order() else {
                ring = self.shared.wanted.wait(ring).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(ring);
            let result = order.carry_out(&*self.disk);
            let failed = result.is_err();
            ring = self.shared.ring();
            ring.delivered(&order, result);
            drop(ring);
            self.shared.ready.notify_all();
            self.shared.publish_space();
            ring = self.shared.ring();
            if failed && !ring.is_closed() {
                let waited = self.shared.wanted.wait_timeout(ring, FAULT_PAUSE);
                ring = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

/// Writes rounds, one after the other.
struct Committer {
    shared: Arc<Shared>,
    writer: Writer,
    patience: Duration,
}

impl Committer {
    fn run(mut self, unsure: Option<Round>) {
        let mut next = unsure;
        while let Some(round) = next.take().or_else(|| self.wait_for_round()) {
            if let Err(fault) = self.make_durable(&round) {
                self.stop(fault);
                return;
            }
            self.announce(round);
        }
        let mark = self.shared.desk().desk.mark();
        self.writer.mark(mark);
        // Nothing acknowledged depends on this sync: it only makes the clean end visible.
        drop(self.writer.close());
    }

    fn wait_for_round(&mut self) -> Option<Round> {
        let mut state = self.shared.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let mut marked = false;
        loop {
            if let Some(round) = state.desk.form() {
                return Some(round);
            }
            if self.shared.closing.load(Ordering::Acquire) {
                return None;
            }
            if !marked {
                let mark = state.desk.mark();
                drop(state);
                self.writer.mark(mark);
                marked = true;
                state = self.shared.desk.lock().unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.idle = true;
            state = self.shared.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes a round, on fresh files if the disk fails it, until it is durable or patience ends.
    fn make_durable(&mut self, round: &Round) -> Result<(), Arc<io::Error>> {
        let mut failing: Option<(Instant, Arc<io::Error>)> = None;
        loop {
            let begun = clock();
            match self.writer.commit(round) {
                Ok(()) => {
                    self.shared.counters.count(round, begun.elapsed());
                    break;
                }
                Err(CommitFault::NeedsFile) => {}
                Err(CommitFault::Disk(fault)) => {
                    let fault = Arc::new(fault);
                    self.shared.counters.count_continuation();
                    self.shared.gate.set_poisoned(Some(Arc::clone(&fault)));
                    failing = Some((failing.map_or(begun, |(since, _)| since), fault));
                }
            }
            self.wait_for_file(failing.as_ref())?;
        }
        if failing.is_some() {
            self.shared.gate.set_poisoned(None);
        }
        Ok(())
    }

    fn wait_for_file(
        &self,
        failing: Option<&(Instant, Arc<io::Error>)>,
    ) -> Result<(), Arc<io::Error>> {
        let mut ring = self.shared.ring();
        self.shared.wanted.notify_one();
        while !ring.has_ready() {
            let Some((since, fault)) = failing else {
                let stuck = ring.is_exhausted() || ring.fault().is_some();
                if stuck && self.shared.closing.load(Ordering::Acquire) {
                    let words = "closed while the journal had no file to write to";
                    return Err(Arc::new(io::Error::new(io::ErrorKind::StorageFull, words)));
                }
                ring = self.shared.ready.wait(ring).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let Some(left) = self.patience.checked_sub(since.elapsed()) else {
                return Err(Arc::clone(fault));
            };
            let waited = self.shared.ready.wait_timeout(ring, left);
            ring = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        match failing {
            Some((since, fault)) if since.elapsed() > self.patience => Err(Arc::clone(fault)),
            _ => Ok(()),
        }
    }

    fn announce(&mut self, round: Round) {
        let shared = &self.shared;
        shared.floors.note(&round);
        let opened = shared.desk().desk.durable(&round);
        for record in &round.records {
            shared.gate.release(record.room, record.admitted);
        }
        let rest = self.writer.rest_bytes();
        if shared.rest.swap(rest, Ordering::Relaxed) < rest {
            // A file was taken: the next one can be made ready meanwhile.
            shared.wanted.notify_one();
        }
        shared.publish_space();
        round.fulfil();
        for (promise, committed) in opened {
            promise.fulfil(Ok(committed));
        }
    }

    /// Stops for good. Whoever waits for the round being written hears that nobody knows, when it
    /// is dropped.
    fn stop(&self, fault: Arc<io::Error>) {
        self.shared.gate.close();
        let mut state = self.shared.desk();
        state.stopped = Some(fault);
        state.desk.abandon();
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        if thread::panicking() {
            self.stop(Arc::new(io::Error::other("the committer panicked")));
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a sync took and how long a disk has failed"
)]
fn clock() -> Instant {
    Instant::now()
}
