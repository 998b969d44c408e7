//! Whoever is called.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_calls::{ChannelName, ClientId, wire};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};

use super::carrier::Carrier;
use super::error::HandlerError;
use super::job::Job;
use super::options::WorkerOptions;
use super::staff::{Run, Tally};
use super::{Links, Opened, Place, Serves};
use crate::Error;

/// A channel to serve, and how many of its calls at once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Channel {
    name: String,
    concurrency: u32,
}

impl Channel {
    /// A channel, one call at a time.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), concurrency: 1 }
    }

    /// So many of its calls at once.
    pub fn concurrency(mut self, calls: u32) -> Self {
        self.concurrency = calls.max(1);
        self
    }
}

impl From<&str> for Channel {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// Serves channels, once it is started.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use handoff_sdk::calls::{Channel, HandlerError, Job, WorkerOptions};
///
/// let worker = client
///     .calls()
///     .worker(WorkerOptions::new().name("billing-1"))
///     .serve("double", |n: u64, _: Job| async move {
///         n.checked_mul(2).ok_or_else(|| HandlerError::new("TooLarge", "no such number").terminal())
///     })
///     .serve(Channel::new("bill").concurrency(8), |order: serde_json::Value, job: Job| async move {
///         // Every error can be said by `?`, and is tried again as the channel has it.
///         let amount: u64 = order["amount"].to_string().parse()?;
///         Ok(format!("bill of {amount}, attempt {}", job.attempt()))
///     })
///     .start()
///     .await?;
/// // …
/// let left = worker.drain(Duration::from_secs(30)).await;
/// println!("{left} calls were left unfinished");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct Worker<'a> {
    place: Place<'a>,
    options: WorkerOptions,
    serves: Vec<wire::Serves>,
    handlers: BTreeMap<ChannelName, Run>,
    wrong: Option<String>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(place: Place<'a>, options: WorkerOptions) -> Self {
        Self { place, options, serves: Vec::new(), handlers: BTreeMap::new(), wrong: None }
    }

    /// Runs this for each call of a channel. A handler that panics, or is not done when the time of
    /// the call is over, is an error for the caller and nobody else's trouble, as long as it waits
    /// by `await`.
    ///
    /// Parameters that cannot be read are a terminal error, `bad_params`.
    pub fn serve<P, R, F, Fut>(mut self, channel: impl Into<Channel>, handler: F) -> Self
    where
        P: DeserializeOwned + Send + 'static,
        R: Serialize,
        F: Fn(P, Job) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, HandlerError>> + Send + 'static,
    {
        let Channel { name, concurrency } = channel.into();
        let name: ChannelName = match name.parse() {
            Ok(name) => name,
            Err(error) => {
                self.wrong.get_or_insert_with(|| format!("{error}"));
                return self;
            }
        };
        let run: Run = Arc::new(move |params: Box<RawValue>, job: Job| {
            // Read before the handler's future is made, so that it need not hold the text.
            let working = serde_json::from_str(params.get()).map(|params| handler(params, job));
            Box::pin(async move {
                let bad = |error: serde_json::Error| {
                    HandlerError::new("BadParams", error.to_string()).code("bad_params").terminal()
                };
                let answer = working.map_err(bad)?.await?;
                to_raw_value(&answer).map_err(|error| {
                    let what = format!("the answer cannot be written: {error}");
                    HandlerError::new("BadAnswer", what).code("bad_answer").terminal()
                })
            })
        });
        if self.handlers.insert(name.clone(), run).is_some() {
            self.wrong.get_or_insert_with(|| format!("the channel {name} is served twice"));
        }
        self.serves.push(wire::Serves { channel: name, concurrency });
        self
    }

    /// Connects and begins. From then on it connects again by itself whenever it must.
    ///
    /// # Errors
    /// [`Error`] when the server cannot be reached or does not take it; [`Error::Invalid`] when a
    /// channel cannot be called so, or is served twice.
    ///
    /// # Cancel safety
    /// Dropped, it does not begin.
    pub async fn start(self) -> Result<Serving, Error> {
        if let Some(wrong) = self.wrong {
            return Err(Error::Invalid(wrong));
        }
        let tally = Arc::<Tally>::default();
        let WorkerOptions { session, cancel_grace } = self.options;
        let serves = Serves {
            channels: self.serves,
            handlers: self.handlers,
            grace: cancel_grace,
            tally: Arc::clone(&tally),
        };
        let Opened { carrier, links, id } = self.place.open(session, 0, serves).await?;
        Ok(Serving { carrier, links, id, tally })
    }
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("serves", &self.serves).finish_non_exhaustive()
    }
}

/// A worker at work. Dropped, it takes no more calls, and what runs is dropped after a few seconds
/// and given to others: prefer [`Serving::drain`].
#[derive(Debug)]
pub struct Serving {
    carrier: Carrier,
    links: Links,
    id: ClientId,
    tally: Arc<Tally>,
}

impl Serving {
    /// What the server calls it.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// How good its connection is, now and from now on.
    #[must_use]
    pub fn links(&self) -> Links {
        self.links.clone()
    }

    /// How many results were stored.
    #[must_use]
    pub fn stored(&self) -> u64 {
        match &self.carrier {
            Carrier::Session { .. } => self.tally.stored.load(Ordering::Relaxed),
            Carrier::Redis { client, .. } => client.stored(),
        }
    }

    /// How many results came too late: the call was over, or given to somebody else.
    #[must_use]
    pub fn late(&self) -> u64 {
        match &self.carrier {
            Carrier::Session { .. } => self.tally.late.load(Ordering::Relaxed),
            Carrier::Redis { client, .. } => client.late(),
        }
    }

    /// Takes no more calls, finishes what runs, and waits until its results are stored, for so long
    /// at most. Calls that were offered and not begun go to others at once. Gives how many calls were
    /// not finished when the time was over: their handlers are dropped, and they are what the server
    /// makes of calls whose executor is lost.
    ///
    /// # Cancel safety
    /// Dropped, it goes on: it takes no more calls.
    pub async fn drain(self, time: Duration) -> usize {
        self.carrier.drain(time).await
    }
}
