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

mod caller;
mod driver;
mod error;
mod job;
mod look;
mod options;
mod session;
mod socket;
mod staff;
mod worker;

use std::sync::Arc;

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
pub use worker::{Channel, Serving, Worker};

use self::driver::{Driver, Order, Parts, Unwanted};
use self::options::SessionOptions;
use self::session::{Me, Session};
use self::staff::Staff;
use crate::Error;
use crate::client::Client;

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
        Caller::open(self.client, options).await
    }

    /// A worker that serves nothing yet and is not started.
    pub fn worker(&self, options: WorkerOptions) -> Worker<'a> {
        Worker::new(self.client, options)
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

/// A session that the server has greeted.
struct Opened {
    orders: mpsc::Sender<Order>,
    unwanted: Arc<Unwanted>,
    links: Links,
}

/// Begins a session and waits for the server's greeting.
async fn open(
    client: &Client,
    options: SessionOptions,
    id: ClientId,
    serves: Vec<handoff_calls::wire::Serves>,
    staff: Staff,
) -> Result<Opened, Error> {
    let SessionOptions { name, pace, backoff, frame_bytes_max } = options;
    let me = Me { client: id, name: name.into(), serves };
    let (orders, ordered) = mpsc::channel(ORDERS);
    let (link, links) = watch::channel(Link::Down { why: "no connection yet".to_owned() });
    let (ready, told) = oneshot::channel();
    let unwanted = Arc::<Unwanted>::default();
    let driver = Driver::new(Parts {
        inner: Arc::clone(&client.inner),
        frame_bytes_max,
        session: Session::new(me, pace, backoff),
        staff,
        orders: ordered,
        unwanted: Arc::clone(&unwanted),
        link,
        ready,
    });
    tokio::spawn(driver.run());
    let mut links = Links(links);
    told.await.unwrap_or_else(|_| Err(Error::Invalid("the session ended".to_owned())))?;
    links.0.mark_unchanged();
    Ok(Opened { orders, unwanted, links })
}
