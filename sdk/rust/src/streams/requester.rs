//! Questions over topics: a message goes out, its answer comes back to whoever asked.
//!
//! ```text
//!  request ──▶ topic of the questions ──▶ a consumer ──▶ commit: done, and the answer
//!     ▲         reply-to, correlation-id                    │ one durable step
//!     └──────── tail of the answers ◀── topic of the answers ◀┘
//! ```
//! * Answers are only of use to whoever asked, as long as it waits. So they are followed by a
//!   [`Tail`], which leaves nothing out across reconnects, and no group remembers them.
//! * Whoever does not wait any more, because its time is over or its future was dropped, is
//!   forgotten; an answer that comes then is passed over.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::consumer::{CORRELATION_ID, REPLY_TO};
use super::message::{Message, Received};
use super::producer::{Producer, ProducerOptions, Scope, SendError};
use super::tail::{Tail, TailOptions, Told};
use super::topic::NewTopic;
use crate::{Backoff, Client, Error};

/// How a requester behaves.
#[derive(Clone, Debug)]
#[must_use]
pub struct RequesterOptions {
    topic: Option<String>,
    timeout: Duration,
    keep: Duration,
    waiting_max: usize,
    backoff: Backoff,
}

impl RequesterOptions {
    /// With a topic for answers of its own, which is made now and deleted by [`Requester::close`].
    pub fn new() -> Self {
        Self {
            topic: None,
            timeout: Duration::from_secs(30),
            keep: Duration::from_secs(3600),
            waiting_max: 1024,
            backoff: Backoff::default(),
        }
    }

    /// Answers come to this topic, which is there and stays. Several requesters may share it: each
    /// reads all answers and takes its own.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// How long an answer is waited for. 30 s unless said otherwise. A question that has no
    /// [`Message::ttl`] expires after that: nobody works for somebody who has gone.
    pub fn timeout(mut self, time: Duration) -> Self {
        self.timeout = time;
        self
    }

    /// How long its own topic keeps answers. 1 h unless said otherwise.
    pub fn keep(mut self, time: Duration) -> Self {
        self.keep = time;
        self
    }

    /// How many questions may wait for their answer at a time; more wait to be asked. 1024 unless
    /// said otherwise.
    pub fn waiting_max(mut self, questions: usize) -> Self {
        self.waiting_max = questions.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long to wait before something is tried again.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }
}

impl Default for RequesterOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// None came in time. The question is stored, and may be or may have been worked on.
    #[error("no answer came within {} s", .waited.as_secs_f64())]
    NoAnswer {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The question could not be sent, or nobody knows whether it was.
    #[error(transparent)]
    NotSent(#[from] SendError),
    /// Answers cannot be followed any more; the question may have been asked.
    #[error("answers cannot be followed any more: {0}")]
    Over(Arc<Error>),
    /// The requester is closed.
    #[error("the requester is closed")]
    Closed,
}

/// Asks questions over topics. Cheap to clone; clones share everything.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use handoff_sdk::streams::RequesterOptions;
///
/// let requester = client.streams().requester(RequesterOptions::new()).await?;
/// let price = requester.request("prices.questions", "tea").await?;
/// println!("{:?}", price.payload);
/// requester.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Requester {
    desk: Arc<Desk>,
}

/// All clones of a requester.
struct Desk {
    client: Client,
    producer: Producer,
    topic: String,
    /// Whether the topic is its own.
    own: bool,
    timeout: Duration,
    numbers: AtomicU64,
    space: Semaphore,
    waiting: Arc<Waiting>,
    task: AbortHandle,
}

/// Who waits for which answer.
#[derive(Default)]
struct Waiting(Mutex<Board>);

#[derive(Default)]
struct Board {
    answers: BTreeMap<String, oneshot::Sender<Received>>,
    /// Why no more answers come.
    over: Option<Arc<Error>>,
}

impl Waiting {
    /// No code panics while it holds the lock, and a board is whole between any two lines.
    fn board(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requester {
    pub(super) async fn open(client: &Client, options: RequesterOptions) -> Result<Self, Error> {
        let RequesterOptions { topic, timeout, keep, waiting_max, backoff } = options;
        let producing = ProducerOptions::new().scope(Scope::Topic).name("requester");
        let producer = Producer::register(client, producing.backoff(backoff)).await?;
        let own = topic.is_none();
        // The producer's GUID is nobody else's, so neither is the topic nor a correlation id.
        let topic = topic.unwrap_or_else(|| format!("replies.{}", producer.id()));
        if own {
            client.streams().create(&NewTopic::new(&topic).retention(keep)).await?;
        }
        // It stands before the first question is asked, so no answer can come unseen.
        let tail = Tail::open(client, &topic, TailOptions::new().reconnect(Some(backoff))).await?;
        let waiting = Arc::new(Waiting::default());
        let task = tokio::spawn(take_answers(tail, Arc::clone(&waiting))).abort_handle();
        let desk = Desk {
            client: client.clone(),
            producer,
            topic,
            own,
            timeout,
            numbers: AtomicU64::new(1),
            space: Semaphore::new(waiting_max),
            waiting,
            task,
        };
        Ok(Self { desk: Arc::new(desk) })
    }

    /// The topic that answers come to.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.desk.topic
    }

    /// Asks, and waits for the answer. The question is stored once, however often it must be sent.
    ///
    /// # Errors
    /// [`RequestError`]
    ///
    /// # Cancel safety
    /// Dropped, the question may have been asked; its answer is passed over.
    pub async fn request(
        &self,
        topic: &str,
        question: impl Into<Message>,
    ) -> Result<Received, RequestError> {
        let desk = &self.desk;
        let asked = async {
            let _space = desk.space.acquire().await.map_err(|_| RequestError::Closed)?;
            desk.ask(topic, question.into()).await
        };
        // In a box: it is large, and the futures of callers should not be.
        match timeout(desk.timeout, Box::pin(asked)).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestError::NoAnswer { waited: desk.timeout }),
        }
    }

    /// Asks no more, and deletes the topic of the answers if it is its own. Whoever still waits is
    /// told that it is closed.
    ///
    /// # Errors
    /// [`Error`] if the topic could not be deleted.
    ///
    /// # Cancel safety
    /// Dropped, it is closed, and the topic may be left over.
    pub async fn close(&self) -> Result<(), Error> {
        let desk = &self.desk;
        desk.space.close();
        desk.task.abort();
        desk.waiting.board().answers.clear();
        if !desk.own {
            return Ok(());
        }
        match desk.client.streams().delete(&desk.topic).await {
            Err(error) if error.code() == Some("streams.topic_not_found") => Ok(()),
            result => result,
        }
    }
}

impl fmt::Debug for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester").field("topic", &self.desk.topic).finish_non_exhaustive()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Desk {
    async fn ask(&self, topic: &str, mut question: Message) -> Result<Received, RequestError> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let id = format!("{}-{number}", self.producer.id());
        let (tell, told) = oneshot::channel();
        {
            let mut board = self.waiting.board();
            if let Some(over) = &board.over {
                return Err(RequestError::Over(Arc::clone(over)));
            }
            board.answers.insert(id.clone(), tell);
        }
        // Whoever goes away is forgotten.
        let _place = Place { waiting: &self.waiting, id: &id };
        question = question.header(REPLY_TO, self.topic.clone()).header(CORRELATION_ID, id.clone());
        if question.ttl.is_none() {
            question.ttl = Some(self.timeout);
        }
        self.producer.send(topic, question).await?.await?;
        told.await.map_err(|_| match &self.waiting.board().over {
            Some(over) => RequestError::Over(Arc::clone(over)),
            None => RequestError::Closed,
        })
    }
}

/// A place on the board, for as long as somebody waits.
struct Place<'a> {
    waiting: &'a Waiting,
    id: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.waiting.board().answers.remove(self.id);
    }
}

/// Gives each answer to whoever waits for it.
async fn take_answers(mut tail: Tail, waiting: Arc<Waiting>) {
    while let Some(told) = tail.next().await {
        match told {
            Ok(Told::Message(answer)) => {
                let id = answer.header(CORRELATION_ID).map(|id| String::from_utf8_lossy(id));
                let who = id.and_then(|id| waiting.board().answers.remove(id.as_ref()));
                if let Some(who) = who {
                    drop(who.send(answer));
                }
            }
            // What is interrupted goes on; what retention took nobody had waited for that long.
            Ok(_) => {}
            Err(error) => {
                let mut board = waiting.board();
                board.over = Some(Arc::new(error));
                board.answers.clear();
                return;
            }
        }
    }
}
