//! Names of metrics, each with its help. A name is never reused for another meaning.
//!
//! Counters get `_total` behind their name when they are written.

/// A metric: its name and what it means.
pub type Named = (&'static str, &'static str);

/// `{route, method, status}`
pub const HTTP_REQUESTS: Named = ("handoff_http_requests", "requests answered");
/// `{route, method}`
pub const HTTP_REQUEST_SECONDS: Named =
    ("handoff_http_request_seconds", "time from a request's head to its answer's head");
/// Gauge.
pub const HTTP_CONNECTIONS: Named = ("handoff_http_connections", "connections that are open");
/// Gauge.
pub const HTTP_CONNECTIONS_MAX: Named =
    ("handoff_http_connections_max", "connections that may be open at once");
/// Counter.
pub const HTTP_ACCEPTED: Named = ("handoff_http_accepted_connections", "connections accepted");
/// Counter.
pub const HTTP_TURNED_AWAY: Named = (
    "handoff_http_turned_away_connections",
    "connections turned away because server.connections_max were open",
);
/// Counter.
pub const HTTP_CLOSED_IDLE: Named = (
    "handoff_http_idle_connections_closed",
    "connections closed because their client sent or took nothing for too long",
);
/// Gauge.
pub const HTTP_STREAMS: Named = ("handoff_http_streams", "server-sent event streams that are open");
/// Counter.
pub const HTTP_PANICS: Named = ("handoff_http_panics", "requests that ended in a panic");
/// Counter.
pub const HTTP_PROXIED: Named = (
    "handoff_http_proxied_without_auth",
    "requests that came through a proxy while auth is off: whoever reaches the proxy may do everything",
);

/// Gauge.
pub const EVENTS: Named = ("handoff_events_events", "events there are");
/// Gauge.
pub const EVENTS_SESSIONS: Named =
    ("handoff_events_sessions", "sessions there are, server-sent ones included");
/// Gauge.
pub const EVENTS_HELD: Named =
    ("handoff_events_held", "late occurrences held for whoever subscribes soon");
/// Counter.
pub const EVENTS_REGISTERED: Named =
    ("handoff_events_registered", "events registered since the data directory was made");
/// Counter.
pub const EVENTS_DELETED: Named =
    ("handoff_events_deleted", "events deleted since the data directory was made");
/// Counter.
pub const EVENTS_FINISHED: Named =
    ("handoff_events_finished", "events that ran out since the data directory was made");
/// Counter.
pub const EVENTS_OCCURRED: Named = (
    "handoff_events_occurred",
    "occurrences since the data directory was made, missed ones included",
);
/// Counter.
pub const EVENTS_SKIPPED: Named =
    ("handoff_events_skipped", "occurrences missed and not told since the data directory was made");
/// Counter.
pub const EVENTS_NOTIFIED: Named =
    ("handoff_events_notified", "notifications given to sessions since start");
/// Histogram.
pub const EVENTS_LATENESS: Named = (
    "handoff_events_lateness_seconds",
    "time from when an occurrence was due until it was given to sessions, durable",
);
/// Gauge.
pub const EVENTS_PUBLISH_WAITING: Named =
    ("handoff_events_publish_waiting", "occurrences that wait for their topics");
/// Gauge.
pub const EVENTS_DEAD_LETTERS: Named =
    ("handoff_events_dead_letters", "occurrences that did not come to their topics");
/// Counter.
pub const EVENTS_PUBLISHED: Named =
    ("handoff_events_published", "occurrences published since the data directory was made");
/// Counter.
pub const EVENTS_DEAD: Named = (
    "handoff_events_dead",
    "occurrences that became dead letters since the data directory was made",
);
/// Counter.
pub const EVENTS_DROPPED: Named = (
    "handoff_events_dead_dropped",
    "dead letters dropped since the data directory was made, because there were too many",
);
/// Counter.
pub const EVENTS_SLOW_SESSIONS: Named =
    ("handoff_events_slow_sessions", "sessions closed since start because they did not read");

/// Counter.
pub const STREAMS_MESSAGES: Named =
    ("handoff_streams_messages", "messages stored or scheduled since start, over HTTP");
/// Counter.
pub const STREAMS_DUPLICATES: Named =
    ("handoff_streams_duplicates", "messages that were stored already when they came again");
/// Counter.
pub const STREAMS_BYTES: Named =
    ("handoff_streams_received_bytes", "bytes of requests whose messages were stored");
/// Gauge.
pub const STREAMS_TOPICS: Named = ("handoff_streams_topics", "topics there are");
/// Gauge.
pub const STREAMS_PARTITIONS: Named = ("handoff_streams_partitions", "partitions of all topics");
/// Gauge.
pub const STREAMS_PRODUCERS: Named = ("handoff_streams_producers", "producers that are remembered");
/// Gauge.
pub const STREAMS_SCHEDULED: Named =
    ("handoff_streams_scheduled", "messages that wait for their time");
/// Gauge.
pub const STREAMS_SCHEDULED_BYTES: Named =
    ("handoff_streams_scheduled_bytes", "bytes of messages that wait for their time");
/// Gauge.
pub const STREAMS_WAITING: Named =
    ("handoff_streams_waiting_readers", "readers that wait for more, tails included");

/// Gauge.
pub const STREAMS_UNMOVED: Named = (
    "handoff_streams_unmoved_bytes",
    "bytes of messages on their way from the journal to segments",
);

/// Gauge.
pub const STREAMS_GROUPS: Named = ("handoff_streams_groups", "groups there are");
/// Gauge.
pub const STREAMS_MEMBERS: Named = ("handoff_streams_members", "members of all groups");
/// Gauge.
pub const STREAMS_LEASES: Named =
    ("handoff_streams_leases", "leases under which messages are out to members");
/// Gauge.
pub const STREAMS_DEAD: Named =
    ("handoff_streams_dead_messages", "messages that ever died, for the groups there are");
/// Gauge.
pub const STREAMS_LAG_MAX: Named = (
    "handoff_streams_lag_max",
    "messages of the partition that some group is furthest behind in, from its committed offset on",
);
/// Gauge.
pub const STREAMS_DELIVERING: Named = (
    "handoff_streams_delivering_bytes",
    "bytes of messages on their way to members, of streams.delivery_bytes_max",
);
/// Counter.
pub const STREAMS_DELIVERED: Named =
    ("handoff_streams_delivered_messages", "messages handed to members since start");
/// Counter.
pub const STREAMS_REDELIVERED: Named = (
    "handoff_streams_redelivered_messages",
    "messages handed to members since start that had been handed out before",
);

/// Counter.
pub const LOG_ROUNDS: Named =
    ("handoff_log_rounds", "rounds of the journal made durable, one sync each");
/// Counter.
pub const LOG_RECORDS: Named = ("handoff_log_records", "records made durable");
/// Counter.
pub const LOG_BYTES: Named =
    ("handoff_log_bytes", "bytes written to the journal, padding included");
/// Histogram.
pub const LOG_SYNC_SECONDS: Named =
    ("handoff_log_fsync_seconds", "time a round's write and sync of the journal took");
/// Gauge.
pub const LOG_OLDEST: Named = (
    "handoff_log_oldest_unsynced_seconds",
    "age of the oldest record that is not durable yet; 0 if all are",
);
/// Counter.
pub const LOG_CONTINUATIONS: Named = (
    "handoff_log_continuations",
    "times the journal moved to a fresh file because the disk failed it",
);
/// Gauge.
pub const LOG_RECORDS_PER_SYNC: Named =
    ("handoff_log_records_per_sync", "records that shared one sync, on average since start");
/// `{room}`
pub const LOG_WAITING: Named =
    ("handoff_log_waiting_bytes", "bytes on their way to the disk, of log.room_queue_bytes_max");

/// Gauge.
pub const DISK_FREE: Named =
    ("handoff_disk_free_bytes", "free space on the disk of the data directory");
/// Gauge.
pub const DISK_FREE_MIN: Named =
    ("handoff_disk_free_min_bytes", "below this much free space nothing new is taken");

/// Gauge.
pub const UPTIME: Named = ("handoff_uptime_seconds", "time since the process started to serve");
/// Info.
pub const BUILD: Named = ("handoff_build", "what is running");
/// Gauge. The name that every exporter uses.
pub const PROCESS_MEMORY: Named = ("process_resident_memory_bytes", "resident memory");
/// Gauge.
pub const PROCESS_FILES: Named = ("process_open_fds", "open files, sockets included");
/// Gauge.
pub const PROCESS_FILES_MAX: Named = ("process_max_fds", "files that may be open");

/// `{outcome}`
pub const CALLS_REQUESTS: Named =
    ("handoff_calls_requests", "calls asked for: registered, known again, or refused");
/// `{outcome}`
pub const CALLS_ENDED: Named = (
    "handoff_calls_ends_told",
    "ends of calls told, by how they ended; one that is asked for again is told again",
);
/// Counter.
pub const CALLS_LATE: Named =
    ("handoff_calls_late_results", "results refused because they came too late");
/// Gauge.
pub const CALLS_KNOWN: Named = ("handoff_calls_known", "calls that are known, those over included");
/// Gauge.
pub const CALLS_BODY_BYTES: Named =
    ("handoff_calls_body_bytes", "bytes of all bodies that are kept");
/// Gauge.
pub const CALLS_CLIENTS: Named = ("handoff_calls_clients", "clients there are");
/// Gauge.
pub const CALLS_CHANNELS: Named = (
    "handoff_calls_channels",
    "channels that have settings, calls that are not over, dead letters or consumers",
);
/// `{stage}`
pub const CALLS_STAGES: Named =
    ("handoff_calls_stage_calls", "calls of all channels by how far they are");

/// `{way, outcome}`
pub const EXCHANGE_MESSAGES: Named =
    ("handoff_exchange_messages", "messages by the way they go and what became of them");
/// `{step, outcome}`
pub const EXCHANGE_STEPS: Named =
    ("handoff_exchange_steps", "calls of ERPs about processes by what they were answered");
/// `{what}`
pub const EXCHANGE_LOGGED: Named =
    ("handoff_exchange_log_entries", "entries of the exchange's log by what happened");
/// Counter.
pub const EXCHANGE_ACTIVATIONS_REFUSED: Named = (
    "handoff_exchange_activations_refused",
    "activations refused: the code was wrong, or too many wrong ones came",
);
/// Gauge.
pub const EXCHANGE_DATABASES: Named = ("handoff_exchange_databases", "databases there are");
/// Gauge.
pub const EXCHANGE_DEVICES: Named = ("handoff_exchange_devices", "devices there are");
/// Gauge.
pub const EXCHANGE_WAITING_DEVICES: Named =
    ("handoff_exchange_waiting_devices", "devices that wait for messages");
/// Gauge.
pub const EXCHANGE_BODY_BYTES: Named =
    ("handoff_exchange_body_bytes", "bytes of all bodies that are kept");
/// Gauge.
pub const EXCHANGE_UNFILED: Named =
    ("handoff_exchange_unfiled_bodies", "bodies that only the journal has for sure");
/// Gauge.
pub const EXCHANGE_TO_MOVE: Named =
    ("handoff_exchange_files_to_move", "files that are to be moved or removed");
/// Gauge.
pub const EXCHANGE_BEHIND: Named =
    ("handoff_exchange_files_behind_seconds", "how far the folders are behind what was taken");
/// Gauge.
pub const EXCHANGE_FOREIGN: Named = (
    "handoff_exchange_foreign_files",
    "files in the folders that are none of the exchange's, as the last comparison found",
);
/// `{place}`
pub const EXCHANGE_PLACES: Named =
    ("handoff_exchange_place_messages", "messages of all databases by where they are");
/// `{phase}`
pub const EXCHANGE_PROCESSES: Named =
    ("handoff_exchange_processes", "processes that are not over, by how far they are");

/// `{lane}`
pub const RELAY_BYTES: Named = (
    "handoff_relay_received_bytes",
    "bytes of segments and key frames that agents sent, new ones and of backlogs",
);
/// Counter.
pub const RELAY_SEGMENTS: Named =
    ("handoff_relay_stored_segments", "segments that every sink has, since start");
/// Counter.
pub const RELAY_SAMPLES: Named =
    ("handoff_relay_stored_samples", "samples that every sink has, since start");
/// `{reason}`
pub const RELAY_REJECTED: Named =
    ("handoff_relay_rejected_segments", "segments that were not taken, by reason");
/// `{reason}`
pub const RELAY_REFUSED: Named =
    ("handoff_relay_refused_connections", "agents that were sent away, by reason");
/// Counter.
pub const RELAY_MISSING: Named = (
    "handoff_relay_missing_segments",
    "segments that agents were confirmed once and that are not here: the data directory is another one, or older",
);
/// Counter.
pub const RELAY_PACED: Named =
    ("handoff_relay_backlog_paced_seconds", "time that backlogs waited for what is new");
/// Gauge.
pub const RELAY_AGENTS: Named = ("handoff_relay_agents", "agents that were heard of since start");
/// Gauge.
pub const RELAY_AGENTS_CONNECTED: Named =
    ("handoff_relay_agents_connected", "agents that are connected");
/// Gauge.
pub const RELAY_SESSIONS: Named = ("handoff_relay_sessions", "connections of agents");
/// Gauge.
pub const RELAY_BLOCKS: Named =
    ("handoff_relay_blocks", "blocks whose decoders are kept, of relay.blocks_max");
/// Gauge.
pub const RELAY_INTAKE: Named =
    ("handoff_relay_intake_bytes", "bytes of messages that are being read");
/// Gauge.
pub const RELAY_INTAKE_MAX: Named = ("handoff_relay_intake_bytes_max", "how many may be");
/// Gauge.
pub const RELAY_PENDING: Named =
    ("handoff_relay_pending_bytes", "bytes of samples on their way to the sinks");
/// Gauge.
pub const RELAY_PENDING_MAX: Named = ("handoff_relay_pending_bytes_max", "how many may be");
/// Gauge.
pub const RELAY_LAG: Named = (
    "handoff_relay_lag_seconds",
    "how late the newest sample is of the connected agent that is furthest behind",
);
