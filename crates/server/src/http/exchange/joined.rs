//! An answer of many bodies, read one piece after the other as the client takes them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use handoff_store_embedded::folders::Filed;
use hyper::body::Frame;

use crate::rooms::RoomError;
use crate::rooms::exchange::ExchangeRoom;

/// What is read before some of it is written.
const PIECE_BYTES: usize = 1 << 20;

/// Bodies read in one go.
const PIECE_BODIES: usize = 256;

/// Bodies that are joined into one array, with something before and behind them.
pub(super) struct Joined {
    room: ExchangeRoom,
    /// With how often each was given out, if that is to be said.
    files: VecDeque<(Option<u32>, Filed)>,
    head: Bytes,
    tail: &'static str,
    any: bool,
}

impl Joined {
    pub(super) fn new(
        room: ExchangeRoom,
        files: impl IntoIterator<Item = (Option<u32>, Filed)>,
        head: String,
        tail: &'static str,
    ) -> Self {
        Self { room, files: files.into_iter().collect(), head: head.into(), tail, any: false }
    }

    /// The answer. What can be read at once is; if that fails there is another answer.
    pub(super) async fn answer(mut self, status: StatusCode) -> Result<Response, RoomError> {
        let first = self.piece().await?;
        let body = match self.files.is_empty() {
            true => Body::from(first),
            false => Body::new(Pieces::new(first, self)),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        Ok(response)
    }

    /// The next piece; the tail is in the last.
    async fn piece(&mut self) -> Result<Bytes, RoomError> {
        let mut text = BytesMut::from(&*std::mem::take(&mut self.head));
        if !self.files.is_empty() {
            let next = self.files.iter().take(PIECE_BODIES).map(|(_, filed)| filed.clone());
            let bodies = self.room.bodies(next.collect(), PIECE_BYTES).await?;
            text.reserve(bodies.iter().flatten().map(|body| body.len() + 32).sum());
            for body in bodies {
                let attempt = self.files.pop_front().and_then(|(attempt, _)| attempt);
                // What cannot be read is set aside; the rest is given.
                let Some(body) = body else { continue };
                if std::mem::replace(&mut self.any, true) {
                    text.extend_from_slice(b",");
                }
                match (attempt, body.strip_suffix(b"}")) {
                    (Some(attempt), Some(open)) => {
                        text.extend_from_slice(open);
                        text.extend_from_slice(format!(",\"attempt\":{attempt}}}").as_bytes());
                    }
                    _ => text.extend_from_slice(&body),
                }
            }
        }
        if self.files.is_empty() {
            text.extend_from_slice(self.tail.as_bytes());
        }
        Ok(text.freeze())
    }
}

type Next = Pin<Box<dyn Future<Output = (Result<Bytes, RoomError>, Joined)> + Send>>;

/// The pieces as a body.
struct Pieces {
    first: Option<Bytes>,
    next: Option<Next>,
}

impl Pieces {
    fn new(first: Bytes, rest: Joined) -> Self {
        Self { first: Some(first), next: Some(go_on(rest)) }
    }
}

fn go_on(mut rest: Joined) -> Next {
    Box::pin(async move { (rest.piece().await, rest) })
}

impl hyper::body::Body for Pieces {
    type Data = Bytes;
    type Error = RoomError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RoomError>>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        let Some(next) = &mut self.next else { return Poll::Ready(None) };
        let Poll::Ready((piece, rest)) = next.as_mut().poll(context) else { return Poll::Pending };
        self.next = match &piece {
            Ok(_) if !rest.files.is_empty() => Some(go_on(rest)),
            Ok(_) => None,
            Err(error) => {
                // The client sees an answer that is cut.
                tracing::warn!(%error, "an answer could not be read to its end");
                None
            }
        };
        Poll::Ready(Some(piece.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.next.is_none()
    }
}
