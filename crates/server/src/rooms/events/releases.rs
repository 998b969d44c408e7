//! What waits to become durable before anybody hears of it, in the order it was decided.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;

use handoff_events::{Publication, SessionId};
use handoff_log::journal::{Lost, Ticket};

use super::mailbox::Asker;
use super::{Reply, RoomError, Told};

/// Effects that may wait; above that the room takes no more questions.
const WAITING_MAX: usize = 16 << 10;

/// Bytes of registrations and of notifications that may wait. Half of what the journal takes of a room by default: the
/// other half is for occurrences, which must never be the ones refused.
const BYTES_MAX: usize = 8 << 20;

/// Something that is done once what it rests on is durable.
#[derive(Debug)]
pub(super) enum Effect {
    /// Somebody is answered.
    Answer(Asker, Result<Reply, RoomError>),
    /// Occurrences are told.
    Tell(Vec<Tell>),
    /// Occurrences are handed over to their topics.
    Publish(Vec<Publication>),
}

/// An occurrence and who is told of it.
#[derive(Debug)]
pub(super) struct Tell {
    pub(super) told: Arc<Told>,
    pub(super) to: Vec<SessionId>,
}

#[derive(Debug)]
struct Waiting {
    /// None: it only has to keep its place.
    ticket: Option<Ticket>,
    effect: Effect,
    bytes: usize,
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Releases {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// The journal has stopped. What only kept its place rests on something that is lost.
    lost: Option<Lost>,
}

impl Releases {
    /// Puts an effect behind all others. `bytes` is what it weighs.
    pub(super) fn push(&mut self, ticket: Option<Ticket>, effect: Effect, bytes: usize) {
        self.bytes += bytes;
        self.waiting.push_back(Waiting { ticket, effect, bytes });
    }

    /// The first effect, if what it rests on is durable, or never will be.
    pub(super) fn next(&mut self) -> Option<(Effect, Result<(), Lost>)> {
        let outcome = match &self.waiting.front()?.ticket {
            None => self.lost.clone().map_or(Ok(()), Err),
            Some(ticket) => ticket.outcome()?.map(drop),
        };
        if let Err(lost) = &outcome {
            self.lost = Some(lost.clone());
        }
        let Waiting { effect, bytes, .. } = self.waiting.pop_front()?;
        self.bytes -= bytes;
        Some((effect, outcome))
    }

    /// Waits until the first effect can be released; for ever if there is none.
    ///
    /// # Cancel safety
    /// Takes nothing.
    pub(super) async fn ready(&mut self) {
        poll_fn(|context| match self.waiting.front_mut() {
            None => std::task::Poll::Pending,
            Some(Waiting { ticket: None, .. }) => std::task::Poll::Ready(()),
            Some(Waiting { ticket: Some(ticket), .. }) => Pin::new(ticket).poll(context).map(drop),
        })
        .await;
    }

    /// Whether so much waits that the room should take no more questions.
    pub(super) fn is_choked(&self) -> bool {
        self.waiting.len() >= WAITING_MAX || self.bytes >= BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}
