//! The HTTP API: routes, refusals, limits, and the loop that accepts connections.
//!
//! # Constraints
//! * The listener is bound before the data directory is read. Until [`App::open`] is called,
//!   everything but `/`, `/healthz`, `/readyz`, `/metrics` and `/openapi.json` answers 503
//!   `room_off` with a `Retry-After`.
//! * Every refusal is `application/problem+json` with a stable code ([`problem`]).
//! * Every request has an id, a deadline and a bound on its body; every connection has a bound on
//!   how long its client may be silent; there are at most `server.connections_max` of them.
//! * What the API looks like is generated from the handlers and kept in `openapi.json`; a test
//!   compares them.
//!
//! # The path of a request
//! ```text
//!  accept ─▶ connection ─▶ front ──────────▶ access ─────▶ handler ─▶ room
//!  limit     TLS, HTTP/1   id, deadline,     rooms open?   reads the
//!            or 2, silence panic, metrics,   who is it?    body, asks
//!                          log lines
//! ```

mod accept;
mod access;
mod alarm;
mod calls;
mod connection;
mod correlation;
mod direct;
mod document;
mod events;
mod exchange;
mod express;
mod front;
mod house;
mod json;
mod nearest;
pub mod problem;
mod query;
mod relay;
mod seldom;
mod speech;
mod stamp;
mod stream;
mod streams;
mod tokens;
mod websocket;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use handoff_log::journal::Report;
use handoff_types::{Room, Wall};

pub use self::accept::serve;
pub use self::document::openapi;
pub(crate) use self::exchange::incoming::read_file as read_exchange_file;
pub use self::house::time_zone_database;
pub(crate) use self::stamp::stamp;

use self::correlation::Ids;
use crate::auth::Gatekeeper;
use crate::relay::Reception;
use crate::rooms::calls::CallsRoom;
use crate::rooms::events::EventsRoom;
use crate::rooms::exchange::ExchangeRoom;
use crate::rooms::house::HouseRoom;
use crate::rooms::streams::StreamsRoom;
use crate::runtime::{Phase, Readiness, RoomStatus};
use crate::settings;
use crate::telemetry::{LogHandle, Metrics};

/// What the routes need. One for the whole server.
#[derive(Debug)]
pub struct App {
    /// The version of the binary.
    pub version: &'static str,
    /// Who may be asked already.
    pub readiness: Readiness,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The last log lines.
    pub logs: LogHandle,
    /// `auth.enabled`
    auth: bool,
    limits: RwLock<Limits>,
    rooms: OnceLock<Rooms>,
    ids: Ids,
}

/// The rooms, once they are open.
#[derive(Debug)]
pub struct Rooms {
    /// None if it is switched off or closed; [`Readiness`] knows which.
    pub events: Option<EventsRoom>,
    /// Likewise.
    pub streams: Option<StreamsRoom>,
    /// Likewise.
    pub exchange: Option<ExchangeRoom>,
    /// Likewise.
    pub calls: Option<CallsRoom>,
    /// Likewise.
    pub relay: Option<Reception>,
    /// None if it is closed.
    pub house: Option<HouseRoom>,
    /// The door.
    pub gate: Gatekeeper,
    /// What `GET /v1/server` shows.
    pub facts: Facts,
}

/// What is known of a server once it is open.
#[derive(Clone, Debug)]
pub struct Facts {
    /// When it was started.
    pub started: Wall,
    /// Names of listeners and where they really listen.
    pub listeners: Vec<(&'static str, SocketAddr)>,
    /// What the journal's recovery found.
    pub recovery: Report,
    /// How long it took until the rooms were open.
    pub opening: Duration,
}

/// Bounds of the HTTP listener. They can be changed while the server runs; connections that are
/// open keep those they began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `server.connections_max`
    pub connections_max: usize,
    /// `server.body_bytes_max`
    pub body_bytes_max: usize,
    /// `server.header_secs_max`
    pub header_time_max: Duration,
    /// `server.request_secs_max`
    pub request_time_max: Duration,
    /// `server.access_log`
    pub access_log: bool,
    /// `server.slow_ms`
    pub slow: Duration,
    /// How long a connection may be idle between two requests: [`KEEP_ALIVE`].
    pub keep_alive: Duration,
    /// How often a stream says something when there is nothing to say: [`HEARTBEAT`].
    pub heartbeat: Duration,
    /// How long a client may take nothing of an answer: [`STALL_MAX`].
    pub stall_max: Duration,
}

impl Limits {
    /// How often a connection must be looked at so that none of its bounds is missed for long.
    fn look_every(&self) -> Duration {
        self.header_time_max.min(self.keep_alive).min(self.stall_max)
    }
}

/// How long a connection may be idle between two requests.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// How long a client may take nothing of an answer before its connection is closed.
pub const STALL_MAX: Duration = Duration::from_secs(30);

/// How often a stream says something when there is nothing to say.
pub const HEARTBEAT: Duration = Duration::from_secs(15);

impl From<&settings::Server> for Limits {
    fn from(server: &settings::Server) -> Self {
        Self {
            connections_max: server.connections_max,
            body_bytes_max: server.body_bytes_max,
            header_time_max: server.header_time_max,
            request_time_max: server.request_time_max,
            access_log: server.access_log,
            slow: server.slow,
            keep_alive: KEEP_ALIVE,
            heartbeat: HEARTBEAT,
            stall_max: STALL_MAX,
        }
    }
}

impl App {
    /// An app whose rooms are still to come.
    #[must_use]
    pub fn new(
        settings: &settings::Settings,
        version: &'static str,
        readiness: Readiness,
        metrics: Arc<Metrics>,
        logs: LogHandle,
    ) -> Arc<Self> {
        Arc::new(Self {
            version,
            readiness,
            metrics,
            logs,
            auth: settings.auth.enabled,
            limits: RwLock::new(Limits::from(&settings.server)),
            rooms: OnceLock::new(),
            ids: Ids::new(),
        })
    }

    /// The rooms are there: from now on they are asked. A second call is ignored.
    pub fn open(&self, rooms: Rooms) {
        self.rooms.get_or_init(|| rooms);
    }

    /// The bounds in force.
    #[must_use]
    pub fn limits(&self) -> Limits {
        *self.limits.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the bounds, for requests and connections that begin from now on.
    pub fn set_limits(&self, limits: Limits) {
        *self.limits.write().unwrap_or_else(PoisonError::into_inner) = limits;
    }

    fn rooms(&self) -> Option<&Rooms> {
        self.rooms.get()
    }

    /// How a room is: what keeps it from answering, if something does.
    fn room(&self, room: Room) -> (Phase, RoomStatus) {
        let board = self.readiness.board();
        let status = board.room(room);
        (board.phase, status)
    }
}
