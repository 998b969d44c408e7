//! What waits to become durable before anybody hears of it, in the order it was decided.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use handoff_log::journal::{Lost, Ticket};

/// Decisions that may wait; above that the room takes no more questions.
const WAITING_MAX: usize = 64 << 10;

/// The queue of a room whose effects are of this kind. What the journal has of bytes it bounds itself.
#[derive(Debug)]
pub(super) struct Releases<E> {
    waiting: VecDeque<Waiting<E>>,
    bulk: usize,
}

#[derive(Debug)]
struct Waiting<E> {
    ticket: Ticket,
    effect: E,
    bulk: usize,
}

impl<E> Default for Releases<E> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), bulk: 0 }
    }
}

impl<E> Releases<E> {
    /// Puts an effect behind all others.
    pub(super) fn push(&mut self, ticket: Ticket, effect: E) {
        self.push_bulk(ticket, effect, 0);
    }

    /// The same for one that is about so many bytes of bulk.
    pub(super) fn push_bulk(&mut self, ticket: Ticket, effect: E, bulk: usize) {
        self.bulk = self.bulk.saturating_add(bulk);
        self.waiting.push_back(Waiting { ticket, effect, bulk });
    }

    /// The first effect, if what it rests on is durable, or never will be.
    pub(super) fn next(&mut self) -> Option<(E, Result<(), Lost>)> {
        let outcome = self.waiting.front()?.ticket.outcome()?.map(drop);
        let Waiting { effect, bulk, .. } = self.waiting.pop_front()?;
        self.bulk = self.bulk.saturating_sub(bulk);
        Some((effect, outcome))
    }

    /// Waits until the first effect can be released; for ever if there is none.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(super) async fn ready(&mut self) {
        poll_fn(|context| match self.waiting.front_mut() {
            None => Poll::Pending,
            Some(first) => Pin::new(&mut first.ticket).poll(context).map(drop),
        })
        .await;
    }

    /// Whether so much waits that the room should take no more questions.
    pub(super) fn is_choked(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Bytes of bulk that are not durable yet.
    pub(super) fn bulk(&self) -> usize {
        self.bulk
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
