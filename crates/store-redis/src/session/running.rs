//! What a client runs, from the offer until its result is known to be stored.
//!
//! ```text
//!  Accepting ──d 1──▶ Running ──result──▶ Answering ──g──▶ (gone)
//!     └─d 0─▶ (gone)     └ heartbeats, each confirmed by d; d 0: unwanted
//! ```

use std::panic::AssertUnwindSafe;

use bytes::Bytes;
use futures_util::FutureExt as _;
use handoff_calls::{Ask, CallId, ChannelName, ClientId, Failing, HandlerError};
use handoff_types::{Steady, Wall};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Done, Session, Way};
use crate::client::Job;
use crate::ears::Facts;
use crate::layout::{NOBODY, Work};
use crate::room::accept_words;
use crate::scripts::Script;

/// How many heartbeats a lease lasts for.
const BEATS: u32 = 3;

/// How often a call is confirmed to be ours when nothing says how long its lease is: a stock peer's
/// script offered it.
const UNTOLD: std::time::Duration = std::time::Duration::from_secs(5);

/// A result that a handler came to.
#[derive(Debug)]
pub(super) struct Finished {
    call: CallId,
    /// Which of the client's own runs it was.
    run: u64,
    result: Result<Bytes, Failing>,
}

/// A call that the client has.
#[derive(Debug)]
pub(super) struct Held {
    channel: ChannelName,
    /// None while nobody said: a stock peer's script offered it.
    facts: Option<Facts>,
    work: Option<Work>,
    stage: Stage,
    /// When the time of the whole call is over, if somebody said.
    over_at: Option<Instant>,
    /// When the step it is at is taken again.
    again: Instant,
}

#[derive(Debug)]
enum Stage {
    Accepting,
    Running { run: u64, wanted: watch::Sender<bool> },
    Answering(Result<Bytes, Failing>),
}

impl Held {
    pub(super) const fn wake_at(&self) -> Instant {
        self.again
    }

    fn fence(&self) -> Option<u64> {
        self.facts.as_ref().map(|facts| facts.fence)
    }

    /// Whether it was not told all of what it accepts.
    fn wants_work(&self) -> bool {
        matches!(self.stage, Stage::Accepting) && (self.work.is_none() || self.facts.is_none())
    }

    fn beat(&self) -> std::time::Duration {
        match &self.facts {
            Some(facts) => std::time::Duration::from_micros(facts.lease.0) / BEATS,
            None => UNTOLD,
        }
    }
}

impl Session {
    pub(super) fn offered(
        &mut self,
        way: &mut Way,
        call: CallId,
        channel: ChannelName,
        work: Option<Work>,
        facts: Option<Facts>,
    ) {
        let fence = facts.as_ref().map(|facts| facts.fence);
        if let Some(held) = self.held.get_mut(&call) {
            let newer = fence > held.fence();
            match &held.stage {
                // It is told what it knows. The step it is at is taken again by and by.
                Stage::Running { .. } | Stage::Answering(_) if !newer => return,
                // What it ran under an older fence counts no more.
                Stage::Running { wanted, .. } => {
                    wanted.send_replace(false);
                }
                _ => {}
            }
        }
        let now = Instant::now();
        // Told twice, the second may carry less.
        let known = self.held.remove(&call);
        let known = known.filter(|known| known.fence() == fence || fence.is_none());
        let left = facts.as_ref().and_then(Facts::time_left);
        let over_at = left.map(|left| now + std::time::Duration::from_micros(left.0));
        let (facts, work, over_at) = match known {
            Some(known) => (facts.or(known.facts), work.or(known.work), over_at.or(known.over_at)),
            None => (facts, work, over_at),
        };
        let held = Held { channel, facts, work, stage: Stage::Accepting, over_at, again: now };
        self.held.insert(call, held);
        self.hold_again(way, call, now);
    }

    /// Takes the step that a call is at, again: accepts it, says that it is run, or answers it.
    pub(super) fn hold_again(&mut self, way: &mut Way, call: CallId, now: Instant) {
        let confirm = self.options.confirm_timeout;
        let Some(held) = self.held.get_mut(&call) else { return };
        let (me, fence) = (self.me, held.fence());
        match &held.stage {
            Stage::Accepting => {
                held.again = now + confirm;
                way.plan(held.again);
                let step = accept_words(call, fence, held.wants_work());
                if !way.link.publisher.plan(Script::RequestAck, call, step) {
                    self.accept_alone(way, call);
                }
            }
            Stage::Running { .. } => {
                held.again = now + held.beat();
                way.plan(held.again);
                match fence {
                    Some(fence) => self.send(way, Ask::Heartbeat { client: me, call, fence }),
                    None => {
                        let step = accept_words(call, None, false);
                        if !way.link.publisher.plan(Script::RequestAck, call, step) {
                            self.accept_alone(way, call);
                        }
                    }
                }
            }
            Stage::Answering(result) => {
                held.again = now + confirm;
                way.plan(held.again);
                let step = result
                    .as_ref()
                    .ok()
                    .and_then(|answer| self.room.answer_words((me, call), fence, answer).ok());
                // What is decided about a failure is more than a script does.
                if !step.is_some_and(|step| way.link.publisher.plan(Script::Response, call, step)) {
                    self.answer_alone(way, call);
                }
            }
        }
    }

    /// Accepts a call by itself, or says that it is run, and reads what Redis says to it.
    pub(super) fn accept_alone(&self, way: &mut Way, call: CallId) {
        let Some(held) = self.held.get(&call) else { return };
        let (fence, wants) = (held.fence(), held.wants_work());
        let (room, line, me) = (self.room.clone(), way.link.publisher.line.clone(), self.me);
        way.steps.spawn(async move {
            let said = room.accept(&line, (me, call), fence, wants).await;
            Done::Else(said.map(drop))
        });
    }

    /// Gives the result of a call by itself, and reads what Redis says to it.
    pub(super) fn answer_alone(&self, way: &mut Way, call: CallId) {
        let Some(held) = self.held.get(&call) else { return };
        let Stage::Answering(result) = &held.stage else { return };
        let (fence, result) = (held.fence(), result.clone());
        let (room, line, me) = (self.room.clone(), way.link.publisher.line.clone(), self.me);
        way.steps.spawn(async move {
            let said = match &result {
                Ok(answer) => room.answer(&line, (me, call), fence, answer).await,
                Err(_) => {
                    let fence = match fence {
                        Some(fence) => fence,
                        None => room.fence(&line, call).await.unwrap_or(0),
                    };
                    let ask = Ask::Respond { client: me, call, fence, result };
                    room.ask(&line, &ask).await
                }
            };
            Done::Else(said.map(drop))
        });
    }

    /// Whether a call is the client's. If it is and was not begun, it begins. That an earlier offer of it is
    /// not says nothing about the one that is held.
    pub(super) fn is_held(
        &mut self,
        way: &mut Way,
        call: CallId,
        (granted, denied): (bool, Option<u64>),
        work: Option<Work>,
    ) {
        let Some(held) = self.held.get_mut(&call) else { return };
        if denied.is_some() && held.fence() != denied {
            return;
        }
        held.work = held.work.take().or(work);
        match &held.stage {
            Stage::Accepting if granted => self.begin(way, call),
            Stage::Running { .. } if granted => {}
            Stage::Answering(_) => {}
            Stage::Running { wanted, .. } => {
                wanted.send_replace(false);
                self.held.remove(&call);
            }
            Stage::Accepting => drop(self.held.remove(&call)),
        }
    }

    fn begin(&mut self, way: &mut Way, call: CallId) {
        let run = u64::try_from(self.room.dice.roll().0 & u128::from(u64::MAX)).unwrap_or(0);
        let finish = self.finish.clone();
        let Some(held) = self.held.get_mut(&call) else { return };
        // It is held and its body is still to come: the next confirmation has it.
        let Some(work) = held.work.clone() else { return };
        let service = self.services.iter().find(|one| one.serves.channel == held.channel);
        let Some(service) = service else { return };
        let (wants, wanted) = watch::channel(true);
        let facts = held.facts.as_ref();
        let job = Job {
            call,
            channel: held.channel.clone(),
            caller: work
                .sender
                .as_str()
                .parse::<ClientId>()
                .ok()
                .filter(|_| work.sender.as_str() != NOBODY),
            params: work.params,
            attempt: facts.map_or(1, |facts| facts.attempt),
            fence: facts.map_or(0, |facts| facts.fence),
            deadline: facts.and_then(|facts| facts.deadline).map(wall),
            over_at: held.over_at,
            trace: facts.and_then(|facts| facts.trace.clone()),
            wanted,
        };
        held.stage = Stage::Running { run, wanted: wants };
        held.again = Instant::now() + held.beat();
        way.plan(held.again);
        let handler = std::sync::Arc::clone(&service.handler);
        // A task of its own, so that one that is busy holds up nothing else.
        tokio::spawn(async move {
            let handling = AssertUnwindSafe(async move { handler(job).await });
            let result = handling.catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
            // The client may have gone.
            drop(finish.send(Finished { call, run, result }).await);
        });
    }

    pub(super) fn finish(&mut self, way: &mut Way, finished: Finished) {
        let Finished { call, run, result } = finished;
        let Some(held) = self.held.get_mut(&call) else { return };
        match &held.stage {
            Stage::Running { run: current, .. } if *current == run => {
                held.stage = Stage::Answering(result);
                self.hold_again(way, call, Instant::now());
            }
            // A run that was given up.
            _ => {}
        }
    }

    /// A result is stored, or was too late; either way nothing is left to do.
    pub(super) fn taken(&mut self, call: CallId, fence: Option<u64>, taken: bool) {
        if let Some(held) = self.held.get(&call)
            && matches!(held.stage, Stage::Answering(_))
            && (fence.is_none() || held.fence().is_none() || fence == held.fence())
        {
            self.held.remove(&call);
            self.tally.count(taken);
        }
    }

    pub(super) fn cancelled(&mut self, call: CallId, fence: u64) {
        let Some(held) = self.held.get(&call) else { return };
        if held.fence().is_some_and(|own| own != fence) {
            return;
        }
        if let Stage::Running { wanted, .. } = &held.stage {
            wanted.send_replace(false);
        }
        self.held.remove(&call);
    }
}

fn panicked() -> Failing {
    let error = HandlerError {
        name: "Panic".into(),
        message: "the handler panicked".into(),
        code: "panic".into(),
    };
    Failing { error, terminal: false, retry_after: None }
}

fn wall(at: Steady) -> Wall {
    Wall(i64::try_from(at.0).unwrap_or(i64::MAX))
}
