//! A call comes, or comes again.

use super::draft::Draft;
use crate::call::digest;
use crate::{
    Call, Change, ChannelSettings, Durability, Ended, Event, Failure, Happened, NewCall, Notice,
    Outcome, Refusal, Reply, Rules, Stage, WithoutConsumer,
};

/// Calls that end as another one does, at most for one.
pub const FOLLOWERS_MAX: usize = 64;

/// Calls that nobody needs any more, forgotten at most for one that comes.
const FORGOTTEN_FOR_ONE: usize = 64;

impl Draft<'_> {
    pub(super) fn request(&mut self, new: &NewCall) -> Result<Reply, Refusal> {
        if let Some(caller) = new.caller {
            self.client(caller)?;
            self.hear(caller);
        }
        self.check(new)?;
        let digest = digest(&new.channel, &new.params);
        if let Some(known) = self.state.call(new.id) {
            if known.digest != digest || known.caller != new.caller {
                return Err(Refusal::IdReused(new.id));
            }
            self.tell_again(known);
            return Ok(Reply::Registered { call: new.id, again: true });
        }
        let first = new.key.as_ref().and_then(|key| self.state.by_key(&new.channel, key));
        if let (Some(first), Some(key)) = (first, &new.key) {
            if first.digest != digest {
                return Err(Refusal::KeyReused(key.clone()));
            }
            return self.follow(new, first);
        }
        self.has_room(new)?;
        let settings = self.settings(&new.channel);
        let call = self.call_of(new, digest, &settings);
        self.register(call, new.only_with_consumer, &settings);
        Ok(Reply::Registered { call: new.id, again: false })
    }

    fn check(&self, new: &NewCall) -> Result<(), Refusal> {
        let (bytes, max) = (new.params.len() as u64, self.rules.body_bytes_max);
        if bytes > max {
            return Err(Refusal::TooLarge { what: "a call", bytes, max });
        }
        if new.timeout.is_some_and(|timeout| timeout > self.rules.call_time_max) {
            return Err(Refusal::Invalid("the time of a call is at most calls.call_secs_max"));
        }
        if new.queue_timeout.is_some_and(|timeout| timeout > self.rules.call_time_max) {
            return Err(Refusal::Invalid("a call waits at most calls.call_secs_max"));
        }
        Ok(())
    }

    /// Whether there is room for a call. Those that nobody needs any more make it.
    fn has_room(&mut self, new: &NewCall) -> Result<(), Refusal> {
        let full = |what, many, limit| Err(Refusal::Full { what, many, limit });
        let Rules { calls_max, bytes_max, kept_max, queue_max, .. } = *self.rules;
        match self.state.lane(&new.channel) {
            None => self.has_room_for_channels(1)?,
            Some(lane) => {
                let many = lane.waiting.len() as u64 + lane.later;
                if many >= queue_max {
                    return full("waiting calls in the channel", many, "calls.queue_max");
                }
            }
        }
        let mut known = self.state.call_count();
        let mut done = self.state.done_with_count();
        let mut bytes = self.state.bytes().saturating_add(new.params.len() as u64);
        let mut oldest = self.state.done_with().take(FORGOTTEN_FOR_ONE);
        while known >= calls_max || bytes > bytes_max || done > kept_max {
            let Some(call) = oldest.next().and_then(|id| self.state.call(id)) else { break };
            self.change(Change::Forgotten(call.id));
            bytes = bytes.saturating_sub(call.bytes());
            known -= 1;
            done -= 1;
        }
        if known >= calls_max {
            return full("calls", known, "calls.calls_max");
        }
        if bytes > bytes_max {
            return full("bytes of calls", self.state.bytes(), "calls.bytes_max");
        }
        Ok(())
    }

    /// Room for an answer, which is promised and therefore taken whatever there is: what nobody needs
    /// any more goes. What is left above the limit keeps new calls out.
    pub(super) fn make_room_for(&mut self, answer: &[u8]) {
        let mut bytes = self.state.bytes().saturating_add(answer.len() as u64);
        let mut oldest = self.state.done_with().take(FORGOTTEN_FOR_ONE);
        while bytes > self.rules.bytes_max {
            let Some(call) = oldest.next().and_then(|id| self.state.call(id)) else { break };
            self.change(Change::Forgotten(call.id));
            bytes = bytes.saturating_sub(call.bytes());
        }
    }

    fn call_of(&self, new: &NewCall, digest: u64, settings: &ChannelSettings) -> Call {
        let (at, what) = (self.now.wall, Happened::Registered);
        let queue_timeout = new.queue_timeout.or(settings.queue_timeout);
        Call {
            id: new.id,
            seq: self.state.next_seq(),
            caller: new.caller,
            channel: new.channel.clone(),
            params: new.params.clone(),
            digest,
            key: new.key.clone(),
            trace: new.trace.clone(),
            again_for: None,
            durable: settings.durability == Durability::Disk,
            created: self.now.wall,
            deadline: self.now.steady + new.timeout.unwrap_or(self.rules.call_time_max),
            begin_by: queue_timeout.map(|timeout| self.now.steady + timeout),
            fence: 0,
            attempt: 0,
            taken: None,
            stage: Stage::Waiting,
            history: vec![Event { at, what, who: new.caller }],
        }
    }

    /// A call is there. It is offered in the same step if nobody waits before it.
    pub(super) fn register(
        &mut self,
        call: Call,
        only_with_consumer: bool,
        settings: &ChannelSettings,
    ) {
        let lane = self.state.lane(&call.channel);
        let served = lane.is_some_and(crate::state::Lane::is_served);
        let parks = settings.without_consumer == WithoutConsumer::Park && !only_with_consumer;
        if let Some(to) = call.caller {
            self.tell(Notice::Registered { to, call: call.id });
        }
        if !served && !parks {
            let outcome = Outcome::Failed(Failure::NoConsumer);
            let ended = Ended {
                outcome: outcome.clone(),
                at: self.now.wall,
                forget: self.now.steady + self.rules.kept,
                acked: false,
                dead: false,
            };
            // There was nothing to lose.
            let (durable, key, params) = (false, None, bytes::Bytes::new());
            let (to, id) = (call.caller, call.id);
            let stage = Stage::Ended(ended);
            self.change(Change::Registered(Box::new(Call { stage, durable, key, params, ..call })));
            self.tell(Notice::Ended { to, call: id, outcome, executor: None });
            return;
        }
        let chosen = lane.filter(|lane| lane.waiting.is_empty()).and_then(|lane| {
            let chance = self.draw();
            super::dispatch::choose(lane, |client| lane.room(client), chance)
        });
        let Some(executor) = chosen else {
            self.change(Change::Registered(Box::new(call)));
            return;
        };
        // The call comes before its offer, and is moved there once that is made of it.
        let at = self.weight();
        self.offer(&call, executor);
        self.change_at(at, Change::Registered(Box::new(call)));
    }

    /// Somebody asks for a call again: what was said about it is said again.
    fn tell_again(&mut self, known: &Call) {
        let Some(to) = known.caller else { return };
        self.tell(Notice::Registered { to, call: known.id });
        if let Some(ended) = known.ended() {
            let executor = known.ended_by();
            let outcome = ended.outcome.clone();
            self.tell(Notice::Ended { to: Some(to), call: known.id, outcome, executor });
        }
    }

    /// The key of a call is known: it ends as the first one does, or did.
    fn follow(&mut self, new: &NewCall, first: &Call) -> Result<Reply, Refusal> {
        // Whoever comes and asks can ask for the first.
        let Some(to) = new.caller else {
            return Ok(Reply::Registered { call: first.id, again: true });
        };
        let many = self.state.followers(first.id).count() as u64;
        if many >= FOLLOWERS_MAX as u64 {
            let what = "calls that wait for one key";
            return Err(Refusal::Full { what, many, limit: "the protocol" });
        }
        self.has_room(new)?;
        let settings = self.settings(&new.channel);
        let mut call = self.call_of(new, first.digest, &settings);
        call.key = None;
        call.params = bytes::Bytes::new();
        call.durable = first.durable;
        call.taken = first.ended_by().map(|by| (by, 0));
        call.stage = match first.ended() {
            None => Stage::Following(first.id),
            Some(ended) => {
                let forget = self.now.steady + self.rules.kept;
                Stage::Ended(Ended { forget, acked: false, dead: false, ..ended.clone() })
            }
        };
        self.tell(Notice::Registered { to, call: new.id });
        if let Some(ended) = first.ended() {
            let executor = first.ended_by();
            let outcome = ended.outcome.clone();
            self.tell(Notice::Ended { to: Some(to), call: new.id, outcome, executor });
        }
        self.change(Change::Registered(Box::new(call)));
        Ok(Reply::Registered { call: new.id, again: false })
    }
}
