//! What a room, its mover and its readers know together of bodies on their way to segments.
//!
//! ```text
//!  expected ──durable──▶ moves ──copy──▶ moves, copied ──sync──▶ (in segments)
//!  body not readable     read from the journal                   read from segments
//! ```
//!
//! Whoever looks settles first: what has become durable is found from that moment on, whether or
//! not the room's task or the mover have come by. The lock is held for a few lines, never while
//! waiting for a disk.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handoff_log::journal::{BodyAt, Journal, Receipt};
use handoff_log::segments::{Lane, Move, Segments};
use handoff_types::{Sequence, Wall};

use crate::patience::{BYTES_AT_ONCE, Patience};
use crate::persist::Frame;
use crate::records::Records;

/// What is handed to the mover at once, give or take an entry: it writes a lane's frames in one go.
const MOVES_AT_ONCE: usize = 4096;

/// How many places a reader is given at once.
const PLACES_AT_ONCE: usize = 256;

/// How many moves are struck off under one hold of the lock.
const STRUCK_AT_ONCE: usize = 1024;

pub(crate) fn move_of(frame: Frame, body: BodyAt) -> Move {
    let Frame { lane, base, count, max_timestamp } = frame;
    Move { lane, base, count, max_timestamp, body: (body.position, body.index) }
}

/// The books, and the bell that says that something is in them.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) records: Records,
    books: Mutex<Books>,
    bell: Condvar,
    /// Nothing is moved any more.
    closing: Arc<AtomicBool>,
}

#[derive(Debug)]
pub(crate) struct Books {
    /// Another after a failed sync.
    segments: Arc<Segments>,
    /// Appended, not known to be durable.
    expected: VecDeque<Expected>,
    /// Durable in the journal, not known to be in segments; those of an entry side by side.
    moves: VecDeque<Queued>,
    /// How many of `moves` were copied.
    copied: usize,
    /// How many were copied ever.
    copied_ever: u64,
    /// Where the bodies of `moves` are, by lane, in the order of their offsets.
    lanes: HashMap<Lane, VecDeque<Place>>,
    /// Lanes whose files are to be removed.
    doomed: Vec<Lane>,
    /// Lanes that were removed while something was on its way to them, and the last record that
    /// may have been. What they have in `expected` and `moves` is void.
    gone: HashSet<Lane>,
    gone_through: Sequence,
    /// Somebody waits until segments have this.
    asked: Sequence,
    /// Somebody met segments that refuse changes.
    suspect: bool,
    /// Whoever files bodies has something else to do.
    hailed: bool,
    /// And is not done with it.
    busy: bool,
    /// Bytes of bodies, as far as they are known.
    expected_bytes: u64,
    unmoved_bytes: u64,
    unsynced_bytes: u64,
    /// How many bodies are expected.
    expected_bodies: usize,
    patience: Patience,
}

#[derive(Debug)]
struct Expected {
    sequence: Sequence,
    receipt: Receipt,
    /// With the bytes of their bodies.
    frames: Vec<(Frame, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    sequence: Sequence,
    bytes: u32,
    moved: Move,
}

/// Where a body is in the journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) base: u64,
    pub(crate) count: u32,
    pub(crate) max_timestamp: Wall,
    pub(crate) at: BodyAt,
    /// The largest timestamp of this one and of those before it.
    max_so_far: Wall,
}

impl Place {
    pub(crate) const fn end(&self) -> u64 {
        self.base.saturating_add(self.count as u64)
    }
}

/// Where an offset is to be looked for.
#[derive(Debug)]
pub(crate) enum Found {
    /// In the journal, and so are those after it.
    Journal(Vec<Place>),
    /// In segments, if anywhere. They are good for offsets below `until`, or all if there is none.
    Segments { segments: Arc<Segments>, until: Option<u64> },
    /// Nowhere yet.
    End { end: u64 },
    /// The journal lost the record that had it.
    Hole { from: u64, to: u64 },
}

/// Why a mover that waited was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// It is to end.
    Closing,
    /// Somebody waits for what is durable by now to be in segments.
    Asked,
    /// There is enough to be worth a copy.
    Enough,
    /// Time passed, and there is something.
    Tick,
}

/// A piece of work for the mover.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) moves: Vec<Move>,
    /// The record of each move.
    pub(crate) sequences: Vec<Sequence>,
    /// For each move, how many of the queue come before it.
    before: Vec<usize>,
    /// How many of the queue all of them are, void ones included.
    whole: usize,
    /// There was more than was to be taken at once.
    pub(crate) more: bool,
}

impl Batch {
    pub(crate) fn is_empty(&self) -> bool {
        self.whole == 0
    }

    /// How many of the queue are done when so many moves are.
    pub(crate) fn through(&self, done: usize) -> usize {
        self.before.get(done).copied().unwrap_or(self.whole)
    }
}

/// What segments do not have for sure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnTheWay {
    pub(crate) bytes: u64,
    pub(crate) bodies: usize,
    /// Of those, how many were not even copied.
    pub(crate) uncopied: usize,
    /// How many were copied so far, each time counted.
    pub(crate) copied_ever: u64,
}

/// What was copied and not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsynced {
    /// How many bodies.
    pub bodies: usize,
    /// Their bytes. Those that an earlier process took in count as none.
    pub bytes: u64,
}

impl Shared {
    pub(crate) fn new(journal: Arc<dyn Journal>, segments: Arc<Segments>) -> Self {
        let books = Books {
            segments,
            expected: VecDeque::new(),
            moves: VecDeque::new(),
            copied: 0,
            copied_ever: 0,
            lanes: HashMap::new(),
            doomed: Vec::new(),
            gone: HashSet::new(),
            gone_through: Sequence::NONE,
            asked: Sequence::NONE,
            suspect: false,
            hailed: false,
            busy: false,
            expected_bytes: 0,
            unmoved_bytes: 0,
            unsynced_bytes: 0,
            expected_bodies: 0,
            patience: Patience::NONE,
        };
        let records = Records::new(Arc::clone(&journal));
        Self {
            journal,
            records,
            books: Mutex::new(books),
            bell: Condvar::new(),
            closing: Arc::default(),
        }
    }

    /// Takes the moves of an entry that is durable.
    pub(crate) fn durable(&self, sequence: Sequence, moves: Vec<Move>) {
        let mut books = self.lock();
        for moved in moves {
            books.queue(sequence, moved, 0);
        }
    }

    /// Notes the frames of an entry that was just appended, and the bytes of each.
    pub(crate) fn expect(&self, sequence: Sequence, receipt: Receipt, frames: Vec<(Frame, u32)>) {
        let mut books = self.lock();
        let rests = books.is_idle();
        let bytes = frames.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>();
        books.expected_bytes += bytes;
        books.patience.arrive(bytes);
        books.expected_bodies += frames.len();
        books.expected.push_back(Expected { sequence, receipt, frames });
        let ring = rests || books.patience.is_enough(books.expected_bytes + books.unmoved_bytes);
        drop(books);
        if ring {
            self.bell.notify_all();
        }
    }

    pub(crate) fn segments(&self) -> Arc<Segments> {
        Arc::clone(&self.lock().segments)
    }

    pub(crate) fn is_current(&self, segments: &Arc<Segments>) -> bool {
        Arc::ptr_eq(&self.lock().segments, segments)
    }

    /// The last record with a body on its way.
    pub(crate) fn last(&self) -> Option<Sequence> {
        self.lock().last()
    }

    /// Whether segments durably have every body up to a record of the room.
    pub(crate) fn has(&self, through: Sequence) -> bool {
        self.lock().has(through)
    }

    /// Asks the mover to make it so.
    pub(crate) fn ask(&self, through: Sequence) {
        let mut books = self.lock();
        books.asked = books.asked.max(through);
        drop(books);
        self.bell.notify_all();
    }

    /// Says that the segments refuse changes.
    pub(crate) fn suspect(&self) {
        self.lock().suspect = true;
        self.bell.notify_all();
    }

    /// Ends the waiting of whoever files bodies.
    pub(crate) fn hail(&self) {
        self.lock().hailed = true;
        self.bell.notify_all();
    }

    /// Whether whoever files bodies has something to come back to, though no body waits.
    pub(crate) fn busy(&self, busy: bool) {
        self.lock().busy = busy;
    }

    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
        // The lock orders the flag before the mover's next look at it.
        drop(self.lock());
        self.bell.notify_all();
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// What is set when nothing is to be moved any more.
    pub(crate) fn closing(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closing)
    }

    /// Gives up everything of some lanes. Their files are removed by the mover, which may be
    /// writing to them at this moment.
    pub(crate) fn remove(&self, lanes: &[Lane]) {
        let mut books = self.lock();
        for lane in lanes {
            books.lanes.remove(lane);
        }
        if let Some(last) = books.last() {
            books.gone.extend(lanes);
            books.gone_through = last;
        }
        books.doomed.extend_from_slice(lanes);
        drop(books);
        self.bell.notify_all();
    }

    /// The lanes whose files are to be removed.
    pub(crate) fn take_doomed(&self) -> Vec<Lane> {
        std::mem::take(&mut self.lock().doomed)
    }

    pub(crate) fn doom(&self, lanes: impl IntoIterator<Item = Lane>) {
        self.lock().doomed.extend(lanes);
    }

    /// The place of a frame, if it is durable and not in segments for sure; the second says
    /// whether it was appended and is not known to be durable.
    pub(crate) fn place(&self, wanted: Frame) -> (Option<BodyAt>, bool) {
        let mut books = self.lock();
        books.settle();
        let places = books.lanes.get(&wanted.lane);
        let place = places.and_then(|places| {
            let at = places.binary_search_by_key(&wanted.base, |place| place.base).ok()?;
            places.get(at).map(|place| place.at)
        });
        let frames = books.expected.iter().flat_map(|expected| &expected.frames);
        let awaited = place.is_none() && frames.into_iter().any(|(frame, _)| *frame == wanted);
        (place, awaited)
    }

    /// Where an offset is.
    pub(crate) fn find(&self, lane: Lane, offset: u64) -> Found {
        let mut books = self.lock();
        books.settle();
        let until = books.until(lane);
        let Some(places) = books.lanes.get(&lane).filter(|_| until.is_some_and(|u| offset >= u))
        else {
            return Found::Segments { segments: Arc::clone(&books.segments), until };
        };
        let after = places.partition_point(|place| place.base <= offset);
        let end = after.checked_sub(1).and_then(|at| places.get(at)).map_or(0, Place::end);
        match places.get(after) {
            _ if offset < end => {
                let from = places.range(after.saturating_sub(1)..);
                Found::Journal(from.take(PLACES_AT_ONCE).copied().collect())
            }
            Some(next) => Found::Hole { from: end, to: next.base },
            None => Found::End { end },
        }
    }

    /// The segments and the offset up to which they are good, and the first frame above it with a
    /// timestamp at or after this one.
    pub(crate) fn find_time(
        &self,
        lane: Lane,
        time: Wall,
    ) -> (Arc<Segments>, Option<u64>, Option<u64>) {
        let mut books = self.lock();
        books.settle();
        let found = books.lanes.get(&lane).and_then(|places| {
            let from = places.partition_point(|place| place.max_so_far < time);
            // Those that have left count in `max_so_far`, so it may be some too early.
            places.range(from..).find(|place| place.max_timestamp >= time).map(|place| place.base)
        });
        (Arc::clone(&books.segments), books.until(lane), found)
    }

    /// Moves what has become durable from expected to the mover's queue.
    pub(crate) fn settle(&self) {
        self.lock().settle();
    }

    /// The next piece of work: the moves of so many entries, but not too many at once.
    pub(crate) fn next_batch(&self, entries_max: usize) -> Batch {
        self.lock().next_batch(entries_max)
    }

    /// Notes that so many more of the queue were made or left out. Gives how many entries that
    /// completed.
    pub(crate) fn made(&self, count: usize) -> usize {
        let mut books = self.lock();
        let mut entries = 0;
        for _ in 0..count {
            let Some(queued) = books.moves.get(books.copied).copied() else { break };
            books.copied += 1;
            books.copied_ever += 1;
            books.unmoved_bytes -= u64::from(queued.bytes);
            books.unsynced_bytes += u64::from(queued.bytes);
            let next = books.moves.get(books.copied).map(|next| next.sequence);
            entries += usize::from(next != Some(queued.sequence));
        }
        entries
    }

    /// How far bodies are on their way.
    pub(crate) fn on_the_way(&self) -> OnTheWay {
        let books = self.lock();
        let bodies = books.moves.len() + books.expected_bodies;
        OnTheWay {
            bytes: books.expected_bytes + books.unmoved_bytes + books.unsynced_bytes,
            bodies,
            uncopied: bodies - books.copied,
            copied_ever: books.copied_ever,
        }
    }

    /// The first offset that is durable, of a record after this one, and that was not copied.
    pub(crate) fn unmoved_after(&self, record: Sequence) -> Option<u64> {
        let mut books = self.lock();
        books.settle();
        let after = books.moves.partition_point(|queued| queued.sequence <= record);
        books.moves.get(after.max(books.copied)).map(|queued| queued.moved.base)
    }

    /// Bytes of bodies that segments do not have for sure.
    pub(crate) fn backlog(&self) -> u64 {
        let books = self.lock();
        books.expected_bytes + books.unmoved_bytes + books.unsynced_bytes
    }

    pub(crate) fn unsynced(&self) -> Unsynced {
        let books = self.lock();
        Unsynced { bodies: books.copied, bytes: books.unsynced_bytes }
    }

    /// The first so many of the queue are in segments, durably. The journal is not needed for them.
    pub(crate) fn synced(&self, mut count: usize) {
        while count > 0 {
            let now = count.min(STRUCK_AT_ONCE);
            self.lock().strike(now);
            count -= now;
        }
    }

    /// Nobody knows what the segments hold since the last sync: all of it is to be moved again,
    /// into these.
    pub(crate) fn move_again(&self, segments: Arc<Segments>) {
        let mut books = self.lock();
        books.segments = segments;
        books.suspect = false;
        books.again();
    }

    /// Nobody knows what the files hold since the last sync: all of them are to be written again.
    /// Gives the last record among them.
    pub(crate) fn file_again(&self) -> Sequence {
        let mut books = self.lock();
        let last = books.copied.checked_sub(1).and_then(|last| books.moves.get(last));
        let last = last.map_or(Sequence::NONE, |queued| queued.sequence);
        books.again();
        last
    }

    /// From now on copies wait for so many bytes while there is a flood of them.
    pub(crate) fn be_patient(&self, bytes: u64) {
        self.lock().patience.grow(bytes);
    }

    /// Waits until there is something for the mover to do: enough of it, or `tick` has passed, and
    /// not because of a flood.
    pub(crate) fn wait(&self, tick: Duration) -> Called {
        let mut books = self.lock();
        loop {
            if let Some(called) = self.call(&mut books) {
                return called;
            }
            if books.is_idle() {
                books = self.bell.wait(books).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let tide = books.patience.tide();
            let waited = self.bell.wait_timeout(books, tick);
            let (again, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            books = again;
            if timeout.timed_out() && !books.patience.is_flooded_since(tide) {
                return self.call(&mut books).unwrap_or(Called::Tick);
            }
        }
    }

    /// Lets time pass; whether to go on.
    pub(crate) fn rest(&self, pause: Duration) -> bool {
        let on = |_: &mut Books| !self.is_closing();
        drop(self.bell.wait_timeout_while(self.lock(), pause, on));
        !self.is_closing()
    }

    fn call(&self, books: &mut Books) -> Option<Called> {
        if self.is_closing() { Some(Called::Closing) } else { books.call() }
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn has(&self, through: Sequence) -> bool {
        let moves = self.moves.front().map(|queued| queued.sequence);
        let expected = self.expected.front().map(|expected| expected.sequence);
        [moves, expected].into_iter().flatten().all(|sequence| sequence > through)
    }

    fn again(&mut self) {
        self.copied = 0;
        self.unmoved_bytes += self.unsynced_bytes;
        self.unsynced_bytes = 0;
    }

    /// The last record with something on its way.
    fn last(&self) -> Option<Sequence> {
        let moves = self.moves.back().map(|queued| queued.sequence);
        self.expected.back().map(|expected| expected.sequence).or(moves)
    }

    /// The offset from which on a lane's bodies are read from the journal.
    fn until(&self, lane: Lane) -> Option<u64> {
        self.lanes.get(&lane)?.front().map(|place| place.base)
    }

    fn is_idle(&self) -> bool {
        let nothing = self.expected.is_empty() && self.moves.is_empty() && self.doomed.is_empty();
        nothing && !self.busy
    }

    fn call(&mut self) -> Option<Called> {
        self.settle();
        if std::mem::take(&mut self.suspect) || !self.moves.is_empty() && !self.has(self.asked) {
            return Some(Called::Asked);
        }
        let unmoved = self.moves.len() - self.copied;
        let enough = unmoved >= MOVES_AT_ONCE || self.patience.is_enough(self.unmoved_bytes);
        let hailed = std::mem::take(&mut self.hailed);
        (enough || hailed || !self.doomed.is_empty()).then_some(Called::Enough)
    }

    fn settle(&mut self) {
        while let Some(expected) = self.expected.front()
            && let Some(Ok(committed)) = expected.receipt.outcome()
        {
            let Some(Expected { sequence, frames, .. }) = self.expected.pop_front() else { break };
            self.expected_bodies -= frames.len();
            for (index, (frame, bytes)) in (0..).zip(frames) {
                let at = BodyAt { position: committed.position, index };
                self.expected_bytes -= u64::from(bytes);
                self.queue(sequence, move_of(frame, at), bytes);
            }
        }
    }

    fn queue(&mut self, sequence: Sequence, moved: Move, bytes: u32) {
        let Move { lane, base, count, max_timestamp, body: (position, index) } = moved;
        if !self.gone.contains(&lane) {
            let places = self.lanes.entry(lane).or_default();
            let before = places.back().map_or(max_timestamp, |place| place.max_so_far);
            let max_so_far = before.max(max_timestamp);
            let at = BodyAt { position, index };
            places.push_back(Place { base, count, max_timestamp, at, max_so_far });
        }
        self.moves.push_back(Queued { sequence, bytes, moved });
        self.unmoved_bytes += u64::from(bytes);
    }

    fn next_batch(&self, entries_max: usize) -> Batch {
        let mut batch = Batch::default();
        let (mut entries, mut bytes) = (0, 0);
        let mut last = None;
        for queued in self.moves.range(self.copied..) {
            if last != Some(queued.sequence) {
                let full = batch.moves.len() >= MOVES_AT_ONCE || bytes >= BYTES_AT_ONCE;
                if entries == entries_max || full {
                    batch.more = true;
                    break;
                }
                entries += 1;
                last = Some(queued.sequence);
            }
            if !self.gone.contains(&queued.moved.lane) {
                batch.moves.push(queued.moved);
                batch.sequences.push(queued.sequence);
                batch.before.push(batch.whole);
            }
            batch.whole += 1;
            bytes += u64::from(queued.bytes);
        }
        batch
    }

    fn strike(&mut self, count: usize) {
        for queued in self.moves.drain(..count.min(self.moves.len())) {
            self.copied -= 1;
            self.unsynced_bytes -= u64::from(queued.bytes);
            let Move { lane, base, .. } = queued.moved;
            let Some(places) = self.lanes.get_mut(&lane) else { continue };
            while places.pop_front_if(|place| place.base <= base).is_some() {}
            if places.is_empty() {
                self.lanes.remove(&lane);
            }
        }
        // After a start there may have been a million of them.
        if self.moves.capacity() / 4 > self.moves.len().max(MOVES_AT_ONCE) {
            self.moves.shrink_to(self.moves.len() * 2);
        }
        if !self.gone.is_empty() && self.has(self.gone_through) {
            self.gone = HashSet::new();
        }
    }
}
