//! The body of a server-sent stream: something to say after the other, until there is no more.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use prometheus_client::metrics::gauge::Gauge;
use tokio_util::sync::ReusableBoxFuture;

/// What is written next, and whatever more comes from.
pub(super) struct Said<S> {
    pub(super) text: Bytes,
    /// None: this was the last.
    pub(super) rest: Option<S>,
}

/// An answer that begins with `ready` and goes on as long as its source has something to say. The
/// gauge counts it as long as it is open.
pub(super) fn speak<S, F>(source: S, streams: Gauge, say: fn(S) -> F) -> Response
where
    S: Send + 'static,
    F: Future<Output = Said<S>> + Send + 'static,
{
    let mut response = Response::new(Body::new(Speech::new(source, streams, say)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Some proxies collect an answer before they pass it on.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A body that ends when its source has. Dropped, the source is dropped.
struct Speech<S, F> {
    next: ReusableBoxFuture<'static, Said<S>>,
    say: fn(S) -> F,
    over: bool,
    _open: Open,
}

impl<S: Send + 'static, F: Future<Output = Said<S>> + Send + 'static> Speech<S, F> {
    fn new(source: S, streams: Gauge, say: fn(S) -> F) -> Self {
        let text = Bytes::from_static(b"event: ready\ndata: {\"version\":1}\n\n");
        let ready = async move { Said { text, rest: Some(source) } };
        Self { next: ReusableBoxFuture::new(ready), say, over: false, _open: Open::new(streams) }
    }
}

impl<S: Send + 'static, F: Future<Output = Said<S>> + Send + 'static> hyper::body::Body
    for Speech<S, F>
{
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let Poll::Ready(Said { text, rest }) = self.next.poll(context) else {
            return Poll::Pending;
        };
        match rest {
            Some(source) => {
                let more = (self.say)(source);
                self.next.set(more);
            }
            None => self.over = true,
        }
        Poll::Ready(Some(Ok(Frame::data(text))))
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }
}

struct Open(Gauge);

impl Open {
    fn new(streams: Gauge) -> Self {
        streams.inc();
        Self(streams)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
