//! Waiting for durability, from a thread or from a task.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use handoff_types::{Outcome, Position, Sequence};

use super::error::Lost;

/// Where an entry ended up. It is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The entry's place, for its bodies and for checkpoints.
    pub position: Position,
    /// The entry's number in its room.
    pub sequence: Sequence,
}

/// The right to hear that an entry is durable.
///
/// It is a future and can also be waited for on a thread. Dropping it changes nothing: the entry
/// is written all the same.
///
/// # Cancel safety
/// Cancel safe; it may be polled again from another task.
#[derive(Debug)]
#[must_use = "an answer must not be given before the ticket says that what it reports is durable"]
pub struct Ticket {
    slot: Arc<Slot>,
}

impl Ticket {
    /// A ticket and the end that fulfils it.
    pub(crate) fn new() -> (Self, Promise) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Waiting(None)) });
        (Self { slot: Arc::clone(&slot) }, Promise { slot })
    }

    /// A ticket of a journal that has stopped.
    pub(crate) fn lost(lost: Lost) -> Self {
        Self { slot: Arc::new(Slot { state: Mutex::new(State::Done(Err(lost))) }) }
    }

    /// A ticket for what is durable already.
    pub(crate) fn fulfilled(committed: Committed) -> Self {
        Self { slot: Arc::new(Slot { state: Mutex::new(State::Done(Ok(committed))) }) }
    }

    /// A second look at the same entry, for whoever only asks and never waits.
    #[must_use]
    pub fn receipt(&self) -> Receipt {
        Receipt { slot: Arc::clone(&self.slot) }
    }

    /// What became of the entry, if that is known by now.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<Committed, Lost>> {
        self.slot.outcome()
    }

    /// Blocks the thread until the entry is durable.
    ///
    /// # Errors
    /// [`Lost`] when the journal stopped before that.
    pub fn wait(self) -> Result<Committed, Lost> {
        thread_local! {
            static UNPARK: RefCell<Waker> =
                RefCell::new(Waker::from(Arc::new(Unpark(thread::current()))));
        }
        UNPARK.with_borrow(|waker| {
            loop {
                if let Poll::Ready(result) = self.slot.poll(waker) {
                    return result;
                }
                thread::park();
            }
        })
    }
}

/// A look at what became of an entry.
#[derive(Clone, Debug)]
pub struct Receipt {
    slot: Arc<Slot>,
}

impl Receipt {
    /// What became of the entry, if that is known by now.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<Committed, Lost>> {
        self.slot.outcome()
    }
}

impl Future for Ticket {
    type Output = Result<Committed, Lost>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(context.waker())
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The other end of a ticket. Dropped unfulfilled, it says that nobody knows: no path, a panic
/// included, leaves a ticket waiting for ever.
#[derive(Debug)]
pub(crate) struct Promise {
    slot: Arc<Slot>,
}

impl Promise {
    /// Fulfils the ticket and wakes whoever waits for it.
    pub(crate) fn fulfil(self, result: Result<Committed, Lost>) {
        self.slot.fulfil(result);
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.slot.fulfil(Err(Lost { outcome: Outcome::Unknown }));
    }
}

#[derive(Debug)]
struct Slot {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Done(Result<Committed, Lost>),
}

impl Slot {
    /// The first outcome stays.
    fn fulfil(&self, result: Result<Committed, Lost>) {
        let mut state = self.lock();
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Done(result);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn outcome(&self) -> Option<Result<Committed, Lost>> {
        match &*self.lock() {
            State::Waiting(_) => None,
            State::Done(result) => Some(result.clone()),
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Committed, Lost>> {
        match &mut *self.lock() {
            State::Done(result) => Poll::Ready(result.clone()),
            State::Waiting(kept) => {
                if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
                    *kept = Some(waker.clone());
                }
                Poll::Pending
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_waits_is_woken_by_the_fulfilment() {
        let committed = Committed { position: Position(4096), sequence: Sequence(1) };
        let (ticket, promise) = Ticket::new();
        assert_eq!(ticket.outcome(), None);
        let waiting = thread::spawn(move || ticket.wait());
        promise.fulfil(Ok(committed));
        assert_eq!(waiting.join().unwrap(), Ok(committed));
    }

    #[test]
    fn a_promise_that_is_dropped_leaves_nobody_waiting() {
        let (ticket, promise) = Ticket::new();
        drop(promise);
        assert_eq!(ticket.wait(), Err(Lost { outcome: Outcome::Unknown }));
    }
}
