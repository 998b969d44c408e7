//! Consumers at work.

use bytes::Bytes;
use handoff_types::{Span, Steady};

use super::draft::Draft;
use super::ending::Ending;
use crate::{
    Call, CallId, Change, ChannelSettings, ClientId, Failing, Failure, Happened, Late, Notice,
    OnLost, Outcome, Refusal, Reply, Stage,
};

impl Draft<'_> {
    pub(super) fn accept(&mut self, client: ClientId, id: CallId, fence: u64) -> Reply {
        self.hear(client);
        let call = self.state.call(id).filter(|call| call.is_held_by(client, fence));
        if let Some(call) = call {
            let until = self.now.steady + self.settings(&call.channel).lease;
            if let Stage::Offered { .. } = call.stage {
                let attempt = call.attempt.saturating_add(1);
                let at = self.now.wall;
                self.change(Change::Accepted { call: id, attempt, until, at });
            } else {
                // Its answer was lost. Whoever hears this one counts a whole lease from now on.
                self.change(Change::Extended { call: id, until });
            }
        }
        self.tell_held(client, id, fence, call.is_some())
    }

    pub(super) fn heartbeat(&mut self, client: ClientId, id: CallId, fence: u64) -> Reply {
        let call = self.state.call(id).filter(|call| call.is_held_by(client, fence));
        match call.map(|call| (&call.stage, &call.channel)) {
            // It works on what it never accepted, or what nobody remembers that it did.
            Some((Stage::Offered { .. }, _)) => return self.accept(client, id, fence),
            Some((Stage::Running { .. }, channel)) => {
                let until = self.now.steady + self.settings(channel).lease;
                self.change(Change::Extended { call: id, until });
            }
            _ => {}
        }
        self.hear(client);
        self.tell_held(client, id, fence, call.is_some())
    }

    fn tell_held(&mut self, to: ClientId, call: CallId, fence: u64, held: bool) -> Reply {
        self.tell(Notice::Held { to, call, fence, held });
        Reply::Held(held)
    }

    pub(super) fn respond(
        &mut self,
        client: ClientId,
        id: CallId,
        fence: u64,
        result: &Result<Bytes, Failing>,
    ) -> Result<Reply, Refusal> {
        if let Ok(body) = result {
            let (bytes, max) = (body.len() as u64, self.rules.body_bytes_max);
            if bytes > max {
                return Err(Refusal::TooLarge { what: "an answer", bytes, max });
            }
        }
        self.hear(client);
        let taken = self.take(client, id, fence, result);
        let told = Notice::Taken { to: client, call: id, fence, taken: taken.is_ok() };
        self.tell(told);
        Ok(Reply::Taken(taken))
    }

    fn take(
        &mut self,
        client: ClientId,
        id: CallId,
        fence: u64,
        result: &Result<Bytes, Failing>,
    ) -> Result<(), Late> {
        let call = self.state.call(id).ok_or(Late::Unknown)?;
        if call.is_held_by(client, fence) {
            match result {
                Ok(body) => {
                    self.make_room_for(body);
                    let outcome = Outcome::Answer(body.clone());
                    self.end(call, outcome, Ending { by: Some(client), dead: false });
                }
                Err(failing) => self.fail(call, client, failing),
            }
            self.offer_next(&call.channel, client);
            return Ok(());
        }
        // It was sent again because nobody said that it came.
        if call.taken == Some((client, fence)) {
            return Ok(());
        }
        Err(if call.ended().is_some() { Late::Over } else { Late::Fenced })
    }

    /// A handler failed: again later, or for good.
    fn fail(&mut self, call: &Call, client: ClientId, failing: &Failing) {
        let settings = self.settings(&call.channel);
        // Whoever answers what it did not accept has begun it all the same.
        let offered = matches!(call.stage, Stage::Offered { .. });
        let attempt = call.attempt.saturating_add(u16::from(offered));
        let wait = self.wait(&settings, attempt, failing.retry_after);
        let after = self.now.steady + wait;
        let spent = attempt >= settings.attempts_max || after >= call.deadline;
        if failing.terminal || spent {
            let outcome = Outcome::Failed(Failure::Handler(failing.error.fit()));
            let dead = !failing.terminal;
            self.end(call, outcome, Ending { by: Some(client), dead });
            return;
        }
        let (after, why, at) = (Some(after), Happened::Failed, self.now.wall);
        self.change(Change::Returned { call: call.id, after, attempt, why, at });
    }

    /// How long a call that was begun so often waits: twice as long each time, a random half of it
    /// left out; or as long as its handler said.
    fn wait(&mut self, settings: &ChannelSettings, attempt: u16, said: Option<Span>) -> Span {
        if let Some(said) = said {
            return said.min(ChannelSettings::TIME_MAX);
        }
        let doublings = u32::from(attempt.saturating_sub(1));
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let whole = settings.backoff_min.0.saturating_mul(factor).min(settings.backoff_max.0);
        let half = whole / 2;
        Span(half + self.draw().checked_rem(whole - half + 1).unwrap_or(0))
    }

    /// Nothing was heard of a call for too long.
    pub(super) fn lose(&mut self, call: &Call, executor: ClientId) {
        let settings = self.settings(&call.channel);
        let again = settings.on_lost == OnLost::Redeliver && call.attempt < settings.attempts_max;
        self.tell(Notice::Cancelled { to: executor, call: call.id, fence: call.fence });
        // Nobody else asks an eager one whether it is there before it has a call.
        if self.state.client(executor).is_some_and(|client| client.eager) {
            self.is_silent(executor);
        }
        if again {
            self.give_back(call, Happened::Lost);
        } else {
            let outcome = Outcome::Failed(Failure::ExecutorLost);
            self.end(call, outcome, Ending { by: None, dead: true });
        }
    }

    /// When a call that waited long enough is there again.
    pub(super) fn is_due(&self, at: Steady) -> bool {
        at <= self.now.steady
    }
}
