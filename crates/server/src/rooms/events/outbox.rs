//! What is on its way to one session, in the order it was released.
//!
//! Answers and notifications of a session share one line, so that no notification overtakes the
//! answer that ended its subscription. Notifications are bounded by their bytes; answers are bounded
//! by whoever asks, which knows what it has asked for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use handoff_events::SessionId;

use super::{Reply, RoomError, Told};

/// What a notification takes beside its frame: its place in the line.
const PLACE_BYTES: usize = size_of::<Item>();

/// Before a session has an id.
const NO_ID: u64 = u64::MAX;

/// A line that has become longer than this gives its memory back when it is empty.
const LINE_KEPT: usize = 64;

/// What comes out.
#[derive(Debug)]
pub(crate) enum Item {
    /// An occurrence.
    Told(Arc<Told>),
    /// The answer to the oldest question of the session that has none yet.
    Answer(Box<Result<Reply, RoomError>>),
}

/// Why nothing more will come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The session did not read.
    Slow,
    /// The room has stopped.
    Stopped,
}

impl Ended {
    pub(crate) fn is_slow(self) -> bool {
        self == Self::Slow
    }
}

/// The line. The room puts in, the session takes out.
#[derive(Debug)]
pub(crate) struct Outbox {
    id: AtomicU64,
    left: AtomicBool,
    bytes_max: usize,
    line: Mutex<Line>,
}

#[derive(Debug, Default)]
struct Line {
    items: VecDeque<Item>,
    /// Of notifications.
    bytes: usize,
    /// Whom to wake, and whether it waits to be.
    waker: Option<Waker>,
    waits: bool,
    ended: Option<Ended>,
}

impl Outbox {
    pub(super) fn new(bytes_max: usize) -> Arc<Self> {
        let id = AtomicU64::new(NO_ID);
        Arc::new(Self { id, left: AtomicBool::new(false), bytes_max, line: Mutex::default() })
    }

    /// The session's id, once the room has begun it.
    pub(super) fn id(&self) -> Option<SessionId> {
        let id = self.id.load(Ordering::Acquire);
        (id != NO_ID).then_some(SessionId(id))
    }

    pub(super) fn set_id(&self, SessionId(id): SessionId) {
        self.id.store(id, Ordering::Release);
    }

    /// The session has ended, perhaps before the room has begun it.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }

    /// Puts a notification in. False if there is no space for it: then the line is over, and what
    /// was in it is dropped.
    pub(super) fn tell(&self, told: &Arc<Told>) -> bool {
        let mut line = self.lock();
        if line.ended.is_some() {
            return true;
        }
        line.bytes += told.frame.len() + PLACE_BYTES;
        let fits = line.bytes <= self.bytes_max;
        if fits {
            line.items.push_back(Item::Told(Arc::clone(told)));
        } else {
            line.end(Ended::Slow);
        }
        wake(line);
        fits
    }

    /// Puts an answer in.
    pub(super) fn answer(&self, answer: Result<Reply, RoomError>) {
        let mut line = self.lock();
        if line.ended.is_none() {
            line.items.push_back(Item::Answer(Box::new(answer)));
        }
        wake(line);
    }

    /// Nothing more will come; what is in the line still does.
    pub(super) fn stop(&self) {
        let mut line = self.lock();
        line.ended.get_or_insert(Ended::Stopped);
        wake(line);
    }

    /// Takes the next item. `Err` when none will come any more.
    pub(crate) fn poll_next(&self, context: &Context<'_>) -> Poll<Result<Item, Ended>> {
        let mut line = self.lock();
        if let Some(item) = line.take() {
            return Poll::Ready(Ok(item));
        }
        if let Some(ended) = line.ended {
            return Poll::Ready(Err(ended));
        }
        line.waits = true;
        if !line.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            line.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn take(&mut self) -> Option<Item> {
        let item = self.items.pop_front();
        if let Some(Item::Told(told)) = &item {
            self.bytes -= told.frame.len() + PLACE_BYTES;
        }
        if self.items.is_empty() && self.items.capacity() > LINE_KEPT {
            self.items = VecDeque::new();
        }
        item
    }

    fn end(&mut self, ended: Ended) {
        self.items = VecDeque::new();
        self.bytes = 0;
        self.ended = Some(ended);
    }
}

/// A second item before the session has looked wakes nobody.
fn wake(mut line: MutexGuard<'_, Line>) {
    if std::mem::take(&mut line.waits)
        && let Some(waker) = &line.waker
    {
        waker.wake_by_ref();
    }
}
