//! Every key there is: what it takes, what it means, and where it goes in the settings. The file
//! reader, the environment, the flags, `config show` and `docs/config.md` all follow this list.
//!
//! Defaults are not here: they are those of [`Settings::default`].

use std::path::PathBuf;
use std::time::Duration;

use handoff_server::settings::{Settings, Tls};

use super::channels::MONTH;
use super::value::{
    CALL_DURABILITIES, CATCH_UPS, Field, Kind, LOG_FORMATS, ON_CORRUPT, ON_LOST, ORDERINGS,
    SERVE_ORDERS, Unit, Value, WITHOUT_CONSUMER,
};

/// A key.
#[derive(Debug)]
pub(crate) struct Key {
    /// The section it stands in.
    pub(crate) section: &'static str,
    /// Its name there.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// One line for people.
    pub(crate) doc: &'static str,
    /// The default in words, where the settings have none.
    pub(crate) unset: &'static str,
    /// Whether SIGHUP brings a new value in force.
    pub(crate) reload: bool,
    /// Whether the value is a secret, and never shown.
    pub(crate) secret: bool,
    /// The version that first had it.
    pub(crate) since: &'static str,
    /// Its value in some settings.
    pub(crate) get: fn(&Settings) -> Value,
    /// Puts a value into settings.
    pub(crate) set: fn(&mut Settings, Value),
}

impl Key {
    /// `server.listen`
    pub(crate) fn path(&self) -> String {
        format!("{}.{}", self.section, self.name)
    }

    /// `HANDOFF_SERVER__LISTEN`
    pub(crate) fn variable(&self) -> String {
        format!("HANDOFF_{}__{}", self.section.to_uppercase(), self.name.to_uppercase())
    }

    /// A value as people read it; a secret only says that it is there.
    pub(crate) fn show(&self, value: &Value) -> String {
        match value {
            Value::Unset => self.unset.to_owned(),
            _ if self.secret => "********".to_owned(),
            _ => self.kind.show(value),
        }
    }
}

/// A section.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it is about.
    pub(crate) doc: &'static str,
}

/// Every section, in the order people read them.
pub(crate) const SECTIONS: &[Section] = &[
    Section { name: "server", doc: "The process: listeners, data directory, limits, logs." },
    Section { name: "log", doc: "The journal, its segments, and when checkpoints are taken." },
    Section { name: "auth", doc: "Who may come in." },
    Section { name: "events", doc: "The events room: timed events over sevent and HTTP." },
    Section { name: "streams", doc: "The streams room: topics, partitions, producers." },
    Section { name: "exchange", doc: "The exchange: devices, and the databases behind ERPs." },
    Section { name: "calls", doc: "The calls room: requests and answers between services." },
    Section {
        name: "relay",
        doc: "The receiver of the relay; an agent has a file of its own, relay.toml.",
    },
];

/// The key with this section and name.
pub(crate) fn find(section: &str, name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.section == section && key.name == name)
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

const fn secs(min: u64, max: u64) -> Kind {
    Kind::Time(Unit::Secs, Duration::from_secs(min), Duration::from_secs(max))
}

const DAY: u64 = 86_400;

const fn hours(min: u64, max: u64) -> Kind {
    Kind::Time(Unit::Hours, Duration::from_secs(min * 3600), Duration::from_secs(max * 3600))
}

const fn days(min: u64, max: u64) -> Kind {
    Kind::Time(Unit::Days, Duration::from_secs(min * DAY), Duration::from_secs(max * DAY))
}

/// A hundred years.
pub(crate) const HOURS_MAX: u64 = 876_600;

macro_rules! key {
    ($section:ident.$name:ident: $kind:expr, $($field:ident).+, $doc:literal $(, $extra:ident = $value:expr)*) => {
        Key {
            get: |settings| settings.$($field).+.value(),
            set: |settings, value| settings.$($field).+.put(value),
            $($extra: $value,)*
            ..blank(stringify!($section), stringify!($name), $kind, $doc)
        }
    };
}

const fn blank(section: &'static str, name: &'static str, kind: Kind, doc: &'static str) -> Key {
    Key {
        section,
        name,
        kind,
        doc,
        unset: "none",
        reload: false,
        secret: false,
        since: "0.1.0",
        get: |_| Value::Unset,
        set: |_, _| {},
    }
}

/// Every key, section by section.
pub(crate) const KEYS: &[Key] = &[
    key!(server.listen: Kind::Address, server.listen,
        "Where the HTTP API listens. Port 0 picks a free one."),
    key!(server.data_dir: Kind::Path, server.data_dir,
        "Where everything durable is kept. Made if it is not there; one process uses it at a time."),
    Key {
        get: |settings| tls_file(settings, |tls| &tls.cert_file),
        set: |settings, value| tls_of(settings).cert_file.put(value),
        reload: true,
        ..blank(
            "server",
            "tls_cert_file",
            Kind::Path,
            "Certificate chain, PEM. With it the HTTP listener speaks TLS.",
        )
    },
    Key {
        get: |settings| tls_file(settings, |tls| &tls.key_file),
        set: |settings, value| tls_of(settings).key_file.put(value),
        reload: true,
        ..blank("server", "tls_key_file", Kind::Path, "Private key of the certificate, PEM.")
    },
    key!(server.connections_max: Kind::Count(1, 1_000_000), server.connections_max,
        "HTTP connections at once; more are refused.", reload = true),
    key!(server.body_bytes_max: Kind::Bytes(KIB, GIB), server.body_bytes_max,
        "The largest body of a request.", reload = true),
    key!(server.header_secs_max: secs(1, 600), server.header_time_max,
        "How long a client may take to send the head of a request.", reload = true),
    key!(server.request_secs_max: secs(1, 3600), server.request_time_max,
        "How long a request may take, streams aside.", reload = true),
    key!(server.stop_secs_max: secs(0, 600), server.stop_time_max,
        "How long what was begun may take once the server is told to stop.", reload = true),
    key!(server.disk_free_min: Kind::Bytes(0, 1024 * TIB), server.disk_free_min,
        "Below this much free space new messages are refused; what was promised goes on.",
        unset = "the larger of 5 % and 2GiB", reload = true),
    key!(server.log_level: Kind::Text, server.log_level,
        "error, warn, info, debug, trace, or a filter such as info,handoff_server::http=debug.",
        reload = true),
    key!(server.log_format: Kind::Choice(LOG_FORMATS), server.log_format,
        "How log lines look: text for people, json for machines."),
    key!(server.access_log: Kind::Bool, server.access_log, "A log line for each request.",
        reload = true),
    key!(server.slow_ms: Kind::Time(Unit::Millis, Duration::from_millis(1), Duration::from_secs(3600)),
        server.slow, "Operations that take longer are logged.", reload = true),
    key!(log.journal_bytes_max: Kind::Bytes(MIB, 16 * TIB), log.limits.journal_bytes_max,
        "What the ring of journal files may take on disk."),
    key!(log.journal_file_bytes: Kind::Bytes(256 * KIB, 16 * GIB), log.limits.journal_file_bytes,
        "The size of one file of the ring."),
    key!(log.journal_reserve_bytes: Kind::Bytes(0, TIB), log.limits.journal_reserve_bytes,
        "What of the ring is kept to finish what was promised when new messages are refused."),
    key!(log.room_queue_bytes_max: Kind::Bytes(64 * KIB, 16 * GIB), log.limits.room_queue_bytes_max,
        "What one room may have on its way to the disk."),
    key!(log.change_bytes_max: Kind::Bytes(64 * KIB, 4 * GIB), log.limits.change_bytes_max,
        "The largest single change."),
    key!(log.segment_bytes: Kind::Bytes(64 * KIB, 16 * GIB), log.limits.segment_bytes,
        "The size at which a segment is closed and the next begun."),
    key!(log.segment_files_open_max: Kind::Count(8, 1_000_000), log.limits.segment_files_open_max,
        "Segment files held open at once."),
    key!(log.segment_warm_bytes: Kind::Bytes(0, 16 * TIB), log.limits.segment_warm_bytes,
        "What of the messages stored last the operating system keeps in memory for readers."),
    Key {
        get: |settings| Value::Time(Duration::from_secs(settings.log.limits.poison_secs_max)),
        set: |settings, value| {
            if let Value::Time(time) = value {
                settings.log.limits.poison_secs_max = time.as_secs();
            }
        },
        ..blank(
            "log",
            "poison_secs_max",
            Kind::Time(Unit::WholeSecs, Duration::from_secs(1), Duration::from_secs(3600)),
            "How long the journal tries to go on after the disk failed it, before the process exits.",
        )
    },
    key!(log.checkpoint_chunk_bytes: Kind::Bytes(4 * KIB, 16 * MIB), log.limits.checkpoint_chunk_bytes,
        "How much of a room's state one step of a checkpoint takes."),
    key!(log.checkpoint_bytes: Kind::Bytes(64 * KIB, TIB), log.checkpoint_bytes,
        "A checkpoint is begun after this much journal."),
    key!(log.checkpoint_secs: secs(1, 7 * DAY), log.checkpoint_every,
        "And at the latest after this long, if anything was written."),
    key!(auth.enabled: Kind::Bool, auth.enabled,
        "Ask for a token. Must be on when a listener is not on loopback."),
    key!(auth.bootstrap_token_file: Kind::Path, auth.bootstrap_token_file,
        "A file that holds a token; it is made an admin at start if it is not there yet."),
    key!(events.enabled: Kind::Bool, events.enabled, "Whether the room is there at all."),
    key!(events.listen: Kind::Address, events.listen,
        "Where sevent clients connect. Port 0 picks a free one."),
    key!(events.tls: Kind::Bool, events.tls,
        "sevent inside TLS, with the certificate of [server]."),
    key!(events.period_min_secs: Kind::Time(Unit::Secs, Duration::from_millis(1), Duration::from_secs(DAY)),
        events.bounds.period_min, "The shortest period an event may have.", reload = true),
    key!(events.description_bytes_max: Kind::Bytes(0, 512 * KIB), events.bounds.description_bytes_max,
        "The longest description of an event.", reload = true),
    key!(events.types_max: Kind::Count(1, 10_000), events.bounds.types_max,
        "How many types an event may have.", reload = true),
    key!(events.type_bytes_max: Kind::Bytes(1, 64 * KIB), events.bounds.type_bytes_max,
        "The longest name of a type.", reload = true),
    key!(events.events_max: Kind::Count(1, 1 << 31), events.bounds.events_max,
        "How many events there may be at once.", reload = true),
    key!(events.catch_up: Kind::Choice(CATCH_UPS), events.catch_up,
        "What becomes of occurrences missed while the server was down: skip counts them, once tells the last, all tells each.",
        reload = true),
    key!(events.catch_up_max: Kind::Count(0, 100_000_000), events.catch_up_max,
        "How many missed occurrences `all` tells at most; the rest is skipped and counted.",
        reload = true),
    key!(events.catch_up_wait_secs: secs(0, DAY), events.catch_up_wait,
        "How long late occurrences are held for whoever subscribes.", reload = true),
    key!(events.late_secs_max: Kind::Time(Unit::Secs, Duration::from_millis(100), Duration::from_secs(DAY)),
        events.late_max,
        "An occurrence later than this counts as missed also while the server runs.", reload = true),
    key!(events.publish_pending_max: Kind::Count(1, 1_000_000), events.publishing.pending_max,
        "Occurrences of one event that may wait for their topic; more become dead letters.",
        reload = true),
    key!(events.dead_letters_max: Kind::Count(0, 10_000_000), events.publishing.letters_max,
        "Occurrences that did not come to their topics; beyond this the oldest is dropped and counted.",
        reload = true),
    key!(events.frame_bytes_max: Kind::Bytes(KIB, GIB), events.frame_bytes_max,
        "The largest sevent message a client may send.", reload = true),
    key!(events.sessions_max: Kind::Count(1, 1_000_000), events.sessions_max,
        "Sessions at once, server-sent events included.", reload = true),
    key!(events.session_queue_bytes_max: Kind::Bytes(4 * KIB, 16 * GIB), events.session_queue_bytes_max,
        "Notifications a session has not read yet; above this it is closed and counted.",
        reload = true),
    key!(events.filter_entries_max: Kind::Count(1, 100_000_000), events.filter_entries_max,
        "Ids and types in the filter of one session.", reload = true),
    key!(events.answers_bytes_max: Kind::Bytes(64 * KIB, TIB), events.answers_bytes_max,
        "Answers on their way to all sessions together."),
    key!(streams.enabled: Kind::Bool, streams.enabled, "Whether the room is there at all."),
    key!(streams.message_bytes_max: Kind::Bytes(1, 8 * MIB), streams.bounds.message_bytes_max,
        "The largest message: key, payload and headers together.", reload = true),
    key!(streams.headers_max: Kind::Count(0, 10_000), streams.bounds.headers_max,
        "How many headers a message may have.", reload = true),
    key!(streams.batch_messages_max: Kind::Count(1, 100_000), streams.bounds.batch_messages_max,
        "How many messages one request may have.", reload = true),
    key!(streams.request_bytes_max: Kind::Bytes(KIB, 64 * MIB), streams.request_bytes_max,
        "The largest body of a request with messages.", reload = true),
    key!(streams.topics_max: Kind::Count(1, 1_000_000), streams.bounds.topics_max,
        "How many topics there may be.", reload = true),
    key!(streams.partitions_max: Kind::Count(1, 1_000_000), streams.bounds.partitions_max,
        "How many partitions all topics may have together.", reload = true),
    key!(streams.producers_max: Kind::Count(1, 10_000_000), streams.bounds.producers_max,
        "How many producers are remembered.", reload = true),
    key!(streams.producer_remembered: Kind::Count(1, 1_000_000), streams.bounds.remembered_max,
        "How many of a producer's last messages are remembered with their places.", reload = true),
    key!(streams.producer_idle_hours: hours(1, HOURS_MAX), streams.bounds.producer_idle,
        "A producer that was not heard of for this long is forgotten.", reload = true),
    key!(streams.scheduled_max: Kind::Count(0, 100_000_000), streams.bounds.scheduled_max,
        "How many messages may wait for their time.", reload = true),
    key!(streams.scheduled_bytes_max: Kind::Bytes(0, TIB), streams.bounds.scheduled_bytes_max,
        "And how many bytes they may have: they are kept in memory.", reload = true),
    key!(streams.deliver_ahead_hours_max: hours(1, HOURS_MAX), streams.bounds.deliver_ahead_max,
        "How far ahead a message may be scheduled.", reload = true),
    key!(streams.retention_hours: hours(1, HOURS_MAX), streams.retention,
        "How long topics keep their messages that do not say otherwise when they are made.",
        reload = true),
    key!(streams.retention_bytes: Kind::Bytes(1, 1024 * TIB), streams.retention_bytes,
        "How much each partition keeps, of topics that do not say otherwise when they are made.",
        reload = true),
    key!(streams.retention_check_secs: secs(1, DAY), streams.retention_every,
        "How often somebody looks what is past its time.", reload = true),
    key!(streams.token_bytes_per_sec: Kind::Bytes(0, TIB), streams.token_bytes_per_sec,
        "What one token may send a second, with a second's worth ahead; 0 for no limit.",
        reload = true),
    key!(streams.on_corrupt: Kind::Choice(ON_CORRUPT), streams.on_corrupt,
        "Whoever follows a partition into damage stops there or skips it; a page names it and goes on either way.",
        reload = true),
    key!(streams.groups_max: Kind::Count(1, 1_000_000), streams.group_bounds.groups_max,
        "How many groups there may be.", reload = true),
    key!(streams.members_max: Kind::Count(1, 100_000), streams.group_bounds.members_max,
        "How many members a group may have.", reload = true),
    key!(streams.session_secs_max: secs(1, DAY), streams.group_bounds.session_max,
        "For how long a member may ask to be silent.", reload = true),
    key!(streams.delivery_bytes_max: Kind::Bytes(16 * MIB, TIB), streams.delivery_bytes_max,
        "Messages on their way to all members of groups together; above that each is given 64 KiB at a time."),
    key!(exchange.enabled: Kind::Bool, exchange.enabled, "Whether the room is there at all."),
    key!(exchange.max_files: Kind::Count(1, 10_000), exchange.max_files,
        "How many messages an ERP is given in one process; it may ask for fewer.", reload = true),
    key!(exchange.max_mb: Kind::Count(1, 1_024), exchange.max_mb,
        "And how many MiB they may have. The first is given however large it is.", reload = true),
    key!(exchange.started_timeout_secs: secs(1, DAY), exchange.started_timeout,
        "How long a process may take before it is ready to commit; then its messages are given out again.",
        reload = true),
    key!(exchange.ready_timeout_secs: secs(1, DAY), exchange.ready_timeout,
        "How long it is waited for the outcome of a process that is ready; then its messages go to Unknown.",
        reload = true),
    key!(exchange.restart_grace_secs: secs(1, DAY), exchange.restart_grace,
        "How long it is waited for it after a start, if its time is over: the outcome may be on its way.",
        reload = true),
    key!(exchange.retention_days: days(1, 36_525), exchange.retention,
        "How long Log, Error and processes that are over are kept, and for how long a message is known again.",
        reload = true),
    key!(exchange.retention_check_secs: secs(1, DAY), exchange.retention_every,
        "How often somebody looks what is past its time.", reload = true),
    key!(exchange.max_attempts: Kind::Count(0, 65_535), exchange.max_attempts,
        "After so many deadlocks and refusals a message goes to Error; 0 for never.", reload = true),
    key!(exchange.order: Kind::Choice(SERVE_ORDERS), exchange.order,
        "Which message of a queue comes first: the one received first or the one made first.",
        reload = true),
    key!(exchange.ordering: Kind::Choice(ORDERINGS), exchange.ordering,
        "With `producer`, what a device sent waits for what it sent before, also after a deadlock.",
        reload = true),
    key!(exchange.notify_sender: Kind::Bool, exchange.notify_sender,
        "Whether a device is sent a message when one of its own could not be processed.",
        reload = true),
    key!(exchange.messages_max: Kind::Count(1_000, 100_000_000), exchange.messages_max,
        "How many messages are known at once. Those that are over are forgotten earlier when there are more.",
        reload = true),
    key!(exchange.queue_max: Kind::Count(1, 100_000_000), exchange.queue_max,
        "How many messages may wait for one database, or for one device.", reload = true),
    key!(exchange.processes_kept_max: Kind::Count(1, 10_000_000), exchange.processes_kept_max,
        "How many processes that are over are known, so that a late call is answered as the first was.",
        reload = true),
    key!(exchange.activation_hours: hours(1, HOURS_MAX), exchange.activation,
        "How long a code activates its device.", reload = true),
    key!(exchange.activation_tries_max: Kind::Count(1, 1_000), exchange.activation_tries_max,
        "How many wrong codes a minute are taken from one address.", reload = true),
    key!(exchange.activation_addresses_max: Kind::Count(16, 1_000_000), exchange.activation_addresses_max,
        "Of how many addresses wrong codes are counted; when there are more, others are refused for a minute.",
        reload = true),
    key!(exchange.message_bytes_max: Kind::Bytes(KIB, 32 * MIB), exchange.message_bytes_max,
        "The largest message.", reload = true),
    key!(exchange.request_bytes_max: Kind::Bytes(KIB, 60 * MIB), exchange.request_bytes_max,
        "The largest body of a request with messages.", reload = true),
    key!(exchange.request_messages_max: Kind::Count(1, 10_000), exchange.request_messages_max,
        "How many messages, verdicts or ids one request may have.", reload = true),
    key!(exchange.fetch_messages_max: Kind::Count(1, 10_000), exchange.fetch_messages_max,
        "How many messages a device is given at once.", reload = true),
    key!(exchange.fetch_bytes_max: Kind::Bytes(KIB, GIB), exchange.fetch_bytes_max,
        "And how many bytes they may have. The first is given however large it is.", reload = true),
    key!(exchange.wait_secs_max: secs(0, 300), exchange.wait_max,
        "How long a device may wait for messages.", reload = true),
    key!(exchange.waiting_max: Kind::Count(1, 1_000_000), exchange.waiting_max,
        "How many devices may wait for messages at once."),
    key!(exchange.reads_max: Kind::Count(1, 1_024), exchange.reads_max,
        "How many bodies are read from disk at once."),
    key!(exchange.files_behind_secs_max: secs(1, DAY), exchange.files_behind_max,
        "How far the folders may be behind what was taken before nothing new is taken. What is new waits once they are, or by the rate of filing will be, half of it behind.", reload = true),
    key!(exchange.device_log_lines_max: Kind::Count(0, 100_000), exchange.device_log_lines_max,
        "How many lines are kept, in memory, of what a device says of itself.", reload = true),
    key!(exchange.device_logs_max: Kind::Count(0, 1_000_000), exchange.device_logs_max,
        "Of how many devices.", reload = true),
    key!(calls.enabled: Kind::Bool, calls.enabled, "Whether the room is there at all."),
    key!(calls.on_lost: Kind::Choice(ON_LOST), calls.channel.on_lost,
        "What becomes of a call whose executor is lost: redeliver, somebody else runs it; fail, it ends. Of channels that nobody described, as the next seven.", reload = true),
    key!(calls.attempts_max: Kind::Count(1, 65_535), calls.channel.attempts_max,
        "How often a call is begun at most. With 1 nothing runs twice.", reload = true),
    key!(calls.backoff_ms: Kind::Time(Unit::Millis, Duration::ZERO, MONTH), calls.channel.backoff_min,
        "How long a call waits after the first attempt that failed; doubled each time.", reload = true),
    key!(calls.backoff_max_ms: Kind::Time(Unit::Millis, Duration::ZERO, MONTH), calls.channel.backoff_max,
        "How long at most.", reload = true),
    key!(calls.lease_ms: Kind::Time(Unit::Millis, Duration::from_millis(100), MONTH), calls.channel.lease,
        "How long an executor may be silent about a call that it runs.", reload = true),
    key!(calls.queue_timeout_ms: Kind::Time(Unit::Millis, Duration::from_millis(1), MONTH), calls.channel.queue_timeout,
        "How long a call waits to be begun; if absent, as long as its time lasts.", reload = true),
    key!(calls.durability: Kind::Choice(CALL_DURABILITIES), calls.channel.durability,
        "What a crash of the server leaves of a call: disk, all of it; memory, nothing.", reload = true),
    key!(calls.without_consumer: Kind::Choice(WITHOUT_CONSUMER), calls.channel.without_consumer,
        "What becomes of a call that nobody is there to run: park, it waits; fail, it ends at once.", reload = true),
    key!(calls.body_bytes_max: Kind::Bytes(KIB, 32 * MIB), calls.body_bytes_max,
        "The largest call, and the largest answer.", reload = true),
    key!(calls.bytes_max: Kind::Bytes(MIB, TIB), calls.bytes_max,
        "Calls and answers that are kept in memory, all together. Above it new calls are refused. An answer never is; what nobody needs any more is forgotten for it.", reload = true),
    key!(calls.calls_max: Kind::Count(1, 100_000_000), calls.calls_max,
        "How many calls are known at once, those that are over included.", reload = true),
    key!(calls.queue_max: Kind::Count(1, 100_000_000), calls.queue_max,
        "How many calls of one channel may wait.", reload = true),
    key!(calls.channels_max: Kind::Count(1, 1_000_000), calls.channels_max,
        "How many channels may have settings, calls or consumers.", reload = true),
    key!(calls.clients_max: Kind::Count(1, 1_000_000), calls.clients_max,
        "How many clients may be there, and be connected."),
    key!(calls.client_timeout_ms: Kind::Time(Unit::Millis, Duration::from_millis(500), MONTH), calls.client_timeout,
        "How long a client may be silent before it is forgotten.", reload = true),
    key!(calls.offer_timeout_ms: Kind::Time(Unit::Millis, Duration::from_millis(100), MONTH), calls.offer_timeout,
        "How long a consumer has to accept a call before another is asked.", reload = true),
    key!(calls.call_secs_max: secs(1, 30 * DAY), calls.call_time_max,
        "The time of a call that names none, and the longest that one can name.", reload = true),
    key!(calls.kept_secs: secs(1, 365 * DAY), calls.kept,
        "How long a call that is over is known.", reload = true),
    key!(calls.key_kept_secs: secs(1, 365 * DAY), calls.key_kept,
        "The same for one with an idempotency key.", reload = true),
    key!(calls.kept_max: Kind::Count(0, 100_000_000), calls.kept_max,
        "How many calls that are over, and that nobody needs any more, are known. The oldest are forgotten when there are more.", reload = true),
    key!(calls.dead_kept_secs: secs(1, 3_650 * DAY), calls.dead_kept,
        "How long a dead letter is kept.", reload = true),
    key!(calls.dead_max: Kind::Count(1, 10_000_000), calls.dead_max,
        "How many dead letters of a channel are kept. The oldest go when there are more.", reload = true),
    key!(calls.ping_interval_ms: Kind::Time(Unit::Millis, Duration::from_millis(50), Duration::from_secs(3600)), calls.ping_interval,
        "How often clients ask whether the way to the server is alive.", reload = true),
    key!(calls.ping_timeout_ms: Kind::Time(Unit::Millis, Duration::from_millis(50), Duration::from_secs(3600)), calls.ping_timeout,
        "How long they wait for the answer before they connect again.", reload = true),
    key!(calls.line_bytes_max: Kind::Bytes(MIB, GIB), calls.line_bytes_max,
        "What may be on its way to one client; one that does not read loses its connection.", reload = true),
    key!(calls.wait_secs_max: secs(0, 3_600), calls.wait_max,
        "How long a request of plain HTTP waits for the end of its call, if server.request_secs_max allows.", reload = true),
    key!(calls.waiting_max: Kind::Count(1, 1_000_000), calls.waiting_max,
        "How many requests of plain HTTP may wait at once."),
    key!(calls.redis_url: Kind::Text, calls.redis_url,
        "A Redis whose calls this server guards, as in redis://user:password@host:6379/0; rediss:// for TLS. One node, no cluster.",
        secret = true),
    key!(relay.enabled: Kind::Bool, relay.enabled, "Whether agents are received at all."),
    key!(relay.listen: Kind::Address, relay.listen,
        "Where agents come to. Port 0 picks a free one."),
    key!(relay.tls: Kind::Bool, relay.tls,
        "Agents come inside TLS, with the certificate of [server]."),
    key!(relay.topic: Kind::Text, relay.topic,
        "The topic that samples go to, one message a segment, each once. It is made when it is not there.",
        unset = "metrics, unless relay.write_url or relay.callback is set"),
    key!(relay.topic_partitions: Kind::Count(1, 100_000), relay.topic_partitions,
        "Partitions of a topic that is made for samples."),
    key!(relay.message_bytes_max: Kind::Bytes(64 * KIB, 8 * MIB), relay.message_bytes_max,
        "The largest segment as a message of a topic, or for a program; a larger one is refused for good and set aside by its agent."),
    key!(relay.marks_max: Kind::Count(1, 10_000_000), relay.marks_max,
        "Blocks and shards of which a topic remembers how far they are; they count as producers, which there may be so many of."),
    key!(relay.mark_hours: hours(1, HOURS_MAX), relay.mark_kept,
        "How long a topic remembers that of a block that nobody sends. Longer than agents keep their files, or what they send then comes twice."),
    key!(relay.write_url: Kind::Text, relay.write_url,
        "Where samples go by remote write 1.0, at least once: http://HOST:PORT/PATH."),
    key!(relay.write_token_file: Kind::Path, relay.write_token_file,
        "A file with the bearer token for it."),
    key!(relay.write_ca_file: Kind::Path, relay.write_ca_file,
        "Certificates to believe besides the public ones when it is https://, PEM."),
    key!(relay.write_secs_max: secs(1, 600), relay.write_time_max,
        "How long one request to it may take."),
    key!(relay.callback: Kind::Bool, relay.callback,
        "Samples go to a program that connects with the SDK, and keeps the marks itself."),
    key!(relay.callback_secs_max: secs(1, 600), relay.callback_time_max,
        "How long it may take to take one segment."),
    key!(relay.sessions_max: Kind::Count(1, 1_000_000), relay.sessions_max,
        "Connections of agents at once; each has up to three.", reload = true),
    key!(relay.blocks_max: Kind::Count(1, 1_000_000), relay.blocks_max,
        "Blocks whose decoders are kept; beyond it the one left first is forgotten, and costs a key frame.", reload = true),
    key!(relay.block_idle_secs: secs(1, 7 * DAY), relay.block_idle,
        "How long decoders of a block that nobody sends are kept.", reload = true),
    key!(relay.agents_max: Kind::Count(1, 1_000_000), relay.agents_max,
        "Agents that are shown; beyond it the one silent for longest is forgotten.", reload = true),
    key!(relay.series_max: Kind::Count(1, 1 << 24), relay.series_max,
        "Series of one shard of a block.", reload = true),
    key!(relay.frame_bytes_max: Kind::Bytes(64 * KIB, GIB), relay.frame_bytes_max,
        "The largest message of an agent: a key frame of all its series must fit.", reload = true),
    key!(relay.credit_bytes: Kind::Bytes(64 * KIB, GIB), relay.credit_bytes,
        "How much of each shard may be on its way without being confirmed.", reload = true),
    key!(relay.intake_bytes_max: Kind::Bytes(MIB, 4 * GIB - 1), relay.intake_bytes_max,
        "Messages of agents that are being read; more of them wait."),
    key!(relay.pending_bytes_max: Kind::Bytes(MIB, 4 * GIB - 1), relay.pending_bytes_max,
        "Samples on their way to where they go; more of them wait."),
    key!(relay.backlog_bytes_per_sec: Kind::Bytes(KIB, TIB), relay.backlog_bytes_per_sec,
        "What is taken of backlogs a second, of all agents, in bytes as the sinks get them, however little is new; otherwise as much as what is new.", reload = true),
    key!(relay.silence_secs_max: secs(1, 3_600), relay.silence_max,
        "How long an agent may say nothing before its connection is closed.", reload = true),
    key!(relay.frame_secs_max: secs(1, 3_600), relay.frame_time_max,
        "How long one message may take to come.", reload = true),
    key!(relay.retry_secs: Kind::Time(Unit::Secs, Duration::from_millis(10), Duration::from_secs(3_600)), relay.retry_after,
        "About when agents come again with what could not be taken.", reload = true),
];

fn tls_of(settings: &mut Settings) -> &mut Tls {
    // Half a pair is an empty path, and refused when everything has been read.
    let none = || Tls { cert_file: PathBuf::new(), key_file: PathBuf::new() };
    settings.server.tls.get_or_insert_with(none)
}

fn tls_file(settings: &Settings, file: fn(&Tls) -> &PathBuf) -> Value {
    let path = settings.server.tls.as_ref().map(file);
    path.filter(|path| !path.as_os_str().is_empty()).cloned().map_or(Value::Unset, Value::Path)
}

#[cfg(test)]
mod tests {
    use super::{KEYS, SECTIONS, Settings, Value};
    use crate::config::value::{Kind, Raw};
    use std::collections::BTreeSet;

    #[test]
    fn every_key_is_there_once_in_a_section_that_is_there() {
        let paths: BTreeSet<String> = KEYS.iter().map(super::Key::path).collect();
        assert_eq!(paths.len(), KEYS.len());
        for key in KEYS {
            assert!(SECTIONS.iter().any(|section| section.name == key.section), "{}", key.path());
            assert!(
                key.doc.ends_with('.') && !key.doc.contains('|'),
                "{}: {}",
                key.path(),
                key.doc
            );
        }
    }

    #[test]
    fn every_default_is_a_value_its_key_allows() {
        let settings = Settings::default();
        for key in KEYS {
            let value = (key.get)(&settings);
            if let Some(text) = key.kind.toml(&value) {
                let raw = Raw::Loose(text.trim_matches('"').into());
                assert_eq!(key.kind.read(&raw), Ok(value), "{}", key.path());
            }
        }
    }

    #[test]
    fn every_key_reaches_its_own_place_in_the_settings() {
        for key in KEYS {
            let mut settings = Settings::default();
            let before: Vec<Value> = KEYS.iter().map(|key| (key.get)(&settings)).collect();
            let written = match key.kind {
                Kind::Bool => (!matches!((key.get)(&settings), Value::Bool(true))).to_string(),
                Kind::Count(_, max) | Kind::Bytes(_, max) => max.to_string(),
                Kind::Time(_, _, max) => crate::duration::show(max),
                Kind::Text | Kind::Path => "something".to_owned(),
                Kind::Address => "127.0.0.1:1".to_owned(),
                Kind::Choice(words) => (*words.last().unwrap()).to_owned(),
                Kind::Names => unreachable!("only what is declared has names, not a key"),
            };
            let value = key.kind.read(&Raw::Loose(written.into())).unwrap();
            (key.set)(&mut settings, value.clone());
            for (other, before) in KEYS.iter().zip(before) {
                let expected = if other.path() == key.path() { value.clone() } else { before };
                assert_eq!(
                    (other.get)(&settings),
                    expected,
                    "{} after {}",
                    other.path(),
                    key.path()
                );
            }
        }
    }

    #[test]
    fn a_secret_is_never_shown() {
        let key = super::Key { secret: true, ..super::blank("auth", "x", Kind::Text, "X.") };
        assert_eq!(key.show(&Value::Text("hunter2".to_owned())), "********");
        assert_eq!(key.show(&Value::Unset), "none");
    }
}
