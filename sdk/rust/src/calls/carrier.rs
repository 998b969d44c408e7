//! Who carries calls: a session over a WebSocket, or a client of Redis.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use handoff_calls::CallId;
use handoff_store_redis as store;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::Instant;

use super::driver::{Order, SETTLING, Unwanted, Waiter};
use super::error::CallError;
use super::session::{Body, NewCall};
use crate::Outcome;
use crate::connect::later;

/// Who carries calls. Dropped, it ends as its documentation says.
#[derive(Debug)]
pub(super) enum Carrier {
    Session {
        orders: mpsc::Sender<Order>,
        unwanted: Arc<Unwanted>,
    },
    Redis {
        client: store::Client,
        /// Whose tasks the client is made of.
        runtime: Handle,
    },
}

/// A call that is on its way.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) known: oneshot::Receiver<()>,
    pub(super) answer: Answering,
}

/// What an answer comes by.
#[derive(Debug)]
pub(super) enum Answering {
    Session(oneshot::Receiver<Result<Option<Body>, CallError>>),
    Redis(oneshot::Receiver<Result<store::Answer, store::NoAnswer>>),
}

/// An answer, as text.
#[derive(Debug)]
pub(super) enum Text {
    Body(Option<Body>),
    Bytes(Bytes),
}

impl Text {
    /// Nothing is `null`.
    pub(super) fn as_bytes(&self) -> &[u8] {
        let bytes = match self {
            Self::Body(body) => body.as_deref().map_or(&[][..], |body| body.get().as_bytes()),
            Self::Bytes(bytes) => bytes,
        };
        if bytes.is_empty() { b"null" } else { bytes }
    }
}

impl Answering {
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Text, CallError>> {
        let lost = || CallError::Closed { cause: None, outcome: Outcome::Unknown };
        match self {
            Self::Session(answer) => Pin::new(answer)
                .poll(cx)
                .map(|told| told.unwrap_or_else(|_| Err(lost())).map(Text::Body)),
            Self::Redis(answer) => Pin::new(answer).poll(cx).map(|told| match told {
                Ok(ended) => CallError::of_redis(ended).map(Text::Bytes),
                Err(_) => Err(lost()),
            }),
        }
    }
}

impl Carrier {
    /// Sends a call. Its room is given back when it is over. None if nothing is carried any more.
    ///
    /// # Cancel safety
    /// Dropped, it was not sent.
    pub(super) async fn start(
        &self,
        call: NewCall,
        room: [OwnedSemaphorePermit; 2],
    ) -> Option<Started> {
        match self {
            Self::Session { orders, .. } => {
                let place = orders.reserve().await.ok()?;
                let (ended, answer) = oneshot::channel();
                let (confirm, known) = oneshot::channel();
                let waiter = Waiter { registered: Some(confirm), ended, room };
                place.send(Order::Call { call, waiter });
                Some(Started { known, answer: Answering::Session(answer) })
            }
            Self::Redis { client, .. } => {
                let called = client.start(super::redis::request(call), room).await.ok()?;
                let answer = Answering::Redis(called.ended);
                Some(Started { known: called.registered, answer })
            }
        }
    }

    /// A call is wanted no more.
    pub(super) async fn cancel(&self, id: CallId) {
        match self {
            // If there is nobody who takes orders, the call is over.
            Self::Session { orders, .. } => drop(orders.send(Order::Cancel(id)).await),
            // If it cannot be told now, it is told with everything else that is not confirmed.
            Self::Redis { client, .. } => drop(client.cancel(id).await),
        }
    }

    /// The same without waiting.
    pub(super) fn forsake(&self, id: CallId) {
        match self {
            Self::Session { unwanted, .. } => unwanted.add(id),
            Self::Redis { client, runtime } => {
                let client = client.clone();
                // Detached: whoever dropped the call waits for nothing.
                drop(runtime.spawn(async move { client.cancel(id).await }));
            }
        }
    }

    /// Waits until everything that was said is confirmed, for a few seconds, and ends.
    pub(super) async fn close(&self) {
        match self {
            Self::Session { orders, .. } => {
                let (told, closed) = oneshot::channel();
                if orders.send(Order::Close(told)).await.is_ok() {
                    drop(closed.await);
                }
            }
            Self::Redis { client, .. } => {
                // What is not confirmed by then is Redis' to forget.
                let _: bool = client.clone().close(SETTLING).await;
            }
        }
    }

    /// Takes no more calls, finishes what runs, for so long at most, and ends. Gives how many calls
    /// were not finished.
    pub(super) async fn drain(&self, time: Duration) -> usize {
        match self {
            Self::Session { orders, .. } => {
                let (told, left) = oneshot::channel();
                let by = later(Instant::now(), time);
                if orders.send(Order::Drain { by, told }).await.is_err() {
                    return 0;
                }
                left.await.unwrap_or_default()
            }
            Self::Redis { client, .. } => match client.clone().stop(time).await {
                true => 0,
                false => client.unfinished(),
            },
        }
    }
}
