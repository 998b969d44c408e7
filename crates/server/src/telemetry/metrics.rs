//! Counters, gauges and histograms, and how they are written for Prometheus.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use handoff_log::journal::{SYNC_BOUNDS_MICROS, Stats as LogStats, Threaded};
use handoff_types::Room;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{
    EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};
use tokio::time::Instant;

use super::calls::{CallsMetrics, put_calls};
use super::exchange::{ExchangeMetrics, put_exchange};
use super::names::{self, Named};
use super::process::Process;
use super::relay::{RelayMetrics, put_relay};
use crate::clock::Clock;
use crate::relay::{self, Reception};
use crate::rooms::calls::{self, CallsRoom};
use crate::rooms::events::{EventsRoom, Stats};
use crate::rooms::exchange::{self, ExchangeRoom};
use crate::rooms::streams::{self, StreamsRoom};

/// What media type the text of [`Metrics::scrape`] is.
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Seconds of a request: from a tenth of a millisecond to what nobody should wait.
const REQUEST_BUCKETS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// Seconds of lateness: the goal is 5 ms.
const LATENESS_BUCKETS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// Everything that is counted.
pub struct Metrics {
    registry: Registry,
    begun: Instant,
    http: HttpMetrics,
    streams: StreamMetrics,
    exchange: ExchangeMetrics,
    calls: CallsMetrics,
    relay: RelayMetrics,
    notified: Counter,
    lateness: Histogram,
    log: OnceLock<(Weak<Threaded>, Clock)>,
    disk: OnceLock<DiskProbe>,
}

type DiskProbe = Box<dyn Fn() -> Option<DiskSpace> + Send + Sync>;

/// Space on the disk of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// What is left.
    pub free: u64,
    /// `server.disk_free_min`
    pub min: u64,
}

/// What HTTP counts.
#[derive(Clone, Debug)]
pub struct HttpMetrics {
    /// Requests answered.
    pub requests: Family<RequestLabels, Counter>,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    /// Connections that are open.
    pub connections: Gauge,
    /// Connections that may be open.
    pub connections_max: Gauge,
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections turned away.
    pub turned_away: Counter,
    /// Connections whose client was silent for too long.
    pub closed_idle: Counter,
    /// Server-sent event streams that are open.
    pub streams: Gauge,
    /// Handlers that panicked.
    pub panics: Counter,
    /// Requests with a proxy's headers while auth is off.
    pub proxied: Counter,
}

/// What is counted of messages. No topic has a label of its own: there may be 10,000 of them.
#[derive(Clone, Debug, Default)]
pub struct StreamMetrics {
    messages: Counter,
    duplicates: Counter,
    bytes: Counter,
    delivered: Counter,
    redelivered: Counter,
}

impl StreamMetrics {
    /// Messages were handed to a member of a group: attempts, and how many of each.
    pub fn delivered(&self, batches: impl Iterator<Item = (u32, u64)>) {
        for (attempt, count) in batches {
            self.delivered.inc_by(count);
            if attempt > 1 {
                self.redelivered.inc_by(count);
            }
        }
    }

    /// A request was stored: so many messages, so many of which were there already, and its bytes.
    pub fn stored(&self, messages: usize, duplicates: usize, bytes: usize) {
        self.messages.inc_by(messages as u64);
        self.duplicates.inc_by(duplicates as u64);
        self.bytes.inc_by(bytes as u64);
    }
}

/// Which request. Every value is of a closed set.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    /// The template of its path.
    pub route: Arc<str>,
    /// Its method.
    pub method: &'static str,
    /// The answer's status.
    pub status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: Arc<str>,
    method: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RoomLabels {
    room: RoomName,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RoomName(Room);

impl EncodeLabelValue for RoomName {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.name().encode(encoder)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    version: &'static str,
}

impl Metrics {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(version: &'static str) -> Self {
        let mut registry = Registry::default();
        let http = HttpMetrics {
            requests: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(REQUEST_BUCKETS)),
            connections: Gauge::default(),
            connections_max: Gauge::default(),
            accepted: Counter::default(),
            turned_away: Counter::default(),
            closed_idle: Counter::default(),
            streams: Gauge::default(),
            panics: Counter::default(),
            proxied: Counter::default(),
        };
        let streams = StreamMetrics::default();
        let exchange = ExchangeMetrics::default();
        exchange.register(&mut registry);
        let calls = CallsMetrics::default();
        calls.register(&mut registry);
        let relay = RelayMetrics::default();
        relay.register(&mut registry);
        let (notified, lateness) = (Counter::default(), Histogram::new(LATENESS_BUCKETS));
        let build = Info::new(Build { version });
        put(&mut registry, names::BUILD, build);
        put(&mut registry, names::HTTP_REQUESTS, http.requests.clone());
        put(&mut registry, names::HTTP_REQUEST_SECONDS, http.seconds.clone());
        put(&mut registry, names::HTTP_CONNECTIONS, http.connections.clone());
        put(&mut registry, names::HTTP_CONNECTIONS_MAX, http.connections_max.clone());
        put(&mut registry, names::HTTP_ACCEPTED, http.accepted.clone());
        put(&mut registry, names::HTTP_TURNED_AWAY, http.turned_away.clone());
        put(&mut registry, names::HTTP_CLOSED_IDLE, http.closed_idle.clone());
        put(&mut registry, names::HTTP_STREAMS, http.streams.clone());
        put(&mut registry, names::HTTP_PANICS, http.panics.clone());
        put(&mut registry, names::HTTP_PROXIED, http.proxied.clone());
        put(&mut registry, names::STREAMS_MESSAGES, streams.messages.clone());
        put(&mut registry, names::STREAMS_DUPLICATES, streams.duplicates.clone());
        put(&mut registry, names::STREAMS_BYTES, streams.bytes.clone());
        put(&mut registry, names::STREAMS_DELIVERED, streams.delivered.clone());
        put(&mut registry, names::STREAMS_REDELIVERED, streams.redelivered.clone());
        put(&mut registry, names::EVENTS_NOTIFIED, notified.clone());
        put(&mut registry, names::EVENTS_LATENESS, lateness.clone());
        Self {
            registry,
            begun: Instant::now(),
            http,
            streams,
            exchange,
            calls,
            relay,
            notified,
            lateness,
            log: OnceLock::new(),
            disk: OnceLock::new(),
        }
    }

    /// What HTTP counts.
    #[must_use]
    pub fn http(&self) -> &HttpMetrics {
        &self.http
    }

    /// What is counted of messages.
    #[must_use]
    pub fn streams(&self) -> &StreamMetrics {
        &self.streams
    }

    /// What is counted of the exchange.
    #[must_use]
    pub fn exchange(&self) -> &ExchangeMetrics {
        &self.exchange
    }

    /// What is counted of calls.
    #[must_use]
    pub fn calls(&self) -> &CallsMetrics {
        &self.calls
    }

    /// What is counted of the relay's receiver.
    #[must_use]
    pub fn relay(&self) -> &RelayMetrics {
        &self.relay
    }

    /// An occurrence was given to this many sessions, this long after it was due.
    pub fn told(&self, sessions: u64, lateness: Duration) {
        self.notified.inc_by(sessions);
        self.lateness.observe(lateness.as_secs_f64());
    }

    /// How long the process has served.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Shows what this journal does, whose rooms have this clock. It is not kept alive by being
    /// watched; a second is ignored.
    pub fn watch_log(&self, journal: &Arc<Threaded>, clock: &Clock) {
        self.log.get_or_init(|| (Arc::downgrade(journal), clock.clone()));
    }

    /// Shows how full the disk is. Asked at every scrape, so it must not wait; a second is
    /// ignored.
    pub fn watch_disk(&self, probe: impl Fn() -> Option<DiskSpace> + Send + Sync + 'static) {
        self.disk.get_or_init(|| Box::new(probe));
    }

    /// How full the disk is, if anybody watches it.
    #[must_use]
    pub fn disk(&self) -> Option<DiskSpace> {
        self.disk.get().and_then(|probe| probe())
    }

    /// Everything as text. What rooms own is asked of them now.
    pub async fn scrape(
        &self,
        events: Option<&EventsRoom>,
        streams: Option<&StreamsRoom>,
        exchange: Option<&ExchangeRoom>,
        calls: Option<&CallsRoom>,
        relay: Option<&Reception>,
    ) -> String {
        let events = match events {
            Some(room) => room.stats().await.ok(),
            None => None,
        };
        let streams = match streams {
            Some(room) => room.stats().await.ok(),
            None => None,
        };
        let exchange = match exchange {
            Some(room) => room.stats().await.ok(),
            None => None,
        };
        let calls = match calls {
            Some(room) => room.stats().await.ok(),
            None => None,
        };
        let relay = relay.map(Reception::stats);
        let seen = self.seen(events, streams, exchange, calls, relay);
        let mut text = String::with_capacity(8192);
        let written = encode_registry(&mut text, &self.registry)
            .and_then(|()| encode_registry(&mut text, &seen))
            .and_then(|()| encode_eof(&mut text));
        debug_assert!(written.is_ok(), "a string takes everything");
        text
    }

    /// What is not counted here but looked at.
    fn seen(
        &self,
        events: Option<Stats>,
        streams: Option<streams::Stats>,
        exchange: Option<exchange::Stats>,
        calls: Option<calls::Stats>,
        relay: Option<relay::Stats>,
    ) -> Registry {
        let mut registry = Registry::default();
        let seen = &mut registry;
        put(seen, names::UPTIME, ConstGauge::new(self.uptime().as_secs_f64()));
        if let Some(stats) = events {
            put_events(seen, stats);
        }
        if let Some(stats) = streams {
            put_streams(seen, stats);
        }
        if let Some(stats) = exchange {
            put_exchange(seen, stats);
        }
        if let Some(stats) = calls {
            put_calls(seen, stats);
        }
        if let Some(stats) = relay {
            put_relay(seen, &stats);
        }
        if let Some((journal, clock)) = self.log.get()
            && let Some(journal) = journal.upgrade()
        {
            put_log(seen, &journal, clock);
        }
        if let Some(disk) = self.disk() {
            put(seen, names::DISK_FREE, gauge(disk.free));
            put(seen, names::DISK_FREE_MIN, gauge(disk.min));
        }
        let process = Process::look();
        let figures = [
            (names::PROCESS_MEMORY, process.resident),
            (names::PROCESS_FILES, process.files),
            (names::PROCESS_FILES_MAX, process.files_max),
        ];
        for (named, figure) in figures {
            if let Some(figure) = figure {
                put(seen, named, gauge(figure));
            }
        }
        registry
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("http", &self.http).finish_non_exhaustive()
    }
}

/// Requests of one route whose metrics need not be looked for each time.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The route, as a label.
    pub route: Arc<str>,
    method: &'static str,
    /// What most are answered.
    usual: u16,
    usually: Counter,
    seconds: Histogram,
}

impl HttpMetrics {
    /// The metrics of one route that most are answered this status by.
    pub fn counted(&self, route: &Arc<str>, method: &'static str, usual: u16) -> Counted {
        let labels = RequestLabels { route: Arc::clone(route), method, status: usual };
        let of_route = RouteLabels { route: Arc::clone(route), method };
        Counted {
            usually: self.requests.get_or_create_owned(&labels),
            seconds: self.seconds.get_or_create_owned(&of_route),
            route: Arc::clone(route),
            method,
            usual,
        }
    }

    /// A request of a counted route was answered.
    pub fn answered_one(&self, counted: &Counted, status: u16, took: Duration) {
        if status == counted.usual {
            counted.usually.inc();
            return counted.seconds.observe(took.as_secs_f64());
        }
        let (route, method) = (Arc::clone(&counted.route), counted.method);
        self.answered(RequestLabels { route, method, status }, took);
    }

    /// A request was answered.
    pub fn answered(&self, labels: RequestLabels, took: Duration) {
        let route = RouteLabels { route: Arc::clone(&labels.route), method: labels.method };
        self.requests.get_or_create(&labels).inc();
        self.seconds.get_or_create(&route).observe(took.as_secs_f64());
    }
}

pub(super) fn put(registry: &mut Registry, (name, help): Named, metric: impl Metric) {
    registry.register(name, help, metric);
}

fn put_events(seen: &mut Registry, stats: Stats) {
    put(seen, names::EVENTS, gauge(stats.events));
    put(seen, names::EVENTS_SESSIONS, gauge(stats.sessions));
    put(seen, names::EVENTS_HELD, gauge(stats.held));
    put(seen, names::EVENTS_REGISTERED, ConstCounter::new(stats.totals.registered));
    put(seen, names::EVENTS_DELETED, ConstCounter::new(stats.totals.deleted));
    put(seen, names::EVENTS_FINISHED, ConstCounter::new(stats.totals.finished));
    put(seen, names::EVENTS_OCCURRED, ConstCounter::new(stats.totals.occurred));
    put(seen, names::EVENTS_SKIPPED, ConstCounter::new(stats.totals.skipped));
    put(seen, names::EVENTS_PUBLISH_WAITING, gauge(stats.publish_waiting));
    put(seen, names::EVENTS_DEAD_LETTERS, gauge(stats.dead_letters));
    put(seen, names::EVENTS_PUBLISHED, ConstCounter::new(stats.totals.published));
    put(seen, names::EVENTS_DEAD, ConstCounter::new(stats.totals.dead));
    put(seen, names::EVENTS_DROPPED, ConstCounter::new(stats.totals.dropped));
    put(seen, names::EVENTS_SLOW_SESSIONS, ConstCounter::new(stats.slow_sessions));
}

fn put_streams(seen: &mut Registry, stats: streams::Stats) {
    let counts = stats.counts;
    put(seen, names::STREAMS_TOPICS, gauge(counts.topics as u64));
    put(seen, names::STREAMS_PARTITIONS, gauge(counts.partitions as u64));
    put(seen, names::STREAMS_PRODUCERS, gauge(counts.producers as u64));
    put(seen, names::STREAMS_SCHEDULED, gauge(counts.scheduled as u64));
    put(seen, names::STREAMS_SCHEDULED_BYTES, gauge(counts.scheduled_bytes as u64));
    put(seen, names::STREAMS_WAITING, gauge(stats.waiting_readers as u64));
    put(seen, names::STREAMS_UNMOVED, gauge(stats.unmoved_bytes));
    put(seen, names::STREAMS_GROUPS, gauge(counts.groups as u64));
    put(seen, names::STREAMS_MEMBERS, gauge(stats.groups.members as u64));
    put(seen, names::STREAMS_LEASES, gauge(stats.groups.leases as u64));
    put(seen, names::STREAMS_DEAD, gauge(stats.groups.dead));
    put(seen, names::STREAMS_LAG_MAX, gauge(stats.groups.lag_max));
    put(seen, names::STREAMS_DELIVERING, gauge(stats.delivering_bytes as u64));
}

#[expect(clippy::cast_precision_loss, reason = "an average is rounded anyway")]
fn put_log(seen: &mut Registry, journal: &Threaded, clock: &Clock) {
    let stats = journal.stats();
    put(seen, names::LOG_ROUNDS, ConstCounter::new(stats.rounds));
    put(seen, names::LOG_RECORDS, ConstCounter::new(stats.records));
    put(seen, names::LOG_BYTES, ConstCounter::new(stats.bytes));
    put(seen, names::LOG_SYNC_SECONDS, SyncTimes(stats));
    let oldest = journal.oldest_waiting().map_or(0, |oldest| clock.steady().since(oldest).0);
    put(seen, names::LOG_OLDEST, ConstGauge::new(Duration::from_micros(oldest).as_secs_f64()));
    put(seen, names::LOG_CONTINUATIONS, ConstCounter::new(stats.continuations));
    let average = stats.records as f64 / stats.rounds.max(1) as f64;
    put(seen, names::LOG_RECORDS_PER_SYNC, ConstGauge::new(average));
    let waiting = Family::<RoomLabels, Gauge<u64, AtomicU64>>::default();
    for room in Room::ALL.into_iter().filter(|room| *room != Room::Counter) {
        let labels = RoomLabels { room: RoomName(room) };
        waiting.get_or_create(&labels).set(journal.waiting(room));
    }
    put(seen, names::LOG_WAITING, waiting);
}

/// What the journal has counted of its syncs, as a histogram.
#[derive(Debug)]
struct SyncTimes(LogStats);

impl EncodeMetric for SyncTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Self(LogStats { sync_micros, sync_times, .. }) = self;
        let seconds = |micros: u64| Duration::from_micros(micros).as_secs_f64();
        let bounds = SYNC_BOUNDS_MICROS.into_iter().map(seconds).chain([f64::INFINITY]);
        let buckets: Vec<(f64, u64)> = bounds.zip(sync_times.iter().copied()).collect();
        // Not the rounds, of which one more may have been counted meanwhile.
        let count = sync_times.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(seconds(*sync_micros), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

pub(super) fn gauge(value: u64) -> ConstGauge<u64> {
    ConstGauge::new(value)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use handoff_log::directory::Directory;
    use handoff_log::disk::{Call, Calls, Faulty, Memory};
    use handoff_log::journal::{Entry, Journal, Options, Purpose, Threaded};
    use handoff_store_embedded::open_journal;
    use handoff_types::{Entropy, Limits, Now, Room, Span};

    use super::{DiskSpace, Metrics, RequestLabels};
    use crate::clock::Clock;

    fn lines(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.starts_with('#')).collect()
    }

    #[tokio::test]
    async fn a_scrape_has_what_was_counted_and_what_was_looked_at() {
        let metrics = Metrics::new("9.9.9");
        let labels = RequestLabels { route: "/v1/events".into(), method: "GET", status: 200 };
        metrics.http().answered(labels, Duration::from_millis(2));
        metrics.told(3, Duration::from_millis(4));
        metrics.watch_disk(|| Some(DiskSpace { free: 7, min: 5 }));
        let text = metrics.scrape(None, None, None, None, None).await;
        let lines = lines(&text);
        for line in [
            "handoff_build_info{version=\"9.9.9\"} 1",
            "handoff_http_requests_total{route=\"/v1/events\",method=\"GET\",status=\"200\"} 1",
            "handoff_http_request_seconds_count{route=\"/v1/events\",method=\"GET\"} 1",
            "handoff_events_notified_total 3",
            "handoff_events_lateness_seconds_bucket{le=\"0.005\"} 1",
            "handoff_disk_free_bytes 7",
        ] {
            assert!(lines.contains(&line), "{line}\nis not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }

    #[tokio::test]
    async fn a_record_that_the_disk_does_not_take_grows_old() {
        let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
        let directory = Directory::open(Arc::new(disk), Entropy(7)).unwrap();
        let limits = Limits { journal_file_bytes: 256 << 10, ..Limits::default() };
        let options = Options { limits, directory: directory.id, entropy: Entropy(7) };
        let (opened, ..) = open_journal(&directory, options, &mut []).unwrap();
        let journal = Arc::new(Threaded::start(opened).unwrap());
        let (clock, hands) = Clock::told(Now::default());
        let metrics = Metrics::new("1");
        metrics.watch_log(&journal, &clock);
        let oldest = async |age: &str| {
            let (text, line) =
                (metrics.scrape(None, None, None, None, None).await, "oldest_unsynced_seconds");
            let line = format!("handoff_log_{line} {age}");
            assert!(lines(&text).contains(&&*line), "{line}\nis not in\n{text}");
        };
        oldest("0.0").await;

        faults.fail_all(Calls::Only(Call::Sync));
        let permit = journal.admit(Room::Events, 16, Purpose::Accept).unwrap();
        let entry = Entry {
            room: Room::Events,
            now: clock.now(),
            change: Bytes::from_static(b"change"),
            bodies: Vec::new(),
        };
        let (_, ticket) = journal.append(permit, entry);
        oldest("0.0").await;
        hands.pass(Span::from_millis(2_500));
        oldest("2.5").await;

        faults.clear();
        ticket.wait().unwrap();
        oldest("0.0").await;
        let text = metrics.scrape(None, None, None, None, None).await;
        assert!(lines(&text).contains(&"handoff_log_fsync_seconds_count 1"), "{text}");
    }

    #[tokio::test]
    async fn every_metric_has_its_help_and_stands_once() {
        let text = Metrics::new("1").scrape(None, None, None, None, None).await;
        let mut described: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect();
        let helped = text.lines().filter(|line| line.starts_with("# HELP ")).count();
        assert_eq!(described.len(), helped);
        described.sort_unstable();
        let count = described.len();
        described.dedup();
        assert_eq!(described.len(), count);
    }
}
