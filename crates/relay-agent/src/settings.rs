//! What the operator of an agent decided. Nothing here reads a file, a variable or a flag.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use handoff_relay::refill::{RefillLimits, SpoolLimits};
use handoff_relay::remote_write::RemoteWriteLimits;
use handoff_relay::{BackoffRules, BatchLimits, DeliveryRules, Mode, SenderRules};

use crate::address::Address;

/// What is said to whoever sends while neither memory nor disk has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// 429: the sender sends too much.
    TooManyRequests,
    /// 503, for senders that give up on 429.
    Unavailable,
}

/// Who is to have everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// `destination.name`: what the refill files call it. It is the destination: under another name
    /// it is another one.
    pub name: String,
    /// `destination.url`
    pub address: Address,
    /// What shows it who sends; empty without authentication.
    pub token: String,
    /// `destination.ca_file`: whom to believe besides the public authorities.
    pub ca_file: Option<PathBuf>,
}

/// Bounds of the agent's own listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intake {
    /// `agent.connections_max`
    pub connections_max: usize,
    /// `agent.intake_bytes_max`: bodies that are being read, and as much again for what they unpack
    /// to.
    pub bytes_max: usize,
    /// `agent.handshake_secs_max`
    pub handshake_time_max: Duration,
    /// `agent.request_secs_max`: how long a body may take to arrive.
    pub request_time_max: Duration,
    /// Bounds of one body.
    pub body: RemoteWriteLimits,
    /// Bounds of what it becomes.
    pub batch: BatchLimits,
    /// `agent.when_full`
    pub when_full: WhenFull,
}

/// An agent.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `agent.name`: what receivers know it by.
    pub name: String,
    /// `agent.listen`
    pub listen: SocketAddr,
    /// `agent.data_dir`: refill files and what was set aside.
    pub data_dir: PathBuf,
    /// `agent.promise`
    pub promise: Mode,
    /// `agent.stop_secs_max`
    pub stop_time_max: Duration,
    /// What whoever sends samples must show; none if everybody may.
    pub token: Option<String>,
    /// `agent.disk_free_min`: below it nothing is written to refill files.
    pub disk_free_min: u64,
    /// Bounds of the listener.
    pub intake: Intake,
    /// How samples become segments and segments become old.
    pub rules: DeliveryRules,
    /// Bounds of the spool.
    pub spool: SpoolLimits,
    /// Bounds of one refill file.
    pub refill: RefillLimits,
    /// When a destination is tried again.
    pub backoff: BackoffRules,
    /// How long a silent connection is trusted.
    pub session: SenderRules,
    /// Who is to have everything.
    pub destinations: Vec<Destination>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: String::new(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7072)),
            data_dir: PathBuf::from("handoff-relay"),
            promise: Mode::Durable,
            stop_time_max: Duration::from_secs(30),
            token: None,
            disk_free_min: 256 << 20,
            intake: Intake {
                connections_max: 256,
                bytes_max: 64 << 20,
                handshake_time_max: Duration::from_secs(10),
                request_time_max: Duration::from_secs(30),
                body: RemoteWriteLimits::default(),
                batch: BatchLimits::default(),
                when_full: WhenFull::TooManyRequests,
            },
            rules: DeliveryRules::default(),
            spool: SpoolLimits::default(),
            refill: RefillLimits::default(),
            backoff: BackoffRules::default(),
            session: SenderRules::default(),
            destinations: Vec::new(),
        }
    }
}
