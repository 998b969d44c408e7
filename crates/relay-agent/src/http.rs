//! The agent's own listener: remote write in, and how the agent is doing.
//!
//! HTTP/1.1, which is what senders of remote write speak. Every connection is counted, silence and
//! every body have their time, and bytes are admitted before they are read.

mod answer;
mod intake;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::answer::{Refusal, text};
use crate::core::Event;
use crate::metrics::{MEDIA_TYPE, Metrics, Phase};
use crate::settings::{Intake, Settings};

/// The head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// How long to wait before a system that gives no connection is asked again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What bytes are admitted in.
const UNIT: usize = 1 << 10;

/// What every request needs.
pub(crate) struct Door {
    intake: Intake,
    token: Option<String>,
    metrics: Arc<Metrics>,
    events: mpsc::Sender<Event>,
    /// Room for bodies as they come, and for what they unpack to. Who has room for the second waits
    /// for nobody who waits for the first.
    bodies: Arc<Semaphore>,
    unpacked: Arc<Semaphore>,
}

impl Door {
    pub(crate) fn new(
        settings: &Settings,
        metrics: Arc<Metrics>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let intake = settings.intake;
        let units = (intake.bytes_max / UNIT).min(Semaphore::MAX_PERMITS);
        let room = || Arc::new(Semaphore::new(units));
        let (token, bodies, unpacked) = (settings.token.clone(), room(), room());
        Self { intake, token, metrics, events, bodies, unpacked }
    }
}

/// Serves until told to stop; then what is under way is finished.
///
/// # Cancel safety
/// Dropped, everything ends at once.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    door: Door,
    stop: CancellationToken,
) {
    let (door, tls) = (Arc::new(door), tls.map(TlsAcceptor::from));
    let mut connections = JoinSet::new();
    loop {
        // Both may be dropped: a connection that is not accepted waits in the kernel.
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if connections.len() < door.intake.connections_max => {
                    let (door, tls, stop) = (Arc::clone(&door), tls.clone(), stop.clone());
                    connections.spawn(connection(stream, tls, door, stop));
                }
                Ok(_) => {
                    door.metrics.counted.turned_away.inc();
                }
                Err(error) => {
                    tracing::error!(error = &error as &dyn std::error::Error, "accepts nobody");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
        door.metrics.counted.connections.set(i64::try_from(connections.len()).unwrap_or(i64::MAX));
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    door: Arc<Door>,
    stop: CancellationToken,
) {
    // What does not work on this socket does not work below either.
    drop(stream.set_nodelay(true));
    let patience = door.intake.handshake_time_max;
    match tls {
        None => converse(stream, door, stop).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(patience, tls.accept(stream)).await {
                converse(stream, door, stop).await;
            }
        }
    }
}

async fn converse<S>(stream: S, door: Arc<Door>, stop: CancellationToken)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).max_buf_size(HEAD_BYTES_MAX);
    builder.header_read_timeout(IDLE_MAX);
    let service = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(answer_to(&door, request).await) }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut told = false;
    loop {
        // Both go on from where they were.
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error = &error as &dyn std::error::Error, "a connection broke");
                }
                return;
            }
            () = stop.cancelled(), if !told => {
                told = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// How long a connection may be idle between two requests. hyper's time for a head runs then too.
const IDLE_MAX: Duration = Duration::from_secs(120);

async fn answer_to(door: &Door, request: Request<Incoming>) -> Response<Full<Bytes>> {
    match (request.method(), request.uri().path()) {
        (&Method::POST, "/api/v1/write" | "/api/v1/push") => intake::write(door, request).await,
        (&Method::GET, "/healthz") => text(StatusCode::OK, "ok\n"),
        (&Method::GET, "/readyz") => match door.metrics.phase() {
            Phase::Ready if door.metrics.disk_fails() => text(
                StatusCode::SERVICE_UNAVAILABLE,
                "the disk fails the refill files; the log says how\n",
            ),
            Phase::Ready => text(StatusCode::OK, "ready\n"),
            Phase::Opening => text(StatusCode::SERVICE_UNAVAILABLE, "reading the spool\n"),
            Phase::Stopping => text(StatusCode::SERVICE_UNAVAILABLE, "stopping\n"),
        },
        (&Method::GET, "/metrics") => answer::typed(MEDIA_TYPE, door.metrics.scrape()),
        (_, "/api/v1/write" | "/api/v1/push" | "/healthz" | "/readyz" | "/metrics") => {
            Refusal::WrongMethod.answer()
        }
        _ => Refusal::NoSuchPath.answer(),
    }
}
