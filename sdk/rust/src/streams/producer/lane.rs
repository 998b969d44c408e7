//! One connection, one request at a time, and what is done when it fails.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use tokio::time::{Instant, sleep, sleep_until};

use super::queue::{Batch, Next, Waiting};
use super::sequences::Sequences;
use super::{SendError, Shared, Station};
use crate::client::Inner;
use crate::streams::wire::{self, Produced};
use crate::{Error, Outcome};

/// Sends the messages of one queue.
pub(super) struct Lane {
    shared: Arc<Shared>,
    at: usize,
    /// With a connection that nobody else uses.
    inner: Inner,
    producer: Arc<str>,
    sequences: Sequences,
}

/// How a batch ended.
enum Ended {
    Answered(Produced),
    /// Nothing of it is stored, and one of its messages is the reason.
    AtFault,
    Failed(SendError),
}

impl Lane {
    pub(super) fn new(
        shared: Arc<Shared>,
        at: usize,
        inner: Inner,
        producer: Arc<str>,
        sequences: Sequences,
    ) -> Self {
        Self { shared, at, inner, producer, sequences }
    }

    /// Sends until the producer is closed and nothing waits.
    pub(super) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(station) = shared.lanes.get(self.at) else { return };
        loop {
            let next = station.queue().next(&shared.limits, Instant::now());
            match next {
                Next::End => return,
                Next::Wait(None) => station.wake.notified().await,
                Next::Wait(Some(until)) => {
                    // Both may be dropped: a wake-up that is not taken is kept.
                    tokio::select! {
                        () = station.wake.notified() => {}
                        () = sleep_until(until) => {}
                    }
                }
                Next::Send(batch) => {
                    self.deliver(station, batch).await;
                    station.queue().done();
                    shared.progress.notify_waiters();
                }
            }
        }
    }

    /// Sends a batch until it is known what became of it, or nobody can say.
    async fn deliver(&mut self, station: &Station, mut batch: Batch) {
        loop {
            let given = batch.given();
            let first = given.unwrap_or_else(|| self.sequences.next(&batch.topic));
            let count = batch.messages.len();
            match self.attempt(&batch, first).await {
                Ended::Answered(produced) => {
                    self.sequences.used(&batch.topic, first, count);
                    let results = produced.results.into_iter().zip(batch.messages);
                    for ((mut sent, waiting), sequence) in results.zip(first..) {
                        sent.sequence = Some(sequence);
                        waiting.answer(Ok(sent));
                    }
                    return;
                }
                Ended::AtFault => {
                    let rest = batch.messages.split_off(count / 2);
                    station.queue().put_back(&batch.topic, rest);
                }
                Ended::Failed(error) => {
                    if error.outcome() == Outcome::Unknown {
                        self.sequences.used(&batch.topic, first, count);
                    }
                    let mut lost = batch.messages;
                    // Another program sends under this GUID. Going on would mix the two.
                    if given.is_none() && concerns_sequence(error.code()) {
                        lost.extend(station.queue().give_up(error.clone()));
                    }
                    self.fail(lost, &error);
                    return;
                }
            }
        }
    }

    /// The same octets as often as it takes.
    async fn attempt(&self, batch: &Batch, first: u64) -> Ended {
        let messages = batch.messages.iter().map(|waiting| &waiting.message);
        let body: Bytes = match wire::produce(Some((&self.producer, first)), messages) {
            Ok(body) => body,
            Err(error) => return failed(error, Outcome::NotApplied, 0),
        };
        let limits = &self.shared.limits;
        let mut outcome = Outcome::NotApplied;
        let mut attempts = 0;
        loop {
            let count = batch.messages.len();
            let error = match self.inner.produce(&batch.topic, body.clone(), count).await {
                Ok(produced) => return Ended::Answered(produced),
                Err(error) => error,
            };
            attempts += 1;
            if error.outcome() == Outcome::Unknown {
                outcome = Outcome::Unknown;
            }
            if error.is_temporary() && attempts <= limits.retries {
                let asked = error.problem().and_then(|problem| problem.retry_after);
                sleep(limits.backoff.wait(attempts - 1, asked)).await;
                continue;
            }
            if outcome == Outcome::NotApplied && count > 1 && concerns_one(&error, batch) {
                return Ended::AtFault;
            }
            return failed(error, outcome, attempts);
        }
    }

    fn fail(&self, messages: Vec<Waiting>, error: &SendError) {
        {
            let mut failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| error.clone());
        }
        for waiting in messages {
            waiting.answer(Err(error.clone()));
        }
    }
}

fn failed(error: Error, outcome: Outcome, attempts: u32) -> Ended {
    Ended::Failed(SendError::Failed { cause: Arc::new(error), outcome, attempts })
}

/// Whether the server may find fault with one message and not with the others.
fn concerns_one(error: &Error, batch: &Batch) -> bool {
    let Some(problem) = error.problem() else { return false };
    matches!(problem.status, 400 | 413 | 422)
        || problem.code.as_deref() == Some("streams.partition_not_found")
        || (batch.given().is_some() && concerns_sequence(problem.code.as_deref()))
}

pub(in crate::streams) fn concerns_sequence(code: Option<&str>) -> bool {
    matches!(code, Some("streams.sequence_reused" | "streams.sequence_too_old"))
}
