//! What a client asked, until its end is known to have arrived.
//!
//! ```text
//!  Sending ──c──▶ Waiting ──e──▶ Settling ──f──▶ (gone)
//!     └── again until c ┘            └── response_ack again until f
//! ```

use std::any::Any;
use std::time::Duration;

use handoff_calls::{Ask, CallId, ClientId, NewCall, Outcome};
use handoff_types::Span;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Done, FAR, SETTLE, SETTLE_MAX, Session, Way};
use crate::client::{Answer, NoAnswer};
use crate::room::acknowledge_words;
use crate::scripts::Script;

/// When the time of a call is over, Redis has so long to say so before nobody waits any more.
const GRACE: Duration = Duration::from_secs(3);

/// The shortest time that a call is sent with.
const TIME_MIN: Duration = Duration::from_millis(1);

/// A call, and who waits for it.
#[derive(Debug)]
pub(crate) struct Asking {
    pub(crate) new: NewCall,
    /// Whoever wants to know that it is registered.
    pub(crate) confirm: Option<oneshot::Sender<()>>,
    /// Who waits; nobody once it knows.
    pub(crate) answer: Option<oneshot::Sender<Result<Answer, NoAnswer>>>,
    /// Dropped when it knows.
    pub(crate) kept: Option<Box<dyn Any + Send + Sync>>,
}

/// A call that was asked.
#[derive(Debug)]
pub(super) struct Asked {
    asking: Asking,
    stage: Stage,
    /// When its time is over, if it names one.
    deadline: Option<Instant>,
    /// It was put on a connection.
    sent: bool,
    /// It is wanted no more, which Redis is told once it has it.
    cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It is not known to be registered; when it is sent again.
    Sending(Instant),
    /// It is.
    Waiting,
    /// It ended, which Redis is not known to know; when that is said again, and whether the end itself
    /// is still to come.
    Settling(Instant, bool),
}

impl Asked {
    pub(super) fn is_registered(&self) -> bool {
        self.stage == Stage::Waiting
    }

    /// When nobody waits for it any more.
    fn over_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Sending(_) | Stage::Waiting => self.deadline.map(|deadline| deadline + GRACE),
            Stage::Settling(..) => None,
        }
    }

    /// When the next step is taken again if it is not confirmed, or the call is given up.
    pub(super) fn wake_at(&self) -> Option<Instant> {
        let confirm_by = match self.stage {
            Stage::Sending(by) | Stage::Settling(by, _) => Some(by),
            Stage::Waiting => None,
        };
        confirm_by.into_iter().chain(self.over_at()).min()
    }

    /// The call as it is sent now: with what is left of its time.
    fn request(&self, now: Instant) -> NewCall {
        let mut new = self.asking.new.clone();
        if let Some(deadline) = self.deadline.filter(|_| self.sent) {
            let left = deadline.saturating_duration_since(now).max(TIME_MIN);
            new.timeout = Some(Span(u64::try_from(left.as_micros()).unwrap_or(u64::MAX)));
        }
        new
    }
}

type End = Option<(Outcome, Option<ClientId>)>;

impl Session {
    pub(super) fn call(&mut self, way: &mut Way, asking: Asking) {
        if let Some(id) = self.take_in(asking) {
            self.ask_again(way, id, Instant::now());
        }
    }

    /// A call is asked, and not sent yet. None if its id is one of another that is under way.
    pub(super) fn take_in(&mut self, mut asking: Asking) -> Option<CallId> {
        let (id, now) = (asking.new.id, Instant::now());
        if self.asked.contains_key(&id) {
            let reused = handoff_calls::Refusal::IdReused(id);
            // Whoever asked may have gone.
            drop(asking.answer.take().map(|answer| answer.send(Err(NoAnswer::Refused(reused)))));
            return None;
        }
        let time = asking.new.timeout.map(|time| Duration::from_micros(time.0));
        let deadline = time.map(|time| now + time.min(FAR * 24 * 365));
        let stage = Stage::Sending(now);
        self.asked.insert(id, Asked { asking, stage, deadline, sent: false, cancelled: false });
        Some(id)
    }

    /// When nobody waits for a call any more.
    pub(super) fn over_at(&self, id: CallId) -> Option<Instant> {
        self.asked.get(&id).and_then(Asked::over_at)
    }

    /// Gives up the calls whose time is over, and says when the next one's is.
    pub(super) fn give_up(&mut self, now: Instant) -> Instant {
        let over = |asked: &Asked| asked.over_at().is_some_and(|over| over <= now);
        let given_up = self.asked.iter().filter(|(_, asked)| over(asked));
        let given_up: Vec<(CallId, bool)> =
            given_up.map(|(call, asked)| (*call, asked.sent)).collect();
        for (call, sent) in given_up {
            self.refused(call, NoAnswer::Unanswered { call, sent });
        }
        self.asked.values().filter_map(Asked::over_at).min().unwrap_or(now + FAR)
    }

    /// Takes the step that a call is at, again. After a new connection one that waits is sent again too:
    /// it is registered once, and its end is told again if it was told meanwhile.
    pub(super) fn ask_again(&mut self, way: &mut Way, id: CallId, now: Instant) {
        let confirm_by = now + self.options.confirm_timeout;
        let Some(asked) = self.asked.get_mut(&id) else { return };
        if asked.over_at().is_some_and(|over| over <= now) {
            let sent = asked.sent;
            return self.refused(id, NoAnswer::Unanswered { call: id, sent });
        }
        way.plan(asked.over_at().map_or(confirm_by, |over| over.min(confirm_by)));
        match asked.stage {
            Stage::Sending(_) | Stage::Waiting => {
                asked.stage = Stage::Sending(confirm_by);
                let new = asked.request(now);
                asked.sent = true;
                let step = self.room.request_words(&new);
                if !step.is_ok_and(|step| way.link.publisher.plan(Script::Request, id, step)) {
                    self.ask_alone(way, id);
                }
            }
            Stage::Settling(_, wants_answer) => {
                asked.stage = Stage::Settling(confirm_by, wants_answer);
                self.acknowledge(way, id);
            }
        }
    }

    /// Asks by itself, and reads what Redis says to it.
    pub(super) fn ask_alone(&self, way: &mut Way, id: CallId) {
        let Some(asked) = self.asked.get(&id) else { return };
        if let Stage::Sending(_) = asked.stage {
            let ask = Ask::Request(Box::new(asked.request(Instant::now())));
            let (room, line) = (self.room.clone(), way.link.publisher.line.clone());
            way.steps.spawn(async move { Done::Asked(id, room.ask(&line, &ask).await) });
        }
    }

    /// Tells Redis that ends arrived.
    pub(super) fn settle(&self, way: &mut Way) {
        way.settle_at = None;
        for id in std::mem::take(&mut way.arrived) {
            self.acknowledge(way, id);
        }
    }

    fn acknowledge(&self, way: &mut Way, id: CallId) {
        let step = acknowledge_words(id, self.wants_answer(id));
        if !way.link.publisher.plan(Script::ResponseAck, id, step) {
            self.acknowledge_alone(way, id);
        }
    }

    /// The same by itself, reading what Redis says to it.
    pub(super) fn acknowledge_alone(&self, way: &mut Way, id: CallId) {
        let (room, line, me) = (self.room.clone(), way.link.publisher.line.clone(), self.me);
        let wants_answer = self.wants_answer(id);
        way.steps.spawn(async move {
            let said = room.acknowledge(&line, (me, id), wants_answer).await;
            Done::Else(said.map(drop))
        });
    }

    /// Whether the end of a call is known to have come, and not what it is.
    fn wants_answer(&self, id: CallId) -> bool {
        let asked = self.asked.get(&id);
        asked.is_some_and(|asked| matches!(asked.stage, Stage::Settling(_, true)))
    }

    pub(super) fn registered(&mut self, way: &mut Way, id: CallId) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let Stage::Sending(_) = asked.stage else { return };
        asked.stage = Stage::Waiting;
        if let Some(confirm) = asked.asking.confirm.take() {
            // Whoever asked may not want to know.
            confirm.send(()).unwrap_or_default();
        }
        if asked.cancelled {
            self.send(way, Ask::Cancel { call: id, by: None });
        }
    }

    /// A call is wanted no more. False if Redis has to be told now: it has it, or it is another's.
    pub(super) fn cancel_asked(&mut self, id: CallId) -> bool {
        let Some(asked) = self.asked.get_mut(&id) else { return false };
        if !asked.sent {
            asked.tell(id, Some((Outcome::Cancelled, None)));
            self.asked.remove(&id);
            return true;
        }
        asked.cancelled = true;
        match asked.stage {
            Stage::Sending(_) | Stage::Settling(..) => true,
            Stage::Waiting => false,
        }
    }

    /// A call is over. Whoever waits is told at once; that Redis may forget it, Redis is told until it
    /// confirms.
    pub(super) fn ended(&mut self, way: &mut Way, id: CallId, end: End) {
        let now = Instant::now();
        // If it is not known, its confirmation was lost with a connection, and then the call itself was settled;
        // or nobody waited for it any more.
        if let Some(asked) = self.asked.get_mut(&id) {
            let wants = end.is_none() && asked.asking.answer.is_some();
            asked.tell(id, end);
            asked.stage = Stage::Settling(now, wants);
            if wants {
                return self.ask_again(way, id, now);
            }
            let confirm_by = now + self.options.confirm_timeout;
            asked.stage = Stage::Settling(confirm_by, false);
            way.plan(confirm_by);
        }
        way.arrived.push(id);
        way.settle_at.get_or_insert(now + SETTLE);
        if way.arrived.len() >= SETTLE_MAX {
            self.settle(way);
        }
    }

    pub(super) fn acknowledged(&mut self, id: CallId, end: End) {
        let Some(asked) = self.asked.get_mut(&id) else { return };
        let Stage::Settling(_, wants) = asked.stage else { return };
        if wants && end.is_none() {
            // Somebody else's confirmation; the one that carries the end is on its way.
            return;
        }
        asked.tell(id, end);
        self.asked.remove(&id);
    }

    /// Nobody waits for it any more: it never was registered, or its time is over.
    pub(super) fn refused(&mut self, id: CallId, why: NoAnswer) {
        if let Some(mut asked) = self.asked.remove(&id)
            && let Some(answer) = asked.asking.answer.take()
        {
            // Whoever asked may have gone.
            drop(answer.send(Err(why)));
        }
    }
}

impl Asked {
    fn tell(&mut self, call: CallId, end: End) {
        if let Some((outcome, executor)) = end
            && let Some(answer) = self.asking.answer.take()
        {
            self.asking.kept = None;
            // Whoever asked may have gone.
            drop(answer.send(Ok(Answer { call, outcome, executor })));
        }
    }
}
