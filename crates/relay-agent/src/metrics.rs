//! What can be seen of an agent. Names are never reused for another meaning.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What media type the text is.
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct To {
    pub(crate) destination: String,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Answered {
    pub(crate) status: u16,
}

/// Why something will not arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Because {
    pub(crate) reason: &'static str,
}

/// How far the agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Opening = 0,
    Ready = 1,
    Stopping = 2,
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $field:ident: $kind:ty = $name:literal, $help:literal;)*) => {
        /// Everything that is counted.
        #[derive(Default)]
        pub(crate) struct Counted {
            $($(#[$doc])* pub(crate) $field: $kind,)*
        }

        impl Counted {
            fn register(&self, registry: &mut Registry) {
                $(registry.register($name, $help, self.$field.clone());)*
            }
        }
    };
}

metrics! {
    requests: Family<Answered, Counter> = "handoff_relay_requests", "requests of remote write answered";
    samples: Counter = "handoff_relay_samples", "samples taken in";
    histograms: Counter = "handoff_relay_histograms", "native histograms taken in";
    exemplars: Counter = "handoff_relay_exemplars", "exemplars taken in";
    series_refused: Counter = "handoff_relay_series_refused", "series of requests that could not be taken";
    waiting: Gauge = "handoff_relay_requests_waiting", "requests that wait for what was promised";
    connections: Gauge = "handoff_relay_connections", "connections of those who send samples";
    turned_away: Counter = "handoff_relay_connections_turned_away", "connections turned away because agent.connections_max were open";
    memory_bytes: Gauge = "handoff_relay_memory_bytes", "segments in memory that somebody still waits for";
    blocks: Counter = "handoff_relay_blocks", "blocks begun";
    spooled_bytes: Counter = "handoff_relay_spooled_bytes", "segments and snapshots written to refill files";
    spool_full: Counter = "handoff_relay_spool_full", "times that a refill file had no room";
    disk_failures: Counter = "handoff_relay_disk_failures", "times that the disk failed a refill file";
    disk_failing: Gauge = "handoff_relay_disk_failing", "1 while what must be written to a refill file cannot be";
    spool_bytes: Gauge = "handoff_relay_spool_bytes", "refill files, the active one included";
    backlog_files: Gauge = "handoff_relay_backlog_files", "refill files that are not delivered yet";
    quarantine_bytes: Gauge = "handoff_relay_quarantine_bytes", "what was set aside";
    disk_free_bytes: Gauge = "handoff_relay_disk_free_bytes", "space left on the disk of the spool";
    connected: Family<To, Gauge> = "handoff_relay_destination_connected", "conversations with a destination that are open";
    attempts: Family<To, Counter> = "handoff_relay_destination_connects", "connections to a destination begun";
    lost: Family<To, Counter> = "handoff_relay_destination_lost", "connections to a destination that failed or broke";
    sent_segments: Family<To, Counter> = "handoff_relay_destination_sent_segments", "segments sent, again included";
    sent_bytes: Family<To, Counter> = "handoff_relay_destination_sent_bytes", "bytes of segments and key frames sent";
    confirmed: Family<To, Counter> = "handoff_relay_destination_confirmations", "confirmations heard, each of a segment and all before it";
    rejected: Family<To, Counter> = "handoff_relay_destination_rejected_segments", "segments that a destination did not take";
    missing: Family<To, Counter> = "handoff_relay_destination_missing_segments", "segments that a destination confirmed once and does not have any more";
    given_up: Family<Because, Counter> = "handoff_relay_given_up", "segments or files that will not be delivered: too old, refused for good, damaged";
}

/// What is seen from outside.
pub(crate) struct Metrics {
    registry: Registry,
    phase: AtomicU8,
    pub(crate) counted: Counted,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Nothing is counted yet. Every destination is there from the beginning.
    pub(crate) fn new<'a>(destinations: impl Iterator<Item = &'a str>) -> Self {
        let counted = Counted::default();
        for destination in destinations {
            let to = To { destination: destination.to_owned() };
            drop(counted.connected.get_or_create(&to));
            drop(counted.lost.get_or_create(&to));
            drop(counted.confirmed.get_or_create(&to));
            drop(counted.missing.get_or_create(&to));
        }
        for reason in [GIVEN_UP_AGE, GIVEN_UP_REFUSED, GIVEN_UP_DAMAGED] {
            drop(counted.given_up.get_or_create(&Because { reason }));
        }
        let mut registry = Registry::default();
        counted.register(&mut registry);
        Self { registry, phase: AtomicU8::new(Phase::Opening as u8), counted }
    }

    /// The text for Prometheus.
    pub(crate) fn scrape(&self) -> String {
        let mut text = String::new();
        // A string takes everything.
        encode(&mut text, &self.registry).ok();
        text
    }

    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            1 => Phase::Ready,
            2 => Phase::Stopping,
            _ => Phase::Opening,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether the disk fails what must be written.
    pub(crate) fn disk_fails(&self) -> bool {
        self.counted.disk_failing.get() != 0
    }

    /// Segments or files that will not be delivered, for whatever reason.
    pub(crate) fn given_up(&self) -> u64 {
        let by = |reason| self.counted.given_up.get_or_create(&Because { reason }).get();
        [GIVEN_UP_AGE, GIVEN_UP_REFUSED, GIVEN_UP_DAMAGED].into_iter().map(by).sum()
    }

    pub(crate) fn give_up(&self, reason: &'static str, count: u64) {
        self.counted.given_up.get_or_create(&Because { reason }).inc_by(count);
    }
}

/// Older than `relay.spool_age_max`.
pub(crate) const GIVEN_UP_AGE: &str = "age";
/// Its destination will never take it; a copy is in the quarantine.
pub(crate) const GIVEN_UP_REFUSED: &str = "refused";
/// A disk damaged it; a copy is in the quarantine.
pub(crate) const GIVEN_UP_DAMAGED: &str = "damaged";
