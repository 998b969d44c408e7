//! Every key of `relay.toml`, its destinations aside. Defaults are those of [`RelayConfig::default`].

use std::time::Duration;

use handoff_relay::Mode;
use handoff_relay_agent::WhenFull;

use super::RelayConfig;
use crate::config::value::{Field, Kind, LOG_FORMATS, Unit, Value};

/// A key.
#[derive(Debug)]
pub(crate) struct RelayKey {
    /// The section it stands in.
    pub(crate) section: &'static str,
    /// Its name there.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// One line for people.
    pub(crate) doc: &'static str,
    /// Its value in some configuration.
    pub(crate) get: fn(&RelayConfig) -> Value,
    /// Puts a value in.
    pub(crate) set: fn(&mut RelayConfig, Value),
}

impl RelayKey {
    /// `agent.listen`
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }
}

/// Every section, and what it is about.
pub(crate) const SECTIONS: &[(&str, &str)] = &[
    ("agent", "The process: its name, its listener, its directory, and what it promises."),
    ("relay", "How samples become segments, and how long each thing may take or grow."),
];

/// The key with this section and name.
pub(crate) fn find(section: &str, name: &str) -> Option<&'static RelayKey> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn secs(min: u64, max: u64) -> Kind {
    Kind::Time(Unit::Secs, Duration::from_secs(min), Duration::from_secs(max))
}

const fn millis(min: u64, max: u64) -> Kind {
    Kind::Time(Unit::Millis, Duration::from_millis(min), Duration::from_millis(max))
}

const PROMISES: &[&str] = &["memory", "durable", "delivered"];
const WHEN_FULL: &[&str] = &["429", "503"];

impl Field for Mode {
    fn value(&self) -> Value {
        let word = match self {
            Self::Memory => "memory",
            Self::Durable => "durable",
            Self::Delivered => "delivered",
        };
        Value::Text(word.to_owned())
    }

    fn put(&mut self, value: Value) {
        if let Value::Text(word) = value {
            *self = match word.as_str() {
                "memory" => Self::Memory,
                "delivered" => Self::Delivered,
                _ => Self::Durable,
            };
        }
    }
}

impl Field for WhenFull {
    fn value(&self) -> Value {
        let word = match self {
            Self::TooManyRequests => "429",
            Self::Unavailable => "503",
        };
        Value::Text(word.to_owned())
    }

    fn put(&mut self, value: Value) {
        if let Value::Text(word) = value {
            *self = if word == "503" { Self::Unavailable } else { Self::TooManyRequests };
        }
    }
}

macro_rules! key {
    ($section:ident.$name:ident: $kind:expr, $($field:ident).+, $doc:literal) => {
        RelayKey {
            section: stringify!($section),
            name: stringify!($name),
            kind: $kind,
            doc: $doc,
            get: |config| config.$($field).+.value(),
            set: |config, value| config.$($field).+.put(value),
        }
    };
}

/// Every key, section by section.
pub(crate) const KEYS: &[RelayKey] = &[
    key!(agent.name: Kind::Text, name,
        "What receivers know this agent by; the machine's name if absent. No two agents have the same."),
    key!(agent.listen: Kind::Address, settings.listen,
        "Where samples come in, and where /metrics is. Port 0 picks a free one."),
    key!(agent.data_dir: Kind::Path, settings.data_dir,
        "Refill files and what was set aside. Made if it is not there; one process uses it at a time."),
    key!(agent.promise: Kind::Choice(PROMISES), settings.promise,
        "What 204 means: memory, the samples are taken; durable, every destination has them or they are on this disk for it; delivered, every destination has them."),
    key!(agent.when_full: Kind::Choice(WHEN_FULL), settings.intake.when_full,
        "What is said when neither memory nor disk has room. Prometheus gives up on 429 unless its queue_config says retry_on_http_429."),
    key!(agent.token_file: Kind::Path, token_file,
        "A file with the token that whoever sends samples must show; needed unless only this machine reaches the listener."),
    key!(agent.tls_cert_file: Kind::Path, tls_cert_file,
        "Certificate chain, PEM. With it the listener speaks TLS."),
    key!(agent.tls_key_file: Kind::Path, tls_key_file, "Private key of the certificate, PEM."),
    key!(agent.stop_secs_max: secs(0, 600), settings.stop_time_max,
        "How long it may take to stop. What no destination confirms in half of it goes to disk."),
    key!(agent.connections_max: Kind::Count(1, 65_536), settings.intake.connections_max,
        "Connections of those who send; more are turned away."),
    key!(agent.intake_bytes_max: Kind::Bytes(MIB, 64 * GIB), settings.intake.bytes_max,
        "Bodies that are being read, and as much again for what they unpack to; more of them wait."),
    key!(agent.handshake_secs_max: secs(1, 600), settings.intake.handshake_time_max,
        "How long a TLS handshake may take. Between requests a connection may be silent for two minutes."),
    key!(agent.request_secs_max: secs(1, 600), settings.intake.request_time_max,
        "How long the body of a request may take to come."),
    key!(agent.disk_free_min: Kind::Bytes(0, TIB), settings.disk_free_min,
        "Below so much free space nothing is written to refill files: the spool counts as full."),
    key!(agent.log_level: Kind::Text, log_level,
        "error, warn, info, debug, trace or off, or a filter like info,handoff_relay_agent=debug."),
    key!(agent.log_format: Kind::Choice(LOG_FORMATS), log_format, "How log lines look."),
    key!(relay.shards: Kind::Count(1, 64), shards,
        "Shards of a block: a power of two. One is enough for some million samples a second."),
    key!(relay.window_secs: Kind::Time(Unit::Secs, Duration::from_millis(50), Duration::from_secs(600)), settings.rules.exchange.window,
        "How long a segment waits in memory for its confirmations before it goes to disk."),
    key!(relay.exchange_bytes_max: Kind::Bytes(MIB, 64 * GIB), settings.rules.exchange.bytes_max,
        "Segments in memory; one more of each shard may be above it."),
    key!(relay.segment_samples: Kind::Count(1, 1_048_576), settings.rules.segment_samples,
        "A segment with so many samples is closed."),
    key!(relay.segment_waiting_bytes: Kind::Bytes(KIB, 32 * MIB), settings.rules.segment_waiting_bytes,
        "A segment with so many bytes, not packed, is closed."),
    key!(relay.linger_ms: millis(0, 60_000), settings.rules.linger,
        "How long samples wait for others in their segment."),
    key!(relay.linger_awaited_ms: millis(0, 60_000), settings.rules.linger_awaited,
        "The same while somebody waits for an answer."),
    key!(relay.promise_secs_max: secs(1, 600), settings.rules.promise_max,
        "How long somebody waits for an answer; then it is 503, and the samples are on their way."),
    key!(relay.tickets_max: Kind::Count(1, 1_000_000), settings.rules.tickets_max,
        "How many may wait for an answer."),
    key!(relay.block_bytes_max: Kind::Bytes(MIB, GIB), settings.rules.block_bytes_max,
        "A block with so many bytes of segments is followed by another."),
    key!(relay.block_secs_max: secs(1, 7 * 86_400), settings.rules.block_age_max,
        "And so is one that is so old."),
    key!(relay.series_max: Kind::Count(1, 16_777_216), settings.rules.codec.series_max,
        "Series of one shard of a block; the next block begins beyond it."),
    key!(relay.key_frame_bytes: Kind::Bytes(KIB, GIB), settings.rules.key_frame_bytes,
        "A refill file gets a snapshot of a shard after so many bytes of it."),
    key!(relay.key_frame_secs: secs(1, 86_400), settings.rules.key_frame_age,
        "And after so long."),
    key!(relay.body_bytes_max: Kind::Bytes(KIB, GIB), settings.intake.body.body_bytes_max,
        "The largest body, unpacked."),
    key!(relay.batch_bytes_max: Kind::Bytes(KIB, GIB), settings.intake.batch.bytes_max,
        "What one body may take of memory as a batch."),
    key!(relay.labels_max: Kind::Count(1, 10_000), settings.intake.batch.labels_max,
        "Labels of one series."),
    key!(relay.label_name_bytes_max: Kind::Bytes(1, MIB), settings.intake.batch.name_bytes_max,
        "The longest name of a label."),
    key!(relay.label_value_bytes_max: Kind::Bytes(1, 16 * MIB), settings.intake.batch.value_bytes_max,
        "The longest value of a label."),
    key!(relay.spool_bytes_max: Kind::Bytes(MIB, 64 * TIB), settings.spool.bytes_max,
        "All refill files together, the active one included."),
    key!(relay.spool_secs_max: secs(60, 366 * 86_400), settings.spool.age_max,
        "A refill file begun longer ago than that is given up, and counted."),
    key!(relay.quarantine_bytes_max: Kind::Bytes(0, TIB), settings.spool.quarantine_bytes_max,
        "What is kept of what cannot be delivered."),
    key!(relay.refill_file_bytes_max: Kind::Bytes(MIB, 64 * GIB), settings.refill.file_bytes_max,
        "What one refill file may grow to."),
    key!(relay.retry_first_ms: millis(1, 600_000), settings.backoff.first,
        "About how long after a destination failed it is tried again; half as long more each time."),
    key!(relay.retry_ms_max: millis(1, 3_600_000), settings.backoff.most, "How long at most."),
    key!(relay.ping_after_ms: millis(10, 600_000), settings.session.ping_after,
        "Silence after which a destination is asked whether it is there."),
    key!(relay.silence_ms_max: millis(20, 3_600_000), settings.session.silence_max,
        "Silence after which its connection is given up."),
];
