//! The events room at work.
//!
//! # Constraints
//! * One task owns the state, the sessions and their lines; everybody else asks.
//! * Everything that answers or tells waits in one queue until what it rests on is durable, and
//!   leaves it in the order it was decided: answers, refusals, what was read, notifications.
//! * Who is told of an occurrence is looked up when it is decided.
//! * A session that does not take its notifications is ended; nobody waits for it.
//!
//! ```text
//!  asks ──▶ mailbox ──▶ decide, append ──▶ releases (ticket, effect) ──durable──▶ lines ──▶ sessions
//!                        ▲ ticks                                        └────────▶ whoever waits
//! ```

mod held;
mod mailbox;
mod outbox;
mod publishing;
mod releases;
mod task;

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use bytes::Bytes;
use handoff_events::{
    EventView, Filter, Id, LetterView, Letters, Notification, Registered, Registration, Selection,
    Totals,
};
use handoff_log::journal::Lost;
use handoff_types::{Outcome, Sight};
use tokio::sync::{mpsc, oneshot};

use self::mailbox::{Ask, Asker, Shared, stopping};
pub(crate) use self::mailbox::{Listing, Pipe, Question, Reply};
use self::outbox::Ended;
pub(crate) use self::outbox::Item;
use self::outbox::Outbox;
pub use self::task::Parts;
use super::RoomError;
use crate::settings;

/// How many ids one deletion names at once; more are asked for one after the other.
pub(crate) const SELECTION_PIECE: usize = 1024;

/// A way to the room. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventsRoom {
    mailbox: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
}

/// An occurrence on its way to sessions. Shared by all of them.
#[derive(Debug)]
pub struct Told {
    /// What happened.
    pub notification: Notification,
    /// The same as a sevent Notify message, size included.
    pub frame: Bytes,
}

/// What the room looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events there are.
    pub events: u64,
    /// Sessions there are, server-sent ones included.
    pub sessions: u64,
    /// Late occurrences held for whoever subscribes soon.
    pub held: u64,
    /// Occurrences that wait for their topics.
    pub publish_waiting: u64,
    /// Dead letters there are.
    pub dead_letters: u64,
    /// Since the data directory was made.
    pub totals: Totals,
    /// Sessions closed because they did not read, since start.
    pub slow_sessions: u64,
}

impl EventsRoom {
    /// Registers an event. Durable when it answers.
    ///
    /// # Errors
    /// [`RoomError`]; nothing changed, except that nobody knows after [`RoomError::Lost`].
    ///
    /// # Cancel safety
    /// Dropped, the event may be registered all the same.
    pub async fn register(
        &self,
        registration: Registration,
        sight: Sight,
    ) -> Result<Registered, RoomError> {
        match self.ask(Question::Register(registration, sight), None).await? {
            Reply::Registered(registered) => Ok(registered),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes what is selected, there and in sight, and gives which that were, ascending.
    ///
    /// Many are deleted one piece after the other, and each piece stays deleted if a later one
    /// fails.
    ///
    /// # Errors
    /// As [`Self::register`].
    ///
    /// # Cancel safety
    /// Dropped, some of it may be deleted all the same.
    pub async fn delete(&self, selection: Selection, sight: Sight) -> Result<Vec<Id>, RoomError> {
        let mut deleted = Vec::new();
        for piece in pieces(selection) {
            loop {
                let question = Question::Delete(piece.clone(), sight.clone());
                match self.ask(question, None).await? {
                    Reply::Deleted { ids, more } => {
                        deleted.extend(ids);
                        if !more {
                            break;
                        }
                    }
                    other => return Err(unexpected(&other)),
                }
            }
        }
        deleted.sort_unstable();
        Ok(deleted)
    }

    /// Ids in sight, ascending, from an id on. `types` none: all.
    ///
    /// A list too long to be made in one go is made in pieces while the room works: it has every
    /// event that was there from the first piece to the last, and none that came meanwhile.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn list(
        &self,
        types: Option<Vec<String>>,
        sight: Sight,
        from: Id,
        limit: usize,
    ) -> Result<Vec<Id>, RoomError> {
        let mut listing = Listing { types: types.map(Arc::from), sight, from, limit };
        let mut listed: Vec<Id> = Vec::new();
        let mut first_new = None;
        while listing.limit > 0 {
            let Reply::Ids { ids, next, new } =
                self.ask(Question::List(listing.clone()), None).await?
            else {
                return Err(RoomError::Closed("the room answered something else".to_owned()));
            };
            let bound = *first_new.get_or_insert(new);
            listed.extend(ids.into_iter().filter(|id| bound.is_none_or(|bound| *id < bound)));
            listing.limit = limit.saturating_sub(listed.len());
            match next {
                Some(next) if bound.is_none_or(|bound| next < bound) => listing.from = next,
                _ => break,
            }
        }
        Ok(listed)
    }

    /// The same with everything that is known of them.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn page(
        &self,
        types: Option<Vec<String>>,
        sight: Sight,
        from: Id,
        limit: usize,
    ) -> Result<Vec<EventView>, RoomError> {
        let mut listing = Listing { types: types.map(Arc::from), sight, from, limit };
        let mut page = Vec::new();
        while listing.limit > 0 {
            let Reply::Views { views, next } =
                self.ask(Question::Page(listing.clone()), None).await?
            else {
                return Err(RoomError::Closed("the room answered something else".to_owned()));
            };
            page.extend(views);
            listing.limit = limit.saturating_sub(page.len());
            match next {
                Some(next) => listing.from = next,
                None => break,
            }
        }
        Ok(page)
    }

    /// One event.
    ///
    /// # Errors
    /// [`RoomError::NoEvent`], or when the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn view(&self, id: Id, sight: Sight) -> Result<EventView, RoomError> {
        let id = i32::try_from(id.number()).unwrap_or(i32::MAX);
        match self.ask(Question::View(id, sight), None).await? {
            Reply::View(view) => Ok(*view),
            other => Err(unexpected(&other)),
        }
    }

    /// Dead letters in sight from a number on, the oldest first, at most `limit`.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn dead_letters(
        &self,
        sight: Sight,
        from: u64,
        limit: usize,
    ) -> Result<Vec<LetterView>, RoomError> {
        match self.ask(Question::DeadLetters { sight, from, limit }, None).await? {
            Reply::DeadLetters(letters) => Ok(letters),
            other => Err(unexpected(&other)),
        }
    }

    /// Hands dead letters over to their topics again, and gives which those are, ascending.
    ///
    /// # Errors
    /// As [`Self::register`].
    ///
    /// # Cancel safety
    /// Dropped, some may be handed over all the same.
    pub async fn retry_letters(
        &self,
        letters: Letters,
        sight: Sight,
    ) -> Result<Vec<u64>, RoomError> {
        self.letters(letters, |letters| Question::RetryLetters(letters, sight.clone())).await
    }

    /// Deletes dead letters, and gives which those were, ascending.
    ///
    /// # Errors
    /// As [`Self::register`].
    ///
    /// # Cancel safety
    /// Dropped, some of it may be deleted all the same.
    pub async fn delete_letters(
        &self,
        letters: Letters,
        sight: Sight,
    ) -> Result<Vec<u64>, RoomError> {
        self.letters(letters, |letters| Question::DeleteLetters(letters, sight.clone())).await
    }

    /// Piece by piece; a letter that dies meanwhile may be among them.
    async fn letters(
        &self,
        mut letters: Letters,
        question: impl Fn(Letters) -> Question,
    ) -> Result<Vec<u64>, RoomError> {
        let mut all = Vec::new();
        loop {
            let Reply::Letters { numbers, more } =
                self.ask(question(letters.clone()), None).await?
            else {
                return Err(RoomError::Closed("the room answered something else".to_owned()));
            };
            let last = numbers.last().copied();
            all.extend(numbers);
            let Some(next) = last.filter(|_| more).and_then(|last| last.checked_add(1)) else {
                return Ok(all);
            };
            match &mut letters {
                Letters::From(from) => *from = next,
                Letters::These(numbers) => numbers.retain(|number| *number >= next),
            }
        }
    }

    /// What the room looks like at this moment. It is for looking only, and the one answer that
    /// does not wait for the disk: somebody may be looking because the disk does not answer.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn stats(&self) -> Result<Stats, RoomError> {
        match self.ask(Question::Stats, None).await? {
            Reply::Stats(stats) => Ok(*stats),
            other => Err(unexpected(&other)),
        }
    }

    /// Begins a session with an empty filter.
    ///
    /// # Errors
    /// [`RoomError::Sessions`], or when the room is closed.
    ///
    /// # Cancel safety
    /// Dropped, no session is left behind.
    pub async fn open_session(&self, sight: Sight) -> Result<Session, RoomError> {
        let outbox = Outbox::new(self.shared.settings().session_queue_bytes_max);
        let session = Session { room: self.clone(), outbox };
        session.ask(Question::Open(sight)).await?;
        Ok(session)
    }

    /// Changes what can be changed while the room works: what a registration may ask for, what
    /// becomes of missed occurrences, and limits of sessions that begin from now on.
    pub fn set_settings(&self, settings: settings::Events) {
        self.shared.set_settings(settings);
    }

    /// A session that asks without waiting. Its first question must be [`Question::Open`].
    pub(crate) fn pipe(&self) -> Pipe {
        Pipe::new(self.mailbox.clone(), Arc::clone(&self.shared))
    }

    pub(crate) fn settings(&self) -> Arc<settings::Events> {
        self.shared.settings()
    }

    /// How many events there are, about.
    pub(crate) fn events(&self) -> usize {
        self.shared.events.load(Ordering::Relaxed)
    }

    /// A session was ended elsewhere because it did not read.
    pub(crate) fn count_slow(&self) {
        self.shared.slow.fetch_add(1, Ordering::Relaxed);
    }

    async fn ask(
        &self,
        question: Question,
        session: Option<Arc<Outbox>>,
    ) -> Result<Reply, RoomError> {
        let (to, answer) = oneshot::channel();
        let ask = Ask { question, session, to: Asker::Waiting(to) };
        self.mailbox.send(ask).await.map_err(|_| stopping())?;
        // The room took it and is gone: it may have been done.
        answer.await.map_err(|_| RoomError::Lost(Lost { outcome: Outcome::Unknown }))?
    }
}

/// A session. Dropped, it ends.
#[derive(Debug)]
pub struct Session {
    room: EventsRoom,
    outbox: Arc<Outbox>,
}

impl Session {
    /// Adds to the filter, as a whole or not at all.
    ///
    /// # Errors
    /// [`RoomError::Filter`]; the filter is unchanged.
    ///
    /// # Cancel safety
    /// Dropped, the filter may be changed all the same.
    pub async fn subscribe(&self, selection: Selection) -> Result<(), RoomError> {
        self.ask(Question::Subscribe(selection)).await.map(drop)
    }

    /// Every event in sight.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Dropped, the filter may be changed all the same.
    pub async fn subscribe_to_everything(&self) -> Result<(), RoomError> {
        self.ask(Question::Everything).await.map(drop)
    }

    /// The filter.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn filter(&self) -> Result<Filter, RoomError> {
        match self.ask(Question::Filter).await? {
            Reply::Filter(filter) => Ok(*filter),
            other => Err(unexpected(&other)),
        }
    }

    /// The next occurrence the filter matches. None when the session was ended by the room: it did
    /// not read fast enough, or the server stops.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&self) -> Option<Arc<Told>> {
        poll_fn(|context| {
            loop {
                match self.outbox.poll_next(context) {
                    Poll::Ready(Ok(Item::Told(told))) => return Poll::Ready(Some(told)),
                    Poll::Ready(Ok(Item::Answer(_))) => {}
                    Poll::Ready(Err(Ended::Slow | Ended::Stopped)) => return Poll::Ready(None),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    async fn ask(&self, question: Question) -> Result<Reply, RoomError> {
        self.room.ask(question, Some(Arc::clone(&self.outbox))).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.room.shared.leave(Arc::clone(&self.outbox));
    }
}

/// Cuts a selection into pieces that do not keep the room long: ids ascending and each once, then
/// the types.
pub(crate) fn pieces(selection: Selection) -> Vec<Selection> {
    let Selection { mut ids, types } = selection;
    ids.sort_unstable();
    ids.dedup();
    let of_ids = ids.chunks(SELECTION_PIECE);
    let mut pieces: Vec<Selection> =
        of_ids.map(|ids| Selection { ids: ids.to_vec(), types: Vec::new() }).collect();
    if !types.is_empty() || pieces.is_empty() {
        pieces.push(Selection { ids: Vec::new(), types });
    }
    pieces
}

/// The room answers each question with its own kind of reply; anything else is a mistake here.
fn unexpected(reply: &Reply) -> RoomError {
    debug_assert!(false, "the room answered {reply:?}");
    RoomError::Closed("the room answered something else than was asked".to_owned())
}
