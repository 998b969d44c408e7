//! What the operator decided. Filled by the composition root from file, environment and flags;
//! nothing here reads them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use handoff_events::{Bounds, CatchUp};
use handoff_types::{Limits, Span};

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `[server]`
    pub server: Server,
    /// `[log]`
    pub log: Log,
    /// `[auth]`
    pub auth: Auth,
    /// `[events]`
    pub events: Events,
}

/// `[server]`
#[derive(Clone, Debug)]
pub struct Server {
    /// `server.data_dir`
    pub data_dir: PathBuf,
    /// `server.listen`: HTTP API.
    pub listen: SocketAddr,
    /// `server.tls_cert_file` and `server.tls_key_file`: TLS on the HTTP listener, and the
    /// certificate of every other listener that has `tls = true`.
    pub tls: Option<Tls>,
    /// `server.connections_max`: HTTP connections at once.
    pub connections_max: usize,
    /// `server.body_bytes_max`: the largest body of a request.
    pub body_bytes_max: usize,
    /// `server.header_secs_max`: how long a client may take to send a request's head.
    pub header_time_max: Duration,
    /// `server.request_secs_max`: how long a request may take, streams aside.
    pub request_time_max: Duration,
    /// `server.stop_secs_max`: how long what was begun may take once the server is told to stop.
    pub stop_time_max: Duration,
    /// `server.disk_free_min`: below this, new messages are refused. None: the larger of 5 % and 2 GiB.
    pub disk_free_min: Option<u64>,
    /// `server.log_level`: error, warn, info, debug, trace, or a filter of `tracing`.
    pub log_level: String,
    /// `server.log_format`
    pub log_format: LogFormat,
    /// `server.access_log`: a line for each request.
    pub access_log: bool,
    /// `server.slow_ms`: operations that take longer are logged.
    pub slow: Duration,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A certificate and its key, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The chain.
    pub cert_file: PathBuf,
    /// The key.
    pub key_file: PathBuf,
}

/// `[log]`: limits of the journal, and when checkpoints are taken.
#[derive(Clone, Debug)]
pub struct Log {
    /// See [`Limits`].
    pub limits: Limits,
    /// `log.checkpoint_bytes`: a checkpoint is begun after this much journal.
    pub checkpoint_bytes: u64,
    /// `log.checkpoint_secs`: and at the latest after this long, if anything was written.
    pub checkpoint_every: Duration,
}

/// `[auth]`
#[derive(Clone, Debug, Default)]
pub struct Auth {
    /// `auth.enabled`: tokens are asked for. Must be on if a listener is not on loopback.
    pub enabled: bool,
    /// `auth.bootstrap_token_file`: a token that is made an admin at start if it is not there.
    pub bootstrap_token_file: Option<PathBuf>,
}

/// `[events]`
#[derive(Clone, Debug)]
pub struct Events {
    /// `events.enabled`
    pub enabled: bool,
    /// `events.listen`: sevent.
    pub listen: SocketAddr,
    /// `events.tls`: sevent inside TLS, with the server's certificate.
    pub tls: bool,
    /// `events.period_min_secs`, `events.description_bytes_max`, `events.types_max`,
    /// `events.type_bytes_max`, `events.events_max`
    pub bounds: Bounds,
    /// `events.catch_up`
    pub catch_up: CatchUp,
    /// `events.catch_up_max`
    pub catch_up_max: u64,
    /// `events.catch_up_wait_secs`
    pub catch_up_wait: Duration,
    /// `events.late_secs_max`
    pub late_max: Span,
    /// `events.frame_bytes_max`: requests only.
    pub frame_bytes_max: u32,
    /// `events.sessions_max`
    pub sessions_max: usize,
    /// `events.session_queue_bytes_max`: notifications a session has not taken yet.
    pub session_queue_bytes_max: usize,
    /// `events.filter_entries_max`: ids and types in one filter.
    pub filter_entries_max: usize,
    /// `events.answers_bytes_max`: answers on their way to all sessions together.
    pub answers_bytes_max: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            data_dir: "handoff-data".into(),
            listen: loopback(7070),
            tls: None,
            connections_max: 10_000,
            body_bytes_max: 8 << 20,
            header_time_max: Duration::from_secs(10),
            request_time_max: Duration::from_secs(60),
            stop_time_max: Duration::from_secs(10),
            disk_free_min: None,
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            access_log: false,
            slow: Duration::from_millis(500),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            checkpoint_bytes: 128 << 20,
            checkpoint_every: Duration::from_secs(300),
        }
    }
}

impl Default for Events {
    fn default() -> Self {
        Self {
            enabled: true,
            listen: loopback(5987),
            tls: false,
            bounds: Bounds {
                period_min: Span::from_millis(100),
                period_max: Span::from_secs(100 * 365_250 * 86_400 / 1000),
                description_bytes_max: 64 << 10,
                types_max: 64,
                type_bytes_max: 256,
                events_max: 10_000_000,
            },
            catch_up: CatchUp::Skip,
            catch_up_max: 10_000,
            catch_up_wait: Duration::from_secs(30),
            late_max: Span::from_secs(10),
            frame_bytes_max: 1 << 20,
            sessions_max: 10_000,
            session_queue_bytes_max: 4 << 20,
            filter_entries_max: 100_000,
            answers_bytes_max: 64 << 20,
        }
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)
}
