//! Saying what became of messages, together with what is produced from them.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use tokio::time::sleep;

use super::delivered::{CORRELATION_ID, Delivered, Status, Verdict};
use super::member::{Member, State, is_gone};
use super::{Shared, retry_after, wire};
use crate::client::Inner;
use crate::error::Problem;
use crate::streams::groups;
use crate::streams::message::Message;
use crate::streams::producer::sequences::Sequences;
use crate::streams::producer::{Scope, concerns_sequence, register};
use crate::streams::wire::{MSGPACK, Produced};
use crate::{Error, Outcome as Known};

/// What became of messages, and what is produced from them, in one durable step.
///
/// ```no_run
/// # use handoff_sdk::streams::{Commit, CommitError, Consumer, Delivered, Message};
/// # async fn run(consumer: &Consumer, done: Vec<Delivered>, odd: &Delivered) -> Result<(), CommitError> {
/// let commit: Commit = done.iter().map(Delivered::ok).collect();
/// let commit = commit.result(odd.failed("no such customer"));
/// consumer.commit(commit.produce("totals", Message::new("7 orders"))).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it has to be committed"]
pub struct Commit {
    pub(super) results: Vec<Verdict>,
    /// A topic stands once.
    pub(super) produce: Vec<(String, Vec<Message>)>,
}

impl Commit {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What became of some messages.
    pub fn of(verdict: Verdict) -> Self {
        Self::new().result(verdict)
    }

    /// And of some more.
    pub fn result(mut self, verdict: Verdict) -> Self {
        let joined = self.results.last_mut().is_some_and(|last| last.takes(&verdict));
        if !joined {
            self.results.push(verdict);
        }
        self
    }

    /// Stores a message too, if and only if all results count. It is stored once, however often the
    /// request must be sent. [`Message::sequence`] is not used here.
    pub fn produce(mut self, topic: impl Into<String>, message: impl Into<Message>) -> Self {
        let topic = topic.into();
        match self.produce.iter_mut().find(|(known, _)| *known == topic) {
            Some((_, messages)) => messages.push(message.into()),
            None => self.produce.push((topic, vec![message.into()])),
        }
        self
    }

    /// Whether there is nothing to commit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.produce.is_empty()
    }
}

impl From<Verdict> for Commit {
    fn from(verdict: Verdict) -> Self {
        Self::of(verdict)
    }
}

impl FromIterator<Verdict> for Commit {
    fn from_iter<I: IntoIterator<Item = Verdict>>(verdicts: I) -> Self {
        verdicts.into_iter().fold(Self::new(), Self::result)
    }
}

/// Whether what was said of messages counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Outcome {
    /// It counts.
    Done,
    /// It counts, although the partition is somebody else's by now.
    Late,
    /// It does not count: the lease is over, and the messages are or will be delivered again.
    Fenced,
    /// Something a newer server says.
    Other,
}

impl Outcome {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "done" => Self::Done,
            "late" => Self::Late,
            "fenced" => Self::Fenced,
            _ => Self::Other,
        }
    }
}

/// What the server says of one range of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finished {
    /// Their topic.
    pub topic: String,
    /// Their partition.
    pub partition: u32,
    /// The first offset.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// Whether it counts.
    pub outcome: Outcome,
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// Range by range.
    pub results: Vec<Finished>,
    /// What was stored with it: one for each topic, in the order in which they were named.
    pub produced: Vec<Produced>,
}

impl Committed {
    /// What does not count: it is or will be delivered again.
    pub fn fenced(&self) -> impl Iterator<Item = &Finished> {
        self.results.iter().filter(|finished| finished.outcome == Outcome::Fenced)
    }

    /// Whether everything counts.
    #[must_use]
    pub fn all_count(&self) -> bool {
        self.fenced().next().is_none()
    }
}

/// Why a commit failed, as a whole.
#[derive(Debug, thiserror::Error)]
#[error("{cause}{}", crate::streams::producer::after(*attempts))]
#[non_exhaustive]
pub struct CommitError {
    /// What was said last.
    #[source]
    pub cause: Error,
    /// Whether it may count all the same.
    pub outcome: Known,
    /// How often it was tried.
    pub attempts: u32,
}

impl CommitError {
    /// The stable code of a refusal, such as `streams.member_gone`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.cause.code()
    }

    /// What the caller or the operator can do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        self.cause.remedy()
    }

    /// Whether the messages belong to somebody else by now, or will be delivered again: nothing
    /// went wrong that the consumer would have to end for.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        matches!(self.code(), Some("streams.member_gone" | "streams.fenced"))
    }
}

/// Who produces by commits: its sequences count per topic, and are used in order.
#[derive(Debug)]
pub(super) struct Sender {
    producer: String,
    sequences: Sequences,
}

/// Commits for a consumer. Cheap to clone: each task that works on messages has its own.
#[derive(Clone)]
pub struct Committer {
    shared: Arc<Shared>,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Says what became of messages, and stores what is produced from them, in one durable step.
    /// It is repeated until it is answered; that is harmless.
    ///
    /// If some of the messages are not this consumer's any more, what is said of them does not
    /// count ([`Outcome::Fenced`]) and the rest does. With something to produce it is all or
    /// nothing: then the whole is refused.
    ///
    /// # Errors
    /// [`CommitError`]. Whatever did not count is delivered again: see [`CommitError::is_fenced`].
    ///
    /// # Cancel safety
    /// Dropped, it may count or not.
    pub async fn commit(&self, commit: impl Into<Commit>) -> Result<Committed, CommitError> {
        let commit = commit.into();
        if commit.is_empty() {
            return Ok(Committed::default());
        }
        // In a box: it is large, and the futures of callers should not be.
        Box::pin(self.shared.commit(&commit)).await
    }

    /// Answers a message and finishes it, in one durable step: the answer goes to the topic that
    /// the message names, with its correlation id. If it names none, or that topic is gone, nobody
    /// waits for an answer: the message is finished, and [`Committed::produced`] is empty.
    ///
    /// # Errors
    /// [`CommitError`]
    ///
    /// # Cancel safety
    /// As [`Committer::commit`].
    pub async fn reply(
        &self,
        message: &Delivered,
        answer: impl Into<Message>,
    ) -> Result<Committed, CommitError> {
        let Some(topic) = message.reply_to() else { return self.commit(message.ok()).await };
        let mut answer = answer.into();
        if let Some(id) = message.correlation_id() {
            answer = answer.header(CORRELATION_ID, id.clone());
        }
        match self.commit(Commit::of(message.ok()).produce(topic, answer)).await {
            Err(error) if error.code() == Some("streams.topic_not_found") => {
                self.commit(message.ok()).await
            }
            result => result,
        }
    }
}

impl fmt::Debug for Committer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Committer").finish_non_exhaustive()
    }
}

impl Shared {
    async fn commit(&self, commit: &Commit) -> Result<Committed, CommitError> {
        // Before it is sent: if this future is dropped, it may count all the same.
        let retries = commit.results.iter().filter(|verdict| verdict.status == Status::Retry);
        let places = retries.map(|verdict| (verdict.grant.topic.clone(), verdict.grant.partition));
        self.retried().extend(places);
        if commit.produce.is_empty() {
            let body = wire::commit(commit, None).map_err(unsent)?;
            return self.attempt(commit, body).await;
        }
        let mut slot = self.sender.lock().await;
        if slot.is_none() {
            *slot = Some(self.registered().await.map_err(unsent)?);
        }
        let Some(sender) = slot.as_mut() else {
            return Err(unsent(Error::Invalid("there is no producer".to_owned())));
        };
        let before = sender.sequences.clone();
        let mut firsts = Vec::with_capacity(commit.produce.len());
        for (topic, messages) in &commit.produce {
            let first = sender.sequences.next(topic);
            // Now, and not once it is answered: if this future is dropped, nobody knows.
            sender.sequences.used(topic, first, messages.len());
            firsts.push(first);
        }
        let body = wire::commit(commit, Some((&sender.producer, &firsts))).map_err(unsent)?;
        let result = self.attempt(commit, body).await;
        if let Err(error) = &result {
            if concerns_sequence(error.code()) {
                // The server remembers something else of this producer: another one, from the begin.
                *slot = None;
            } else if error.outcome == Known::NotApplied {
                sender.sequences = before;
            }
        }
        result
    }

    async fn registered(&self) -> Result<Sender, Error> {
        let name = format!("group {}", self.options.group);
        let registered = register(&self.client, None, Some(name), Some(Scope::Topic)).await?;
        let sequences = Sequences::of_topics(registered.last);
        Ok(Sender { producer: registered.producer, sequences })
    }

    /// The same octets as often as it takes, as whichever member it is by then.
    async fn attempt(&self, commit: &Commit, body: Bytes) -> Result<Committed, CommitError> {
        let mut outcome = Known::NotApplied;
        let mut attempts = 0;
        loop {
            let member = match self.present() {
                Ok(member) => member,
                Err(cause) => return Err(CommitError { cause, outcome, attempts }),
            };
            let error = match self.client.inner.commit(&self.options.group, &member, &body).await {
                Ok(committed) if committed.produced.len() != commit.produce.len() => {
                    let (got, sent) = (committed.produced.len(), commit.produce.len());
                    let words = format!("it gives results for {got} of {sent} topics");
                    self.client.inner.protocol(words)
                }
                Ok(committed) => return Ok(committed),
                Err(error) => error,
            };
            attempts += 1;
            if error.outcome() == Known::Unknown {
                outcome = Known::Unknown;
            }
            if is_gone(&error) {
                self.gone(member.epoch);
            }
            if !error.is_temporary() || attempts > self.options.retries {
                return Err(CommitError { cause: error, outcome, attempts });
            }
            sleep(self.options.backoff.wait(attempts - 1, retry_after(&error))).await;
        }
    }

    /// The member, or why there is none.
    fn present(&self) -> Result<Arc<Member>, Error> {
        match &*self.state.borrow() {
            State::Joined(member) => Ok(Arc::clone(member)),
            State::Gone | State::Over => Err(Error::Problem(Box::new(Problem {
                status: 404,
                code: Some("streams.member_gone".to_owned()),
                title: "the member is gone".to_owned(),
                detail: Some(format!(
                    "this consumer is no member of group {} any more; what it was given is \
                     delivered again",
                    self.options.group
                )),
                ..Problem::default()
            }))),
            State::Left => Err(Error::Invalid(format!(
                "the consumer has left group {}; what it did not commit is delivered again",
                self.options.group
            ))),
        }
    }
}

fn unsent(cause: Error) -> CommitError {
    CommitError { cause, outcome: Known::NotApplied, attempts: 0 }
}

impl Inner {
    async fn commit(&self, group: &str, member: &Member, body: &Bytes) -> Result<Committed, Error> {
        let target = groups::target(group).segment("members").segment(&member.id).segment("commit");
        let mut outgoing =
            self.outgoing(Method::POST, target.as_str(), MSGPACK, Some(body.clone()))?;
        outgoing.content_type = MSGPACK;
        let body = self.success(self.ask(&outgoing).await?)?;
        wire::committed(&body).map_err(|why| self.unreadable(why.0))
    }
}
