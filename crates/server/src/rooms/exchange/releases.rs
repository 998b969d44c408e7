//! What waits to become durable before anybody hears of it, in the order it was decided.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use handoff_exchange::Action;
use handoff_log::journal::{Lost, Ticket};

use super::mailbox::{Asker, Done, Shown, Tell};
use crate::rooms::RoomError;

/// Decisions that may wait; above that the room takes no more questions.
const WAITING_MAX: usize = 64 << 10;

/// What is done once what it rests on is durable: first what others see, then the answer.
pub(super) struct Effect {
    pub(super) shown: Vec<Shown>,
    pub(super) actions: Vec<Action>,
    pub(super) then: Then,
    /// Bytes of bulk that it is about.
    pub(super) bulk: usize,
}

/// Who hears of it.
pub(super) enum Then {
    /// Nobody.
    Nothing,
    /// Whoever asked.
    Answer(Asker, Result<Done, RoomError>),
    /// Whoever looked.
    Tell(Tell),
    /// The folders: a file was taken in, or not.
    TakenIn(String, bool),
}

/// The queue.
#[derive(Default)]
pub(super) struct Releases {
    waiting: VecDeque<(Ticket, Effect)>,
    bulk: usize,
}

impl Releases {
    /// Puts an effect behind all others.
    pub(super) fn push(&mut self, ticket: Ticket, effect: Effect) {
        self.bulk = self.bulk.saturating_add(effect.bulk);
        self.waiting.push_back((ticket, effect));
    }

    /// The first effect, if what it rests on is durable, or never will be.
    pub(super) fn next(&mut self) -> Option<(Effect, Result<(), Lost>)> {
        let outcome = self.waiting.front()?.0.outcome()?.map(drop);
        let (_, effect) = self.waiting.pop_front()?;
        self.bulk = self.bulk.saturating_sub(effect.bulk);
        Some((effect, outcome))
    }

    /// Waits until the first effect can be released; for ever if there is none.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(super) async fn ready(&mut self) {
        poll_fn(|context| match self.waiting.front_mut() {
            None => Poll::Pending,
            Some((ticket, _)) => Pin::new(ticket).poll(context).map(drop),
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
