//! Samples that agents of the relay send, for a program that keeps them.
//!
//! # Constraints
//! * A segment is confirmed to its agent when [`Sink::take`] says that it is durable, and when every
//!   other sink of the server has it; until then the agent keeps it. Neither server nor SDK spools.
//! * The sink keeps the mark of every [`Lane`] itself, best in the same transaction as the samples. It
//!   is asked for it whenever anything of a lane may come that it has. So a sink that does so
//!   takes each segment once, whoever of agent, server and program is killed. One that does not is
//!   handed some again, under the same [`Segment::id`].
//! * Segments of a lane come in their order, and none before the one before it is taken.
//! * One program takes the samples of a server at a time; whoever comes later takes the place of the
//!   other, which is told ([`Error::Dismissed`]).
//!
//! ```text
//!  agents ──▶ server, relay.callback = true ──segments──▶ Relay::feed ──mark, take──▶ Sink
//!        ◀─ Ack ─┘                       ◀──── taken ───────┘
//! ```
//!
//! ```no_run
//! use std::collections::BTreeMap;
//! use handoff_sdk::relay::{FeedOptions, Lane, Refused, Segment, Sink};
//! use handoff_sdk::{Client, Options};
//!
//! /// A database in memory: marks and samples change together.
//! #[derive(Default)]
//! struct Table {
//!     marks: BTreeMap<Lane, u32>,
//!     samples: Vec<(String, i64, f64)>,
//! }
//!
//! impl Sink for Table {
//!     async fn mark(&mut self, lane: &Lane) -> Result<Option<u32>, Refused> {
//!         Ok(self.marks.get(lane).copied())
//!     }
//!
//!     async fn take(&mut self, segments: &[Segment]) -> Result<(), Refused> {
//!         for segment in segments {
//!             for series in segment.series().map_err(Refused::never)? {
//!                 let name = series.label("__name__").unwrap_or_default();
//!                 let rows = series.samples.iter().map(|one| (name.to_owned(), one.time_ms, one.value));
//!                 self.samples.extend(rows);
//!             }
//!             self.marks.insert(segment.lane.clone(), segment.number);
//!         }
//!         Ok(())
//!     }
//! }
//!
//! # async fn run() -> Result<(), handoff_sdk::Error> {
//! let client = Client::new(Options::new("http://127.0.0.1:7070"))?;
//! let never = client.relay().feed(&mut Table::default(), FeedOptions::new()).await?;
//! # match never {}
//! # }
//! ```

mod body;
mod feed;

use std::convert::Infallible;
use std::fmt;

use bytes::Bytes;

use crate::{Backoff, Client, Error};

pub use body::{BadBody, Sample, Series};

/// The relay of a server.
#[derive(Clone, Copy, Debug)]
pub struct Relay<'a> {
    client: &'a Client,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Gives samples to a sink, for as long as the future is polled. A connection that is lost is made
    /// again.
    ///
    /// # Errors
    /// Only what another try does not mend: [`Error::Problem`] when the token is not for the whole
    /// relay, or `relay.callback` is not set; [`Error::Dismissed`] when another program took its place.
    ///
    /// # Cancel safety
    /// Dropped, it ends as a crash would: what the sink was taking is not confirmed and comes again,
    /// unless its mark says that it has it.
    pub async fn feed<S: Sink>(
        &self,
        sink: &mut S,
        options: FeedOptions,
    ) -> Result<Infallible, Error> {
        feed::feed(&self.client.inner, sink, &options).await
    }
}

/// How a program is fed.
#[derive(Clone, Debug)]
#[must_use]
pub struct FeedOptions {
    backoff: Backoff,
    together: usize,
    waiting_bytes_max: usize,
    segment_bytes_max: usize,
}

impl FeedOptions {
    /// As most programs want it.
    pub fn new() -> Self {
        Self {
            backoff: Backoff::default(),
            together: 64,
            waiting_bytes_max: 64 << 20,
            segment_bytes_max: 64 << 20,
        }
    }

    /// How long it waits before it connects again.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// How many segments are given to the sink at once, at most, if so many are there. 64 unless said
    /// otherwise.
    pub fn together(mut self, segments: usize) -> Self {
        self.together = segments.max(1);
        self
    }

    /// How many bytes of segments may wait for the sink; more are not read. 64 MiB unless said otherwise.
    pub fn waiting_bytes_max(mut self, bytes: usize) -> Self {
        self.waiting_bytes_max = bytes;
        self
    }

    /// The largest segment. 64 MiB unless said otherwise.
    pub fn segment_bytes_max(mut self, bytes: usize) -> Self {
        self.segment_bytes_max = bytes;
        self
    }
}

impl Default for FeedOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// Where samples go.
pub trait Sink: Send {
    /// The last segment of a lane that it has, durably; none if it has nothing of it.
    fn mark(&mut self, lane: &Lane) -> impl Future<Output = Result<Option<u32>, Refused>> + Send;

    /// Takes segments, of one lane or several, those of a lane in their order. All of them are
    /// durable when it says so, with their marks; and none is when it does not. Segments of which
    /// one is refused for good are given again one by one.
    fn take(&mut self, segments: &[Segment]) -> impl Future<Output = Result<(), Refused>> + Send;
}

/// A shard of a block of an agent: what has an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane {
    /// The agent's name.
    pub agent: String,
    /// Its block, a UUID.
    pub block: String,
    /// The shard.
    pub shard: u16,
}

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.agent, self.block, self.shard)
    }
}

/// Samples that were sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Segment {
    /// Whose it is.
    pub lane: Lane,
    /// Which of it. The first is 0; numbers that are left out never come.
    pub number: u32,
    /// How many samples it has.
    pub samples: u64,
    /// `io.prometheus.write.v2.Request`, protobuf as it is, with histograms, exemplars and metadata.
    pub body: Bytes,
}

impl Segment {
    /// What it is known by, for ever and everywhere: `agent/block/shard/number`.
    #[must_use]
    pub fn id(&self) -> String {
        format!("{}/{}", self.lane, self.number)
    }

    /// Its series with their samples.
    ///
    /// # Errors
    /// [`BadBody`] when the body is not what it should be.
    pub fn series(&self) -> Result<Vec<Series>, BadBody> {
        body::series(&self.body)
    }
}

/// Why a sink does not take something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    is_permanent: bool,
    words: String,
}

impl Refused {
    /// Not now: the agent keeps it and comes again.
    pub fn later(why: impl fmt::Display) -> Self {
        Self { is_permanent: false, words: why.to_string() }
    }

    /// Never: the agent sets it aside.
    pub fn never(why: impl fmt::Display) -> Self {
        Self { is_permanent: true, words: why.to_string() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

impl std::error::Error for Refused {}
