//! What is counted of the relay's receiver. Every label is of a closed set: no agent has one of its own.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use handoff_relay::session::Reason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::metrics::{gauge, put};
use super::names;
use crate::relay::Stats;

/// What is counted of the relay's receiver.
#[derive(Clone, Debug, Default)]
pub struct RelayMetrics {
    bytes: Family<LaneLabels, Counter>,
    segments: Counter,
    samples: Counter,
    rejected: Family<ReasonLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
    missing: Counter,
    paced: Counter<f64, AtomicU64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LaneLabels {
    lane: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

impl RelayMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        put(registry, names::RELAY_BYTES, self.bytes.clone());
        put(registry, names::RELAY_SEGMENTS, self.segments.clone());
        put(registry, names::RELAY_SAMPLES, self.samples.clone());
        put(registry, names::RELAY_REJECTED, self.rejected.clone());
        put(registry, names::RELAY_REFUSED, self.refused.clone());
        put(registry, names::RELAY_MISSING, self.missing.clone());
        put(registry, names::RELAY_PACED, self.paced.clone());
    }

    /// A segment or a key frame came.
    pub(crate) fn received(&self, bytes: usize, backlog: bool) {
        let lane = if backlog { "backlog" } else { "fresh" };
        self.bytes.get_or_create(&LaneLabels { lane }).inc_by(bytes as u64);
    }

    /// Every sink has these.
    pub(crate) fn stored(&self, segments: u64, samples: u64) {
        self.segments.inc_by(segments);
        self.samples.inc_by(samples);
    }

    /// A segment was not taken.
    pub(crate) fn rejected(&self, reason: Reason) {
        let reason = match reason {
            Reason::Permanent => "permanent",
            Reason::RetryAfter => "retry_after",
            Reason::NeedSnapshot => "need_snapshot",
            Reason::TooLarge => "too_large",
            Reason::Unauthorized => "unauthorized",
        };
        self.rejected.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// An agent was sent away.
    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// Segments were confirmed once and are not here.
    pub(crate) fn missing(&self, segments: u64) {
        self.missing.inc_by(segments);
    }

    /// A backlog has to wait.
    pub(crate) fn paced(&self, time: Duration) {
        self.paced.inc_by(time.as_secs_f64());
    }
}

pub(super) fn put_relay(seen: &mut Registry, stats: &Stats) {
    put(seen, names::RELAY_AGENTS, gauge(stats.agents as u64));
    put(seen, names::RELAY_AGENTS_CONNECTED, gauge(stats.connected as u64));
    put(seen, names::RELAY_SESSIONS, gauge(stats.sessions as u64));
    put(seen, names::RELAY_BLOCKS, gauge(stats.blocks as u64));
    let ((intake, intake_max), (pending, pending_max)) = (stats.intake, stats.pending);
    put(seen, names::RELAY_INTAKE, gauge(intake as u64));
    put(seen, names::RELAY_INTAKE_MAX, gauge(intake_max as u64));
    put(seen, names::RELAY_PENDING, gauge(pending as u64));
    put(seen, names::RELAY_PENDING_MAX, gauge(pending_max as u64));
    let seconds = Duration::from_millis(u64::try_from(stats.lag_millis).unwrap_or(0)).as_secs_f64();
    put(seen, names::RELAY_LAG, ConstGauge::new(seconds));
}
