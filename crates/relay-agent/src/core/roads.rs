//! The ways to destinations, and when each may be taken again. All that goes to one destination waits
//! together, so that a fleet does not come back at once, and no part of it at the cost of another.

use std::sync::Arc;

use handoff_relay::{Backoff, BackoffRules, BlockId, Name};
use handoff_types::{Entropy, Now, Span, Steady};
use tracing::{debug, info, warn};

use crate::line::{Line, LineId};
use crate::metrics::{Metrics, To};

/// Begins to connect to a destination.
pub(crate) type Dial = Box<dyn FnMut(LineId, usize) -> Line + Send>;

/// One destination.
pub(super) struct Road {
    pub(super) name: Name,
    pub(super) token: String,
    backoff: Backoff,
    again: Steady,
    /// Whether the last thing known of it is that it answers.
    answers: bool,
    /// Since when it does not.
    gone_since: Option<Steady>,
    label: To,
    metrics: Arc<Metrics>,
}

impl Road {
    pub(super) fn new(
        name: Name,
        token: String,
        rules: BackoffRules,
        metrics: Arc<Metrics>,
    ) -> Self {
        let label = To { destination: name.as_str().to_owned() };
        let (backoff, again) = (Backoff::new(rules), Steady(0));
        Self { name, token, backoff, again, answers: true, gone_since: None, label, metrics }
    }

    /// A conversation with it is open.
    pub(super) fn opened(&mut self) {
        if !std::mem::replace(&mut self.answers, true) {
            info!(destination = %self.name, "it answers again");
        }
        self.gone_since = None;
        self.backoff.succeeded();
        self.metrics.counted.connected.get_or_create(&self.label).inc();
    }

    /// A conversation with it is over.
    pub(super) fn closed(&self) {
        self.metrics.counted.connected.get_or_create(&self.label).dec();
    }

    /// A line to it failed or broke: not before so long is it tried again.
    pub(super) fn failed(&mut self, why: &str, not_before: Span, now: Now, entropy: Entropy) {
        self.metrics.counted.lost.get_or_create(&self.label).inc();
        self.gone_since.get_or_insert(now.steady);
        if std::mem::replace(&mut self.answers, false) {
            warn!(destination = %self.name, why, "it does not answer; what it misses is kept");
        } else {
            debug!(destination = %self.name, why, "it still does not answer");
        }
        // Several lines break at once: that is one failure.
        if self.again <= now.steady {
            self.again = now.steady + self.backoff.failed(not_before, entropy);
        }
    }

    /// Whether a conversation with it is open.
    pub(super) fn is_connected(&self) -> bool {
        self.metrics.counted.connected.get_or_create(&self.label).get() > 0
    }

    /// For how long it has not answered.
    pub(super) fn gone_for(&self, now: Steady) -> Span {
        self.gone_since.map_or(Span::ZERO, |since| now.since(since))
    }

    pub(super) fn sent(&self, segments: u64, bytes: usize) {
        let counted = &self.metrics.counted;
        counted.sent_segments.get_or_create(&self.label).inc_by(segments);
        counted.sent_bytes.get_or_create(&self.label).inc_by(bytes as u64);
    }

    pub(super) fn confirmed(&self) {
        self.metrics.counted.confirmed.get_or_create(&self.label).inc();
    }

    /// It does not have what it confirmed.
    pub(super) fn misses(&self, block: BlockId, segments: u64) {
        warn!(destination = %self.name, %block, segments,
            "it does not have segments any more that it confirmed: its data directory is another one, or an older copy; it goes on from here");
        self.metrics.counted.missing.get_or_create(&self.label).inc_by(segments);
    }

    pub(super) fn rejected(&self) {
        self.metrics.counted.rejected.get_or_create(&self.label).inc();
    }
}

/// All of them, in the order of their names.
pub(super) struct Roads {
    all: Vec<Road>,
    lines: LineId,
    dial: Dial,
}

impl Roads {
    pub(super) const fn new(all: Vec<Road>, dial: Dial) -> Self {
        Self { all, lines: 0, dial }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Road)> {
        self.all.iter().enumerate()
    }

    pub(super) fn get(&self, to: usize) -> Option<&Road> {
        self.all.get(to)
    }

    pub(super) fn get_mut(&mut self, to: usize) -> Option<&mut Road> {
        self.all.get_mut(to)
    }

    /// A new line, if it is time for one.
    pub(super) fn line(&mut self, to: usize, now: Steady) -> Option<Line> {
        let road = self.all.get(to).filter(|road| road.again <= now)?;
        self.lines += 1;
        road.metrics.counted.attempts.get_or_create(&road.label).inc();
        Some((self.dial)(self.lines, to))
    }

    /// When the next one may be tried.
    pub(super) fn next(&self, now: Steady) -> Option<Steady> {
        self.all.iter().map(|road| road.again).filter(|again| *again > now).min()
    }
}
