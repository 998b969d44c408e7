//! Calls through a Redis that services share, without a Handoff server.

mod books;
mod serving;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use handoff_store_redis as store;
use handoff_types::Span;
use tokio::runtime::Handle;
use tokio::sync::watch;

pub use books::Books;
pub use handoff_store_redis::Trouble;

use super::carrier::Carrier;
use super::driver::Link;
use super::options::{CallerOptions, SessionOptions, WorkerOptions};
use super::session::NewCall;
use super::{Caller, Links, Opened, Place, Serves, Worker};
use crate::{Error, Tls};

/// A Redis that services share to call each other. Callers, workers and handlers are those of a
/// server's; what Redis keeps of a call when it is lost is what Redis keeps.
///
/// Peers that speak the Origami protocol may share it, whatever they are written in. It is for a single
/// node, not for a cluster. Somebody must look after time-outs, retries and lost workers: every caller
/// and worker does so while no server guards this Redis (`calls.redis_url`).
///
/// ```no_run
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use handoff_sdk::calls::{CallerOptions, Job, Redis, WorkerOptions};
///
/// let redis = Redis::new("redis://127.0.0.1:6379/0")?;
/// let worker = redis
///     .worker(WorkerOptions::new())
///     .serve("double", |n: u64, _: Job| async move { Ok(n * 2) })
///     .start()
///     .await?;
/// let caller = redis.caller(CallerOptions::new()).await?;
/// let doubled: u64 = caller.call("double", &21).await?;
/// # drop(doubled);
/// worker.drain(Duration::from_secs(30)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Redis {
    url: String,
    address: store::Address,
    tls: Tls,
    connect_timeout: Duration,
}

impl Redis {
    /// A server by its URL: `redis://user:password@host:6379/0`, or `rediss://` for TLS.
    ///
    /// # Errors
    /// [`Error::Invalid`], if it is none; without the password.
    pub fn new(url: impl Into<String>) -> Result<Self, Error> {
        let url = url.into();
        let address = url.parse().map_err(|error| Error::Invalid(format!("{error}")))?;
        Ok(Self { url, address, tls: Tls::new(), connect_timeout: Duration::from_secs(5) })
    }

    /// Believes the authorities in a PEM file besides the public ones.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.tls = self.tls.ca_file(path);
        self
    }

    /// Believes these authorities, PEM, besides the public ones.
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.tls = self.tls.ca_pem(pem);
        self
    }

    /// How long a connection may take to be made and let in. 5 s unless said otherwise.
    pub fn connect_timeout(mut self, time: Duration) -> Self {
        self.connect_timeout = time;
        self
    }

    /// Connects, to call. From then on it connects again by itself whenever it must.
    ///
    /// # Errors
    /// [`Error`] when Redis cannot be reached or does not take it.
    ///
    /// # Cancel safety
    /// Dropped, there is no caller.
    pub async fn caller(&self, options: CallerOptions) -> Result<Caller, Error> {
        Caller::open(Place::Redis(self), options).await
    }

    /// A worker that serves nothing yet and is not started.
    pub fn worker(&self, options: WorkerOptions) -> Worker<'_> {
        Worker::new(Place::Redis(self), options)
    }

    /// Connects, to look at calls and to steer them.
    ///
    /// # Errors
    /// [`Error`] when Redis cannot be reached or does not take it.
    ///
    /// # Cancel safety
    /// Dropped, there is no connection.
    pub async fn books(&self) -> Result<Books, Error> {
        let options = self.options(store::Options::default())?;
        Ok(Books::new(store::Inspector::open(&self.url, options).await?))
    }

    /// With whom to believe.
    fn options(&self, options: store::Options) -> Result<store::Options, Error> {
        let tls = match self.url.starts_with("rediss:") {
            true => Some(store::Tls::of(self.tls.config().map_err(Error::Invalid)?)),
            false => None,
        };
        Ok(store::Options { tls, connect_timeout: self.connect_timeout, ..options })
    }

    pub(super) async fn open(
        &self,
        session: SessionOptions,
        calls_max: usize,
        serves: Serves,
    ) -> Result<Opened, Error> {
        let SessionOptions { name, pace, backoff, .. } = session;
        let options = self.options(store::Options {
            name: if name.is_empty() { "handoff".to_owned() } else { name },
            ping_interval: pace.ping_interval,
            ping_timeout: pace.ping_timeout,
            confirm_timeout: pace.repeat,
            retry: (backoff.first.max(SHORTEST_WAIT), backoff.longest.max(SHORTEST_WAIT)),
            // As many again may have ended and not be settled; and one more, so that there is always
            // room to stop.
            outstanding_max: calls_max.saturating_mul(2).saturating_add(1),
            ..store::Options::default()
        })?;
        let client = store::Client::connect(&self.url, options, serving::services(serves)).await?;
        let (links, id) = (links(&client), client.id());
        Ok(Opened { carrier: Carrier::Redis { client, runtime: Handle::current() }, links, id })
    }
}

/// No server is tried more often than this.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Without the password.
impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Redis").field(&self.address).finish()
    }
}

/// How good the connections of a client are, for as long as it lives.
fn links(client: &store::Client) -> Links {
    let mut connections = client.watch();
    let (link, links) = watch::channel(Link::Up);
    tokio::spawn(async move {
        while connections.changed().await.is_ok() {
            let trouble = connections.borrow_and_update().trouble.clone();
            link.send_replace(match trouble {
                Some(trouble) => Link::Down { why: trouble.to_string() },
                None => Link::Up,
            });
        }
        link.send_replace(Link::Over { why: None });
    });
    Links(links)
}

/// A call, as Redis' client takes it.
pub(super) fn request(call: NewCall) -> store::Request {
    let NewCall { id, channel, params, key, timeout, queue_timeout, only_with_consumer, trace } =
        call;
    let params: Box<str> = params.into();
    let span = |time: Duration| Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1));
    store::Request {
        channel,
        params: Bytes::from(params.into_boxed_bytes()),
        id: Some(id),
        key,
        timeout: timeout.map(span),
        queue_timeout: queue_timeout.map(span),
        only_with_consumer,
        trace,
    }
}
