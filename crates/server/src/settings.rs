//! What the operator decided. Filled by the composition root from file, environment and flags;
//! nothing here reads them.

mod calls;
mod exchange;
mod relay;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use self::calls::{Calls, DeclaredChannel};
pub use self::exchange::{Exchange, Ordering, ServeOrder};
pub use self::relay::Relay;
pub use handoff_calls::{ChannelName, Durability as CallDurability, OnLost, WithoutConsumer};
pub use handoff_events::{Bounds, CatchUp, Publishing};
use handoff_streams::TopicSettings;
pub use handoff_streams::groups::{GroupBounds, GroupName, GroupSettings, Order, Start};
pub use handoff_streams::{Bounds as StreamBounds, Compression, Durability, TopicName};
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
    /// `[streams]`
    pub streams: Streams,
    /// `[exchange]`
    pub exchange: Exchange,
    /// `[calls]`
    pub calls: Calls,
    /// `[relay]`
    pub relay: Relay,
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
    /// `events.publish_pending_max`, `events.dead_letters_max`
    pub publishing: Publishing,
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

/// `[streams]`
#[derive(Clone, Debug)]
pub struct Streams {
    /// `streams.enabled`
    pub enabled: bool,
    /// `streams.message_bytes_max`, `streams.headers_max`, `streams.batch_messages_max`,
    /// `streams.topics_max`, `streams.partitions_max`, `streams.producers_max`,
    /// `streams.producer_remembered`, `streams.producer_idle_hours`, `streams.scheduled_max`,
    /// `streams.scheduled_bytes_max`, `streams.deliver_ahead_hours_max`
    pub bounds: StreamBounds,
    /// `streams.request_bytes_max`: the largest body with messages.
    pub request_bytes_max: usize,
    /// `streams.retention_hours`: of topics that do not say otherwise; none: never for their age.
    pub retention: Option<Span>,
    /// `streams.retention_bytes`: likewise, of each partition.
    pub retention_bytes: Option<u64>,
    /// `streams.retention_check_secs`: how often somebody looks what is past its time.
    pub retention_every: Duration,
    /// `streams.token_bytes_per_sec`: 0 for no limit.
    pub token_bytes_per_sec: u64,
    /// `streams.on_corrupt`
    pub on_corrupt: OnCorrupt,
    /// `streams.groups_max`, `streams.members_max`, `streams.session_secs_max`
    pub group_bounds: GroupBounds,
    /// `streams.delivery_bytes_max`: messages on their way to members of groups.
    pub delivery_bytes_max: usize,
    /// `[[streams.topic]]`
    pub topics: Vec<DeclaredTopic>,
    /// `[[streams.group]]`
    pub groups: Vec<DeclaredGroup>,
}

/// What becomes of whoever follows a partition into damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnCorrupt {
    /// It stops there.
    Stop,
    /// It goes on behind it.
    Skip,
}

/// `[[streams.topic]]`: a topic that is made at start if it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredTopic {
    /// Its name.
    pub name: TopicName,
    /// How many partitions. One that has fewer is grown; none is shrunk.
    pub partitions: u32,
    /// `retention_hours`; none: as `streams.retention_hours`.
    pub retention: Option<Span>,
    /// `retention_bytes`; none: as `streams.retention_bytes`.
    pub retention_bytes: Option<u64>,
    /// When producers are answered.
    pub durability: Durability,
    /// How batches are compressed.
    pub compression: Compression,
}

impl DeclaredTopic {
    /// Its settings, with the room's where it says nothing.
    #[must_use]
    pub fn settings(&self, room: &Streams) -> TopicSettings {
        TopicSettings {
            retention: self.retention.or(room.retention),
            retention_bytes: self.retention_bytes.or(room.retention_bytes),
            durability: self.durability,
            compression: self.compression,
        }
    }
}

/// `[[streams.group]]`: a group that is made at start if it is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredGroup {
    /// Its name.
    pub name: GroupName,
    /// What members that name no topics read.
    pub topics: Vec<TopicName>,
    /// Where it begins.
    pub start: Start,
    /// `ordering`: what waits for what.
    pub order: Order,
    /// How often a message is handed out before it is a dead letter.
    pub max_attempts: u32,
    /// Where dead letters go; none: to `<group>.dead`.
    pub dead_letter: Option<TopicName>,
    /// `lease_ms`: how long a member has for what it was handed.
    pub lease: Span,
    /// `backoff_ms`: how long a message waits for its second attempt.
    pub backoff: Span,
    /// `backoff_max_ms`: how long at most.
    pub backoff_max: Span,
    /// How far apart what is out of a partition may be.
    pub in_flight_max: u32,
}

impl DeclaredGroup {
    /// One that says nothing but its name.
    #[must_use]
    pub fn named(name: GroupName) -> Self {
        let usual = GroupSettings::of(&name, Vec::new());
        Self {
            name,
            topics: Vec::new(),
            start: usual.start,
            order: usual.order,
            max_attempts: usual.max_attempts,
            dead_letter: None,
            lease: usual.lease,
            backoff: usual.backoff,
            backoff_max: usual.backoff_max,
            in_flight_max: usual.in_flight_max,
        }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> GroupSettings {
        let usual = GroupSettings::of(&self.name, self.topics.clone());
        GroupSettings {
            start: self.start,
            order: self.order,
            max_attempts: self.max_attempts,
            dead_letter: self.dead_letter.clone().unwrap_or(usual.dead_letter),
            lease: self.lease,
            backoff: self.backoff,
            backoff_max: self.backoff_max,
            in_flight_max: self.in_flight_max,
            topics: usual.topics,
        }
    }
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
            publishing: Publishing { pending_max: 1_000, letters_max: 10_000 },
            frame_bytes_max: 1 << 20,
            sessions_max: 10_000,
            session_queue_bytes_max: 4 << 20,
            filter_entries_max: 100_000,
            answers_bytes_max: 64 << 20,
        }
    }
}

impl Default for Streams {
    fn default() -> Self {
        let hours = |hours: u64| Span::from_secs(hours * 3600);
        Self {
            enabled: true,
            bounds: StreamBounds {
                message_bytes_max: 1 << 20,
                headers_max: 64,
                batch_messages_max: 10_000,
                topics_max: 10_000,
                partitions_max: 100_000,
                producers_max: 10_000,
                remembered_max: 1_024,
                missing_max: 64,
                producer_idle: hours(168),
                scheduled_max: 1_000_000,
                scheduled_bytes_max: 256 << 20,
                deliver_ahead_max: hours(8_784),
            },
            request_bytes_max: 16 << 20,
            retention: Some(hours(168)),
            retention_bytes: None,
            retention_every: Duration::from_secs(60),
            token_bytes_per_sec: 0,
            on_corrupt: OnCorrupt::Stop,
            group_bounds: GroupBounds::default(),
            delivery_bytes_max: 256 << 20,
            topics: Vec::new(),
            groups: Vec::new(),
        }
    }
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), port)
}
