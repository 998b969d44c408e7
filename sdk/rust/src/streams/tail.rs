//! Following a topic.
//!
//! ```text
//!  look at the topic ─▶ read to the end ─▶ open the tail ─▶ read to the end ─▶ tell what comes
//!         ▲              page by page       what comes from  what came between     │ it breaks
//!         │                                 now on is told                         ▼
//!         └────────────────────── wait, with the next offset of each partition ◀───┘
//! ```
//! So nothing is left out and nothing told twice, whatever breaks: the tail only has to say what
//! comes, the offsets are kept here.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::message::{Received, of_json};
use super::reader::{self, Lost, ReadQuery, Start};
use super::topic;
use crate::client::Inner;
use crate::sse::{Opening, Stream, farewell};
use crate::{Backoff, Client, Error};

/// The longest message that is taken: a megabyte as base64, and headers.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// How much is told and not taken.
const TOLD_MAX: usize = 256;

/// What to follow, and how.
#[derive(Clone, Debug)]
#[must_use]
pub struct TailOptions {
    start: Start,
    partition: Option<u32>,
    key: Option<String>,
    reconnect: Option<Backoff>,
    silence_max: Duration,
}

impl TailOptions {
    /// All partitions, from the next message on, for ever.
    pub fn new() -> Self {
        Self {
            start: Start::Latest,
            partition: None,
            key: None,
            reconnect: Some(Backoff::default()),
            silence_max: Duration::from_secs(60),
        }
    }

    /// From here on, in every partition.
    pub fn from(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// Only this partition.
    pub fn partition(mut self, partition: u32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Only messages of this key: all that are there, and of those that come what goes to the
    /// key's partition.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// How to connect again; none: it is over when the connection breaks.
    pub fn reconnect(mut self, backoff: Option<Backoff>) -> Self {
        self.reconnect = backoff;
        self
    }

    /// How long nothing may be heard before the connection counts as broken. 60 s unless said
    /// otherwise: the server says something every few seconds even if nothing comes.
    pub fn silence_max(mut self, time: Duration) -> Self {
        self.silence_max = time;
        self
    }
}

impl Default for TailOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What a tail tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum Told {
    /// A message. Those of a partition are told in the order of their offsets, each once.
    Message(Received),
    /// Messages that were past their retention before they could be told.
    Trimmed {
        /// Of this partition.
        partition: u32,
        /// These.
        lost: Lost,
    },
    /// Messages that the server's disk does not give back.
    Corrupt {
        /// Of this partition.
        partition: u32,
        /// These.
        lost: Lost,
    },
    /// The connection broke; it is being made again, and nothing will be missing.
    Interrupted {
        /// Why.
        cause: Error,
    },
    /// The tail stands again.
    Reconnected,
}

/// A topic that is followed. Dropped, it ends.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), handoff_sdk::Error> {
/// use handoff_sdk::streams::{Start, TailOptions, Told};
///
/// let mut tail = client.streams().tail("orders", TailOptions::new().from(Start::Earliest)).await?;
/// while let Some(told) = tail.next().await {
///     if let Told::Message(message) = told? {
///         println!("{}:{} {:?}", message.partition, message.offset, message.payload);
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Tail {
    told: mpsc::Receiver<Result<Told, Error>>,
    task: AbortHandle,
}

impl Tail {
    pub(super) async fn open(
        client: &Client,
        topic: &str,
        options: TailOptions,
    ) -> Result<Self, Error> {
        let (tell, told) = mpsc::channel(TOLD_MAX);
        let mut follower = Follower {
            client: client.clone(),
            topic: topic.to_owned(),
            options,
            id: None,
            next: BTreeMap::new(),
            tell,
        };
        follower.look().await?;
        let task = tokio::spawn(follower.run()).abort_handle();
        Ok(Self { told, task })
    }

    /// What is told next. None once it is over, which an error has told before.
    ///
    /// # Errors
    /// [`Error`]; then it is over. If it connects again by itself, only for what time does not heal:
    /// a token that was revoked, a topic that is gone.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Told, Error>> {
        self.told.recv().await
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tail").finish_non_exhaustive()
    }
}

/// Why following stops.
enum Stop {
    /// Nobody listens any more.
    Unheard,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

struct Follower {
    client: Client,
    topic: String,
    options: TailOptions,
    /// The topic's number: another one of the same name is another topic.
    id: Option<u64>,
    /// Where each partition goes on.
    next: BTreeMap<u32, Start>,
    tell: mpsc::Sender<Result<Told, Error>>,
}

impl Follower {
    async fn run(mut self) {
        let mut failures = 0;
        let mut stood = false;
        loop {
            let error = match self.follow(&mut failures, stood).await {
                Stop::Unheard => return,
                Stop::Failed(error) => error,
            };
            let Some(backoff) = self.options.reconnect.filter(|_| error.is_temporary()) else {
                drop(self.tell.send(Err(error)).await);
                return;
            };
            let asked = error.problem().and_then(|problem| problem.retry_after);
            if failures == 0 {
                let told = self.tell(Told::Interrupted { cause: error });
                if told.await.is_err() {
                    return;
                }
            }
            sleep(backoff.wait(failures, asked)).await;
            failures = failures.saturating_add(1);
            stood = true;
        }
    }

    /// Follows until something breaks. `failures` is nothing again once the tail stands.
    async fn follow(&mut self, failures: &mut u32, again: bool) -> Stop {
        match self.follow_on(failures, again).await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    async fn follow_on(
        &mut self,
        failures: &mut u32,
        again: bool,
    ) -> Result<std::convert::Infallible, Stop> {
        if again {
            self.look().await?;
        }
        self.catch_up().await?;
        let mut stream = self.open().await?;
        self.catch_up().await?;
        *failures = 0;
        if again {
            self.tell(Told::Reconnected).await?;
        }
        let client = self.client.clone();
        loop {
            match next(&client.inner, &mut stream).await? {
                Heard::Message(message) => self.hear(message).await?,
                Heard::Skipped(told, partition, next) => {
                    self.tell(told).await?;
                    self.next.insert(partition, Start::Offset(next));
                }
                Heard::Other => {}
            }
        }
    }

    /// Learns what partitions there are. A new one is followed from its begin.
    async fn look(&mut self) -> Result<(), Error> {
        let shown = self.client.streams().topic(&self.topic).await?;
        if self.id.is_some_and(|id| id != shown.id) {
            let why = format!("topic `{}` was deleted, and another has its name", self.topic);
            return Err(Error::Invalid(why));
        }
        let first_look = self.id.replace(shown.id).is_none();
        for partition in &shown.partition_list {
            if self.options.partition.is_some_and(|only| only != partition.partition) {
                continue;
            }
            let start = match &self.options.start {
                _ if !first_look => Start::Earliest,
                Start::Latest => Start::Offset(partition.end),
                other => other.clone(),
            };
            self.next.entry(partition.partition).or_insert(start);
        }
        if let (Some(only), true) = (self.options.partition, self.next.is_empty()) {
            // Whoever is asked for it says best that it is not there.
            self.next.insert(only, Start::Earliest);
        }
        Ok(())
    }

    /// Tells everything that is there.
    async fn catch_up(&mut self) -> Result<(), Stop> {
        let partitions: Vec<u32> = self.next.keys().copied().collect();
        for partition in partitions {
            self.catch_up_in(partition).await?;
        }
        Ok(())
    }

    async fn catch_up_in(&mut self, partition: u32) -> Result<(), Stop> {
        loop {
            let start = self.next.get(&partition).cloned().unwrap_or_default();
            let mut query = ReadQuery::new(&self.topic, partition).from(start.clone());
            query.key.clone_from(&self.options.key);
            let page = match reader::read(&self.client, &query).await {
                Ok(page) => page,
                Err(error) => {
                    let left = error.problem().and_then(|problem| problem.start);
                    let (Start::Offset(from), Some(left)) = (start, left) else {
                        return Err(error.into());
                    };
                    let lost = Lost { from, to: left.saturating_sub(1) };
                    self.next.insert(partition, Start::Offset(left));
                    self.tell(Told::Trimmed { partition, lost }).await?;
                    continue;
                }
            };
            for lost in page.corrupt {
                self.tell(Told::Corrupt { partition, lost }).await?;
            }
            for message in page.messages {
                let behind = Start::Offset(message.offset.saturating_add(1));
                self.tell(Told::Message(message)).await?;
                self.next.insert(partition, behind);
            }
            self.next.insert(partition, Start::Offset(page.next_offset));
            // A server that does not move on must not be asked for ever.
            if page.next_offset >= page.end || start == Start::Offset(page.next_offset) {
                return Ok(());
            }
        }
    }

    async fn open(&self) -> Result<Box<Stream>, Error> {
        let target = topic::target(&self.topic)
            .segment("tail")
            .queries("partition", self.options.partition)
            .query("from", "latest")
            .queries("key", self.options.key.as_deref());
        let opening = Opening {
            path: target.as_str(),
            silence_max: self.options.silence_max,
            message_bytes_max: MESSAGE_BYTES_MAX,
        };
        let inner = &self.client.inner;
        let outgoing = opening.outgoing(inner)?;
        inner.in_time(&outgoing, Box::pin(opening.open(inner, &outgoing))).await
    }

    /// Tells a message that the tail told, unless it was told before.
    async fn hear(&mut self, message: Received) -> Result<(), Stop> {
        let (partition, offset) = (message.partition, message.offset);
        if !self.next.contains_key(&partition) {
            // The topic has grown meanwhile: what came before this one is there too.
            self.catch_up_in(partition).await?;
        }
        if matches!(self.next.get(&partition), Some(Start::Offset(next)) if offset < *next) {
            return Ok(());
        }
        self.tell(Told::Message(message)).await?;
        self.next.insert(partition, Start::Offset(offset.saturating_add(1)));
        Ok(())
    }

    async fn tell(&self, told: Told) -> Result<(), Stop> {
        self.tell.send(Ok(told)).await.map_err(|_| Stop::Unheard)
    }
}

/// What a tail says.
enum Heard {
    Message(Received),
    /// Offsets that it cannot give, and where it goes on.
    Skipped(Told, u32, u64),
    Other,
}

/// What a tail says next.
async fn next(inner: &Inner, stream: &mut Stream) -> Result<Heard, Error> {
    let told = stream.next(inner).await?;
    let unreadable =
        |why: String| inner.protocol(format!("what the tail says cannot be read ({why})"));
    match told.event.as_slice() {
        b"message" => of_json(&told.id, &told.data).map(Heard::Message).map_err(unreadable),
        b"skipped" => skipped(&told.data).map_err(|error| unreadable(error.to_string())),
        b"closed" => Err(inner.cut(&farewell(&told.data))),
        _ => Ok(Heard::Other),
    }
}

fn skipped(data: &[u8]) -> Result<Heard, serde_json::Error> {
    #[derive(Deserialize)]
    struct Skipped {
        partition: u32,
        from: u64,
        to: u64,
        reason: String,
    }
    let Skipped { partition, from, to, reason } = serde_json::from_slice(data)?;
    let lost = Lost { from, to };
    let told = match reason.as_str() {
        "trimmed" => Told::Trimmed { partition, lost },
        _ => Told::Corrupt { partition, lost },
    };
    Ok(Heard::Skipped(told, partition, to.saturating_add(1)))
}
