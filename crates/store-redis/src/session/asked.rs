//! What a client asked, until its end is known to have arrived.
//!
//! ```text
//!  Sending ──c──▶ Waiting ──e──▶ Settling ──f──▶ (gone)
//!     └── again until c ┘            └── response_ack again until f
//! ```

use handoff_calls::{Ask, CallId, ClientId, NewCall, Outcome};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Done, Session, Way};
use crate::client::{Answer, NoAnswer};

/// A call that was asked.
#[derive(Debug)]
pub(super) struct Asked {
    new: NewCall,
    /// Who waits; nobody once it knows.
    answer: Option<oneshot::Sender<Result<Answer, NoAnswer>>>,
    stage: Stage,
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
    /// When the next step is taken again if it is not confirmed.
    pub(super) const fn confirm_by(&self) -> Option<Instant> {
        match self.stage {
            Stage::Sending(by) | Stage::Settling(by, _) => Some(by),
            Stage::Waiting => None,
        }
    }
}

type End = Option<(Outcome, Option<ClientId>)>;

impl Session {
    pub(super) fn call(
        &mut self,
        way: &mut Way,
        new: NewCall,
        answer: oneshot::Sender<Result<Answer, NoAnswer>>,
    ) {
        let id = new.id;
        if self.asked.contains_key(&id) {
            let reused = handoff_calls::Refusal::IdReused(id);
            // Whoever asked may have gone.
            drop(answer.send(Err(NoAnswer::Refused(reused))));
            return;
        }
        let now = Instant::now();
        self.asked.insert(id, Asked { new, answer: Some(answer), stage: Stage::Sending(now) });
        self.ask_again(way, id, now);
    }

    /// Takes the step that a call is at, again. After a new connection one that waits is sent again too:
    /// it is registered once, and its end is told again if it was told meanwhile.
    pub(super) fn ask_again(&mut self, way: &mut Way, id: CallId, now: Instant) {
        let confirm_by = now + self.options.confirm_timeout;
        let Some(asked) = self.asked.get_mut(&id) else { return };
        way.plan(confirm_by);
        let (room, line) = (self.room.clone(), way.link.publisher.clone());
        match asked.stage {
            Stage::Sending(_) | Stage::Waiting => {
                asked.stage = Stage::Sending(confirm_by);
                let ask = Ask::Request(Box::new(asked.new.clone()));
                way.steps.spawn(async move { Done::Asked(id, room.ask(&line, &ask).await) });
            }
            Stage::Settling(_, wants_answer) => {
                asked.stage = Stage::Settling(confirm_by, wants_answer);
                let me = self.me;
                way.steps.spawn(async move {
                    let said = room.acknowledge(&line, (me, id), wants_answer).await;
                    Done::Else(said.map(drop))
                });
            }
        }
    }

    pub(super) fn registered(&mut self, id: CallId) {
        if let Some(asked) = self.asked.get_mut(&id)
            && let Stage::Sending(_) = asked.stage
        {
            asked.stage = Stage::Waiting;
        }
    }

    /// A call is over. Whoever waits is told at once; that Redis may forget it, Redis is told until it
    /// confirms.
    pub(super) fn ended(&mut self, way: &mut Way, id: CallId, end: End) {
        let now = Instant::now();
        match self.asked.get_mut(&id) {
            Some(asked) => {
                let wants = end.is_none() && asked.answer.is_some();
                asked.tell(id, end);
                asked.stage = Stage::Settling(now, wants);
                self.ask_again(way, id, now);
            }
            // Its confirmation was lost with a connection, and then the call itself was settled.
            None => {
                self.send(way, Ask::Acknowledge { client: self.me, call: id });
            }
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

    /// It never was registered.
    pub(super) fn refused(&mut self, id: CallId, why: NoAnswer) {
        if let Some(mut asked) = self.asked.remove(&id)
            && let Some(answer) = asked.answer.take()
        {
            // Whoever asked may have gone.
            drop(answer.send(Err(why)));
        }
    }
}

impl Asked {
    fn tell(&mut self, call: CallId, end: End) {
        if let Some((outcome, executor)) = end
            && let Some(answer) = self.answer.take()
        {
            // Whoever asked may have gone.
            drop(answer.send(Ok(Answer { call, outcome, executor })));
        }
    }
}
