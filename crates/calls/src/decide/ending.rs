//! Calls end: each once, and whoever waits for it is told.

use super::draft::Draft;
use crate::{
    Call, CallId, Change, ChannelName, ClientId, Event, Happened, Notice, Outcome, Refusal, Reply,
    Stage,
};

/// Dead letters buried in one decision, at most.
const BURIED_AT_ONCE: usize = 256;

/// How a call ends, besides its outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ending {
    /// Whose result it is, if somebody ran it.
    pub(super) by: Option<ClientId>,
    /// It is kept as a dead letter.
    pub(super) dead: bool,
}

impl Draft<'_> {
    /// A call is over, and so are those that follow it.
    pub(super) fn end(&mut self, call: &Call, outcome: Outcome, ending: Ending) {
        let Ending { by, dead } = ending;
        if !self.settle(call.id) {
            return;
        }
        if dead {
            self.make_room_for_the_dead(&call.channel);
        }
        // Whoever has it is to stop, unless the end is its own doing.
        if let Some(to) = call.executor().filter(|executor| by != Some(*executor)) {
            self.tell(Notice::Cancelled { to, call: call.id, fence: call.fence });
        }
        let followers: Vec<&Call> = self.state.followers(call.id).collect();
        for follower in followers {
            if self.settle(follower.id) {
                self.end_one(follower, outcome.clone(), Ending { by, dead: false });
            }
        }
        self.end_one(call, outcome, ending);
    }

    fn end_one(&mut self, call: &Call, outcome: Outcome, Ending { by, dead }: Ending) {
        let kept = match (dead, &call.key) {
            (true, _) => self.rules.dead_kept.max(self.rules.kept),
            (false, Some(_)) => self.rules.key_kept,
            (false, None) => self.rules.kept,
        };
        let (forget, at) = (self.now.steady + kept, self.now.wall);
        // Whoever answers what it did not accept has begun it all the same.
        let unsaid = by.is_some() && matches!(call.stage, Stage::Offered { .. });
        let attempt = call.attempt.saturating_add(u16::from(unsaid));
        let told = outcome.clone();
        self.tell(Notice::Ended { to: call.caller, call: call.id, outcome: told, executor: by });
        self.change(Change::Ended { call: call.id, outcome, by, attempt, dead, forget, at });
    }

    /// A caller has an outcome. What is not known, nobody needs to be told of again.
    pub(super) fn acknowledge(&mut self, client: ClientId, id: CallId) -> Result<Reply, Refusal> {
        self.hear(client);
        if let Some(call) = self.state.call(id) {
            if call.caller != Some(client) {
                return Err(Refusal::NotYours(id));
            }
            let Some(ended) = call.ended() else {
                return Err(Refusal::Invalid("the call is not over yet"));
            };
            if !ended.acked {
                self.change(Change::Acknowledged { call: id, at: self.now.wall });
            }
        }
        self.tell(Notice::Acknowledged { to: client, call: id });
        Ok(Reply::Done)
    }

    /// Somebody wants a call no more: it is over at once, and whoever runs it is told.
    pub(super) fn cancel(&mut self, id: CallId, by: Option<ClientId>) -> Result<Reply, Refusal> {
        let call = self.state.call(id).ok_or(Refusal::NoCall(id))?;
        if by.is_some() && by != call.caller {
            return Err(Refusal::NotYours(id));
        }
        if call.ended().is_none() {
            self.end(call, Outcome::Cancelled, Ending::default());
        }
        Ok(Reply::Done)
    }

    /// A dead letter is called again: its caller was told of its end, so this is another call, for
    /// nobody.
    pub(super) fn requeue(&mut self, id: CallId) -> Result<Reply, Refusal> {
        let call = self.state.call(id).ok_or(Refusal::NoCall(id))?;
        if !call.is_dead() {
            return Err(Refusal::NotDead(id));
        }
        let chance = u128::from(self.draw()) << 64 | u128::from(self.draw());
        let new = CallId::of_chance(chance);
        let settings = self.settings(&call.channel);
        self.bury(call);
        let again = Call {
            id: new,
            seq: self.state.next_seq(),
            caller: None,
            key: None,
            again_for: Some(id),
            created: self.now.wall,
            deadline: self.now.steady + self.rules.call_time_max,
            begin_by: None,
            fence: 0,
            attempt: 0,
            taken: None,
            stage: Stage::Waiting,
            history: vec![Event { at: self.now.wall, what: Happened::Registered, who: None }],
            ..call.clone()
        };
        // Somebody decided that it is to run, so it waits for whoever will run it.
        let parks =
            crate::ChannelSettings { without_consumer: crate::WithoutConsumer::Park, ..settings };
        self.register(again, false, &parks);
        Ok(Reply::Requeued(new))
    }

    /// Dead letters are not wanted any more.
    pub(super) fn purge(
        &mut self,
        channel: &ChannelName,
        only: Option<CallId>,
    ) -> Result<Reply, Refusal> {
        if let Some(id) = only {
            let call = self.state.call(id).ok_or(Refusal::NoCall(id))?;
            if !call.is_dead() || call.channel != *channel {
                return Err(Refusal::NotDead(id));
            }
            self.bury(call);
            return Ok(Reply::Purged { many: 1, more: false });
        }
        let mut dead = self.state.dead(channel);
        let mut many = 0;
        for call in dead.by_ref().take(BURIED_AT_ONCE) {
            self.bury(call);
            many += 1;
        }
        Ok(Reply::Purged { many, more: dead.next().is_some() })
    }

    /// A dead letter is none any more. Its id and its key are known for as long as those of others.
    pub(super) fn bury(&mut self, call: &Call) {
        let kept = if call.key.is_some() { self.rules.key_kept } else { self.rules.kept };
        let forget = self.now.steady + kept;
        self.change(Change::Buried { call: call.id, forget });
    }

    fn make_room_for_the_dead(&mut self, channel: &ChannelName) {
        let dead = self.state.lane(channel).map_or(0, |lane| lane.dead.len());
        let max = usize::try_from(self.rules.dead_max).unwrap_or(usize::MAX);
        let over = (dead + 1).saturating_sub(max).min(BURIED_AT_ONCE);
        let oldest: Vec<&Call> = self.state.dead(channel).take(over).collect();
        oldest.into_iter().for_each(|call| self.bury(call));
    }
}
