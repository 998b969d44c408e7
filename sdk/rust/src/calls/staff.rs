//! Handlers at work: each in a task of its own, so that one that panics or hangs is nobody else's
//! trouble, and each watched by another that ends it when its time is over or nobody wants it.

use std::any::Any;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use handoff_calls::wire::{Offer, Response};
use handoff_calls::{CallId, ChannelName};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::error::HandlerError;
use super::job::Job;
use super::session::Body;
use crate::connect::later;

/// What a handler does, whatever its types are.
pub(super) type Run = Arc<dyn Fn(Body, Job) -> Running + Send + Sync>;

/// A handler at work.
pub(super) type Running = Pin<Box<dyn Future<Output = Result<Body, HandlerError>> + Send>>;

/// What became of the calls of a worker.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) stored: AtomicU64,
    pub(super) late: AtomicU64,
}

/// Tells a handler that it is to end.
pub(super) type Signal = Arc<watch::Sender<bool>>;

/// A handler that is done, and what it has to say.
struct Done {
    key: (CallId, u64),
    signal: Signal,
    response: Option<Response<Body>>,
}

/// The handlers of a worker, and those at work.
pub(super) struct Staff {
    handlers: BTreeMap<ChannelName, Run>,
    grace: Duration,
    tally: Arc<Tally>,
    working: JoinSet<Done>,
    /// Tells each that it is to end.
    signals: BTreeMap<(CallId, u64), Signal>,
}

impl Staff {
    pub(super) fn new(
        handlers: BTreeMap<ChannelName, Run>,
        grace: Duration,
        tally: Arc<Tally>,
    ) -> Self {
        Self { handlers, grace, tally, working: JoinSet::new(), signals: BTreeMap::new() }
    }

    pub(super) fn begin(&mut self, offer: Offer<Body>) {
        let Some(run) = self.handlers.get(&offer.channel) else { return };
        let (id, fence) = (offer.id, offer.fence);
        let deadline = later(Instant::now(), Duration::from_millis(offer.deadline_ms));
        let (tell, told) = watch::channel(false);
        let tell = Arc::new(tell);
        self.signals.insert((id, fence), Arc::clone(&tell));
        let (params, job) = Job::of(offer, deadline, told.clone());
        let running = run(params, job);
        let watching = Watching { tell, told, deadline, grace: self.grace };
        let signal = Arc::clone(&watching.tell);
        self.working.spawn(async move {
            let result = watching.attend(running).await;
            let response = result.map(|result| response(id, fence, result));
            Done { key: (id, fence), signal, response }
        });
    }

    /// Nobody wants it any more.
    pub(super) fn abort(&mut self, id: CallId, fence: u64) {
        if let Some(tell) = self.signals.get(&(id, fence)) {
            tell.send_replace(true);
        }
    }

    pub(super) fn taken(&self, taken: bool) {
        let which = if taken { &self.tally.stored } else { &self.tally.late };
        which.fetch_add(1, Ordering::Relaxed);
    }

    /// The next that is done; nothing to say if nobody wanted it any more. Pending if nobody is at work.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Response<Body>>> {
        Poll::Ready(match self.working.poll_join_next(cx) {
            Poll::Ready(Some(Ok(Done { key, signal, response }))) => {
                // A server that forgot a call may offer it under a fence that was used before.
                if self.signals.get(&key).is_some_and(|known| Arc::ptr_eq(known, &signal)) {
                    self.signals.remove(&key);
                }
                response
            }
            // Whoever watches does not panic, and is ended by nobody.
            Poll::Ready(Some(Err(_))) => None,
            Poll::Ready(None) | Poll::Pending => return Poll::Pending,
        })
    }
}

/// A handler's task. Dropped, it ends where it waits.
struct Task(JoinHandle<Caught>);

/// What a handler gave, or what it panicked with.
type Caught = Result<Result<Body, HandlerError>, Box<dyn Any + Send>>;

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a handler may go on, and how it is told to end.
pub(super) struct Watching {
    pub(super) tell: Signal,
    pub(super) told: watch::Receiver<bool>,
    pub(super) deadline: Instant,
    pub(super) grace: Duration,
}

impl Watching {
    /// Runs a handler until it is done or its time is over. None: nobody wants its result.
    ///
    /// One that is done without waiting for anything is done here; any other goes on in a task of its own.
    pub(super) async fn attend(self, running: Running) -> Option<Result<Body, HandlerError>> {
        let mut running = AssertUnwindSafe(running).catch_unwind();
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut running).poll(cx))).await;
        match first {
            Poll::Ready(done) => Some(done.unwrap_or_else(|panic| Err(panicked(panic.as_ref())))),
            Poll::Pending => self.over(Task(tokio::spawn(running))).await,
        }
    }

    /// Waits until the handler is done, or its time is over. None: nobody wants its result.
    async fn over(mut self, mut task: Task) -> Option<Result<Body, HandlerError>> {
        let verdict = tokio::select! {
            done = &mut task.0 => return Some(result(done)),
            () = sleep_until(self.deadline) => Some(Err(HandlerError::new(
                "Timeout",
                "the handler did not end before the time of the call was over",
            )
            .code("handler_deadline")
            .terminal())),
            // The sender is kept here, so that its end is never taken for a signal.
            _ = self.told.wait_for(|told| *told) => None,
        };
        self.tell.send_replace(true);
        // Whatever it says now comes too late.
        drop(timeout(self.grace, &mut task.0).await);
        verdict
    }
}

fn result(done: Result<Caught, JoinError>) -> Result<Body, HandlerError> {
    match done {
        Ok(caught) => caught.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))),
        // Only a runtime that ends does that.
        Err(ended) => Err(HandlerError::new("Ended", ended.to_string()).code("handler_ended")),
    }
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    HandlerError::new("Panic", words(panic)).code("handler_panicked")
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "the handler panicked".to_owned())
}

fn response(id: CallId, fence: u64, result: Result<Body, HandlerError>) -> Response<Body> {
    match result {
        Ok(answer) => Response {
            id,
            fence,
            answer: Some(answer),
            error: None,
            terminal: false,
            retry_after_ms: None,
        },
        Err(error) => error.response(id, fence),
    }
}
