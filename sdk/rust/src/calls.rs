//! Requests and answers that survive broken connections on either side.
//!
//! # Constraints
//! * A call that was taken is sent until the server has it, and once the server has it, its end
//!   comes: an answer, an error, a timeout, or that it was cancelled. Each step is confirmed by the
//!   other side and repeated until it is; repeated, it counts once.
//! * A connection is believed only as long as the server answers over it. One that goes silent
//!   without closing is noticed within three seconds and replaced; callers and handlers do not
//!   notice, except by [`Links`].
//! * A handler may be run more than once for a call: when its worker is lost, or it failed. It is told
//!   [`Job::attempt`] and [`Job::fence`].
//! * Everything is bounded: calls under way and their bytes, handlers at once, frames, times.
//!
//! ```text
//!  Caller ── call ──▶ ┌─────────┐ frames  ┌────────┐  frames ┌─────────┐ ── begin ──▶ handler
//!         ◀─ answer ─ │ session │ ◀─────▶ │ server │ ◀─────▶ │ session │ ◀─ result ──
//!                     └─────────┘         └────────┘         └─────────┘
//! ```
//!
//! The server is Handoff ([`Client::calls`](crate::Client::calls)), or a Redis that services share
//! ([`Redis`]): callers, workers and handlers are the same.

mod caller;
mod carrier;
mod driver;
mod error;
mod job;
mod look;
mod options;
mod redis;
mod session;
mod socket;
mod staff;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use handoff_calls::{ChannelName, wire};
use tokio::sync::{mpsc, oneshot, watch};

pub use handoff_calls::{CallId, ClientId};

pub use caller::{Caller, Calling, Pending};
pub use driver::Link;
pub use error::{CallError, Failed, HandlerError};
pub use job::Job;
pub use look::{
    CallPage, CallQuery, CallView, ChannelSettings, ChannelView, DeadCalls, FailedView, Happened,
};
pub use options::{CallerOptions, WorkerOptions};
pub use redis::{Books, Redis, Trouble};
pub use worker::{Channel, Serving, Worker};

use self::carrier::Carrier;
use self::driver::{Driver, Parts, Unwanted};
use self::options::SessionOptions;
use self::session::{Me, Session};
use self::staff::{Run, Staff, Tally};
use crate::client::Client;
use crate::{Error, backoff};

/// Orders that wait for the task of a session.
const ORDERS: usize = 64;

/// Calls, and whoever is called.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    client: &'a Client,
}

impl<'a> Calls<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Connects, to call. From then on it connects again by itself whenever it must.
    ///
    /// # Errors
    /// [`Error`] when the server cannot be reached or does not take it.
    ///
    /// # Cancel safety
    /// Dropped, there is no caller.
    pub async fn caller(&self, options: CallerOptions) -> Result<Caller, Error> {
        Caller::open(Place::Server(self.client), options).await
    }

    /// A worker that serves nothing yet and is not started.
    pub fn worker(&self, options: WorkerOptions) -> Worker<'a> {
        Worker::new(Place::Server(self.client), options)
    }
}

/// How good a connection is, now and from now on.
#[derive(Clone, Debug)]
pub struct Links(watch::Receiver<Link>);

impl Links {
    /// As it is now.
    #[must_use]
    pub fn now(&self) -> Link {
        self.0.borrow().clone()
    }

    /// Waits until it is otherwise, and gives how it is then; changes that undid each other
    /// meanwhile are not told. None once there is nothing to come.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Link> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}

/// Where callers and workers meet.
#[derive(Clone, Copy, Debug)]
enum Place<'a> {
    Server(&'a Client),
    Redis(&'a Redis),
}

/// What is served, by whom.
#[derive(Default)]
struct Serves {
    channels: Vec<wire::Serves>,
    handlers: BTreeMap<ChannelName, Run>,
    /// How long a handler may go on after it was told to end.
    grace: Duration,
    tally: Arc<Tally>,
}

/// A session that was greeted.
struct Opened {
    carrier: Carrier,
    links: Links,
    id: ClientId,
}

impl Place<'_> {
    /// Begins a session with so many calls under way at most, and waits for the greeting.
    async fn open(
        self,
        options: SessionOptions,
        calls_max: usize,
        serves: Serves,
    ) -> Result<Opened, Error> {
        match self {
            Self::Server(client) => open(client, options, serves).await,
            Self::Redis(redis) => redis.open(options, calls_max, serves).await,
        }
    }
}

/// Begins a session over a WebSocket.
async fn open(client: &Client, options: SessionOptions, serves: Serves) -> Result<Opened, Error> {
    let SessionOptions { name, pace, backoff, frame_bytes_max } = options;
    let Serves { channels, handlers, grace, tally } = serves;
    let id = ClientId::of_chance(backoff::unique());
    let me = Me { client: id, name: name.into(), serves: channels };
    let (orders, ordered) = mpsc::channel(ORDERS);
    let (link, links) = watch::channel(Link::Down { why: "no connection yet".to_owned() });
    let (ready, told) = oneshot::channel();
    let unwanted = Arc::<Unwanted>::default();
    let driver = Driver::new(Parts {
        inner: Arc::clone(&client.inner),
        frame_bytes_max,
        session: Session::new(me, pace, backoff),
        staff: Staff::new(handlers, grace, tally),
        orders: ordered,
        unwanted: Arc::clone(&unwanted),
        link,
        ready,
    });
    tokio::spawn(driver.run());
    let mut links = Links(links);
    told.await.unwrap_or_else(|_| Err(Error::Invalid("the session ended".to_owned())))?;
    links.0.mark_unchanged();
    Ok(Opened { carrier: Carrier::Session { orders, unwanted }, links, id })
}
