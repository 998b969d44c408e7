//! Clients come, stay and go.

use super::kit::{CALLER, OTHER_WORKER, Play, WORKER, channel, id, millis, secs};
use super::{Bench, Fresh};
use crate::transport::Whereabouts;
use crate::{Ask, Client, Notice, Refusal, Reply, Serves};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    whoever_introduces_itself_hears_that_the_way_is_alive(fresh).await;
    whoever_is_not_known_is_told_so(fresh).await;
    a_client_that_cannot_be_is_refused(fresh).await;
    whoever_comes_back_is_told_again_what_it_has(fresh).await;
    a_consumer_that_does_not_accept_loses_the_call_to_another(fresh).await;
    a_consumer_that_did_not_accept_is_told_of_calls_when_it_is_heard_of(fresh).await;
    a_connection_that_is_gone_hands_back_what_was_not_accepted(fresh).await;
    whoever_stops_hands_back_what_it_has_not_accepted_and_keeps_what_it_runs(fresh).await;
    whoever_is_silent_is_forgotten_and_what_it_was_offered_goes_on(fresh).await;
    nobody_has_more_calls_at_once_than_it_takes(fresh).await;
    calls_go_to_whoever_has_fewer(fresh).await;
}

async fn whoever_introduces_itself_hears_that_the_way_is_alive<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    assert_eq!(play.heard(WORKER).await, [Notice::Pong { to: WORKER }]);
    assert_eq!(play.ask(Ask::Ping { client: WORKER }).await, Reply::Done);
    assert_eq!(play.heard(WORKER).await, [Notice::Pong { to: WORKER }]);
}

async fn whoever_is_not_known_is_told_so<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    for ask in [Ask::Ping { client: WORKER }, Ask::Stop { client: WORKER }] {
        assert_eq!(play.refusal(ask).await, Refusal::NoClient(WORKER));
    }
    let mut new = super::kit::new(1);
    new.caller = Some(WORKER);
    let refusal = play.refusal(Ask::Request(Box::new(new))).await;
    assert_eq!((refusal, play.find(1).await), (Refusal::NoClient(WORKER), None));
    assert_eq!(play.ask(Ask::Away { client: WORKER }).await, Reply::Done, "there is nothing to do");
    assert_eq!(play.heard(WORKER).await, []);
}

async fn a_client_that_cannot_be_is_refused<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let one = |concurrency| Serves { channel: channel("work"), concurrency };
    let many = |count: usize| {
        (0..count).map(|n| Serves { channel: channel(&format!("c{n}")), concurrency: 1 }).collect()
    };
    let long: Box<str> = "n".repeat(Client::NAME_BYTES_MAX + 1).into();
    for (name, serves) in [
        ("".into(), vec![one(0)]),
        ("".into(), vec![one(Client::CONCURRENCY_MAX + 1)]),
        ("".into(), vec![one(1), one(2)]),
        ("".into(), many(Client::SERVES_MAX + 1)),
        (long, vec![]),
    ] {
        let refusal = play.refusal(Ask::Init { client: WORKER, name, serves, eager: false }).await;
        assert!(matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
    }
    assert_eq!(play.refusal(Ask::Ping { client: WORKER }).await, Refusal::NoClient(WORKER));
}

async fn whoever_comes_back_is_told_again_what_it_has<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 2).await;
    play.call(1).await;
    play.begun(1).await;
    play.call(2).await;
    let offered = play.offer(WORKER).await;
    play.serves(WORKER, 2).await;
    let mut again = play.offers(WORKER).await;
    again.sort_by_key(|offer| offer.call != id(1));
    let told: Vec<_> = again.iter().map(|one| (one.call, one.fence, one.attempt)).collect();
    assert_eq!(told, [(id(1), 1, 1), (id(2), offered.fence, 1)], "under the same fences");
    assert!(play.accept(WORKER, 1, 1).await, "it runs it already");
}

async fn a_consumer_that_does_not_accept_loses_the_call_to_another<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    let first = play.offer(WORKER).await;
    play.serves(OTHER_WORKER, 1).await;
    play.heard(OTHER_WORKER).await;
    play.pass_with(millis(4_999), &[OTHER_WORKER]).await;
    assert_eq!(play.offers(OTHER_WORKER).await, [], "it has five seconds");
    play.bench.pass(millis(1)).await;
    let second = play.offer(OTHER_WORKER).await;
    assert_eq!((second.call, second.fence, second.attempt), (id(1), first.fence + 1, 1));
    assert!(!play.accept(WORKER, 1, first.fence).await, "it is too late");
    assert!(!play.accept(WORKER, 1, second.fence).await, "it was not offered to this one");
    assert!(play.accept(OTHER_WORKER, 1, second.fence).await);
}

async fn a_consumer_that_did_not_accept_is_told_of_calls_when_it_is_heard_of<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    assert_eq!(play.offer(WORKER).await.fence, 1);
    play.bench.pass(secs(5)).await;
    assert_eq!(play.offers(WORKER).await, [], "it is told of nothing");
    assert_eq!(play.whereabouts(1).await, Whereabouts::Waiting);
    play.ask(Ask::Ping { client: WORKER }).await;
    assert_eq!(play.offer(WORKER).await.fence, 2);
}

async fn a_connection_that_is_gone_hands_back_what_was_not_accepted<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 2).await;
    play.call(1).await;
    play.begun(1).await;
    play.call(2).await;
    assert_eq!(play.ask(Ask::Away { client: WORKER }).await, Reply::Done);
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running, "perhaps it comes back");
    assert_eq!(play.whereabouts(2).await, Whereabouts::Waiting);
    play.heard(WORKER).await;
    play.call(3).await;
    assert_eq!(play.heard(WORKER).await, [], "it is told of nothing");
    play.serves(OTHER_WORKER, 2).await;
    let offered: Vec<_> = play.offers(OTHER_WORKER).await.iter().map(|one| one.call).collect();
    assert_eq!(offered, [id(2), id(3)], "in their order");
}

async fn whoever_stops_hands_back_what_it_has_not_accepted_and_keeps_what_it_runs<F: Fresh>(
    fresh: &F,
) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 2).await;
    play.call(1).await;
    play.begun(1).await;
    play.call(2).await;
    play.heard(WORKER).await;
    assert_eq!(play.ask(Ask::Stop { client: WORKER }).await, Reply::Done);
    assert_eq!(play.heard(WORKER).await, [Notice::Stopped { to: WORKER }]);
    assert_eq!(play.whereabouts(2).await, Whereabouts::Waiting, "at once");
    assert!(!play.accept(WORKER, 2, 2).await);
    let reply = play.respond(WORKER, 1, 1, super::kit::answer("1")).await;
    assert_eq!(reply, Reply::Taken(Ok(())), "what it runs it may answer");
    assert_eq!(play.offers(WORKER).await, [], "and is told of nothing more");
    assert_eq!(play.ask(Ask::Stop { client: WORKER }).await, Reply::Done, "said twice");
}

async fn whoever_is_silent_is_forgotten_and_what_it_was_offered_goes_on<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.bench.pass(secs(8)).await;
    play.ask(Ask::Ping { client: CALLER }).await;
    play.call(1).await;
    play.bench.pass(secs(2)).await;
    assert_eq!(play.refusal(Ask::Ping { client: WORKER }).await, Refusal::NoClient(WORKER));
    assert_eq!(play.whereabouts(1).await, Whereabouts::Waiting);
    assert!(!play.accept(WORKER, 1, 1).await);
}

async fn nobody_has_more_calls_at_once_than_it_takes<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 2).await;
    for n in 1..=4 {
        play.call(n).await;
    }
    let offered = play.offers(WORKER).await;
    let calls: Vec<_> = offered.iter().map(|offer| offer.call).collect();
    assert_eq!(calls, [id(1), id(2)], "in their order");
    for offer in &offered {
        let Offered(n) = Offered::of(offer.call);
        assert!(play.accept(WORKER, n, offer.fence).await);
    }
    assert_eq!(play.offers(WORKER).await, []);
    play.respond(WORKER, 2, 2, super::kit::answer("2")).await;
    assert_eq!(play.offer(WORKER).await.call, id(3), "the next one");
}

/// Which of the suite's calls it is.
struct Offered(u128);

impl Offered {
    fn of(call: crate::CallId) -> Self {
        Self((1..100).find(|n| id(*n) == call).expect("a call of the suite"))
    }
}

async fn calls_go_to_whoever_has_fewer<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 100).await;
    play.serves(OTHER_WORKER, 100).await;
    for n in 1..=80 {
        play.call(n).await;
    }
    let (one, two) = (play.offers(WORKER).await.len(), play.offers(OTHER_WORKER).await.len());
    assert_eq!(one + two, 80);
    // Of two drawn at random from two, half the time both are the same one; the difference stays
    // small all the same.
    assert!(one.abs_diff(two) <= 20, "{one} and {two}");
}
