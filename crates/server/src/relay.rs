//! The relay's receiver: the listener of `relay.listen`, and whoever sends.
//!
//! # Constraints
//! * A connection speaks for one block of one agent; who comes later for the same block takes over.
//! * Inside (agent, block, shard) segments go to the sinks in their order and one after the other; a
//!   segment is confirmed when every sink has it, durably. There is no spool here: a sink that does
//!   not take something is answered with *again later*, and the agent keeps it.
//! * What is being read and what is on its way to the sinks has a bound each, over all connections;
//!   whoever waits for it is not read from. What is new goes before backlogs.
//!
//! ```text
//!  socket ─▶ Session ──segment──▶ Machine: decode ──parcel──▶ a lane per shard ─▶ Sinks: topic, remote write, program
//!               ▲  one task a     on a thread that            one delivery at         each with its own mark
//!               │  connection     may compute                 a time                        │
//!               └───────────────────────── Ack · Reject ◀─────────────────────────────────┘
//! ```

mod agents;
mod blocks;
mod delivery;
mod line;
mod machine;
mod session;
mod sinks;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use handoff_relay::Pacer;
use handoff_types::{Span, Wall};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::agents::Agents;
pub(crate) use self::agents::{AgentView, SessionView};
use self::blocks::Blocks;
use self::line::Line;
use self::machine::Pool;
use self::sinks::Sinks;
pub(crate) use self::sinks::{Answer, Ask, Asked, Post, Programs, SinkView};
use crate::auth::Gatekeeper;
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::streams::StreamsRoom;
use crate::settings;
use crate::telemetry::{Metrics, RelayMetrics};

/// How often decoders that nobody uses are looked for.
const FORGET_EVERY: Duration = Duration::from_secs(30);

/// What the receiver needs.
#[derive(Debug)]
pub struct Parts {
    /// `[relay]`
    pub settings: settings::Relay,
    /// Where the topic is, if the room is open.
    pub topics: Option<StreamsRoom>,
    /// Who is let in.
    pub gate: Gatekeeper,
    /// What time it is.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How long a handshake and a greeting may take; what it is when somebody connects counts.
    pub greeting_max: watch::Receiver<Duration>,
}

/// The receiver, as the rest of the server sees it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Reception(Arc<Door>);

/// What all sessions share.
#[derive(Debug)]
struct Door {
    settings: RwLock<Arc<settings::Relay>>,
    sinks: Arc<Sinks>,
    gate: Gatekeeper,
    clock: Clock,
    dice: Dice,
    blocks: Arc<Blocks>,
    agents: Agents,
    pool: Pool,
    /// Bytes of messages that are being read.
    intake: Arc<Semaphore>,
    intake_max: usize,
    /// The half of them that backlogs may have.
    intake_old: Arc<Semaphore>,
    /// Whose turn it is, of backlogs. Those who wait stand in line.
    turn: Arc<Semaphore>,
    /// Bytes on their way to the sinks.
    pending: Arc<Semaphore>,
    pending_max: usize,
    pacer: Mutex<Pacer>,
    metrics: Arc<Metrics>,
    greeting_max: watch::Receiver<Duration>,
}

impl Door {
    fn settings(&self) -> Arc<settings::Relay> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn metrics(&self) -> &RelayMetrics {
        self.metrics.relay()
    }

    fn pacer(&self) -> MutexGuard<'_, Pacer> {
        self.pacer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When somebody who is sent away is to come again: not all of them at once.
    fn again(&self) -> Span {
        let half = u64::try_from(self.settings().retry_after.as_micros()).unwrap_or(u64::MAX) / 2;
        Span(half.saturating_add(self.dice.roll().word(0) % half.saturating_mul(2).max(1)))
    }
}

/// What the receiver looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Agents that are known.
    pub agents: usize,
    /// Of those, connected.
    pub connected: usize,
    /// Connections.
    pub sessions: usize,
    /// Blocks whose decoders are kept.
    pub blocks: usize,
    /// Bytes of messages that are being read, and how many may be.
    pub intake: (usize, usize),
    /// Bytes on their way to the sinks, and how many may be.
    pub pending: (usize, usize),
    /// How late the newest sample of the agent that is furthest behind is, of those connected, in
    /// milliseconds.
    pub lag_millis: i64,
}

impl Reception {
    /// A receiver that nobody listens for yet. None if samples would go nowhere.
    ///
    /// # Errors
    /// In words, when the settings name a place where samples cannot go.
    pub fn new(parts: Parts) -> Result<Option<Self>, String> {
        let Parts { settings, topics, gate, clock, dice, metrics, greeting_max } = parts;
        let Some(sinks) = Sinks::new(&settings, topics, &clock)? else { return Ok(None) };
        let bytes = |wanted: usize| wanted.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        let (intake, pending) =
            (bytes(settings.intake_bytes_max), bytes(settings.pending_bytes_max));
        let pacer = Pacer::new(settings.pace(), clock.steady());
        Ok(Some(Self(Arc::new(Door {
            sinks: Arc::new(sinks),
            gate,
            dice,
            blocks: Arc::new(Blocks::default()),
            agents: Agents::default(),
            pool: Pool::new(),
            intake: Arc::new(Semaphore::new(intake)),
            intake_max: intake,
            intake_old: Arc::new(Semaphore::new(intake / 2)),
            turn: Arc::new(Semaphore::new(1)),
            pending: Arc::new(Semaphore::new(pending)),
            pending_max: pending,
            pacer: Mutex::new(pacer),
            metrics,
            greeting_max,
            clock,
            settings: RwLock::new(Arc::new(settings)),
        }))))
    }

    /// Changes what can be changed while it works, for connections from now on.
    pub fn set_settings(&self, settings: settings::Relay) {
        self.0.pacer().set_rules(settings.pace());
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// What it looks like at this moment.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let door = &self.0;
        let taken =
            |max: usize, left: &Semaphore| (max.saturating_sub(left.available_permits()), max);
        let (agents, connected, sessions) = door.agents.counts();
        Stats {
            agents,
            connected,
            sessions,
            blocks: door.blocks.len(),
            intake: taken(door.intake_max, &door.intake),
            pending: taken(door.pending_max, &door.pending),
            lag_millis: door.agents.lag_millis(door.clock.wall()),
        }
    }

    /// Agents by name, those behind a name that `sees` says yes to, and whether there are more.
    pub(crate) fn agents(
        &self,
        sees: impl Fn(&str) -> bool,
        after: &str,
        limit: usize,
    ) -> (Vec<AgentView>, bool) {
        self.0.agents.list(sees, after, limit)
    }

    /// One agent.
    pub(crate) fn agent(&self, name: &str) -> Option<AgentView> {
        self.0.agents.one(name)
    }

    /// What time it is.
    pub(crate) fn wall(&self) -> Wall {
        self.0.clock.wall()
    }

    /// Where samples go, and how that is.
    pub(crate) fn sinks(&self) -> Vec<SinkView> {
        self.0.sinks.views()
    }

    /// Where a program that takes samples stands, if `relay.callback` says that one may.
    pub(crate) fn programs(&self) -> Option<Programs> {
        self.0.sinks.programs()
    }

    /// Serves agents on a listener until told to stop. Then nothing more is accepted, what was taken
    /// is handed over and confirmed, and connections are closed. How long that may take is the
    /// caller's decision: dropped, everything ends at once.
    pub async fn serve(
        self,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        stop: CancellationToken,
    ) {
        let door = self.0;
        let tls = tls.map(TlsAcceptor::from);
        let mut sessions = JoinSet::new();
        let mut forgetting = interval(FORGET_EVERY);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = sessions.join_next() => {}
                _ = forgetting.tick() => door.blocks.forget(door.settings().block_idle),
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) if sessions.len() < door.settings().sessions_max => {
                        let (door, tls, stop) = (Arc::clone(&door), tls.clone(), stop.clone());
                        sessions.spawn(async move { converse(stream, peer, door, tls, stop).await });
                    }
                    // An agent that is not greeted comes again.
                    Ok(_) => door.metrics().refused("sessions"),
                    Err(error) => crate::sevent::pause(&error).await,
                },
            }
        }
        drop(listener);
        while sessions.join_next().await.is_some() {}
    }
}

async fn converse(
    stream: TcpStream,
    peer: SocketAddr,
    door: Arc<Door>,
    tls: Option<TlsAcceptor>,
    stop: CancellationToken,
) {
    // What is written is whole; waiting for more only delays it.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(error = &error as &dyn std::error::Error, "no delay cannot be set");
    }
    let greeting_max = *door.greeting_max.borrow();
    let line = match tls {
        None => Line::new(stream),
        Some(acceptor) => {
            let handshake = timeout(greeting_max, acceptor.accept(stream));
            match stop.run_until_cancelled(Box::pin(handshake)).await {
                Some(Ok(Ok(stream))) => Line::new(stream),
                Some(Ok(Err(error))) => {
                    tracing::debug!(error = &error as &dyn std::error::Error, "no TLS");
                    return;
                }
                Some(Err(_)) | None => return,
            }
        }
    };
    session::hold(door, line, peer, stop).await;
}
