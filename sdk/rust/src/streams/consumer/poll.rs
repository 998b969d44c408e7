//! Asking for messages until there are some.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::member::{Member, State, is_gone};
use super::{Batch, Shared, retry_after, wire};
use crate::client::VERSION;
use crate::streams::groups;
use crate::streams::topic::millis;
use crate::streams::wire::MSGPACK;
use crate::{Client, Error};

/// What a poll brought.
#[derive(Debug)]
pub(super) struct Polled {
    /// As which member.
    pub(super) epoch: u64,
    pub(super) batches: Vec<Batch>,
}

/// A poll, repeated until it brings something.
pub(super) struct Poll {
    shared: Arc<Shared>,
    client: Client,
    /// Failures in a row, and answers that were empty although they should have waited.
    failures: u32,
}

impl Poll {
    pub(super) fn new(shared: Arc<Shared>, client: Client) -> Self {
        Self { shared, client, failures: 0 }
    }

    /// None: the consumer is no member any more.
    pub(super) async fn run(mut self) -> Option<Polled> {
        let shared = Arc::clone(&self.shared);
        let mut changes = shared.state.subscribe();
        loop {
            let state = changes.borrow_and_update().clone();
            let member = match state {
                State::Joined(member) => member,
                State::Gone => {
                    changes.changed().await.ok()?;
                    continue;
                }
                State::Over | State::Left => return None,
            };
            let is_other =
                |state: &State| !matches!(state, State::Joined(m) if m.epoch == member.epoch);
            let batches = tokio::select! {
                // What a poll brings that is dropped here was leased to a member that is no more.
                batches = self.ask(&member) => batches,
                _ = changes.wait_for(is_other) => continue,
            };
            if let Some(batches) = batches {
                return Some(Polled { epoch: member.epoch, batches });
            }
        }
    }

    /// Asks once. None: ask again.
    async fn ask(&mut self, member: &Member) -> Option<Vec<Batch>> {
        let begun = Instant::now();
        let wait = self.shared.options.wait;
        match self.request(member).await {
            Ok(batches) if batches.is_empty() => {
                self.shared.answered();
                // A server that does not wait must not be asked without end.
                if begun.elapsed() < wait / 2 || wait.is_zero() {
                    self.pause(None).await;
                } else {
                    self.failures = 0;
                }
            }
            Ok(batches) => {
                self.shared.answered();
                return Some(batches);
            }
            Err(error) if is_gone(&error) => self.shared.gone(member.epoch),
            Err(error) if error.is_temporary() => {
                let asked = retry_after(&error);
                self.shared.failed(error);
                self.pause(asked).await;
            }
            Err(error) => self.shared.end(error),
        }
        None
    }

    async fn pause(&mut self, asked: Option<Duration>) {
        sleep(self.shared.options.backoff.wait(self.failures, asked)).await;
        self.failures = self.failures.saturating_add(1);
    }

    async fn request(&self, member: &Member) -> Result<Vec<Batch>, Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body {
            version: u32,
            max_messages: u32,
            #[serde(skip_serializing_if = "Option::is_none")]
            max_bytes: Option<u64>,
            wait_ms: u64,
        }
        let options = &self.shared.options;
        let target =
            groups::target(&options.group).segment("members").segment(&member.id).segment("poll");
        let body = Body {
            version: VERSION,
            max_messages: options.max_messages,
            max_bytes: options.max_bytes,
            wait_ms: millis(options.wait),
        };
        let body = serde_json::to_vec(&body).map(Bytes::from).map_err(|error| {
            Error::Invalid(format!("what is asked for cannot be written: {error}"))
        })?;
        let inner = &self.client.inner;
        let outgoing = inner.outgoing(Method::POST, target.as_str(), MSGPACK, Some(body))?;
        let time = inner.request_timeout.saturating_add(options.wait);
        let body = inner.success(inner.ask_within(&outgoing, time).await?)?;
        wire::polled(&body).map_err(|why| inner.unreadable(why.0))
    }
}
