//! The calls room at work.
//!
//! # Constraints
//! * One task owns the state. It decides, appends, and goes on deciding while the disk works.
//! * What rests on something durable leaves when that is durable, in the order of the decisions: first
//!   what clients are told, then whoever asked is answered. What a crash may take (that a consumer
//!   accepted, that a way is alive, calls that live in memory) leaves at once.
//! * A client that does not take what it is told loses its connection; nobody waits for it.
//!
//! ```text
//!  frames, HTTP ──▶ mailboxes ──▶ decide, append ──▶ releases ──durable──▶ lines ──▶ connections
//!                                  ▲ time               └── at once ──────▶   └────▶ whoever waits
//! ```

mod lines;
mod mailbox;
#[cfg(test)]
mod opening;
mod task;
mod views;
mod waits;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use handoff_calls::{Ask, CallId, ChannelName, ChannelSettings, ClientId, NewCall, Reply, State};
use handoff_log::journal::Lost;
use handoff_types::{Now, Outcome};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

pub(crate) use self::lines::{Ended, Line, Told, weight};
pub(crate) use self::mailbox::Sayings;
use self::mailbox::{Asker, Question, Shared, is_new};
pub use self::task::Parts;
pub use self::views::Stats;
pub(crate) use self::views::{CallView, ChannelView};
pub(crate) use self::waits::Wait;
use super::RoomError;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::settings;

/// A way to the room. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallsRoom {
    mailbox: mpsc::Sender<Question>,
    /// For what is new, so that nothing else waits behind it.
    news: mpsc::Sender<Question>,
    shared: Arc<Shared>,
    clock: Clock,
    dice: Dice,
}

impl CallsRoom {
    /// Makes a call, and gives the one whose end is the answer.
    pub(crate) async fn request(&self, new: NewCall) -> Result<CallId, RoomError> {
        match self.ask(Ask::Request(Box::new(new))).await? {
            Reply::Registered { call, .. } => Ok(call),
            other => Err(unexpected(&other)),
        }
    }

    /// Cancels a call that is not over.
    pub(crate) async fn cancel(&self, call: CallId) -> Result<(), RoomError> {
        self.ask(Ask::Cancel { call, by: None }).await.map(drop)
    }

    /// Calls a dead letter again, and gives the call it is now.
    pub(crate) async fn requeue(&self, call: CallId) -> Result<CallId, RoomError> {
        match self.ask(Ask::Requeue { call }).await? {
            Reply::Requeued(call) => Ok(call),
            other => Err(unexpected(&other)),
        }
    }

    /// Drops dead letters of a channel, or one of them, and says how many.
    pub(crate) async fn purge(
        &self,
        channel: &ChannelName,
        only: Option<CallId>,
    ) -> Result<u64, RoomError> {
        let mut all = 0;
        loop {
            match self.ask(Ask::Purge { channel: channel.clone(), only }).await? {
                Reply::Purged { many, more } => {
                    all += many;
                    if !more {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Describes a channel.
    pub(crate) async fn set_channel(
        &self,
        channel: ChannelName,
        settings: ChannelSettings,
    ) -> Result<(), RoomError> {
        self.ask(Ask::SetChannel { channel, settings }).await.map(drop)
    }

    /// A channel is as nobody described it.
    pub(crate) async fn unset_channel(&self, channel: ChannelName) -> Result<(), RoomError> {
        self.ask(Ask::UnsetChannel { channel }).await.map(drop)
    }

    /// Looks at the state, once all of it is durable.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&State, Now) -> T + Send + 'static,
    ) -> Result<T, RoomError> {
        let (to, seen) = oneshot::channel();
        let question = Question::Look(Box::new(move |state, now| {
            let found = look(state, now);
            Box::new(move |outcome| drop(to.send(outcome.map(|()| found))))
        }));
        self.mailbox.send(question).await.map_err(|_| stopping())?;
        seen.await.map_err(|_| stopping())?
    }

    /// The same at once, durable or not: somebody may be looking because the disk does not answer.
    pub(crate) async fn glance<T: Send + 'static>(
        &self,
        look: impl FnOnce(&State, Now) -> T + Send + 'static,
    ) -> Result<T, RoomError> {
        let (to, seen) = oneshot::channel();
        let question = Question::Glance(Box::new(move |state, now| {
            drop(to.send(look(state, now)));
            Box::new(|_| {})
        }));
        self.mailbox.send(question).await.map_err(|_| stopping())?;
        seen.await.map_err(|_| stopping())
    }

    /// Waits for the end of a call from now on, unless as many wait as may.
    pub(crate) fn wait(&self, call: CallId) -> Wait {
        self.shared.waits.hang(call)
    }

    /// A place among those who wait; none if as many wait as may.
    pub(crate) fn place_to_wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.shared.waiting).try_acquire_owned().ok()
    }

    /// A place among those who are connected; none if as many are as may be.
    pub(crate) fn place_to_connect(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.shared.connections).try_acquire_owned().ok()
    }

    /// A client has connected. False if the client is somebody else, who is connected.
    pub(crate) fn connect(&self, client: ClientId, line: &Arc<Line>) -> bool {
        self.shared.lines.put(client, line)
    }

    /// A client introduces itself. The room knows it when this answers, so that whatever it says next
    /// finds it known, by whichever mailbox that comes.
    pub(crate) async fn introduce(&self, init: Ask) -> Result<(), RoomError> {
        self.ask(init).await.map(drop)
    }

    /// What a client says. What comes of it, its line tells. Gives the calls that were refused because the
    /// room is too busy for something new, and why.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Dropped, it may have been said all the same.
    pub(crate) async fn say(
        &self,
        client: ClientId,
        said: &mut Sayings,
    ) -> Result<Vec<(CallId, RoomError)>, RoomError> {
        let mut refused = Vec::new();
        let in_line = std::mem::take(&mut said.in_line);
        if !in_line.is_empty() {
            // Whoever waited here with a new call could not say that it is alive meanwhile.
            if let Err(back) = self.news.try_send(Question::Said(client, in_line)) {
                let TrySendError::Full(Question::Said(_, back)) = back else {
                    return Err(stopping());
                };
                let (new, rest): (Vec<_>, Vec<_>) =
                    back.into_iter().partition(|(_, ask)| is_new(ask));
                let calls = new.into_iter().filter_map(|(call, _)| call);
                refused.extend(calls.map(|call| (call, RoomError::CallsBusy)));
                if !rest.is_empty() {
                    let rest = Question::Said(client, rest);
                    self.news.send(rest).await.map_err(|_| stopping())?;
                }
            }
        }
        let others = std::mem::take(&mut said.others);
        if !others.is_empty() {
            let others = Question::Said(client, others);
            self.mailbox.send(others).await.map_err(|_| stopping())?;
        }
        Ok(refused)
    }

    /// The connection of a client is gone.
    pub(crate) async fn disconnect(&self, client: ClientId, line: &Arc<Line>) {
        if self.shared.lines.remove(client, line) {
            let question = Question::Do(Box::new(Ask::Away { client }), Asker::Nobody);
            // A room that is gone knows nobody.
            drop(self.mailbox.send(question).await);
        }
    }

    /// A call id of chance.
    pub(crate) fn new_id(&self) -> CallId {
        CallId::of_chance(self.dice.roll().0)
    }

    /// What the room looks like at this moment, durable or not.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn stats(&self) -> Result<Stats, RoomError> {
        let late = self.shared.late.load(Ordering::Relaxed);
        self.glance(move |state, _| Stats::of(state, late)).await
    }

    /// Changes what can be changed while the room works.
    pub fn set_settings(&self, settings: settings::Calls) {
        self.shared.set_settings(settings);
    }

    /// The server is about to stop: whoever waits for space in the ring is refused now.
    pub fn refuse_to_wait(&self) {
        self.shared.hurried.store(true, Ordering::Release);
        self.shared.bell.notify_one();
    }

    pub(crate) fn settings(&self) -> Arc<settings::Calls> {
        self.shared.settings()
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Now {
        self.clock.now()
    }

    async fn ask(&self, ask: Ask) -> Result<Reply, RoomError> {
        let (to, answer) = oneshot::channel();
        let mailbox = if is_new(&ask) { &self.news } else { &self.mailbox };
        let question = Question::Do(Box::new(ask), Asker::Waiting(to));
        mailbox.send(question).await.map_err(|_| stopping())?;
        // The room took it and is gone: it may have been done.
        answer.await.map_err(|_| RoomError::Lost(Lost { outcome: Outcome::Unknown }))?
    }
}

fn stopping() -> RoomError {
    RoomError::Closed("the server is stopping".to_owned())
}

/// The room answers each question with its own kind of answer; anything else is a mistake here.
fn unexpected(reply: &Reply) -> RoomError {
    debug_assert!(false, "the room answered {reply:?}");
    RoomError::Closed("the room answered something else than was asked".to_owned())
}
