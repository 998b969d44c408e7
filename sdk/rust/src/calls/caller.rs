//! Whoever calls.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use handoff_calls::{CallId, ClientId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::to_raw_value;
use tokio::sync::{Semaphore, oneshot};

use super::carrier::{Answering, Carrier, Started};
use super::error::CallError;
use super::options::CallerOptions;
use super::session::NewCall;
use super::{Links, Opened, Place, Serves};
use crate::{Error, Outcome, backoff};

/// Makes calls. Cheap to clone; clones share one connection.
///
/// A call that was taken survives every break of the connection: it is sent again under its own id,
/// the server counts it once, and its answer is kept until it was acknowledged.
///
/// ```no_run
/// # async fn run(client: &handoff_sdk::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use handoff_sdk::calls::CallerOptions;
///
/// let caller = client.calls().caller(CallerOptions::new()).await?;
/// let doubled: u64 = caller.call("double", &21).await?;
/// let bill: String = caller
///     .call("bill", &serde_json::json!({"amount": 7}))
///     .timeout(Duration::from_secs(5))
///     .key("order-4711")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Caller {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    carrier: Carrier,
    calls: Arc<Semaphore>,
    space: Arc<Semaphore>,
    buffer_bytes_max: usize,
    timeout: Option<Duration>,
    links: Links,
    id: ClientId,
}

impl Caller {
    pub(super) async fn open(place: Place<'_>, options: CallerOptions) -> Result<Self, Error> {
        let CallerOptions { session, timeout, calls_max, buffer_bytes_max } = options;
        let Opened { carrier, links, id } =
            place.open(session, calls_max, Serves::default()).await?;
        let calls = Arc::new(Semaphore::new(calls_max.min(Semaphore::MAX_PERMITS)));
        let space = Arc::new(Semaphore::new(buffer_bytes_max));
        let shared = Shared { carrier, calls, space, buffer_bytes_max, timeout, links, id };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// What the server calls it.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.shared.id
    }

    /// How good its connection is, now and from now on.
    #[must_use]
    pub fn links(&self) -> Links {
        self.shared.links.clone()
    }

    /// A call. It is made when what this gives is awaited, or [`Calling::start`]ed.
    pub fn call<P, R>(&self, channel: &str, params: &P) -> Calling<R>
    where
        P: Serialize + ?Sized,
        R: DeserializeOwned,
    {
        let made = channel.parse().map_err(|error| CallError::Invalid(format!("{error}")));
        let made = made.and_then(|channel| {
            let params = to_raw_value(params).map_err(|error| {
                CallError::Invalid(format!("the parameters cannot be written: {error}"))
            })?;
            Ok(NewCall {
                id: CallId::of_chance(backoff::unique()),
                channel,
                params,
                key: None,
                timeout: self.shared.timeout,
                queue_timeout: None,
                only_with_consumer: false,
                trace: None,
            })
        });
        let caller = self.clone();
        Calling { caller, made, cancel_on_drop: false, answer: PhantomData }
    }

    /// Waits until everything that was said is confirmed, for a few seconds at most, and ends the
    /// connection. Calls that have no answer yet end with [`CallError::Closed`], here and not at the
    /// server.
    ///
    /// # Cancel safety
    /// Dropped, the session ends all the same.
    pub async fn close(self) {
        self.shared.carrier.close().await;
    }
}

/// A call that is described. Await it for its answer, or start it for a handle.
#[must_use = "a call is made when it is awaited or started"]
pub struct Calling<R> {
    caller: Caller,
    made: Result<NewCall, CallError>,
    cancel_on_drop: bool,
    answer: PhantomData<fn() -> R>,
}

impl<R: DeserializeOwned> Calling<R> {
    /// The time of the whole call, instead of the caller's. The handler is told how much is left.
    pub fn timeout(self, time: Duration) -> Self {
        self.with(|call| call.timeout = Some(time))
    }

    /// The time until a handler begins it.
    pub fn queue_timeout(self, time: Duration) -> Self {
        self.with(|call| call.queue_timeout = Some(time))
    }

    /// Ends at once, with [`CallError::NoConsumer`], if nobody serves the channel.
    pub fn only_with_consumer(self) -> Self {
        self.with(|call| call.only_with_consumer = true)
    }

    /// Calls of the channel with the same key are the same call: they have one answer, also after
    /// this program was started again.
    pub fn key(mut self, key: &str) -> Self {
        match key.parse() {
            Ok(key) => self.with(|call| call.key = Some(key)),
            Err(error) => {
                self.made = Err(CallError::Invalid(format!("{error}")));
                self
            }
        }
    }

    /// Where it stands in a trace: a W3C `traceparent`.
    pub fn traceparent(mut self, trace: &str) -> Self {
        match trace.parse() {
            Ok(trace) => self.with(|call| call.trace = Some(trace)),
            Err(error) => {
                self.made = Err(CallError::Invalid(format!("{error}")));
                self
            }
        }
    }

    /// Cancels the call when its future or its handle is dropped before the answer is there. Without
    /// this the call goes on, and its answer is thrown away.
    pub fn cancel_on_drop(mut self) -> Self {
        self.cancel_on_drop = true;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut NewCall)) -> Self {
        if let Ok(call) = &mut self.made {
            change(call);
        }
        self
    }

    /// Makes the call as soon as there is room for it, and gives a handle of it.
    ///
    /// # Errors
    /// [`CallError`] if it was not made.
    ///
    /// # Cancel safety
    /// Dropped, the call was not made.
    pub async fn start(self) -> Result<Pending<R>, CallError> {
        let Self { caller, made, cancel_on_drop, .. } = self;
        let call = made?;
        let shared = &caller.shared;
        let closed = || CallError::Closed { cause: None, outcome: Outcome::NotApplied };
        let (bytes, max) = (call.params.get().len(), shared.buffer_bytes_max);
        let permits = u32::try_from(bytes).ok().filter(|_| bytes <= max);
        let permits =
            permits.ok_or(CallError::TooLarge { bytes: bytes as u64, max: max as u64 })?;
        let one = Arc::clone(&shared.calls).acquire_owned().await.map_err(|_| closed())?;
        let space = Arc::clone(&shared.space).acquire_many_owned(permits).await;
        let room = [one, space.map_err(|_| closed())?];
        let id = call.id;
        let started = shared.carrier.start(call, room).await;
        let Started { known, answer } = started.ok_or_else(closed)?;
        let (known, kind) = (Some(known), PhantomData);
        let (registered, over) = (false, false);
        Ok(Pending { caller, id, answer, known, registered, cancel_on_drop, over, kind })
    }
}

impl<R: DeserializeOwned + 'static> IntoFuture for Calling<R> {
    type Output = Result<R, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.start().await?.await })
    }
}

impl<R> fmt::Debug for Calling<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calling").field("call", &self.made).finish_non_exhaustive()
    }
}

/// A call under way: a future of its answer.
///
/// # Cancel safety
/// Dropped, the call goes on or is cancelled: see [`Calling::cancel_on_drop`].
#[must_use = "dropped, its answer is thrown away"]
pub struct Pending<R> {
    caller: Caller,
    id: CallId,
    answer: Answering,
    known: Option<oneshot::Receiver<()>>,
    registered: bool,
    cancel_on_drop: bool,
    over: bool,
    kind: PhantomData<fn() -> R>,
}

impl<R> Pending<R> {
    /// What the call is called at the server.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Waits until the server has the call: as durable as its channel is. False if it ended without
    /// that: await it, to know how.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn registered(&mut self) -> bool {
        if let Some(known) = &mut self.known {
            self.registered = known.await.is_ok();
            self.known = None;
        }
        self.registered
    }

    /// Cancels the call. It ends with [`CallError::Cancelled`], or with its answer if that came
    /// first. A handler that runs is told.
    ///
    /// # Cancel safety
    /// Dropped, the call is cancelled or not.
    pub async fn cancel(&self) {
        self.caller.shared.carrier.cancel(self.id).await;
    }
}

impl<R: DeserializeOwned> Future for Pending<R> {
    type Output = Result<R, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(answer) = self.answer.poll(cx) else { return Poll::Pending };
        self.over = true;
        Poll::Ready(answer.and_then(|text| {
            serde_json::from_slice(text.as_bytes())
                .map_err(|error| CallError::Unreadable(error.to_string()))
        }))
    }
}

impl<R> Drop for Pending<R> {
    fn drop(&mut self) {
        if self.cancel_on_drop && !self.over {
            self.caller.shared.carrier.forsake(self.id);
        }
    }
}

impl<R> fmt::Debug for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("id", &self.id).finish_non_exhaustive()
    }
}
