//! A client: it calls, serves channels, or both, and survives every connection it loses.
//!
//! ```text
//!  Client ──orders──▶ ┌─────────┐ ──steps──▶ publisher ──▶ Redis
//!    ▲                │ Session │ ──init, ping──▶ ping ───▶   │
//!    └── outcomes ─── └─────────┘ ◀── events ── listener ◀────┘
//! ```
//!
//! A step is confirmed by its event through the listener and by nothing else, because that is what
//! proves the way there and back. What is not confirmed is sent again, under the same id.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handoff_calls::{
    CallId, ChannelName, ClientId, Failing, IdempotencyKey, NewCall, Outcome, Refusal, Serves,
    TraceParent,
};
use handoff_types::{Span, Wall};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::address::Address;
use crate::link::Link;
use crate::options::Options;
use crate::session::{Asking, Order, Parts, Session, Settle};
use crate::tally::Tally;
use crate::trouble::Trouble;

/// Orders that wait for the session.
const ORDERS_MAX: usize = 1024;

/// A call that is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where it goes.
    pub channel: ChannelName,
    /// What the handler gets: JSON text.
    pub params: Bytes,
    /// What it is called; made of chance if nobody says.
    pub id: Option<CallId>,
    /// Calls of the channel with the same key are the same call.
    pub key: Option<IdempotencyKey>,
    /// The time of the whole call.
    pub timeout: Option<Span>,
    /// The time until it is begun.
    pub queue_timeout: Option<Span>,
    /// It ends at once if nobody is there to run it.
    pub only_with_consumer: bool,
    /// Where it stands in somebody's trace.
    pub trace: Option<TraceParent>,
}

impl Request {
    /// A call with nothing but what it must have.
    #[must_use]
    pub fn new(channel: ChannelName, params: impl Into<Bytes>) -> Self {
        Self {
            channel,
            params: params.into(),
            id: None,
            key: None,
            timeout: None,
            queue_timeout: None,
            only_with_consumer: false,
            trace: None,
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What the call is called.
    pub call: CallId,
    /// How it ended.
    pub outcome: Outcome,
    /// Who ran it, if somebody did and it is known.
    pub executor: Option<ClientId>,
}

/// A call that a handler gets.
#[derive(Clone, Debug)]
pub struct Job {
    /// What it is called.
    pub call: CallId,
    /// Where it came.
    pub channel: ChannelName,
    /// Who asks; none if nobody waits for the answer.
    pub caller: Option<ClientId>,
    /// JSON text.
    pub params: Bytes,
    /// How often it was begun, this time included.
    pub attempt: u16,
    /// The fencing token: later offers of the call have larger ones.
    pub fence: u64,
    /// When the time of the whole call is over, on Redis' clock; not known of a stock peer's.
    pub deadline: Option<Wall>,
    /// The same on this machine's.
    pub over_at: Option<Instant>,
    /// Where it stands in somebody's trace.
    pub trace: Option<TraceParent>,
    pub(crate) wanted: watch::Receiver<bool>,
}

impl Job {
    /// Ready when the result is not wanted any more: the call was cancelled, is over, or somebody else
    /// has it.
    pub async fn unwanted(&mut self) {
        // It is not, either, when nobody is left to want it.
        drop(self.wanted.wait_for(|wanted| !wanted).await);
    }
}

/// What a handler promises.
pub type Handled = Pin<Box<dyn Future<Output = Result<Bytes, Failing>> + Send>>;

/// A channel that a client serves, how many calls of it at once, and with what.
#[derive(Clone)]
pub struct Service {
    /// Which, and how many at once.
    pub serves: Serves,
    pub(crate) handler: Arc<dyn Fn(Job) -> Handled + Send + Sync>,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("serves", &self.serves).finish_non_exhaustive()
    }
}

impl Service {
    /// Serves a channel. A handler that panics has failed, and its client lives on.
    pub fn new<F>(
        channel: ChannelName,
        concurrency: u32,
        handler: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Bytes, Failing>> + Send + 'static,
    {
        let handler = Arc::new(move |job| Box::pin(handler(job)) as Handled);
        Self { serves: Serves { channel, concurrency }, handler }
    }
}

/// Why a call has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoAnswer {
    /// It was refused, and nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// As many as are waited for at once.
    #[error("{0} calls are waited for, as many as calls.outstanding_max allows")]
    Full(usize),
    /// The server refuses in a way that does not pass by itself.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// Its time is over, and Redis has not said what became of it.
    #[error("Redis has not said what became of call {call}")]
    Unanswered {
        /// Which.
        call: CallId,
        /// It was sent, and may have been carried out.
        sent: bool,
    },
    /// The client was stopped before the call ended.
    #[error("the client was stopped before the call ended")]
    Stopped,
}

/// A call under way.
#[derive(Debug)]
pub struct Called {
    /// What it is called.
    pub call: CallId,
    /// Told once Redis is known to have it; gone if it ended without that.
    pub registered: oneshot::Receiver<()>,
    /// Its end; gone if the client was stopped before.
    pub ended: oneshot::Receiver<Result<Answer, NoAnswer>>,
}

/// The connections of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// How often it was connected and registered.
    pub made: u64,
    /// Why it is not, now.
    pub trouble: Option<Trouble>,
}

/// A client. Clones are the same one. When the last is gone, so are its connections.
#[derive(Clone, Debug)]
pub struct Client {
    id: ClientId,
    options: Arc<Options>,
    orders: mpsc::Sender<Order>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    task: std::sync::Mutex<Option<JoinHandle<()>>>,
    dice: crate::dice::Dice,
    connections: watch::Receiver<Connections>,
    tally: Arc<Tally>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Ok(Some(task)) = self.task.get_mut().map(Option::take) {
            task.abort();
        }
    }
}

impl Client {
    /// Connects, registers and serves.
    ///
    /// # Errors
    /// [`Trouble`], when the server cannot be used now, or the channels cannot be served so.
    pub async fn connect(
        address: &str,
        options: Options,
        services: Vec<Service>,
    ) -> Result<Self, Trouble> {
        let address: Address = address.parse().map_err(|error: crate::BadAddress| {
            Trouble::Refused { place: "calls.redis_url".to_owned(), why: error.to_string() }
        })?;
        let options = Arc::new(options.with_tls(&address)?);
        let room = options.room(&address)?;
        let id = ClientId::of_chance(room.dice.roll().0);
        let channels = || services.iter().map(|service| service.serves.channel.clone());
        let link = Link::open(&room, &options, id, channels()).await?;
        tracing::info!(place = %address, client = %id, "calls on Redis; this is for a single node");
        let (orders, taken) = mpsc::channel(ORDERS_MAX);
        let (counted, connections) = watch::channel(Connections::default());
        let (dice, tally) = (room.dice.clone(), Arc::<Tally>::default());
        let session = Session::new(Parts {
            me: id,
            address,
            options: Arc::clone(&options),
            room,
            services,
            orders: taken,
            connections: counted,
            tally: Arc::clone(&tally),
        });
        let (ready, is_ready) = oneshot::channel();
        let task = tokio::spawn(session.run(link, ready));
        let task = std::sync::Mutex::new(Some(task));
        let shared = Arc::new(Shared { task, dice, connections, tally });
        let client = Self { id, options, orders, shared };
        match is_ready.await {
            Ok(Ok(())) => Ok(client),
            Ok(Err(trouble)) => Err(trouble),
            Err(_) => Err(Trouble::Refused {
                place: "calls.redis_url".to_owned(),
                why: "the client ended before it was registered".to_owned(),
            }),
        }
    }

    /// What the client calls itself, through every connection.
    #[must_use]
    pub const fn id(&self) -> ClientId {
        self.id
    }

    /// How often it was connected and registered.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.shared.connections.borrow().made
    }

    /// Its connections, now and from now on.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Connections> {
        self.shared.connections.clone()
    }

    /// How many results of its handlers were stored.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.shared.tally.stored()
    }

    /// How many came too late: the call was over, or given to somebody else.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.shared.tally.late()
    }

    /// How many calls of others it has, offered or begun, whose results are not stored.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.shared.tally.unfinished()
    }

    /// Calls, and waits for the end through whatever happens to connections.
    ///
    /// # Errors
    /// [`NoAnswer`]. A handler's error, a timeout and the like are outcomes.
    ///
    /// # Cancel safety
    /// Dropped, the call goes on without anybody who waits for it.
    pub async fn call(&self, request: Request) -> Result<Answer, NoAnswer> {
        let called = self.start(request, ()).await?;
        called.ended.await.map_err(|_| NoAnswer::Stopped)?
    }

    /// Calls, and gives what tells of the end. `kept` is dropped when that is told.
    ///
    /// # Errors
    /// [`NoAnswer::Stopped`], if it was not made.
    ///
    /// # Cancel safety
    /// Dropped, the call was not made.
    pub async fn start(
        &self,
        request: Request,
        kept: impl Any + Send + Sync,
    ) -> Result<Called, NoAnswer> {
        let (answer, ended) = oneshot::channel();
        let (confirm, registered) = oneshot::channel();
        let id = request.id.unwrap_or_else(|| CallId::of_chance(self.shared.dice.roll().0));
        let Request {
            channel, params, key, timeout, queue_timeout, only_with_consumer, trace, ..
        } = request;
        let new = NewCall {
            id,
            caller: Some(self.id),
            channel,
            params,
            key,
            timeout,
            queue_timeout,
            only_with_consumer,
            trace,
        };
        let (confirm, answer) = (Some(confirm), Some(answer));
        let asking = Box::new(Asking { new, confirm, answer, kept: Some(Box::new(kept)) });
        self.orders.send(Order::Call(asking)).await.map_err(|_| NoAnswer::Stopped)?;
        Ok(Called { call: id, registered, ended })
    }

    /// A call is wanted no more: it ends, and whoever runs it is told. One of its own that Redis does
    /// not have yet is cancelled as soon as Redis has it.
    ///
    /// # Errors
    /// [`Trouble`], when Redis did not answer; it may be cancelled all the same.
    pub async fn cancel(&self, call: CallId) -> Result<(), Trouble> {
        let (done, is_done) = oneshot::channel();
        let stopped = || Trouble::Refused {
            place: "the client".to_owned(),
            why: "it was stopped".to_owned(),
        };
        self.orders.send(Order::Cancel(call, done)).await.map_err(|_| stopped())?;
        is_done.await.map_err(|_| stopped())?
    }

    /// Takes no more calls, hands back what it has not begun, and waits until what it runs is answered
    /// and what it asked is settled, for `patience` at most. Then it closes its connections. Says
    /// whether everything was settled.
    pub async fn stop(self, patience: Duration) -> bool {
        self.end(Settle::Everything, patience).await
    }

    /// The same without waiting for the ends of what it asked: that Redis has it is enough. Whoever
    /// waits for one is told [`NoAnswer::Stopped`].
    pub async fn close(self, patience: Duration) -> bool {
        self.end(Settle::AllButAnswers, patience).await
    }

    async fn end(self, what: Settle, patience: Duration) -> bool {
        let (done, is_done) = oneshot::channel();
        let settled = async {
            self.orders.send(Order::Stop(what, done)).await.ok()?;
            is_done.await.ok()
        };
        let settled = timeout(patience, settled).await.ok().flatten().is_some();
        let task = self.shared.task.lock().map(|mut task| task.take()).ok().flatten();
        if let Some(task) = task {
            task.abort();
            // It was cut off, which is what was asked for.
            drop(task.await);
        }
        settled
    }

    /// How it is set up.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }
}
