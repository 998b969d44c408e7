//! sevent over TCP: the listener and its sessions.
//!
//! # Constraints
//! * A connection is a session. Requests may be pipelined and are answered in order; notifications
//!   come between answers.
//! * When the server asks for tokens, the first message brings one as option 100; otherwise the
//!   session is told so and closed.
//! * Above `events.sessions_max` a connection is told so and closed.
//! * Memory for requests and answers of all sessions together is bounded by
//!   `events.answers_bytes_max`, that for notifications by `events.session_queue_bytes_max` each.

mod connection;
mod output;
mod pending;
mod translate;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use handoff_sevent::{Answer, ErrorCode};
use rustls::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::connection::Connection;
pub(crate) use self::translate::notify_frame;
use self::wire::Wire;
use crate::auth::Gatekeeper;
use crate::rooms::RoomError;
use crate::rooms::events::EventsRoom;

/// How many are told at once that there are too many; whoever comes then is not told.
const FAREWELLS_MAX: usize = 64;

/// How long somebody who is turned away may take to listen.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long to wait before a system that gives no connection is asked again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// See [`Parts::stall_max`].
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// The least that sessions share; below that a single request would not fit.
const MEMORY_MIN: usize = 1 << 20;

/// What all sessions share.
#[derive(Debug)]
struct Door {
    room: EventsRoom,
    gate: Gatekeeper,
    /// Bytes that requests and answers on their way may take.
    memory: Arc<Semaphore>,
    memory_max: usize,
    greeting_max: watch::Receiver<Duration>,
    stall_max: Duration,
}

impl Door {
    /// How long a handshake and a first message may take.
    fn greeting_max(&self) -> Duration {
        *self.greeting_max.borrow()
    }
}

/// What the listener needs.
#[derive(Debug)]
pub struct Parts {
    /// The room.
    pub room: EventsRoom,
    /// Who is let in.
    pub gate: Gatekeeper,
    /// The certificate, if sessions are inside TLS.
    pub tls: Option<Arc<ServerConfig>>,
    /// How long a handshake and a first message with a token may take; what it is when somebody
    /// connects counts.
    pub greeting_max: watch::Receiver<Duration>,
    /// How long nothing of what is ready for a session may be taken before it is closed, or too
    /// little of it while it holds memory that others wait for.
    pub stall_max: Duration,
}

/// Serves sessions on a listener until told to stop. Then nothing more is accepted, requests that
/// were taken are answered and sessions closed; when that is done, so is this. How long it may
/// take is the caller's decision: dropped, everything ends at once.
pub async fn serve(listener: TcpListener, parts: Parts, stop: CancellationToken) {
    let Parts { room, gate, tls, greeting_max, stall_max } = parts;
    let wanted = room.settings().answers_bytes_max.max(MEMORY_MIN);
    let memory_max = wanted.min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
    let memory = Arc::new(Semaphore::new(memory_max));
    let door = Arc::new(Door { room, gate, memory, memory_max, greeting_max, stall_max });
    let tls = tls.map(TlsAcceptor::from);
    let (mut sessions, mut farewells) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = sessions.join_next() => {}
            Some(_) = farewells.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) if sessions.len() < door.room.settings().sessions_max => {
                    let (door, tls, stop) = (Arc::clone(&door), tls.clone(), stop.clone());
                    sessions.spawn(async move { converse(stream, door, tls, &stop).await });
                }
                Ok((stream, _)) => {
                    if tls.is_none() && farewells.len() < FAREWELLS_MAX {
                        let words = RoomError::Sessions(sessions.len()).to_string();
                        farewells.spawn(async move {
                            drop(timeout(FAREWELL, turn_away(stream, words)).await);
                        });
                    }
                }
                Err(error) => pause(&error).await,
            },
        }
    }
    drop(listener);
    farewells.shutdown().await;
    while sessions.join_next().await.is_some() {}
}

async fn converse(
    stream: TcpStream,
    door: Arc<Door>,
    tls: Option<TlsAcceptor>,
    stop: &CancellationToken,
) {
    // What is written is whole; waiting for more only delays it.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = &error as &dyn std::error::Error, "no delay cannot be set");
    }
    let wire = match tls {
        None => Wire::Plain(stream),
        Some(acceptor) => {
            let handshake = timeout(door.greeting_max(), acceptor.accept(stream));
            let shaken = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                shaken = Box::pin(handshake) => shaken,
            };
            match shaken {
                Ok(Ok(stream)) => Wire::Tls(Box::new(stream)),
                Ok(Err(error)) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "no TLS");
                    return;
                }
                Err(_) => return,
            }
        }
    };
    Connection::new(wire, door).run(stop).await;
}

/// Says why, and listens until the other side has understood.
async fn turn_away(mut stream: TcpStream, words: String) -> io::Result<()> {
    let answer = Answer::Error { last_id: 0, code: ErrorCode::InternalError, message: words };
    stream.write_all(&answer.to_bytes()).await?;
    stream.shutdown().await?;
    let mut ignored = [0; 1024];
    while stream.read(&mut ignored).await? > 0 {}
    Ok(())
}

/// A connection that broke before it was accepted is nothing; no more files is a condition that
/// lasts.
pub(crate) async fn pause(error: &io::Error) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        return;
    }
    tracing::error!(error = error as &dyn std::error::Error, "no session can be accepted");
    sleep(ACCEPT_PAUSE).await;
}
