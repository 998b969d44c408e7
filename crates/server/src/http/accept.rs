//! The loop that accepts connections.
//!
//! Above `server.connections_max` a connection is accepted, told 503 `server.busy` and closed: a
//! client that waits in the kernel's queue would learn nothing, and neither would whoever asks
//! whether the server lives. Inside TLS it is closed without a word, because words would cost the
//! handshake that is refused.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use handoff_types::Code;
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::connection::{self, End, Peer};
use super::correlation::RequestId;
use super::document::router;
use super::front::Door;
use super::problem::{self, ProblemBody, StatusName};
use super::{App, Limits};
use crate::telemetry::HttpMetrics;

/// How many are told at once that there are too many; whoever comes then is not told.
const FAREWELLS_MAX: usize = 64;

/// How long somebody who is turned away may take to listen.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long to wait before a system that gives no connection is asked again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the API on a listener until told to stop, inside TLS if there is a configuration for it,
/// which must offer [`crate::tls::HTTP`].
///
/// Told to stop, it accepts nothing more, finishes the requests under way, closes idle connections
/// and ends streams; then it returns. How long that may take is the caller's decision.
///
/// # Cancel safety
/// Dropped, everything ends at once.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    app: Arc<App>,
    stop: CancellationToken,
) {
    let (router, door) = router(app, stop.clone());
    let tls = tls.map(TlsAcceptor::from);
    let mut reception = Reception {
        router,
        door,
        tls,
        stop,
        connections: JoinSet::new(),
        farewells: JoinSet::new(),
    };
    let stopped = reception.stop.clone();
    loop {
        tokio::select! {
            biased;
            () = stopped.cancelled() => break,
            Some(_) = reception.connections.join_next() => {}
            Some(_) = reception.farewells.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => reception.receive(stream),
                Err(error) => pause(&error).await,
            },
        }
    }
    drop(listener);
    reception.farewells.shutdown().await;
    while reception.connections.join_next().await.is_some() {}
}

/// A connection that broke before it was accepted is nothing; no more files is a condition that
/// lasts.
async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    tracing::error!(error = error as &dyn std::error::Error, "no connection can be accepted");
    sleep(ACCEPT_PAUSE).await;
}

struct Reception {
    router: Router,
    door: Door,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
    connections: JoinSet<()>,
    farewells: JoinSet<()>,
}

impl Reception {
    fn receive(&mut self, stream: TcpStream) {
        let limits = self.door.app.limits();
        let metrics = self.door.app.metrics.http();
        metrics.accepted.inc();
        metrics.connections_max.set(i64::try_from(limits.connections_max).unwrap_or(i64::MAX));
        if self.connections.len() >= limits.connections_max {
            metrics.turned_away.inc();
            if self.tls.is_none() && self.farewells.len() < FAREWELLS_MAX {
                let words = farewell(&self.door.app, limits);
                self.farewells.spawn(async move {
                    drop(timeout(FAREWELL, turn_away(stream, words)).await);
                });
            }
            return;
        }
        let open = Open::new(metrics.clone());
        let (router, door) = (self.router.clone(), self.door.clone());
        // Its own, so that connections do not meet at one lock whenever something comes.
        let (tls, stop) = (self.tls.clone(), self.stop.child_token());
        self.connections.spawn(async move {
            let end = converse(stream, tls, router, door, limits, stop).await;
            if end == End::Silent {
                open.0.closed_idle.inc();
            }
        });
    }
}

/// Counts a connection as long as it is open.
struct Open(HttpMetrics);

impl Open {
    fn new(metrics: HttpMetrics) -> Self {
        metrics.connections.inc();
        Self(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

async fn converse(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    router: Router,
    door: Door,
    limits: Limits,
    stop: CancellationToken,
) -> End {
    // Answers are written whole; waiting for more to send only delays them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = &error as &dyn std::error::Error, "no delay cannot be set");
    }
    let peer = Peer(stream.peer_addr().ok().map(|address| address.ip()));
    let Some(acceptor) = tls else {
        return connection::run(stream, router, door, (peer, limits), &stop).await;
    };
    let handshake = timeout(limits.header_time_max, acceptor.accept(stream));
    let shaken = tokio::select! {
        biased;
        () = stop.cancelled() => return End::Closed,
        shaken = handshake => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => {
            Box::pin(connection::run(stream, router, door, (peer, limits), &stop)).await
        }
        Ok(Err(error)) => {
            tracing::debug!(error = &error as &dyn std::error::Error, "no TLS");
            End::Closed
        }
        Err(_) => End::Silent,
    }
}

/// The whole answer to somebody who is one too many.
fn farewell(app: &App, limits: Limits) -> Vec<u8> {
    let code = Code::ServerBusy;
    let id = RequestId::draw(&app.ids);
    let body = ProblemBody {
        kind: format!("urn:handoff:error:{code}"),
        title: problem::title(code).to_owned(),
        status: StatusName::Number(problem::status(code).as_u16()),
        detail: format!("there are {} connections already", limits.connections_max),
        code: code.text().to_owned(),
        remedy: code.remedy().to_owned(),
        request_id: id.as_str().to_owned(),
        outcome: None,
        start: None,
    };
    let body = serde_json::to_string(&body).unwrap_or_default();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {}\r\ncontent-length: {}\r\nretry-after: 1\r\nx-request-id: {}\r\nconnection: close\r\n\r\n{body}",
        problem::MEDIA_TYPE,
        body.len(),
        id.as_str(),
    )
    .into_bytes()
}

/// Says it, and listens until the other side has understood: closed with something unread, the
/// kernel would take the words back.
async fn turn_away(mut stream: TcpStream, words: Vec<u8>) -> io::Result<()> {
    stream.write_all(&words).await?;
    stream.shutdown().await?;
    let mut ignored = [0; 1024];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}
