//! Sending messages, each stored once.
//!
//! ```text
//!  send ──▶ space for its bytes ──▶ lane of its topic ──▶ batch ──▶ one request at a time
//!              │ none: wait            queue per topic      under    │ answered: results
//!              ▼                                            one      │ no answer, 5xx: the same octets
//!            the caller                                   sequence   │   again, n times
//!                                                                    ▼ refused: the error
//! ```
//! * A lane is one connection and one request at a time, so what it sends is in order. A topic
//!   belongs to one lane; a producer whose sequences count over all topics has one lane.
//! * While a request is on its way, messages gather for the next. So batches grow with the load
//!   and nobody waits for a timer, unless a linger is asked for.
//! * A sequence is given when a batch is made and never changed. If the batch is refused and no
//!   attempt can have been stored, the next one takes the same sequences: no gap. If nobody knows,
//!   they are given up: the server tells of a gap, and nothing can be stored in their place.
//! * A request is stored as a whole or not at all. If the server finds fault with a batch, it is
//!   halved until the message at fault stands alone: its neighbours do not suffer.

mod lane;
mod queue;
pub(super) mod sequences;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::Instant;

use self::lane::Lane;
pub(super) use self::lane::concerns_sequence;
use self::queue::{Queue, Waiting};
use self::sequences::Sequences;
use super::message::{Message, Sent};
use crate::client::{Client, VERSION};
use crate::{Backoff, Error, Outcome};

/// What a producer's sequences count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Scope {
    /// All its messages: it sends over one connection.
    Producer,
    /// Its messages to each topic: topics do not wait for each other.
    Topic,
}

/// How a producer behaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct ProducerOptions {
    producer: Option<String>,
    name: Option<String>,
    scope: Option<Scope>,
    limits: Limits,
    lanes: usize,
}

/// What the lanes of a producer go by.
#[derive(Clone, Copy, Debug)]
struct Limits {
    linger: Duration,
    batch_messages_max: usize,
    batch_bytes_max: usize,
    buffer_bytes_max: usize,
    retries: u32,
    backoff: Backoff,
}

impl ProducerOptions {
    /// A new producer without a name.
    pub fn new() -> Self {
        let limits = Limits {
            linger: Duration::ZERO,
            batch_messages_max: 2000,
            batch_bytes_max: 1 << 20,
            buffer_bytes_max: 32 << 20,
            retries: 10,
            backoff: Backoff::default(),
        };
        Self { producer: None, name: None, scope: None, limits, lanes: 4 }
    }

    /// Goes on as the producer with this GUID: its sequences continue behind the last that is
    /// stored. A GUID that the server does not know registers itself. No two programs may use one
    /// at a time.
    pub fn producer(mut self, guid: impl Into<String>) -> Self {
        self.producer = Some(guid.into());
        self
    }

    /// A name, for people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What its sequences count. As it was if it is known already, otherwise all its messages.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// How long a message may wait for others to travel with, while nothing else is on its way.
    /// Not at all unless said otherwise.
    pub fn linger(mut self, time: Duration) -> Self {
        self.limits.linger = time;
        self
    }

    /// How many messages travel together at most. 2000 unless said otherwise; the server has a
    /// limit of its own (`streams.batch_messages_max`).
    pub fn batch_messages_max(mut self, messages: usize) -> Self {
        self.limits.batch_messages_max = messages.max(1);
        self
    }

    /// How many bytes travel together at most, but for a single message that is larger. 1 MiB
    /// unless said otherwise; the server has a limit of its own (`server.body_bytes_max`).
    pub fn batch_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.batch_bytes_max = bytes;
        self
    }

    /// How many bytes may be here and not answered: [`Producer::send`] waits for space. 32 MiB
    /// unless said otherwise, 4 GiB at most.
    pub fn buffer_bytes_max(mut self, bytes: usize) -> Self {
        self.limits.buffer_bytes_max = bytes.min(u32::MAX as usize);
        self
    }

    /// How often a request is repeated after a timeout, a lost connection or a 5xx. 10 times unless
    /// said otherwise.
    pub fn retries(mut self, times: u32) -> Self {
        self.limits.retries = times;
        self
    }

    /// How long to wait before a request is repeated.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.limits.backoff = backoff;
        self
    }

    /// How many connections it has at most, if its sequences count per topic. 4 unless said
    /// otherwise.
    pub fn connections_max(mut self, connections: usize) -> Self {
        self.lanes = connections.max(1);
        self
    }
}

impl Default for ProducerOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Why a message is not stored, or may not be.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The server refused it, or could not be asked often enough.
    #[error("{cause}{}", after(*attempts))]
    Failed {
        /// What was said last.
        cause: Arc<Error>,
        /// Whether it may be stored all the same.
        outcome: Outcome,
        /// How often it was tried.
        attempts: u32,
    },
    /// The producer is closed; nothing was sent.
    #[error("the producer is closed")]
    Closed,
    /// It is larger than everything that may be in the producer at a time; nothing was sent.
    #[error("the message has {bytes} bytes, the producer has room for {max}")]
    TooLarge {
        /// Its bytes.
        bytes: usize,
        /// The room there is.
        max: usize,
    },
}

pub(super) fn after(attempts: u32) -> String {
    if attempts > 1 { format!(" (tried {attempts} times)") } else { String::new() }
}

impl SendError {
    /// Whether it may be stored all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Failed { outcome, .. } => *outcome,
            Self::Closed | Self::TooLarge { .. } => Outcome::NotApplied,
        }
    }

    /// The error of the request, if there was one.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match self {
            Self::Failed { cause, .. } => Some(cause),
            Self::Closed | Self::TooLarge { .. } => None,
        }
    }

    /// The stable code of a refusal, such as `streams.topic_not_found`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.error()?.code()
    }

    /// What the caller or the operator can do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Failed { cause, .. } => cause.remedy(),
            Self::Closed => None,
            Self::TooLarge { .. } => Some("raise buffer_bytes_max, or send less at once"),
        }
    }
}

/// Sends messages. Cheap to clone; clones are one producer.
///
/// Whatever is lost on the way is sent again under the same sequence, so each message is stored
/// once. [`super::Status::Duplicate`] in an answer means that an earlier attempt had arrived.
///
/// # After a restart
/// With the GUID of [`Producer::id`] a program goes on as the same producer. A message that was not
/// answered before the restart may be stored or not. Whoever must not store it twice numbers its
/// messages ([`Message::sequence`]) and sends what was not answered again, or asks for
/// [`Producer::last_sequence`] and goes on behind it.
///
/// # Dropped
/// When the last clone is dropped, what was taken is still sent, as long as the runtime runs.
/// [`Producer::flush`] waits for it.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use handoff_sdk::streams::{Message, ProducerOptions};
///
/// let producer = client.streams().producer(ProducerOptions::new()).await?;
/// let delivery = producer.send("orders", Message::new("tea").key("customer-42")).await?;
/// let sent = delivery.await?;
/// println!("{:?} at {:?}", sent.status, sent.offset);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer {
    handle: Arc<Handle>,
}

/// All clones of a producer. When it goes, the lanes end once they are empty.
struct Handle {
    shared: Arc<Shared>,
    id: Arc<str>,
    scope: Scope,
    last: Registered,
}

/// What is known of a producer at the server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Registered {
    pub(super) producer: String,
    scope: Option<Scope>,
    last_sequence: Option<u64>,
    #[serde(default)]
    pub(super) last: BTreeMap<String, u64>,
}

/// What a producer and its lanes have in common.
struct Shared {
    limits: Limits,
    lanes: Vec<Station>,
    /// Bytes that may still be taken.
    space: Arc<Semaphore>,
    /// Messages taken so far.
    tickets: AtomicU64,
    /// Something was answered.
    progress: Notify,
    /// The first failure since the last flush.
    failure: Mutex<Option<SendError>>,
}

/// Where messages wait for a lane.
struct Station {
    queue: Mutex<Queue>,
    wake: Notify,
}

impl Station {
    /// No code panics while it holds the lock, and a queue is whole between any two lines.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Producer {
    pub(super) async fn register(client: &Client, options: ProducerOptions) -> Result<Self, Error> {
        let ProducerOptions { producer, name, scope, limits, lanes } = options;
        let registered = register(client, producer, name, scope).await?;
        let id: Arc<str> = registered.producer.as_str().into();
        let scope = registered.scope.or(scope).unwrap_or(Scope::Producer);
        let lanes = if scope == Scope::Topic { lanes } else { 1 };
        let shared = Arc::new(Shared {
            limits,
            lanes: (0..lanes)
                .map(|_| Station { queue: Mutex::new(Queue::default()), wake: Notify::new() })
                .collect(),
            space: Arc::new(Semaphore::new(limits.buffer_bytes_max)),
            tickets: AtomicU64::new(0),
            progress: Notify::new(),
            failure: Mutex::new(None),
        });
        for at in 0..lanes {
            let sequences = match scope {
                Scope::Producer => Sequences::of_producer(registered.last_sequence),
                Scope::Topic => Sequences::of_topics(registered.last.clone()),
            };
            let inner = client.inner.apart();
            let lane = Lane::new(Arc::clone(&shared), at, inner, Arc::clone(&id), sequences);
            tokio::spawn(lane.run());
        }
        let handle = Handle { shared, id, scope, last: registered };
        Ok(Self { handle: Arc::new(handle) })
    }

    /// The GUID to go on with after a restart.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.handle.id
    }

    /// What its sequences count.
    #[must_use]
    pub fn scope(&self) -> Scope {
        self.handle.scope
    }

    /// The last sequence that was stored when it was registered: over all topics, or to this topic
    /// if it counts per topic.
    #[must_use]
    pub fn last_sequence(&self, topic: &str) -> Option<u64> {
        match self.handle.scope {
            Scope::Producer => self.handle.last.last_sequence,
            Scope::Topic => self.handle.last.last.get(topic).copied(),
        }
    }

    /// Takes a message, as soon as there is space for it, and gives a future of what becomes of it.
    /// The message is sent whether that future is waited for or not.
    ///
    /// # Errors
    /// [`SendError`] if it was not taken.
    ///
    /// # Cancel safety
    /// Dropped, the message was not taken. What it gives may be dropped at any time.
    pub async fn send(
        &self,
        topic: &str,
        message: impl Into<Message>,
    ) -> Result<Delivery, SendError> {
        let message = message.into();
        let shared = &self.handle.shared;
        let (bytes, max) = (message.size(), shared.limits.buffer_bytes_max);
        let permits = u32::try_from(bytes).ok().filter(|_| bytes <= max);
        let permits = permits.ok_or(SendError::TooLarge { bytes, max })?;
        let space = Arc::clone(&shared.space).acquire_many_owned(permits).await;
        let space = space.map_err(|_| SendError::Closed)?;
        let (answer, answered) = oneshot::channel();
        let station = shared.station(topic).ok_or(SendError::Closed)?;
        let since = Instant::now();
        {
            let mut queue = station.queue();
            // Under the lock, so that tickets ascend in every queue.
            let ticket = shared.tickets.fetch_add(1, Ordering::Relaxed);
            queue.push(topic, Waiting { ticket, message, bytes, since, answer, space })?;
        }
        station.wake.notify_one();
        Ok(Delivery(answered))
    }

    /// Waits until everything that was taken before is answered, without any linger.
    ///
    /// # Errors
    /// The first [`SendError`] since the last flush; the others are told where they are waited for.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn flush(&self) -> Result<(), SendError> {
        let shared = &self.handle.shared;
        let below = shared.tickets.load(Ordering::Relaxed);
        for station in &shared.lanes {
            station.queue().flush(below);
            station.wake.notify_one();
        }
        loop {
            let mut progress = std::pin::pin!(shared.progress.notified());
            progress.as_mut().enable();
            if shared.lanes.iter().all(|station| station.queue().is_done(below)) {
                break;
            }
            progress.await;
        }
        match shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Takes no more messages, and waits until those that were taken are answered.
    ///
    /// # Errors
    /// As [`Producer::flush`].
    ///
    /// # Cancel safety
    /// Dropped, it is closed, and what was taken is sent nevertheless.
    pub async fn close(&self) -> Result<(), SendError> {
        self.handle.shared.close();
        self.flush().await
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("id", &self.handle.id).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Shared {
    fn close(&self) {
        self.space.close();
        for station in &self.lanes {
            station.queue().close();
            station.wake.notify_one();
        }
    }

    fn station(&self, topic: &str) -> Option<&Station> {
        let mut hasher = DefaultHasher::new();
        topic.hash(&mut hasher);
        let lanes = u64::try_from(self.lanes.len()).unwrap_or(u64::MAX).max(1);
        self.lanes.get(usize::try_from(hasher.finish() % lanes).ok()?)
    }
}

/// What becomes of one message. The message is sent whether this is waited for or not.
///
/// # Cancel safety
/// Nothing is lost when it is waited for in a `select!`, by `&mut`.
#[derive(Debug)]
#[must_use = "it tells whether the message is stored"]
pub struct Delivery(oneshot::Receiver<Result<Sent, SendError>>);

impl Future for Delivery {
    type Output = Result<Sent, SendError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A lane that is gone without a word went with its runtime.
        Pin::new(&mut self.0).poll(context).map(|told| told.unwrap_or(Err(SendError::Closed)))
    }
}

pub(super) async fn register(
    client: &Client,
    producer: Option<String>,
    name: Option<String>,
    scope: Option<Scope>,
) -> Result<Registered, Error> {
    #[derive(Serialize)]
    struct Body {
        version: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        producer: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        scope: Option<Scope>,
    }
    let body = Body { version: VERSION, producer, name, scope };
    client.post_json("/v1/streams/producers", &body).await
}
