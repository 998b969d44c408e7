//! Topics and messages over the HTTP API.
//!
//! # Constraints
//! * A message that was answered is on disk, or as the topic's [`Durability`] says.
//! * A [`Producer`] sends each message under one sequence, however often it must send it, so it is
//!   stored once. Messages of one key keep the order in which they were given to it.
//! * Nothing is unbounded: a producer that is full makes its caller wait, a tail that is not taken
//!   is read no further.
//!
//! ```no_run
//! use handoff_sdk::streams::{Message, NewTopic, ProducerOptions, ReadQuery};
//! use handoff_sdk::{Client, Options};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::new(Options::new("http://127.0.0.1:7070"))?;
//! client.streams().create(&NewTopic::new("orders").partitions(3)).await?;
//!
//! let producer = client.streams().producer(ProducerOptions::new().name("shop")).await?;
//! for order in 0..1000 {
//!     let message = Message::new(format!("order {order}")).key(format!("customer-{}", order % 7));
//!     producer.send("orders", message).await?;
//! }
//! producer.flush().await?; // all of them are on disk now
//!
//! let mut reader = client.streams().reader(ReadQuery::new("orders", 0));
//! while let Some(message) = reader.next().await {
//!     println!("{:?}", message?.payload);
//! }
//! # Ok(())
//! # }
//! ```

mod base64;
mod consumer;
mod groups;
mod message;
mod msgpack;
mod producer;
mod reader;
mod requester;
mod tail;
mod topic;
mod wire;

use http::Method;
use serde::{Deserialize, Serialize};

use crate::client::{Client, Inner, VERSION};
use crate::{Error, Target};

pub use consumer::{
    Batch, CORRELATION_ID, Commit, CommitError, CommitOutcome, Committed, Committer, Consumer,
    ConsumerOptions, Delivered, Finished, Notice, Notices, REPLY_TO, Verdict,
};
pub use groups::{
    Assigned, Group, GroupMember, GroupPage, GroupPartition, GroupSettings, Groups, Letter,
    LetterPage, MessageStatus, Ordering, Origin, Place, Replay, Replayed, Seek, SeekStep, Sought,
    Standing,
};
pub use message::{Message, Received, Sent, Status};
pub use producer::{Delivery, Producer, ProducerOptions, Scope, SendError};
pub use reader::{Lost, Page, ReadQuery, Reader, Start};
pub use requester::{RequestError, Requester, RequesterOptions};
pub use tail::{Tail, TailOptions, Told};
pub use topic::{
    Compression, Durability, NewTopic, Partition, Skew, Topic, TopicChanges, TopicPage, Waiting,
    WaitingPage,
};
pub use wire::Produced;

/// Makes, shows and changes topics; stores and reads messages.
#[derive(Clone, Copy, Debug)]
pub struct Streams<'a> {
    client: &'a Client,
}

#[derive(Deserialize)]
struct Shown {
    topic: Topic,
}

#[derive(Serialize)]
struct Body<T> {
    version: u32,
    #[serde(flatten)]
    rest: T,
}

impl<'a> Streams<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Makes a topic. On disk when it answers.
    ///
    /// # Errors
    /// [`Error`]; `streams.topic_exists` if the name is taken.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn create(&self, topic: &NewTopic) -> Result<Topic, Error> {
        let body = Body { version: VERSION, rest: topic };
        let shown: Shown = self.client.post_json("/v1/streams/topics", &body).await?;
        Ok(shown.topic)
    }

    /// One page of topics, in the order of their names: those after a name, and at most so many.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn list(&self, after: Option<&str>, limit: Option<u32>) -> Result<TopicPage, Error> {
        let target =
            Target::new("/v1/streams/topics").queries("after", after).queries("limit", limit);
        let page: TopicPage = self.client.get_json(target.as_str()).await?;
        // Whoever asks for page after page must not do it for ever.
        match (&page.next, after) {
            (Some(next), Some(after)) if next.as_str() <= after => {
                Err(self.client.inner.protocol("its list of topics does not go on".to_owned()))
            }
            _ => Ok(page),
        }
    }

    /// One topic, with its partitions.
    ///
    /// # Errors
    /// [`Error`]; `streams.topic_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn topic(&self, name: &str) -> Result<Topic, Error> {
        let shown: Shown = self.client.get_json(topic::target(name).as_str()).await?;
        Ok(shown.topic)
    }

    /// Gives a topic more partitions. From then on keys go elsewhere: messages of one key that came
    /// before stay where they are, so their order relative to later ones is over.
    ///
    /// # Errors
    /// [`Error`]; a topic is never made smaller.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn grow(&self, name: &str, partitions: u32) -> Result<Topic, Error> {
        #[derive(Serialize)]
        struct Grow {
            partitions: u32,
        }
        let target = topic::target(name).segment("partitions");
        let body = Body { version: VERSION, rest: Grow { partitions } };
        let shown: Shown = self.client.post_json(target.as_str(), &body).await?;
        Ok(shown.topic)
    }

    /// Changes what may be changed of a topic in use.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn alter(&self, name: &str, changes: &TopicChanges) -> Result<Topic, Error> {
        let body = Body { version: VERSION, rest: changes };
        let shown: Shown = self.client.patch_json(topic::target(name).as_str(), &body).await?;
        Ok(shown.topic)
    }

    /// Deletes a topic and everything in it.
    ///
    /// # Errors
    /// [`Error`]; `streams.topic_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn delete(&self, name: &str) -> Result<(), Error> {
        self.client.delete_path(topic::target(name).as_str()).await
    }

    /// One page of a topic's messages that wait for their time, the next due first.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn scheduled(
        &self,
        topic: &str,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<WaitingPage, Error> {
        let target = topic::target(topic)
            .segment("scheduled")
            .queries("after", after)
            .queries("limit", limit);
        self.client.get_json(target.as_str()).await
    }

    /// Takes back a message that waits for its time.
    ///
    /// # Errors
    /// [`Error`]; `streams.scheduled_not_found` if it does not wait, or not any more.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn cancel(&self, id: &str) -> Result<(), Error> {
        let target = Target::new("/v1/streams/scheduled").segment(id);
        self.client.delete_path(target.as_str()).await
    }

    /// Registers a producer, or goes on as one that was registered before.
    ///
    /// # Errors
    /// [`Error`]; this is not tried twice. If the answer was lost, a GUID that nobody uses may be
    /// left over, which the server forgets in time.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn producer(&self, options: ProducerOptions) -> Result<Producer, Error> {
        Producer::register(self.client, options).await
    }

    /// Stores messages with one request, all or none, without a producer. It is sent once: after
    /// [`crate::Outcome::Unknown`] they may be stored, and a second time they would be there twice.
    /// A [`Producer`] has no such doubt.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn produce(&self, topic: &str, messages: &[Message]) -> Result<Produced, Error> {
        let body = wire::produce(None, messages.iter())?;
        self.client.inner.produce(topic, body, messages.len()).await
    }

    /// Some messages of a partition.
    ///
    /// # Errors
    /// [`Error`]; `trimmed` if the offset is past its retention.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn read(&self, query: &ReadQuery) -> Result<Page, Error> {
        reader::read(self.client, query).await
    }

    /// Reads a partition to its end.
    #[must_use]
    pub fn reader(&self, query: ReadQuery) -> Reader {
        Reader::new(self.client.clone(), query)
    }

    /// Follows a topic, or one partition of it: what is there, then what comes. Connections that
    /// break are made again, and it goes on with the offset behind the last message that was told.
    ///
    /// # Errors
    /// [`Error`] when the topic cannot be looked at; this is not tried twice.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn tail(&self, topic: &str, options: TailOptions) -> Result<Tail, Error> {
        Tail::open(self.client, topic, options).await
    }

    /// Groups: made, looked at, changed.
    #[must_use]
    pub fn groups(&self) -> Groups<'a> {
        Groups::new(self.client)
    }

    /// Joins a group. The group is made if it is not there and topics are given.
    ///
    /// # Errors
    /// [`Error`]; this is not tried twice. If the answer was lost, a member that nobody is may have
    /// its partitions until its session is over; with [`ConsumerOptions::instance`] the next try
    /// takes its place.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn consumer(&self, options: ConsumerOptions) -> Result<Consumer, Error> {
        Consumer::join(self.client, options).await
    }

    /// Opens a desk for questions over topics, to which answers come back.
    ///
    /// # Errors
    /// [`Error`]; this is not tried twice.
    ///
    /// # Cancel safety
    /// As [`Client`] says; a topic for answers may be left over.
    pub async fn requester(&self, options: RequesterOptions) -> Result<Requester, Error> {
        Requester::open(self.client, options).await
    }
}

impl Inner {
    /// Sends messages once.
    async fn produce(
        &self,
        topic: &str,
        body: bytes::Bytes,
        count: usize,
    ) -> Result<Produced, Error> {
        let target = topic::target(topic).segment("messages");
        let mut outgoing =
            self.outgoing(Method::POST, target.as_str(), wire::MSGPACK, Some(body))?;
        outgoing.content_type = wire::MSGPACK;
        let body = self.success(self.ask(&outgoing).await?)?;
        let produced = wire::produced(&body).map_err(|why| self.unreadable(why.0))?;
        if produced.results.len() != count {
            let results = produced.results.len();
            return Err(self.protocol(format!("it gives {results} results for {count} messages")));
        }
        Ok(produced)
    }

    fn unreadable(&self, why: &str) -> Error {
        self.protocol(format!("its MessagePack is not what was expected ({why})"))
    }
}
