//! Reading what is stored, without changing anything.

use std::time::Duration;

use http::Method;
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};

use super::message::Received;
use super::topic::{self, millis};
use super::wire::{self, MSGPACK};
use crate::client::Inner;
use crate::{Client, Error, Time};

/// Where reading begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Start {
    /// With the first message there is.
    #[default]
    Earliest,
    /// With the next message that comes.
    Latest,
    /// At this offset.
    Offset(u64),
    /// With the first message that is not older than this.
    Time(Time),
}

impl Serialize for Start {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = match self {
            Self::Earliest => return serializer.serialize_str("earliest"),
            Self::Latest => return serializer.serialize_str("latest"),
            _ => serializer.serialize_map(Some(1))?,
        };
        match self {
            Self::Offset(offset) => map.serialize_entry("offset", offset)?,
            Self::Time(time) => map.serialize_entry("time", time)?,
            Self::Earliest | Self::Latest => {}
        }
        map.end()
    }
}

/// Which messages of a partition to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct ReadQuery {
    pub(super) topic: String,
    pub(super) partition: u32,
    pub(super) start: Start,
    pub(super) key: Option<String>,
    pub(super) limit: Option<u32>,
    max_bytes: Option<u64>,
    wait: Duration,
}

impl ReadQuery {
    /// The partition from its first message on.
    pub fn new(topic: impl Into<String>, partition: u32) -> Self {
        Self {
            topic: topic.into(),
            partition,
            start: Start::Earliest,
            key: None,
            limit: None,
            max_bytes: None,
            wait: Duration::ZERO,
        }
    }

    /// From here on.
    pub fn from(mut self, start: Start) -> Self {
        self.start = start;
        self
    }

    /// From this offset on.
    pub fn offset(self, offset: u64) -> Self {
        self.from(Start::Offset(offset))
    }

    /// From this time on.
    pub fn time(self, time: impl Into<Time>) -> Self {
        self.from(Start::Time(time.into()))
    }

    /// Only messages of this key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// At most this many a page. The server has a limit of its own.
    pub fn limit(mut self, messages: u32) -> Self {
        self.limit = Some(messages);
        self
    }

    /// At most about so many bytes a page. The server has a limit of its own.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// How long the server waits for a message if there is none; 30 s at most.
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }
}

/// Offsets that cannot be given, from and to inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The first.
    pub from: u64,
    /// The last.
    pub to: u64,
}

/// Some messages of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The partition.
    pub partition: u32,
    /// The first offset there is.
    pub start: u64,
    /// The offset the next message gets.
    pub end: u64,
    /// Where to go on.
    pub next_offset: u64,
    /// In the order of their offsets.
    pub messages: Vec<Received>,
    /// What the disk does not give back.
    pub corrupt: Vec<Lost>,
}

/// Asks for one page.
pub(super) async fn read(client: &Client, query: &ReadQuery) -> Result<Page, Error> {
    match &query.start {
        Start::Earliest => ask(&client.inner, query, None, None).await,
        Start::Latest => {
            let end = end(client, &query.topic, query.partition).await?;
            ask(&client.inner, query, Some(end), None).await
        }
        Start::Offset(offset) => ask(&client.inner, query, Some(*offset), None).await,
        Start::Time(time) => ask(&client.inner, query, None, Some(time)).await,
    }
}

/// The offset the next message of a partition gets.
async fn end(client: &Client, topic: &str, partition: u32) -> Result<u64, Error> {
    let shown = client.streams().topic(topic).await?;
    let found = shown.partition_list.iter().find(|known| known.partition == partition);
    // If there is no such partition, whoever asks for it says so best.
    Ok(found.map_or(0, |partition| partition.end))
}

async fn ask(
    inner: &Inner,
    query: &ReadQuery,
    offset: Option<u64>,
    time: Option<&Time>,
) -> Result<Page, Error> {
    let ReadQuery { topic, partition, key, limit, max_bytes, wait, .. } = query;
    let wait_ms = Some(millis(*wait)).filter(|millis| *millis > 0);
    let target = topic::target(topic)
        .segment("partitions")
        .segment(partition)
        .segment("messages")
        .queries("offset", offset)
        .queries("time", time)
        .queries("key", key)
        .queries("limit", limit)
        .queries("maxBytes", max_bytes)
        .queries("waitMs", wait_ms);
    let outgoing = inner.outgoing(Method::GET, target.as_str(), MSGPACK, None)?;
    let time = inner.request_timeout.saturating_add(*wait);
    let body = inner.success(inner.ask_within(&outgoing, time).await?)?;
    let page = wire::page(&body).map_err(|why| inner.unreadable(why.0))?;
    if page.messages.iter().any(|message| message.offset >= page.next_offset) {
        return Err(inner.unreadable("it would give the same messages again"));
    }
    Ok(page)
}

/// Reads a partition to its end, page by page as they are needed.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), handoff_sdk::Error> {
/// use handoff_sdk::streams::ReadQuery;
///
/// let mut reader = client.streams().reader(ReadQuery::new("orders", 0).offset(100));
/// while let Some(message) = reader.next().await {
///     let message = message?;
///     println!("{}: {:?}", message.offset, message.payload);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Reader {
    client: Client,
    query: ReadQuery,
    messages: std::vec::IntoIter<Received>,
    corrupt: Vec<Lost>,
    over: bool,
}

impl Reader {
    pub(super) fn new(client: Client, query: ReadQuery) -> Self {
        Self { client, query, messages: Vec::new().into_iter(), corrupt: Vec::new(), over: false }
    }

    /// The next message. None at the end of the partition as it was when it was last asked; with
    /// [`ReadQuery::wait`], when none came in that time. A later call asks again.
    ///
    /// # Errors
    /// [`Error`]; the same page is asked for again if one goes on. `trimmed` if what is wanted is
    /// past its retention: [`crate::Problem::start`] says from where on something is left.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Received, Error>> {
        loop {
            if let Some(message) = self.messages.next() {
                return Some(Ok(message));
            }
            if std::mem::take(&mut self.over) {
                return None;
            }
            let page = match read(&self.client, &self.query).await {
                Ok(page) => page,
                Err(error) => return Some(Err(error)),
            };
            // A server that does not move on must not be asked for ever.
            let moved = self.query.start != Start::Offset(page.next_offset);
            self.over = page.next_offset >= page.end || !moved;
            self.query.start = Start::Offset(page.next_offset);
            self.corrupt.extend(page.corrupt);
            self.messages = page.messages.into_iter();
        }
    }

    /// The offset behind what was read last, or asked for.
    #[must_use]
    pub fn position(&self) -> Option<u64> {
        let next = self.messages.as_slice().first().map(|message| message.offset);
        match self.query.start {
            Start::Offset(offset) => next.or(Some(offset)),
            _ => next,
        }
    }

    /// What the disk did not give back so far. Told once.
    #[must_use]
    pub fn take_corrupt(&mut self) -> Vec<Lost> {
        std::mem::take(&mut self.corrupt)
    }
}
