//! The streams room at work.
//!
//! # Constraints
//! * One task owns the state. It decides, appends, and goes on deciding while the disk works.
//! * What it decided leaves in the order of the decisions, each when it is durable: first readers
//!   may see it, then whoever asked is answered. Only a producer to a topic with
//!   `durability = "os"` is answered at once.
//! * Reading never asks the task: where partitions end is shared, what is in them is read from
//!   storage on threads that may wait for a disk.
//! * Whoever waits for more is woken by the commit that brings it.
//!
//! ```text
//!  asks ──▶ mailboxes ──▶ decide, append ──▶ releases ──durable──▶ ends ──▶ readers, tails
//!                          ▲ ticks, trims                  └─────▶ whoever asked
//!  reads ───────────────────────────────────────▶ ends, Reader
//! ```

mod bells;
#[cfg(test)]
mod bench;
mod chores;
mod effects;
mod ends;
mod groups;
mod mailbox;
mod quota;
mod reading;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use handoff_house::TokenId;
use handoff_log::journal::Lost;
use handoff_streams::groups::GroupFigures;
use handoff_streams::{
    Counts, Place, Produce, ProducerId, Refusal, Registration, ScheduledId, Topic, TopicName,
    TopicSpec, TopicView,
};
use handoff_types::{Outcome, Sight, Wall};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::ends::{Ends, Visible};
pub(crate) use self::groups::{
    Assignment, Batch, CommitAsked, Committed, JoinAsked, LetterAt, Origin, PollAsked, Polled,
    Said, Which,
};
pub(crate) use self::mailbox::Handing;
pub use self::mailbox::{
    Alteration, GroupAlteration, GroupListed, Listed, Registered, Stored, Waiting,
};
use self::mailbox::{Answer, Ask, Question, Shared};
pub(crate) use self::reading::{Browse, Found, Page, ReadFault, Reading, Skipped, Why};
pub use self::task::Parts;
use super::RoomError;
use crate::clock::Clock;
use crate::settings;

/// A way to the room. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StreamsRoom {
    mailbox: mpsc::Sender<Ask>,
    /// For what is new, so that nothing else waits behind it.
    news: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
    reading: Reading,
    clock: Clock,
}

/// What the room looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Topics, partitions, producers and what waits for its time.
    pub counts: Counts,
    /// What groups come to.
    pub groups: GroupFigures,
    /// Bytes of messages on their way to members of groups.
    pub delivering_bytes: usize,
    /// Readers that wait for more.
    pub waiting_readers: usize,
    /// Bytes of messages that only the journal has for sure.
    pub unmoved_bytes: u64,
}

impl StreamsRoom {
    /// Stores messages, all or none. When it answers they are on disk, unless the topic says
    /// `durability = "os"`.
    ///
    /// # Errors
    /// [`RoomError`]; nothing changed, except that nobody knows after [`RoomError::Lost`].
    ///
    /// # Cancel safety
    /// Dropped, they may be stored all the same.
    pub async fn produce(&self, produce: Produce) -> Result<Stored, RoomError> {
        match self.ask(Question::Produce(produce)).await? {
            Answer::Stored(stored) => Ok(stored),
            other => Err(unexpected(&other)),
        }
    }

    /// Stores what another room hands over, as [`Self::produce`] does; when it answers they are on
    /// disk, whatever the topic says.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, they may be stored all the same.
    pub(crate) async fn take_over(
        &self,
        produce: Produce,
        handing: Handing,
    ) -> Result<Stored, RoomError> {
        let topic = produce.topic.clone();
        match self.asked(Question::Produce(produce), Some(handing)).await? {
            Answer::Stored(stored) => {
                for result in &stored.results {
                    self.settled(&topic, result.place).await;
                }
                Ok(stored)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// The last sequence of a producer of another room, durable; the producer is known from now on.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be known all the same.
    pub(crate) async fn last_of(
        &self,
        producer: ProducerId,
        name: String,
        handing: Handing,
    ) -> Result<Option<u64>, RoomError> {
        let registration = Registration { producer: Some(producer), name: Some(name), scope: None };
        let question = Question::Register(registration, Sight::All);
        match self.asked(question, Some(handing)).await? {
            Answer::Registered(registered) => Ok(registered.last),
            other => Err(unexpected(&other)),
        }
    }

    /// Waits until a message is on disk: a topic with `durability = "os"` answers before.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub(crate) async fn settled(&self, topic: &TopicName, place: Option<Place>) {
        let Some(Place::At(partition, offset)) = place else { return };
        let Ok(visible) = self.visible(topic) else { return };
        if visible.id == partition.topic
            && let Some(ends) = visible.partition(partition.number)
        {
            visible.beyond(&ends, offset).await;
        }
    }

    /// Makes a topic.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be made all the same.
    pub async fn create(&self, topic: TopicSpec) -> Result<Topic, RoomError> {
        self.topic_of(Question::Create(topic)).await
    }

    /// Changes a topic's settings.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub async fn alter(&self, name: TopicName, to: Alteration) -> Result<Topic, RoomError> {
        self.topic_of(Question::Alter(name, to)).await
    }

    /// Gives a topic more partitions.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub async fn grow(&self, name: TopicName, partitions: u32) -> Result<Topic, RoomError> {
        self.topic_of(Question::Grow(name, partitions)).await
    }

    /// Deletes a topic and all it holds.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub async fn delete(&self, name: TopicName) -> Result<Topic, RoomError> {
        self.topic_of(Question::Delete(name)).await
    }

    /// Makes a producer known, or says what is known of it.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub async fn register(
        &self,
        registration: Registration,
        sight: Sight,
    ) -> Result<Registered, RoomError> {
        match self.ask(Question::Register(registration, sight)).await? {
            Answer::Registered(registered) => Ok(*registered),
            other => Err(unexpected(&other)),
        }
    }

    /// Takes back a message that waits for its time.
    ///
    /// # Errors
    /// As [`Self::produce`].
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub async fn cancel(&self, id: ScheduledId, sight: Sight) -> Result<(), RoomError> {
        self.ask(Question::Cancel(id, sight)).await.map(drop)
    }

    /// Topics in sight by name, those behind a name, and whether there are more.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn topics(
        &self,
        sight: Sight,
        after: Option<TopicName>,
        limit: usize,
    ) -> Result<(Vec<Listed>, bool), RoomError> {
        match self.ask(Question::Topics { sight, after, limit }).await? {
            Answer::Topics(topics, more) => Ok((topics, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// A topic and its partitions.
    ///
    /// # Errors
    /// [`Refusal::NoTopic`], or when the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn topic(&self, name: TopicName) -> Result<TopicView, RoomError> {
        match self.ask(Question::Topic(name)).await? {
            Answer::View(view) => Ok(*view),
            other => Err(unexpected(&other)),
        }
    }

    /// What waits for its time in a topic, by due time then id, those behind a place, and whether
    /// there is more.
    ///
    /// # Errors
    /// [`Refusal::NoTopic`], or when the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn scheduled(
        &self,
        topic: TopicName,
        after: Option<(Wall, ScheduledId)>,
        limit: usize,
    ) -> Result<(Vec<Waiting>, bool), RoomError> {
        match self.ask(Question::Scheduled { topic, after, limit }).await? {
            Answer::Scheduled(waiting, more) => Ok((waiting, more)),
            other => Err(unexpected(&other)),
        }
    }

    /// What the room looks like at this moment. It does not wait for the disk.
    ///
    /// # Errors
    /// When the room is closed.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn stats(&self) -> Result<Stats, RoomError> {
        let waiting_readers = self.shared.waiting.load(Ordering::Relaxed);
        match self.ask(Question::Stats).await? {
            Answer::Stats(counts, groups) => Ok(Stats {
                counts,
                groups,
                delivering_bytes: self.delivering(),
                waiting_readers,
                unmoved_bytes: self.reading.backlog(),
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Changes what can be changed while the room works: bounds of what is asked from now on.
    pub fn set_settings(&self, settings: settings::Streams) {
        self.shared.set_settings(settings);
    }

    /// The server is about to stop: whoever waits for space in the ring is refused now. What fits is
    /// taken as before.
    pub fn refuse_to_wait(&self) {
        self.shared.hurried.store(true, Ordering::Release);
        self.shared.bell.notify_one();
    }

    pub(crate) fn settings(&self) -> Arc<settings::Streams> {
        self.shared.settings()
    }

    /// Takes bytes from what a token may send.
    pub(crate) fn charge(&self, token: Option<&TokenId>, bytes: usize) -> Result<(), RoomError> {
        match self.settings().token_bytes_per_sec {
            0 => Ok(()),
            rate => self.shared.quotas.charge(token, bytes, rate, self.clock.steady()),
        }
    }

    /// What time it is.
    pub(crate) fn wall(&self) -> Wall {
        self.clock.wall()
    }

    /// A topic as readers see it.
    pub(crate) fn visible(&self, name: &TopicName) -> Result<Arc<Visible>, RoomError> {
        let found = self.shared.catalogue.find(name);
        found.ok_or_else(|| Refusal::NoTopic(name.clone()).into())
    }

    /// The way to what is stored.
    pub(crate) fn reading(&self) -> &Reading {
        &self.reading
    }

    /// Counts a reader that waits, as long as what this gives is kept.
    pub(crate) fn waits(&self) -> Waits {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        Waits(Arc::clone(&self.shared))
    }

    async fn topic_of(&self, question: Question) -> Result<Topic, RoomError> {
        match self.ask(question).await? {
            Answer::Topic(topic) => Ok(topic),
            other => Err(unexpected(&other)),
        }
    }

    async fn ask(&self, question: Question) -> Result<Answer, RoomError> {
        self.asked(question, None).await
    }

    async fn asked(
        &self,
        question: Question,
        handing: Option<Handing>,
    ) -> Result<Answer, RoomError> {
        let (to, answer) = oneshot::channel();
        let mailbox = if question.is_new() { &self.news } else { &self.mailbox };
        let ask = Ask { question, handing, to };
        let stopping = |_| RoomError::Closed("the server is stopping".to_owned());
        mailbox.send(ask).await.map_err(stopping)?;
        // The room took it and is gone: it may have been done.
        answer.await.map_err(|_| RoomError::Lost(Lost { outcome: Outcome::Unknown }))?
    }
}

/// A reader that waits for more.
#[derive(Debug)]
pub(crate) struct Waits(Arc<Shared>);

impl Drop for Waits {
    fn drop(&mut self) {
        let waiting: &AtomicUsize = &self.0.waiting;
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The room answers each question with its own kind of answer; anything else is a mistake here.
fn unexpected(answer: &Answer) -> RoomError {
    debug_assert!(false, "the room answered {answer:?}");
    RoomError::Closed("the room answered something else than was asked".to_owned())
}
