//! A WebSocket to the server.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink as _, StreamExt as _};
use handoff_calls::wire::{Down, SUBPROTOCOL, is_many};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tokio_websockets::{CloseCode, Error as SocketError, Message};

use super::session::Body;
use crate::Error;
use crate::client::Inner;
use crate::websocket::{self, Web};

/// Where calls are.
const PATH: &str = "/v1/calls/connect";

/// Frames that are heard before something else has its turn, about.
const HEARD_AT_ONCE: usize = 16;

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection whose two directions go by themselves.
pub(super) struct Socket {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

pub(super) struct Reader {
    stream: SplitStream<Web>,
    /// Why it ended, behind what was heard before.
    ended: Option<Ended>,
}

pub(super) struct Writer {
    sink: SplitSink<Web, Message>,
    /// Something was written that the socket may still hold.
    unflushed: bool,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// Somehow, and another one may be better.
    Lost(Error),
    /// The server does not take this client.
    Dismissed(Error),
}

/// Makes a connection, within the time for it.
pub(super) async fn open(inner: &Inner, frame_bytes_max: usize) -> Result<Socket, Error> {
    let web = websocket::open(inner, PATH, SUBPROTOCOL, frame_bytes_max).await?;
    let (sink, stream) = web.split();
    let reader = Reader { stream, ended: None };
    Ok(Socket { reader, writer: Writer { sink, unflushed: false } })
}

impl Reader {
    /// Frames that are understood, all that there are at this moment, some at least. What a newer server
    /// says besides is passed over.
    ///
    /// # Cancel safety
    /// Nothing is lost when it is not polled again.
    pub(super) fn poll_heard(
        &mut self,
        inner: &Inner,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Vec<Down<Body>>, Ended>> {
        if let Some(ended) = self.ended.take() {
            return Poll::Ready(Err(ended));
        }
        let mut heard = Vec::new();
        while heard.len() < HEARD_AT_ONCE {
            match self.stream.poll_next_unpin(cx) {
                Poll::Pending if heard.is_empty() => return Poll::Pending,
                Poll::Pending => break,
                Poll::Ready(message) => match said(inner, message) {
                    Ok(frames) => heard.extend(frames),
                    Err(ended) if heard.is_empty() => return Poll::Ready(Err(ended)),
                    Err(ended) => {
                        self.ended = Some(ended);
                        break;
                    }
                },
            }
        }
        Poll::Ready(Ok(heard))
    }
}

/// The frames of a message.
fn said(
    inner: &Inner,
    message: Option<Result<Message, SocketError>>,
) -> Result<Vec<Down<Body>>, Ended> {
    let url = || inner.transport.base.url.clone();
    let message = match message {
        Some(Ok(message)) => message,
        Some(Err(error)) => {
            return Err(Ended::Lost(Error::Lost { url: url(), cause: error.into() }));
        }
        None => {
            let cause = "the server closed it".into();
            return Err(Ended::Lost(Error::Lost { url: url(), cause }));
        }
    };
    if let Some((code, reason)) = message.as_close() {
        let lost = || {
            let cause = format!("the server closed it ({reason})").into();
            Error::Lost { url: url(), cause }
        };
        return Err(match code {
            CloseCode::POLICY_VIOLATION => Ended::Dismissed(Error::Protocol {
                url: url(),
                why: format!("it ends the session: {reason}"),
            }),
            _ => Ended::Lost(lost()),
        });
    }
    let Some(text) = message.as_text().map(str::as_bytes) else { return Ok(Vec::new()) };
    Ok(frames(text).unwrap_or_else(|_| {
        // One that is not understood is no reason to pass over the others.
        let each: Vec<&RawValue> = frames(text).unwrap_or_default();
        each.into_iter().filter_map(|frame| serde_json::from_str(frame.get()).ok()).collect()
    }))
}

/// The frames of a message: one, or several.
fn frames<'a, F: Deserialize<'a>>(text: &'a [u8]) -> Result<Vec<F>, serde_json::Error> {
    match is_many(text) {
        true => serde_json::from_slice(text),
        false => serde_json::from_slice(text).map(|one| vec![one]),
    }
}

impl Writer {
    /// Whether something is held that must go.
    pub(super) fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Writes all messages there are, each when there is room for it, and makes sure that they are on their
    /// way.
    ///
    /// # Cancel safety
    /// A message is asked for only when it is taken at once.
    pub(super) fn poll_carry(
        &mut self,
        mut next: impl FnMut() -> Option<Vec<u8>>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SocketError>> {
        let mut sink = Pin::new(&mut self.sink);
        loop {
            ready!(sink.as_mut().poll_ready(cx))?;
            let Some(text) = next() else { break };
            self.unflushed = true;
            sink.as_mut().start_send(Message::text(Bytes::from(text)))?;
        }
        ready!(sink.as_mut().poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    /// Says that nothing more follows, if that can be said quickly.
    pub(super) async fn close(mut self) {
        let mut sink = Pin::new(&mut self.sink);
        let closed = std::future::poll_fn(|cx| sink.as_mut().poll_close(cx));
        drop(timeout(FAREWELL, closed).await);
    }
}

/// Makes a connection in a box, apart from whoever waits for it.
pub(super) fn opening(
    inner: Arc<Inner>,
    frame_bytes_max: usize,
) -> Pin<Box<dyn Future<Output = Result<Socket, Error>> + Send>> {
    Box::pin(async move { open(&inner, frame_bytes_max).await })
}
