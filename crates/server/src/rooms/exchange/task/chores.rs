//! What the room does unasked: time, retention, reminders, and what people should read.

use std::sync::atomic::Ordering;
use std::time::Duration;

use handoff_exchange::{Ask, Begun, LogEntry, Reply, Status, Step, Verdict};
use handoff_types::{Now, Span, Steady};
use tokio::time::Instant;
use tracing::{info, warn};

use super::again::Again;
use super::{REFUSED_PAUSE, Room, WAIT_MAX};
use crate::telemetry::{
    ExchangeMetrics, ExchangeOutcome, ExchangeStep, MessageOutcome, MessageWay,
};

/// Messages and processes that are forgotten in one decision, and the pause until more are: what
/// removes their files must not get far behind.
const FORGOTTEN: u32 = 256;
const FORGET_PAUSE: Duration = Duration::from_millis(50);

/// How often people are reminded of processes that nobody decided.
const REMIND_EVERY: Span = Span::from_secs(86_400);

/// How often the folders are compared with the state.
const COMPARE_EVERY: Span = Span::from_secs(600);

/// When what is due.
#[derive(Debug)]
pub(super) struct Chores {
    /// Not before this, because the journal refused.
    not_before: Option<Instant>,
    retain_at: Instant,
    remind_at: Steady,
    compare_at: Steady,
    /// What nobody else would ask again.
    pub(super) again: Again,
    is_refused: bool,
}

impl Chores {
    pub(super) fn new(now: Steady) -> Self {
        Self {
            not_before: None,
            retain_at: Instant::now(),
            remind_at: now + REMIND_EVERY,
            compare_at: now + COMPARE_EVERY,
            again: Again::default(),
            is_refused: false,
        }
    }
}

impl Room {
    /// Does what is due, some of it. How long until more is.
    pub(super) fn unasked(&mut self, now: Now) -> Duration {
        let at = Instant::now();
        if let Some(left) = self.chores.not_before.map(|until| until.saturating_duration_since(at))
            && !left.is_zero()
        {
            return left;
        }
        self.chores.not_before = None;
        if self.releases.is_choked() {
            return REFUSED_PAUSE;
        }
        while let Some(ask) = self.chores.again.take() {
            if !self.decide_unasked(ask) {
                return REFUSED_PAUSE;
            }
        }
        if now.steady >= self.chores.compare_at {
            self.chores.compare_at = now.steady + COMPARE_EVERY;
            self.shared.orders.compare();
        }
        if self.shared.looking.is_due(now.steady) {
            self.shared.orders.look();
        }
        if now.steady >= self.chores.remind_at {
            if !self.decide_unasked(Ask::Remind) {
                return REFUSED_PAUSE;
            }
            self.chores.remind_at = now.steady + REMIND_EVERY;
        }
        let mut wait = WAIT_MAX;
        if let Some(due) = self.host.next_deadline(now) {
            let left = Duration::from_micros(due.since(now.steady).0);
            if left.is_zero() {
                return if self.decide_unasked(Ask::Tick) { Duration::ZERO } else { REFUSED_PAUSE };
            }
            wait = wait.min(left);
        }
        let left = self.chores.retain_at.saturating_duration_since(at);
        if left.is_zero() { wait.min(self.retain()) } else { wait.min(left) }
    }

    /// Forgets what is too old, some of it.
    fn retain(&mut self) -> Duration {
        // What removes files has enough to do.
        let pause = match self.shared.orders.behind().orders > 4 * FORGOTTEN as usize {
            true => FORGET_PAUSE,
            false => match self.decided(Ask::Retain { many: FORGOTTEN }) {
                None => REFUSED_PAUSE,
                Some(Reply::More(true)) => FORGET_PAUSE,
                Some(_) => self.settings.retention_every,
            },
        };
        self.chores.retain_at = Instant::now() + pause;
        pause
    }

    /// Decides something that nobody waits for. False if the journal took nothing: it stays due.
    pub(super) fn decide_unasked(&mut self, ask: Ask) -> bool {
        self.decided(ask).is_some()
    }

    fn decided(&mut self, ask: Ask) -> Option<Reply> {
        let now = self.clock.now();
        let bytes = super::weight(self.host.state(), &ask);
        let command = super::Command { ask, rules: self.settings.rules() };
        match self.apply(&command, bytes, super::Purpose::Finish, now) {
            Ok(applied) => {
                if std::mem::take(&mut self.chores.is_refused) {
                    info!("the journal takes the exchange again");
                }
                self.count(&command.ask, &applied.reply, now);
                let reply = applied.reply.clone();
                if applied.sequence.is_some() || !applied.actions.is_empty() {
                    let effect = super::Effect {
                        shown: Vec::new(),
                        actions: applied.actions,
                        then: super::Then::Nothing,
                    };
                    self.releases.push(applied.ticket, effect);
                }
                Some(reply)
            }
            Err(refused) => {
                let busy = matches!(refused, super::Refused::Busy { .. });
                if !busy && !std::mem::replace(&mut self.chores.is_refused, true) {
                    warn!(error = %refused, "the journal takes nothing of the exchange; what is due waits");
                }
                self.chores.again.put(self.host.state(), command.ask);
                self.chores.not_before = Some(Instant::now() + REFUSED_PAUSE);
                None
            }
        }
    }

    /// What people should read goes into the log too.
    pub(super) fn say(&self, entry: &LogEntry) {
        self.metrics.exchange().logged(entry.what);
        let database = self.host.state().database(entry.database).map(|one| one.id.to_string());
        let (database, what) = (database.unwrap_or_default(), entry.what.text());
        let process = entry.process.map(|id| id.to_string());
        let message = entry.message.as_ref().map(|(_, id)| id.to_string());
        let (code, words) = (entry.code, &*entry.words);
        if entry.what.is_alarming() {
            warn!(database, what, process, message, code, words, "exchange: look at this");
        } else {
            info!(database, what, process, message, code, words, "exchange");
        }
    }

    /// Counts what was decided.
    pub(super) fn count(&mut self, ask: &Ask, reply: &Reply, now: Now) {
        let metrics = self.metrics.exchange();
        match (ask, reply) {
            (Ask::Post { .. } | Ask::TakeIn { .. }, Reply::Posted(receipts)) => {
                let again = receipts.iter().filter(|receipt| receipt.again).count();
                let stored = receipts.len() - again;
                self.lag.take(stored, now.steady);
                self.pace.take(stored);
                metrics.messages(MessageWay::ToErp, MessageOutcome::Stored, stored);
                metrics.messages(MessageWay::ToErp, MessageOutcome::Duplicate, again);
            }
            (Ask::Post { messages, .. }, Reply::Refused(_)) => {
                metrics.messages(MessageWay::ToErp, MessageOutcome::Refused, messages.len());
            }
            (Ask::Ack { .. }, Reply::Acked { fresh, .. }) => {
                let fresh = usize::try_from(*fresh).unwrap_or(usize::MAX);
                metrics.messages(MessageWay::ToDevice, MessageOutcome::Delivered, fresh);
            }
            (Ask::Begin { .. }, Reply::Begun(begun)) => {
                let outcome = match begun {
                    Begun::Started { .. } => ExchangeOutcome::Ok,
                    Begun::Idle => ExchangeOutcome::Idle,
                    Begun::Busy { .. } => ExchangeOutcome::Busy,
                };
                metrics.step(ExchangeStep::Begin, outcome);
            }
            (Ask::Process { database, id, step }, reply) => {
                let ok = matches!(reply, Reply::Ok { .. });
                let outcome = if ok { ExchangeOutcome::Ok } else { ExchangeOutcome::Cancelled };
                metrics.step(step_name(step), outcome);
                if ok && let Step::Prepare { verdicts, .. } = step {
                    let process = self.host.state().process(*database, *id);
                    let stored = process.map_or(0, |process| process.from_erp.len());
                    // A call that is repeated counts again; that costs a moment of admission.
                    self.lag.take(stored, now.steady);
                    self.pace.take(stored);
                    count_prepared(metrics, verdicts, stored);
                }
            }
            _ => {}
        }
        if !matches!(ask, Ask::Post { .. } | Ask::Ack { .. } | Ask::Admin(_)) {
            self.shared.turns.fetch_add(1, Ordering::Release);
        }
    }
}

fn count_prepared(metrics: &ExchangeMetrics, verdicts: &[Verdict], messages: usize) {
    for verdict in verdicts {
        let outcome = match verdict.status {
            Status::Processed => MessageOutcome::Processed,
            Status::Deadlock => MessageOutcome::Deadlock,
            Status::Incorrect => MessageOutcome::Incorrect,
        };
        metrics.messages(MessageWay::ToErp, outcome, 1);
    }
    metrics.messages(MessageWay::ToDevice, MessageOutcome::Stored, messages);
}

fn step_name(step: &Step) -> ExchangeStep {
    match step {
        Step::Narrow(_) => ExchangeStep::Files,
        Step::Prepare { .. } => ExchangeStep::Prepare,
        Step::Commit => ExchangeStep::Commit,
        Step::Rollback(_) => ExchangeStep::Rollback,
        Step::Interrupt(_) => ExchangeStep::Interrupt,
        Step::Heartbeat => ExchangeStep::Heartbeat,
    }
}
