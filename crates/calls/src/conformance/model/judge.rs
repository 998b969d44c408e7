//! Whoever judges a schedule. It knows what was asked, what was answered and what was heard; of the
//! machine it knows nothing.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_types::Span;

use super::settings;
use crate::{
    Ask, CallId, ChannelName, ChannelSettings, ClientId, Failing, Failure, NewCall, Notice, OnLost,
    Outcome, Reply, TimedOut,
};

#[derive(Debug, Default)]
pub(super) struct Judge {
    now: u64,
    /// The time before it passed last: what is heard then happened at some time since.
    since: u64,
    calls: BTreeMap<CallId, Known>,
    /// Everything that was ever offered, in the order it was heard.
    offered: Vec<(ClientId, CallId, u64)>,
    serves: BTreeMap<ClientId, BTreeMap<ChannelName, u32>>,
}

/// What is known of a call.
#[derive(Debug)]
struct Known {
    asked: NewCall,
    at: u64,
    registered: bool,
    cancelled: bool,
    end: Option<Outcome>,
    /// To whom each fence was offered, and as which attempt.
    fences: BTreeMap<u64, (ClientId, u16)>,
    /// Fences under which it was begun, and when its executor was heard of last.
    begun: BTreeMap<u64, u64>,
    /// Fences whose error was taken, to be tried again.
    failed: BTreeSet<u64>,
    /// The result that was taken for good.
    result: Option<(u64, Result<Bytes, Failing>)>,
}

impl Known {
    fn settings(&self) -> ChannelSettings {
        settings(self.asked.channel.as_str())
    }

    fn latest(&self) -> Option<(u64, ClientId)> {
        self.fences.last_key_value().map(|(fence, (client, _))| (*fence, *client))
    }

    /// Whether somebody runs it, as far as can be known: whoever was silent for a lease may have lost it, and
    /// it waits since then.
    fn runner(&self, now: u64) -> Option<ClientId> {
        let (fence, client) = self.latest()?;
        let heard = *self.begun.get(&fence)?;
        let runs = now - heard < self.settings().lease.0 && !self.failed.contains(&fence);
        (runs && self.end.is_none() && self.result.is_none()).then_some(client)
    }
}

impl Judge {
    pub(super) fn time_passes(&mut self, span: Span) {
        self.since = self.now;
        self.now += span.0;
    }

    pub(super) fn offered(&self) -> Vec<(ClientId, CallId, u64)> {
        self.offered.clone()
    }

    pub(super) fn is_open(&self, call: CallId) -> bool {
        self.calls.get(&call).is_some_and(|known| known.end.is_none())
    }

    pub(super) fn asks(&mut self, ask: &Ask) {
        self.since = self.now;
        match ask {
            Ask::Request(new) => {
                let at = self.now;
                self.calls.entry(new.id).or_insert_with(|| Known {
                    asked: (**new).clone(),
                    at,
                    registered: false,
                    cancelled: false,
                    end: None,
                    fences: BTreeMap::new(),
                    begun: BTreeMap::new(),
                    failed: BTreeSet::new(),
                    result: None,
                });
            }
            Ask::Cancel { call, .. } => {
                if let Some(known) = self.calls.get_mut(call) {
                    known.cancelled = true;
                }
            }
            _ => {}
        }
    }

    pub(super) fn answered(&mut self, ask: &Ask, reply: &Reply) {
        match (ask, reply) {
            (Ask::Init { client, serves, .. }, Reply::Done) => {
                let serves = serves.iter().map(|one| (one.channel.clone(), one.concurrency));
                self.serves.insert(*client, serves.collect());
            }
            (
                Ask::Accept { client, call, fence } | Ask::Heartbeat { client, call, fence },
                Reply::Held(true),
            ) => {
                self.begins(*client, *call, *fence, self.now);
            }
            (Ask::Respond { client, call, fence, result }, Reply::Taken(Ok(()))) => {
                self.takes(*client, *call, *fence, result);
            }
            _ => {}
        }
    }

    /// A consumer was told that it may run a call, `heard` or later.
    fn begins(&mut self, client: ClientId, call: CallId, fence: u64, heard: u64) {
        let now = self.now;
        let known = self.calls.get_mut(&call).expect("nothing runs that was not asked for");
        assert_eq!(
            known.latest(),
            Some((fence, client)),
            "only the latest offer counts: {known:?}"
        );
        assert!(known.end.is_none(), "it is over: {known:?}");
        if !known.begun.contains_key(&fence) {
            let before = known.begun.last_key_value().map(|(fence, heard)| (*fence, *heard));
            if let Some((before, heard)) = before {
                let silent = now - heard >= known.settings().lease.0;
                let again = known.settings().on_lost == OnLost::Redeliver;
                let failed = known.failed.contains(&before);
                assert!(failed || (silent && again), "it runs twice for no reason: {known:?}");
            }
        }
        known.begun.insert(fence, heard);
        let begun = u16::try_from(known.begun.len()).unwrap_or(u16::MAX);
        assert!(begun <= known.settings().attempts_max, "it runs too often: {known:?}");
    }

    /// Everything that was told is heard: nobody runs more than it takes.
    pub(super) fn heard_all(&self) {
        let mut running: BTreeMap<(ClientId, &ChannelName), usize> = BTreeMap::new();
        for known in self.calls.values() {
            if let Some(client) = known.runner(self.now) {
                *running.entry((client, &known.asked.channel)).or_default() += 1;
            }
        }
        for ((client, channel), running) in running {
            let takes = self.serves.get(&client).and_then(|serves| serves.get(channel)).copied();
            // Whoever came back with less room keeps what it has.
            let takes = takes.unwrap_or(0).max(3) as usize;
            assert!(
                running <= takes,
                "{client} runs {running} calls of {channel} and takes {takes}"
            );
        }
    }

    /// A consumer was told that its result counts.
    fn takes(
        &mut self,
        client: ClientId,
        call: CallId,
        fence: u64,
        result: &Result<Bytes, Failing>,
    ) {
        let known = self.calls.get_mut(&call).expect("nothing is answered that was not asked for");
        let offered = known.fences.get(&fence).map(|(client, _)| *client);
        assert_eq!(offered, Some(client), "it was offered to whoever answers: {known:?}");
        let again = known.failed.contains(&fence)
            || known.result.as_ref().is_some_and(|(taken, _)| *taken == fence);
        if again {
            return;
        }
        assert!(known.result.is_none(), "one result counts: {known:?}");
        assert_eq!(known.latest(), Some((fence, client)), "an old fence counts: {known:?}");
        let over_before = match &known.end {
            // It is heard in the same breath.
            Some(Outcome::Answer(body)) => result.as_ref() != Ok(body),
            Some(Outcome::Failed(Failure::Handler(_))) => result.is_ok(),
            Some(_) => true,
            None => false,
        };
        assert!(!over_before, "it was over: {known:?}");
        known.begun.entry(fence).or_insert(self.now);
        match result {
            Err(failing) if !failing.terminal => drop(known.failed.insert(fence)),
            _ => known.result = Some((fence, result.clone())),
        }
    }

    pub(super) fn hears(&mut self, client: ClientId, notice: &Notice) {
        assert_eq!(notice.to(), Some(client), "it is for somebody else");
        match notice {
            Notice::Offer(offer) => {
                let known = self.calls.get_mut(&offer.call).expect("it was asked for");
                assert_eq!(
                    (&offer.params, offer.caller),
                    (&known.asked.params, known.asked.caller)
                );
                match known.fences.get(&offer.fence) {
                    Some(before) => {
                        assert_eq!(*before, (client, offer.attempt), "told again, it is the same");
                    }
                    None => {
                        let latest = known.latest().map_or(0, |(fence, _)| fence);
                        assert!(offer.fence > latest, "fences grow: {known:?}");
                        assert!(offer.attempt <= known.settings().attempts_max, "{known:?}");
                        assert!(known.end.is_none(), "it is over: {known:?}");
                        known.fences.insert(offer.fence, (client, offer.attempt));
                        self.offered.push((client, offer.call, offer.fence));
                    }
                }
                if offer.held {
                    assert_eq!(known.settings().on_lost, OnLost::Redeliver, "{known:?}");
                    self.begins(client, offer.call, offer.fence, self.since);
                }
            }
            Notice::Registered { call, .. } => {
                self.calls.get_mut(call).expect("it was asked for").registered = true;
            }
            Notice::Ended { call, outcome, .. } => self.ends(*call, outcome),
            _ => {}
        }
    }

    fn ends(&mut self, call: CallId, outcome: &Outcome) {
        let now = self.now;
        let known = self.calls.get_mut(&call).expect("it was asked for");
        if let Some(before) = &known.end {
            assert_eq!(before, outcome, "a call ends once");
            return;
        }
        assert!(known.registered, "it was registered first: {known:?}");
        let since = now - known.at;
        match outcome {
            Outcome::TimedOut(TimedOut::Deadline) => {
                let timeout = known.asked.timeout.map_or(u64::MAX, |timeout| timeout.0);
                assert!(since >= timeout || known.asked.key.is_some(), "too early: {known:?}");
            }
            Outcome::TimedOut(TimedOut::InQueue) => {
                let timeout = known.asked.queue_timeout.map_or(u64::MAX, |timeout| timeout.0);
                assert!(since >= timeout || known.asked.key.is_some(), "too early: {known:?}");
                assert!(known.begun.is_empty() || known.asked.key.is_some(), "{known:?}");
            }
            Outcome::Cancelled => {
                assert!(known.cancelled || known.asked.key.is_some(), "nobody did: {known:?}");
            }
            Outcome::Failed(Failure::NoConsumer) => {
                assert!(known.asked.only_with_consumer && known.fences.is_empty(), "{known:?}");
            }
            Outcome::Failed(Failure::ExecutorLost) => {
                assert!(!known.begun.is_empty() || known.asked.key.is_some(), "{known:?}");
            }
            Outcome::Failed(Failure::Handler(_)) => {}
            Outcome::Answer(body) => {
                // It names whoever made it, and the fence.
                let named = |(fence, (client, _)): (&u64, &(ClientId, u16))| {
                    *body == format!("\"{client} {fence}\"")
                };
                let own =
                    known.latest().is_some_and(|(fence, client)| named((&fence, &(client, 0))));
                assert!(own || known.asked.key.is_some(), "whose answer is it? {known:?}");
            }
        }
        known.end = Some(outcome.clone());
    }

    /// Everything that was registered is over, and a result that counted is what its caller heard.
    pub(super) fn closes(&self) {
        for (call, known) in &self.calls {
            assert!(!known.registered || known.end.is_some(), "{call} never ended: {known:?}");
            if let Some((_, Ok(body))) = &known.result {
                assert_eq!(known.end, Some(Outcome::Answer(body.clone())), "{known:?}");
            }
        }
    }
}
