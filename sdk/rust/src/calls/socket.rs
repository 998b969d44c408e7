//! A WebSocket to the server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink as _, StreamExt as _};
use handoff_calls::wire::{Down, SUBPROTOCOL};
use tokio::time::timeout;
use tokio_websockets::{CloseCode, Error as SocketError, Message};

use super::session::Body;
use crate::Error;
use crate::client::Inner;
use crate::websocket::{self, Web};

/// Where calls are.
const PATH: &str = "/v1/calls/connect";

/// How long a farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// A connection whose two directions go by themselves.
pub(super) struct Socket {
    pub(super) reader: Reader,
    pub(super) writer: Writer,
}

pub(super) struct Reader(SplitStream<Web>);

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
    Ok(Socket { reader: Reader(stream), writer: Writer { sink, unflushed: false } })
}

impl Reader {
    /// The next frame that is understood. What a newer server says besides is passed over.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self, inner: &Inner) -> Result<Down<Body>, Ended> {
        let url = || inner.transport.base.url.clone();
        loop {
            let message = match self.0.next().await {
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
            let frame = message.as_text().and_then(|text| serde_json::from_str(text).ok());
            if let Some(frame) = frame {
                return Ok(frame);
            }
        }
    }
}

impl Writer {
    /// Whether something is held that must go.
    pub(super) fn is_unflushed(&self) -> bool {
        self.unflushed
    }

    /// Writes all frames there are, each when there is room for it, and makes sure that they are on their way.
    ///
    /// # Cancel safety
    /// A frame is asked for only when it is taken at once.
    pub(super) async fn carry(
        &mut self,
        mut next: impl FnMut() -> Option<String>,
    ) -> Result<(), SocketError> {
        let mut sink = Pin::new(&mut self.sink);
        loop {
            std::future::poll_fn(|cx| sink.as_mut().poll_ready(cx)).await?;
            let Some(text) = next() else { break };
            self.unflushed = true;
            sink.as_mut().start_send(Message::text(text))?;
        }
        std::future::poll_fn(|cx| sink.as_mut().poll_flush(cx)).await?;
        self.unflushed = false;
        Ok(())
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
