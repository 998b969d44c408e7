//! What was delivered, and what can be said about it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Serialize, Serializer};

use crate::Time;
use crate::streams::message::Received;

/// The header that names the topic an answer goes to.
pub const REPLY_TO: &str = "reply-to";

/// The header by which an answer is told from others. It is copied into the answer.
pub const CORRELATION_ID: &str = "correlation-id";

/// What the server calls a lease, as it said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    Text(String),
    Number(u64),
}

/// Under what messages were delivered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) attempt: u32,
    pub(super) lease: Option<Lease>,
    pub(super) deadline: Option<Time>,
}

/// A message that was delivered to this consumer, and that it has to answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// The message.
    pub message: Received,
    pub(super) grant: Arc<Grant>,
}

impl Delivered {
    /// Its topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.grant.topic
    }

    /// How often it has been delivered to the group, this time included. Above 1 means that it may
    /// have been worked on before.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.grant.attempt
    }

    /// Until when it must be answered for, by the server's clock.
    #[must_use]
    pub fn lease_deadline(&self) -> Option<&Time> {
        self.grant.deadline.as_ref()
    }

    /// The topic its answer goes to, if it wants one.
    #[must_use]
    pub fn reply_to(&self) -> Option<&str> {
        self.message.header(REPLY_TO).and_then(|name| std::str::from_utf8(name).ok())
    }

    /// By what its answer is told from others.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&Bytes> {
        self.message.header(CORRELATION_ID)
    }

    /// It is done.
    pub fn ok(&self) -> Verdict {
        self.verdict(Status::Ok)
    }

    /// It cannot be done: to the dead letters with it.
    pub fn failed(&self, error: impl Into<String>) -> Verdict {
        self.verdict(Status::Failed).error(error)
    }

    /// It is to be delivered again, after the group's back-off. To the dead letters after the
    /// group's last attempt.
    pub fn retry(&self) -> Verdict {
        self.verdict(Status::Retry)
    }

    /// It takes longer: its lease begins anew.
    pub fn extend(&self) -> Verdict {
        self.verdict(Status::Extend)
    }

    fn verdict(&self, status: Status) -> Verdict {
        Verdict::new(&self.grant, self.message.offset, self.message.offset, status)
    }
}

impl Serialize for Delivered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shown<'a> {
            topic: &'a str,
            #[serde(flatten)]
            message: &'a Received,
            attempt: u32,
            #[serde(skip_serializing_if = "Option::is_none")]
            lease_deadline: Option<&'a Time>,
        }
        let Self { message, grant } = self;
        let (topic, attempt) = (grant.topic.as_str(), grant.attempt);
        Shown { topic, message, attempt, lease_deadline: grant.deadline.as_ref() }
            .serialize(serializer)
    }
}

/// Consecutive messages of one partition, delivered under one lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    messages: VecDeque<Received>,
    grant: Arc<Grant>,
}

impl Batch {
    pub(super) fn new(grant: Grant, messages: Vec<Received>) -> Self {
        Self { messages: messages.into(), grant: Arc::new(grant) }
    }

    /// Their topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.grant.topic
    }

    /// Their partition.
    #[must_use]
    pub fn partition(&self) -> u32 {
        self.grant.partition
    }

    /// How often they have been delivered to the group, this time included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.grant.attempt
    }

    /// Until when they must be answered for, by the server's clock.
    #[must_use]
    pub fn lease_deadline(&self) -> Option<&Time> {
        self.grant.deadline.as_ref()
    }

    /// The messages, in the order of their offsets.
    #[must_use]
    pub fn messages(&self) -> &VecDeque<Received> {
        &self.messages
    }

    /// The messages, each to be answered for by itself.
    pub fn into_messages(self) -> impl Iterator<Item = Delivered> {
        let grant = self.grant;
        self.messages
            .into_iter()
            .map(move |message| Delivered { message, grant: Arc::clone(&grant) })
    }

    /// They are done.
    pub fn ok(&self) -> Verdict {
        self.verdict(Status::Ok)
    }

    /// They cannot be done: to the dead letters with them.
    pub fn failed(&self, error: impl Into<String>) -> Verdict {
        self.verdict(Status::Failed).error(error)
    }

    /// They are to be delivered again: see [`Delivered::retry`].
    pub fn retry(&self) -> Verdict {
        self.verdict(Status::Retry)
    }

    /// They take longer: their lease begins anew.
    pub fn extend(&self) -> Verdict {
        self.verdict(Status::Extend)
    }

    fn verdict(&self, status: Status) -> Verdict {
        // A batch that is given to anybody has a message.
        let offset = |message: Option<&Received>| message.map_or(0, |message| message.offset);
        let (from, to) = (offset(self.messages.front()), offset(self.messages.back()));
        Verdict::new(&self.grant, from, to, status)
    }

    /// What is left if only the messages at these offsets are kept: consecutive ones in each.
    pub(super) fn kept(self, ours: impl Fn(u64) -> bool) -> Vec<Self> {
        let Self { messages, grant } = self;
        let mut runs: Vec<Self> = Vec::new();
        for message in messages.into_iter().filter(|message| ours(message.offset)) {
            let last = runs.last().and_then(|run| run.messages.back());
            let follows =
                last.is_some_and(|last| last.offset.checked_add(1) == Some(message.offset));
            match runs.last_mut() {
                Some(run) if follows => run.messages.push_back(message),
                _ => runs.push(Self { messages: [message].into(), grant: Arc::clone(&grant) }),
            }
        }
        runs
    }

    pub(super) fn take_first(&mut self) -> Option<Delivered> {
        let message = self.messages.pop_front()?;
        Some(Delivered { message, grant: Arc::clone(&self.grant) })
    }
}

/// What became of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Ok,
    Failed,
    Retry,
    Extend,
}

impl Status {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Retry => "retry",
            Self::Extend => "extend",
        }
    }
}

/// What became of a message, or of consecutive ones of a lease: part of a
/// [`Commit`](super::Commit).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "it has to be committed"]
pub struct Verdict {
    pub(super) grant: Arc<Grant>,
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) status: Status,
    pub(super) error: Option<String>,
    pub(super) delay: Option<Duration>,
}

impl Verdict {
    fn new(grant: &Arc<Grant>, from: u64, to: u64, status: Status) -> Self {
        Self { grant: Arc::clone(grant), from, to, status, error: None, delay: None }
    }

    /// What went wrong. It is shown with the message while it waits, and goes with it to the dead
    /// letters.
    pub fn error(mut self, error: impl Into<String>) -> Self {
        self.error = Some(error.into());
        self
    }

    /// Waits so long before it is delivered again, instead of the group's back-off. Only for a
    /// retry.
    pub fn delay(mut self, time: Duration) -> Self {
        self.delay = Some(time);
        self
    }

    /// Takes another one into this one, if it goes on where this one ends and says the same.
    pub(super) fn takes(&mut self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.grant, &other.grant)
            && self.to.checked_add(1) == Some(other.from)
            && (self.status, &self.error, self.delay) == (other.status, &other.error, other.delay);
        if same {
            self.to = other.to;
        }
        same
    }
}
