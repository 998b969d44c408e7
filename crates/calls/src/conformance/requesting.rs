//! Calls come, and come again.

use bytes::Bytes;

use super::kit::{
    CALLER, OTHER_CALLER, OTHER_WORKER, Play, WORKER, answer, channel, id, millis, new, secs,
};
use super::{Bench, Fresh};
use crate::transport::Whereabouts;
use crate::{
    Ask, ChannelSettings, Failure, NewCall, Notice, Outcome, Refusal, Reply, Rules, TimedOut,
    WithoutConsumer,
};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    a_call_is_registered_and_offered_with_all_it_carries(fresh).await;
    a_call_that_is_sent_again_is_registered_again_and_runs_once(fresh).await;
    a_call_that_is_sent_again_after_its_end_is_told_its_end_again(fresh).await;
    an_id_stands_for_one_call(fresh).await;
    a_key_stands_for_one_call_and_late_callers_get_its_end(fresh).await;
    a_key_with_another_content_is_refused(fresh).await;
    whoever_comes_and_asks_is_given_the_call_that_had_the_key(fresh).await;
    a_key_is_free_when_its_time_is_over(fresh).await;
    a_channel_without_a_consumer_is_in_nobodys_way(fresh).await;
    a_parked_call_is_offered_when_somebody_comes(fresh).await;
    whoever_does_not_want_to_wait_is_told_at_once_that_nobody_is_there(fresh).await;
    a_call_that_nobody_begins_in_time_ends_in_a_timeout(fresh).await;
    the_time_in_the_queue_does_not_count_what_was_begun(fresh).await;
    the_time_of_the_whole_call_ends_it_wherever_it_is(fresh).await;
    times_beyond_the_longest_are_refused(fresh).await;
}

async fn a_call_is_registered_and_offered_with_all_it_carries<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.heard(WORKER).await;
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = NewCall { trace: trace.parse().ok(), ..new(1) };
    play.request(call).await;
    assert_eq!(play.heard(CALLER).await, [Notice::Registered { to: CALLER, call: id(1) }]);
    let offer = play.offer(WORKER).await;
    assert_eq!((offer.to, offer.call, offer.caller), (WORKER, id(1), Some(CALLER)));
    assert_eq!((offer.channel, offer.params), (channel("work"), Bytes::from("{\"n\":1}")));
    assert_eq!((offer.fence, offer.attempt, offer.lease), (1, 1, super::kit::LEASE));
    assert_eq!(offer.trace.map(|trace| trace.to_string()).as_deref(), Some(trace));
    assert_eq!(play.whereabouts(1).await, Whereabouts::Offered);
}

async fn a_call_that_is_sent_again_is_registered_again_and_runs_once<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 5).await;
    play.call(1).await;
    play.begun(1).await;
    play.heard(CALLER).await;
    for _ in 0..3 {
        let reply = play.request(new(1)).await;
        assert_eq!(reply, Reply::Registered { call: id(1), again: true });
    }
    let registered = Notice::Registered { to: CALLER, call: id(1) };
    assert_eq!(play.heard(CALLER).await, vec![registered; 3]);
    assert_eq!(play.offers(WORKER).await, [], "nobody is told of it again");
}

async fn a_call_that_is_sent_again_after_its_end_is_told_its_end_again<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("42")).await;
    let end = play.end(1).await;
    play.request(new(1)).await;
    assert_eq!(play.end(1).await, end);
    play.ack(1).await;
    play.request(new(1)).await;
    assert_eq!(play.end(1).await, end, "also when it was acknowledged");
}

async fn an_id_stands_for_one_call<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.call(1).await;
    for other in [
        NewCall { params: Bytes::from("{}"), ..new(1) },
        NewCall { channel: channel("other"), ..new(1) },
        NewCall { caller: Some(OTHER_CALLER), ..new(1) },
        NewCall { caller: None, ..new(1) },
    ] {
        let refusal = play.refusal(Ask::Request(Box::new(other))).await;
        assert_eq!(refusal, Refusal::IdReused(id(1)));
    }
}

fn keyed(n: u128, caller: Option<crate::ClientId>) -> NewCall {
    NewCall { key: "order-7".parse().ok(), params: Bytes::from("7"), caller, ..new(n) }
}

async fn a_key_stands_for_one_call_and_late_callers_get_its_end<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 5).await;
    play.request(keyed(1, Some(CALLER))).await;
    let reply = play.request(keyed(2, Some(OTHER_CALLER))).await;
    assert_eq!(reply, Reply::Registered { call: id(2), again: false });
    let registered = Notice::Registered { to: OTHER_CALLER, call: id(2) };
    assert_eq!(play.heard(OTHER_CALLER).await, [registered]);
    assert_eq!(play.whereabouts(2).await, Whereabouts::Following);
    play.begun(1).await;
    assert_eq!(play.offers(WORKER).await, [], "it runs once");
    play.respond(WORKER, 1, 1, answer("7")).await;
    let end = Outcome::Answer(Bytes::from("7"));
    assert_eq!(play.end(1).await, end);
    assert_eq!(play.ends(OTHER_CALLER).await, [(id(2), end.clone())]);
    play.request(keyed(3, Some(CALLER))).await;
    assert_eq!(play.end(3).await, end, "and later it is known at once");
}

async fn a_key_with_another_content_is_refused<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.request(keyed(1, Some(CALLER))).await;
    let other = NewCall { params: Bytes::from("8"), ..keyed(2, Some(CALLER)) };
    let refusal = play.refusal(Ask::Request(Box::new(other))).await;
    assert!(matches!(refusal, Refusal::KeyReused(_)), "{refusal:?}");
    assert_eq!(play.find(2).await, None);
    let elsewhere = NewCall { channel: channel("other"), ..keyed(3, Some(CALLER)) };
    let reply = play.request(elsewhere).await;
    assert_eq!(
        reply,
        Reply::Registered { call: id(3), again: false },
        "another channel's is its own"
    );
}

async fn whoever_comes_and_asks_is_given_the_call_that_had_the_key<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    assert_eq!(play.request(keyed(1, None)).await, Reply::Registered { call: id(1), again: false });
    assert_eq!(play.request(keyed(2, None)).await, Reply::Registered { call: id(1), again: true });
    assert_eq!(play.find(2).await, None);
}

async fn a_key_is_free_when_its_time_is_over<F: Fresh>(fresh: &F) {
    let rules = Rules { key_kept: secs(60), kept: secs(10), ..Rules::default() };
    let play = Play::with(fresh, rules).await;
    play.serves(WORKER, 1).await;
    play.request(keyed(1, Some(CALLER))).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("7")).await;
    play.pass(secs(59)).await;
    assert!(play.find(1).await.is_some());
    play.pass(secs(1)).await;
    assert_eq!(play.find(1).await, None);
    play.request(keyed(2, Some(CALLER))).await;
    assert_eq!(play.whereabouts(2).await, Whereabouts::Offered, "it runs again");
}

async fn a_channel_without_a_consumer_is_in_nobodys_way<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    for n in 1..=50 {
        let lonely = NewCall { channel: channel("lonely"), ..new(n) };
        play.request(lonely).await;
    }
    play.serves(WORKER, 1).await;
    play.call(51).await;
    play.begun(51).await;
    play.respond(WORKER, 51, 1, answer("51")).await;
    assert_eq!(play.end(51).await, Outcome::Answer(Bytes::from("51")));
    assert_eq!(play.whereabouts(1).await, Whereabouts::Waiting);
}

async fn a_parked_call_is_offered_when_somebody_comes<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.call(1).await;
    play.call(2).await;
    play.pass_with(secs(60), &[CALLER]).await;
    play.serves(WORKER, 5).await;
    let calls: Vec<_> = play.offers(WORKER).await.iter().map(|offer| offer.call).collect();
    assert_eq!(calls, [id(1), id(2)]);
}

async fn whoever_does_not_want_to_wait_is_told_at_once_that_nobody_is_there<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let nobody = Outcome::Failed(Failure::NoConsumer);
    play.request(NewCall { only_with_consumer: true, ..new(1) }).await;
    assert_eq!(play.end(1).await, nobody, "the caller says so");
    let fails =
        ChannelSettings { without_consumer: WithoutConsumer::Fail, ..ChannelSettings::default() };
    play.settings(fails).await;
    play.call(2).await;
    assert_eq!(play.end(2).await, nobody, "the channel says so");
    play.serves(WORKER, 1).await;
    play.call(3).await;
    play.call(4).await;
    assert_eq!(play.whereabouts(4).await, Whereabouts::Waiting, "somebody is there, and busy");
    play.ask(Ask::Stop { client: WORKER }).await;
    play.heard(CALLER).await;
    play.call(5).await;
    assert_eq!(play.end(5).await, nobody, "whoever stops is not there for it");
}

async fn a_call_that_nobody_begins_in_time_ends_in_a_timeout<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let in_queue = Outcome::TimedOut(TimedOut::InQueue);
    play.request(NewCall { queue_timeout: Some(secs(3)), ..new(1) }).await;
    play.bench.pass(millis(2_999)).await;
    assert_eq!(play.whereabouts(1).await, Whereabouts::Waiting);
    play.bench.pass(millis(1)).await;
    assert_eq!(play.end(1).await, in_queue);
    let settings = ChannelSettings { queue_timeout: Some(secs(2)), ..ChannelSettings::default() };
    play.settings(settings).await;
    play.serves(WORKER, 1).await;
    play.call(2).await;
    play.bench.pass(secs(2)).await;
    assert_eq!(play.end(2).await, in_queue, "offered and not accepted is not begun");
    let told = play.heard(WORKER).await;
    let cancelled = Notice::Cancelled { to: WORKER, call: id(2), fence: 1 };
    assert_eq!(told.last(), Some(&cancelled), "its consumer is told");
    assert!(!play.accept(WORKER, 2, 1).await);
}

async fn the_time_in_the_queue_does_not_count_what_was_begun<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.request(NewCall { queue_timeout: Some(secs(3)), ..new(1) }).await;
    play.begun(1).await;
    play.pass(secs(20)).await;
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running);
}

async fn the_time_of_the_whole_call_ends_it_wherever_it_is<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let timed = |n| NewCall { timeout: Some(secs(3)), ..new(n) };
    let over = Outcome::TimedOut(TimedOut::Deadline);
    play.request(timed(1)).await;
    play.bench.pass(secs(3)).await;
    assert_eq!(play.end(1).await, over, "while it waits");
    play.serves(OTHER_WORKER, 1).await;
    play.serves(WORKER, 1).await;
    play.ask(Ask::Stop { client: OTHER_WORKER }).await;
    play.heard(WORKER).await;
    play.request(timed(2)).await;
    let offer = play.begun(2).await;
    play.heard(WORKER).await;
    play.bench.pass(secs(3)).await;
    assert_eq!(play.end(2).await, over, "while it runs");
    let cancelled = Notice::Cancelled { to: WORKER, call: id(2), fence: offer.fence };
    assert_eq!(play.heard(WORKER).await, [cancelled], "whoever runs it is told");
    let late = play.respond(WORKER, 2, offer.fence, answer("2")).await;
    assert_eq!(late, Reply::Taken(Err(crate::Late::Over)));
}

async fn times_beyond_the_longest_are_refused<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let long = Some(secs(86_401));
    for call in [NewCall { timeout: long, ..new(1) }, NewCall { queue_timeout: long, ..new(1) }] {
        let refusal = play.refusal(Ask::Request(Box::new(call))).await;
        assert!(matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
    }
    assert_eq!(play.find(1).await, None);
}
