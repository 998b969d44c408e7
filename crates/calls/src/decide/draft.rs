//! A decision being made.

use std::collections::BTreeSet;

use handoff_types::{Decision, Entropy, Now, Span};

use crate::client::Standing;
use crate::fences::Fences;
use crate::{
    Call, CallId, Change, ChannelName, ChannelSettings, Client, ClientId, Notice, Offer, Refusal,
    Reply, Rules, State,
};

/// A decision being made.
#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub(super) state: &'a State,
    pub(super) rules: &'a Rules,
    pub(super) now: Now,
    entropy: Entropy,
    drawn: u64,
    fences: Fences,
    /// Calls whose fate is decided already.
    settled: BTreeSet<CallId>,
    changes: Vec<Change>,
    notices: Vec<Notice>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(state: &'a State, rules: &'a Rules, now: Now, entropy: Entropy) -> Self {
        let (changes, notices) = (Vec::new(), Vec::new());
        let (settled, fences) = (BTreeSet::new(), state.fences);
        Self { state, rules, now, entropy, drawn: 0, fences, settled, changes, notices }
    }

    pub(super) fn into_decision(self, reply: Reply) -> Decision<Reply, Change, Notice> {
        Decision { reply, changes: self.changes, actions: self.notices }
    }

    pub(super) fn change(&mut self, change: Change) {
        self.changes.push(change);
    }

    /// Something becomes true before what was decided from there on.
    pub(super) fn change_at(&mut self, at: usize, change: Change) {
        self.changes.insert(at, change);
    }

    pub(super) fn tell(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// How much was decided so far.
    pub(super) fn weight(&self) -> usize {
        self.changes.len()
    }

    /// A word of chance that nothing else in the decision has.
    pub(super) fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.entropy.word(self.drawn)
    }

    /// A fencing token that nobody ever had.
    pub(super) fn fence(&mut self) -> u64 {
        let (fence, change) = self.fences.next();
        if let Some(Change::Fences { above, until }) = change {
            self.fences.allow(above, until);
            self.change(Change::Fences { above, until });
        }
        fence
    }

    pub(super) fn settings(&self, channel: &ChannelName) -> ChannelSettings {
        self.state.settings(channel).copied().unwrap_or(self.rules.channel)
    }

    pub(super) fn client(&self, id: ClientId) -> Result<&'a Client, Refusal> {
        self.state.client(id).ok_or(Refusal::NoClient(id))
    }

    /// Whether nothing was decided about a call yet. From now on something is: in one decision a call
    /// ends or is handed back once.
    pub(super) fn settle(&mut self, call: CallId) -> bool {
        self.settled.insert(call)
    }

    /// Something is heard of a client. That it was a moment ago need not be said again.
    pub(super) fn hear(&mut self, id: ClientId) {
        let Some(client) = self.state.client(id) else { return };
        let timeout = self.rules.client_timeout;
        let fresh = Span(timeout.0 / 4 * 3) <= client.until.since(self.now.steady);
        if !fresh || client.standing == Standing::Silent {
            let until = self.now.steady + timeout;
            self.change(Change::Heard { client: id, until });
        }
    }

    /// A consumer is told of a call, or told again.
    pub(super) fn tell_of(&mut self, call: &Call, to: ClientId, offered: (u64, u16)) {
        let offer = self.offer_of(call, to, offered);
        self.tell(Notice::Offer(Box::new(offer)));
    }

    /// A consumer is told of a call that is its already.
    pub(super) fn tell_held_of(&mut self, call: &Call, to: ClientId, offered: (u64, u16)) {
        let offer = Offer { held: true, ..self.offer_of(call, to, offered) };
        self.tell(Notice::Offer(Box::new(offer)));
    }

    fn offer_of(&self, call: &Call, to: ClientId, (fence, attempt): (u64, u16)) -> Offer {
        Offer {
            to,
            call: call.id,
            channel: call.channel.clone(),
            caller: call.caller,
            params: call.params.clone(),
            fence,
            attempt,
            deadline: call.deadline,
            lease: self.settings(&call.channel).lease,
            trace: call.trace.clone(),
            held: false,
        }
    }
}
