//! HTTP/1.1 over a few connections that are kept.
//!
//! # When a request is sent a second time
//! ```text
//!   kept connection ──┬─ closed before anything of the request was written ─┐
//!                     ├─ GET, and closed before an answer began ────────────┼─▶ once more, fresh
//!                     └─ anything else, closed ─────────▶ Lost              │
//!   fresh connection ◀──────────────────────────────────────────────────────┘
//!                     └─ anything ──────────────────────▶ Unreachable or Lost, never again
//! ```
//! A server may close a connection it finds idle at the very moment a request is written to it.
//! A request that changes something is repeated only if not one octet of it was written.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::time::Instant;

use crate::connect::connect;
use crate::error::Error;
use crate::target::Base;

/// A connection that is not busy is closed after this long: what is between may have forgotten it.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// Sends requests to one server.
#[derive(Debug)]
pub(crate) struct Transport {
    pub(crate) base: Base,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) headers: HeaderMap,
    pub(crate) connect_time_max: Duration,
    pub(crate) idle_connections_max: usize,
    /// The one used last is at the front. Shared by all that differ in what they show only.
    idle: Arc<Mutex<VecDeque<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection that takes one request at a time.
#[derive(Debug)]
pub(crate) struct Connection(SendRequest<Full<Bytes>>);

/// A request, as often as it is needed.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) accept: &'static str,
    pub(crate) body: Option<Bytes>,
    /// What the body is.
    pub(crate) content_type: &'static str,
    /// Set once the request may have reached the server.
    pub(crate) sent: AtomicBool,
}

/// Why a connection gave no answer.
enum Failed {
    /// Nothing was written.
    Before(hyper::Error),
    /// Something may have been written.
    After(hyper::Error),
}

impl Transport {
    pub(crate) fn new(
        base: Base,
        tls: Option<Arc<ClientConfig>>,
        headers: HeaderMap,
        connect_time_max: Duration,
        idle_connections_max: usize,
    ) -> Self {
        let idle = Arc::default();
        Self { base, tls, headers, connect_time_max, idle_connections_max, idle }
    }

    /// Another to the same server, which keeps one connection and shares none.
    pub(crate) fn apart(&self) -> Self {
        Self {
            base: self.base.clone(),
            tls: self.tls.clone(),
            headers: self.headers.clone(),
            connect_time_max: self.connect_time_max,
            idle_connections_max: 1,
            idle: Arc::default(),
        }
    }

    /// Another to the same server over the same connections, with other headers.
    pub(crate) fn showing(&self, headers: HeaderMap) -> Self {
        Self {
            base: self.base.clone(),
            tls: self.tls.clone(),
            headers,
            connect_time_max: self.connect_time_max,
            idle_connections_max: self.idle_connections_max,
            idle: Arc::clone(&self.idle),
        }
    }

    /// Sends a request and gives the head of the answer. The connection is to be given back by
    /// [`Transport::keep`] once the body was read to its end, or dropped.
    ///
    /// # Cancel safety
    /// Dropped, the connection is closed; the request may have been carried out.
    pub(crate) async fn send(
        &self,
        outgoing: &Outgoing,
    ) -> Result<(Response<Incoming>, Connection), Error> {
        if let Some(mut connection) = self.idle_connection().await {
            match self.send_on(&mut connection, outgoing).await {
                Ok(response) => return Ok((response, connection)),
                Err(Failed::Before(_)) => {}
                Err(Failed::After(error)) if outgoing.method == Method::GET && is_cut(&error) => {}
                Err(Failed::After(error)) => return Err(self.lost(error)),
            }
        }
        let mut connection = self.fresh_connection().await?;
        match self.send_on(&mut connection, outgoing).await {
            Ok(response) => Ok((response, connection)),
            Err(Failed::Before(error)) => Err(self.unreachable(error)),
            Err(Failed::After(error)) => Err(self.lost(error)),
        }
    }

    /// Keeps a connection whose last answer was read to its end.
    pub(crate) fn keep(&self, connection: Connection) {
        if connection.0.is_closed() {
            return;
        }
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push_front(Idle { connection, since: Instant::now() });
        idle.truncate(self.idle_connections_max);
    }

    pub(crate) fn lost(&self, error: hyper::Error) -> Error {
        if error.is_parse() {
            let why = format!("its answer is not HTTP/1.1 ({error})");
            return Error::Protocol { url: self.base.url.clone(), why };
        }
        Error::Lost { url: self.base.url.clone(), cause: error.into() }
    }

    fn unreachable(&self, cause: impl Into<crate::Cause>) -> Error {
        Error::Unreachable { url: self.base.url.clone(), cause: cause.into() }
    }

    async fn idle_connection(&self) -> Option<Connection> {
        loop {
            let mut kept = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.pop_front()?
            };
            if kept.since.elapsed() > IDLE_MAX {
                continue;
            }
            // Its last answer was read, so it is ready at once, or closed.
            if kept.connection.0.ready().await.is_ok() {
                return Some(kept.connection);
            }
        }
    }

    async fn fresh_connection(&self) -> Result<Connection, Error> {
        let Base { host, port, .. } = &self.base;
        let stream = connect(host, *port, self.tls.as_ref(), self.connect_time_max).await.map_err(
            |error| match error.kind() {
                io::ErrorKind::TimedOut => Error::Timeout {
                    url: self.base.url.clone(),
                    waited: self.connect_time_max,
                    sent: false,
                },
                _ => self.unreachable(error),
            },
        )?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(error))?;
        // It ends with the connection, which ends with `sender` and the body of the last answer.
        // Its error is also the error of whatever request is under way.
        tokio::spawn(async move { drop(driver.await) });
        Ok(Connection(sender))
    }

    async fn send_on(
        &self,
        connection: &mut Connection,
        outgoing: &Outgoing,
    ) -> Result<Response<Incoming>, Failed> {
        let request = self.request(outgoing);
        let before = outgoing.sent.swap(true, Ordering::Relaxed);
        connection.0.try_send_request(request).await.map_err(|mut error| {
            if error.take_message().is_some() {
                outgoing.sent.store(before, Ordering::Relaxed);
                Failed::Before(error.into_error())
            } else {
                Failed::After(error.into_error())
            }
        })
    }

    fn request(&self, outgoing: &Outgoing) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(outgoing.body.clone().unwrap_or_default()));
        *request.method_mut() = outgoing.method.clone();
        *request.uri_mut() = outgoing.uri.clone();
        *request.headers_mut() = self.headers.clone();
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(outgoing.accept));
        if outgoing.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(outgoing.content_type));
        }
        request
    }
}

/// Whether the connection ended, as opposed to an answer that cannot be read.
fn is_cut(error: &hyper::Error) -> bool {
    !error.is_parse() && !error.is_user()
}
