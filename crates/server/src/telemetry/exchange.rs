//! What is counted of the exchange. Every label is of a closed set: no company, database or device
//! has one of its own.

use std::time::Duration;

use handoff_exchange::Happened;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use super::metrics::{gauge, put};
use super::names;
use crate::rooms::exchange::Stats;

/// What is counted of the exchange.
#[derive(Clone, Debug, Default)]
pub struct ExchangeMetrics {
    messages: Family<MessageLabels, Counter>,
    steps: Family<StepLabels, Counter>,
    logged: Family<WhatLabels, Counter>,
    activations_refused: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MessageLabels {
    way: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StepLabels {
    step: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WhatLabels {
    what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PlaceLabels {
    place: &'static str,
}

/// Which way messages go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageWay {
    /// To a database.
    ToErp,
    /// To a device.
    ToDevice,
}

/// What became of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOutcome {
    /// They are stored.
    Stored,
    /// They were before.
    Duplicate,
    /// They are not.
    Refused,
    /// The ERP says so.
    Processed,
    /// The ERP says so.
    Deadlock,
    /// The ERP says so.
    Incorrect,
    /// The device has them.
    Delivered,
}

/// What an ERP asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeStep {
    /// `API_1`
    Begin,
    /// `API_2`
    Files,
    /// `API_3`
    Prepare,
    /// `API_4`
    Commit,
    /// `API_5`
    Rollback,
    /// `API_6`
    Interrupt,
    /// It is still at work.
    Heartbeat,
}

/// What it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExchangeOutcome {
    /// It is so.
    Ok,
    /// There is nothing to do.
    Idle,
    /// Another process is live.
    Busy,
    /// It is to roll back, or cannot have its way.
    Cancelled,
}

impl ExchangeMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        put(registry, names::EXCHANGE_MESSAGES, self.messages.clone());
        put(registry, names::EXCHANGE_STEPS, self.steps.clone());
        put(registry, names::EXCHANGE_LOGGED, self.logged.clone());
        put(registry, names::EXCHANGE_ACTIVATIONS_REFUSED, self.activations_refused.clone());
    }

    /// So many messages.
    pub fn messages(&self, way: MessageWay, outcome: MessageOutcome, count: usize) {
        if count == 0 {
            return;
        }
        let way = match way {
            MessageWay::ToErp => "to_erp",
            MessageWay::ToDevice => "to_device",
        };
        let outcome = match outcome {
            MessageOutcome::Stored => "stored",
            MessageOutcome::Duplicate => "duplicate",
            MessageOutcome::Refused => "refused",
            MessageOutcome::Processed => "processed",
            MessageOutcome::Deadlock => "deadlock",
            MessageOutcome::Incorrect => "incorrect",
            MessageOutcome::Delivered => "delivered",
        };
        self.messages.get_or_create(&MessageLabels { way, outcome }).inc_by(count as u64);
    }

    /// An ERP asked something.
    pub fn step(&self, step: ExchangeStep, outcome: ExchangeOutcome) {
        let step = match step {
            ExchangeStep::Begin => "begin",
            ExchangeStep::Files => "files",
            ExchangeStep::Prepare => "prepare",
            ExchangeStep::Commit => "commit",
            ExchangeStep::Rollback => "rollback",
            ExchangeStep::Interrupt => "interrupt",
            ExchangeStep::Heartbeat => "heartbeat",
        };
        let outcome = match outcome {
            ExchangeOutcome::Ok => "ok",
            ExchangeOutcome::Idle => "idle",
            ExchangeOutcome::Busy => "busy",
            ExchangeOutcome::Cancelled => "cancelled",
        };
        self.steps.get_or_create(&StepLabels { step, outcome }).inc();
    }

    /// Something happened that people should know of.
    pub fn logged(&self, what: Happened) {
        self.logged.get_or_create(&WhatLabels { what: what.text() }).inc();
    }

    /// A code was wrong, or one too many.
    pub fn activation_refused(&self) {
        self.activations_refused.inc();
    }
}

pub(super) fn put_exchange(seen: &mut Registry, stats: Stats) {
    put(seen, names::EXCHANGE_DATABASES, gauge(stats.databases));
    put(seen, names::EXCHANGE_DEVICES, gauge(stats.devices));
    put(seen, names::EXCHANGE_WAITING_DEVICES, gauge(stats.waiting));
    put(seen, names::EXCHANGE_BODY_BYTES, gauge(stats.counts.bytes));
    put(seen, names::EXCHANGE_UNFILED, gauge(stats.unfiled));
    put(seen, names::EXCHANGE_TO_MOVE, gauge(stats.to_move));
    let behind = Duration::from_micros(stats.behind_micros).as_secs_f64();
    put(seen, names::EXCHANGE_BEHIND, ConstGauge::new(behind));
    put(seen, names::EXCHANGE_FOREIGN, gauge(stats.foreign));
    let places = Family::<PlaceLabels, Gauge>::default();
    let counts = stats.counts;
    for (place, count) in [
        ("to_erp", counts.to_erp),
        ("to_devices", counts.to_devices),
        ("prepared", counts.prepared),
        ("log", counts.log),
        ("unknown", counts.unknown),
        ("error", counts.error),
    ] {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        places.get_or_create(&PlaceLabels { place }).set(count);
    }
    put(seen, names::EXCHANGE_PLACES, places);
    let phases = Family::<PhaseLabels, Gauge>::default();
    for (phase, count) in [
        ("started", stats.started),
        ("ready_to_commit", stats.ready),
        ("unknown", stats.unknown),
        ("unsettled", stats.unsettled),
    ] {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        phases.get_or_create(&PhaseLabels { phase }).set(count);
    }
    put(seen, names::EXCHANGE_PROCESSES, phases);
}
