//! A stage for clients: what they ask and what they hear, in few words.

use bytes::Bytes;
use handoff_types::Span;

use super::{Bench, Fresh};
use crate::transport::{Look, Whereabouts};
use crate::{
    Ask, CallId, ChannelName, ChannelSettings, ClientId, Failing, HandlerError, NewCall, Notice,
    Offer, Outcome, Refusal, Reply, Rules, Serves,
};

/// Clients of the suite.
pub(super) const CALLER: ClientId = ClientId::of_chance(0xca11);
pub(super) const OTHER_CALLER: ClientId = ClientId::of_chance(0xca12);
pub(super) const WORKER: ClientId = ClientId::of_chance(0x3041);
pub(super) const OTHER_WORKER: ClientId = ClientId::of_chance(0x3042);

pub(super) fn id(n: u128) -> CallId {
    CallId::of_chance(n)
}

pub(super) fn channel(text: &str) -> ChannelName {
    text.parse().expect("a channel")
}

pub(super) const LEASE: Span = Span::from_secs(30);

pub(super) fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

pub(super) fn millis(millis: u64) -> Span {
    Span::from_millis(millis)
}

/// A call of the channel `work`, made by [`CALLER`].
pub(super) fn new(n: u128) -> NewCall {
    NewCall {
        id: id(n),
        caller: Some(CALLER),
        channel: channel("work"),
        params: Bytes::from(format!("{{\"n\":{n}}}")),
        key: None,
        timeout: None,
        queue_timeout: None,
        only_with_consumer: false,
        trace: None,
    }
}

pub(super) fn answer(text: &'static str) -> Result<Bytes, Failing> {
    Ok(Bytes::from_static(text.as_bytes()))
}

pub(super) fn failing() -> Failing {
    let error =
        HandlerError { name: "Stock".into(), message: "none left".into(), code: "E1".into() };
    Failing { error, terminal: false, retry_after: None }
}

/// A transport and what is done on it.
pub(super) struct Play<B> {
    pub(super) bench: B,
}

impl<B: Bench> Play<B> {
    pub(super) async fn new<F: Fresh<Bench = B>>(fresh: &F) -> Self {
        Self::with(fresh, Rules::default()).await
    }

    /// With [`CALLER`] and [`OTHER_CALLER`] there.
    pub(super) async fn with<F: Fresh<Bench = B>>(fresh: &F, rules: Rules) -> Self {
        let play = Self { bench: fresh.fresh(rules).await };
        play.here(CALLER).await;
        play.here(OTHER_CALLER).await;
        play
    }

    pub(super) async fn ask(&self, ask: Ask) -> Reply {
        self.bench.ask(ask).await.expect("the transport works")
    }

    pub(super) async fn refusal(&self, ask: Ask) -> Refusal {
        match self.ask(ask).await {
            Reply::Refused(refusal) => refusal,
            other => panic!("it was not refused: {other:?}"),
        }
    }

    pub(super) async fn heard(&self, client: ClientId) -> Vec<Notice> {
        self.bench.heard(client).await.expect("the transport works")
    }

    pub(super) async fn look(&self, n: u128) -> Look {
        self.find(n).await.expect("the call is known")
    }

    pub(super) async fn find(&self, n: u128) -> Option<Look> {
        self.bench.look(id(n)).await.expect("the transport works")
    }

    pub(super) async fn whereabouts(&self, n: u128) -> Whereabouts {
        self.look(n).await.whereabouts
    }

    /// Time passes in which only these clients are heard of.
    pub(super) async fn pass_with(&self, time: Span, alive: &[ClientId]) {
        let step = secs(4);
        let mut left = time;
        while left > Span::ZERO {
            let now = left.min(step);
            self.bench.pass(now).await;
            left = Span(left.0 - now.0);
            for client in alive {
                self.ask(Ask::Ping { client: *client }).await;
            }
        }
    }

    /// Time passes in which the callers and workers that are there are heard of.
    pub(super) async fn pass(&self, time: Span) {
        self.pass_with(time, &[CALLER, OTHER_CALLER, WORKER, OTHER_WORKER]).await;
    }

    /// A client that serves nothing.
    pub(super) async fn here(&self, client: ClientId) {
        let init = Ask::Init { client, name: "".into(), serves: Vec::new(), eager: false };
        assert_eq!(self.ask(init).await, Reply::Done);
        self.heard(client).await;
    }

    /// A client that serves `work`. What it hears stays to be heard.
    pub(super) async fn serves(&self, client: ClientId, concurrency: u32) {
        let serves = vec![Serves { channel: channel("work"), concurrency }];
        let init = Ask::Init { client, name: "worker".into(), serves, eager: false };
        assert_eq!(self.ask(init).await, Reply::Done);
    }

    pub(super) async fn settings(&self, settings: ChannelSettings) {
        let set = Ask::SetChannel { channel: channel("work"), settings };
        assert_eq!(self.ask(set).await, Reply::Done);
    }

    pub(super) async fn request(&self, new: NewCall) -> Reply {
        self.ask(Ask::Request(Box::new(new))).await
    }

    /// A call of `work`, made by [`CALLER`], that nobody has made before.
    pub(super) async fn call(&self, n: u128) {
        assert_eq!(self.request(new(n)).await, Reply::Registered { call: id(n), again: false });
    }

    /// The one offer among what a client heard.
    pub(super) async fn offer(&self, client: ClientId) -> Offer {
        let mut offers = self.offers(client).await;
        assert_eq!(offers.len(), 1, "one offer for {client}: {offers:?}");
        offers.remove(0)
    }

    pub(super) async fn offers(&self, client: ClientId) -> Vec<Offer> {
        let heard = self.heard(client).await.into_iter();
        heard
            .filter_map(|notice| match notice {
                Notice::Offer(offer) => Some(*offer),
                _ => None,
            })
            .collect()
    }

    pub(super) async fn accept(&self, client: ClientId, n: u128, fence: u64) -> bool {
        match self.ask(Ask::Accept { client, call: id(n), fence }).await {
            Reply::Held(held) => held,
            other => panic!("an accept was answered {other:?}"),
        }
    }

    /// [`WORKER`] runs the call.
    pub(super) async fn begun(&self, n: u128) -> Offer {
        let offer = self.offer(WORKER).await;
        assert_eq!(offer.call, id(n));
        assert!(self.accept(WORKER, n, offer.fence).await);
        offer
    }

    pub(super) async fn respond(
        &self,
        client: ClientId,
        n: u128,
        fence: u64,
        result: Result<Bytes, Failing>,
    ) -> Reply {
        self.ask(Ask::Respond { client, call: id(n), fence, result }).await
    }

    pub(super) async fn ack(&self, n: u128) -> Reply {
        self.ask(Ask::Acknowledge { client: CALLER, call: id(n) }).await
    }

    /// The ends among what a client heard.
    pub(super) async fn ends(&self, client: ClientId) -> Vec<(CallId, Outcome)> {
        let heard = self.heard(client).await.into_iter();
        heard
            .filter_map(|notice| match notice {
                Notice::Ended { call, outcome, .. } => Some((call, outcome)),
                _ => None,
            })
            .collect()
    }

    /// The one end that [`CALLER`] heard of.
    pub(super) async fn end(&self, n: u128) -> Outcome {
        let mut ends = self.ends(CALLER).await;
        assert_eq!(ends.len(), 1, "one end: {ends:?}");
        let (call, outcome) = ends.remove(0);
        assert_eq!(call, id(n));
        outcome
    }
}
