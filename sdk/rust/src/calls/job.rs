//! What a handler knows of the call it runs.

use std::time::Duration;

use handoff_calls::wire::Offer;
use handoff_calls::{CallId, ChannelName, ClientId, TraceParent};
use tokio::sync::watch;
use tokio::time::Instant;

use super::session::Body;

/// A call that a handler runs.
#[derive(Clone, Debug)]
pub struct Job {
    id: CallId,
    channel: ChannelName,
    caller: Option<ClientId>,
    attempt: u16,
    fence: u64,
    deadline: Instant,
    trace: Option<TraceParent>,
    told: watch::Receiver<bool>,
}

impl Job {
    pub(super) fn of(
        offer: Offer<Body>,
        deadline: Instant,
        told: watch::Receiver<bool>,
    ) -> (Body, Self) {
        let Offer { id, channel, caller, params, fence, attempt, traceparent: trace, .. } = offer;
        (params, Self { id, channel, caller, attempt, fence, deadline, trace, told })
    }

    /// A call that came through Redis.
    pub(super) fn of_redis(
        job: &handoff_store_redis::Job,
        deadline: Instant,
        told: watch::Receiver<bool>,
    ) -> Self {
        Self {
            id: job.call,
            channel: job.channel.clone(),
            caller: job.caller,
            attempt: job.attempt,
            fence: job.fence,
            deadline,
            trace: job.trace.clone(),
            told,
        }
    }

    /// What its caller calls it. The same in every attempt.
    #[must_use]
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Where it went.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.channel.as_str()
    }

    /// Whose it is; none if it came over plain HTTP.
    #[must_use]
    pub fn caller(&self) -> Option<ClientId> {
        self.caller
    }

    /// How often the call was begun, this time included. From the second on, an earlier attempt may
    /// have done all of its work.
    #[must_use]
    pub fn attempt(&self) -> u16 {
        self.attempt
    }

    /// The fencing token: it grows with every offer of the call. A store that keeps the largest it
    /// has seen, and takes nothing under a smaller one, is safe from a handler that was given up
    /// and went on all the same.
    #[must_use]
    pub fn fence(&self) -> u64 {
        self.fence
    }

    /// When the time of the whole call is over. The handler is told then, and dropped if it goes on.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What is left of that time.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Where it stands in somebody's trace: a W3C `traceparent`.
    #[must_use]
    pub fn traceparent(&self) -> Option<&str> {
        self.trace.as_ref().map(TraceParent::as_str)
    }

    /// Whether nobody wants the result any more.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.told.borrow()
    }

    /// Waits until nobody wants the result any more: the call was cancelled, its time is over, or it
    /// was given to somebody else. Then the handler has a little time to end by itself, and is
    /// dropped where it waits.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn cancelled(&self) {
        let mut told = self.told.clone();
        if told.wait_for(|told| *told).await.is_err() {
            // Whoever could tell is gone, and the handler with it.
            std::future::pending().await
        }
    }
}
