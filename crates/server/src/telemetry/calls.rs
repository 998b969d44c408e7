//! What is counted of calls. Every label is of a closed set: no channel or client has one of its own.

use handoff_calls::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::metrics::{gauge, put};
use super::names;
use crate::rooms::calls::Stats;

/// What is counted of calls.
#[derive(Clone, Debug, Default)]
pub struct CallsMetrics {
    requests: Family<OutcomeLabels, Counter>,
    ended: Family<OutcomeLabels, Counter>,
    late: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    stage: &'static str,
}

impl CallsMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        put(registry, names::CALLS_REQUESTS, self.requests.clone());
        put(registry, names::CALLS_ENDED, self.ended.clone());
        put(registry, names::CALLS_LATE, self.late.clone());
    }

    /// A call came, for the first time or again.
    pub(crate) fn requested(&self, again: bool) {
        let outcome = if again { "again" } else { "registered" };
        self.requests.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// A call was refused.
    pub(crate) fn refused(&self) {
        self.requests.get_or_create(&OutcomeLabels { outcome: "refused" }).inc();
    }

    /// Somebody was told that a call is over.
    pub(crate) fn ended(&self, outcome: &Outcome) {
        self.ended.get_or_create(&OutcomeLabels { outcome: outcome.name() }).inc();
    }

    /// A result came too late.
    pub(crate) fn late(&self) {
        self.late.inc();
    }
}

pub(super) fn put_calls(seen: &mut Registry, stats: Stats) {
    put(seen, names::CALLS_KNOWN, gauge(stats.calls));
    put(seen, names::CALLS_BODY_BYTES, gauge(stats.bytes));
    put(seen, names::CALLS_CLIENTS, gauge(stats.clients));
    put(seen, names::CALLS_CHANNELS, gauge(stats.channels));
    let stages = Family::<StageLabels, Gauge>::default();
    let of = [("waiting", stats.waiting), ("in_flight", stats.in_flight), ("dead", stats.dead)];
    for (stage, count) in of {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        stages.get_or_create(&StageLabels { stage }).set(count);
    }
    put(seen, names::CALLS_STAGES, stages);
}
