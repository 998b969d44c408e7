//! As much as may be, and no more.

use bytes::Bytes;

use super::Fresh;
use super::kit::{CALLER, OTHER_CALLER, Play, WORKER, answer, channel, id, new};
use crate::{Ask, ClientId, FOLLOWERS_MAX, NewCall, Refusal, Reply, Rules, Serves};

/// Limits of calls and channels.
pub(super) async fn of_calls<F: Fresh>(fresh: &F) {
    a_call_that_is_too_large_is_refused(fresh).await;
    a_channel_has_as_many_waiting_calls_as_may_wait(fresh).await;
    a_key_has_as_many_followers_as_may_be(fresh).await;
}

/// Limits of what a room keeps, for one that keeps it itself.
pub(super) async fn of_the_house<F: Fresh>(fresh: &F) {
    there_are_as_many_calls_as_may_be_and_what_is_over_makes_room(fresh).await;
    there_are_as_many_bytes_as_may_be(fresh).await;
    answers_count_and_what_nobody_needs_makes_room_for_them(fresh).await;
    there_are_as_many_channels_as_may_be(fresh).await;
    there_are_as_many_clients_as_may_be(fresh).await;
    what_nobody_needs_is_forgotten_when_there_is_too_much_of_it(fresh).await;
}

fn limit(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Full { limit, .. } => limit,
        other => panic!("it was refused for something else: {other:?}"),
    }
}

async fn a_call_that_is_too_large_is_refused<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { body_bytes_max: 10, ..Rules::default() }).await;
    let sized = |n, bytes| NewCall { params: Bytes::from(vec![b'1'; bytes]), ..new(n) };
    play.request(sized(1, 10)).await;
    let refusal = play.refusal(Ask::Request(Box::new(sized(2, 11)))).await;
    assert!(matches!(refusal, Refusal::TooLarge { bytes: 11, max: 10, .. }), "{refusal:?}");
    assert_eq!(play.find(2).await, None);
}

async fn a_channel_has_as_many_waiting_calls_as_may_wait<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { queue_max: 2, ..Rules::default() }).await;
    play.call(1).await;
    play.call(2).await;
    let refusal = play.refusal(Ask::Request(Box::new(new(3)))).await;
    assert_eq!(limit(&refusal), "calls.queue_max");
    let again = play.request(new(1)).await;
    assert_eq!(again, Reply::Registered { call: id(1), again: true }, "what is known is known");
    let elsewhere = play.request(NewCall { channel: channel("other"), ..new(4) }).await;
    assert_eq!(elsewhere, Reply::Registered { call: id(4), again: false });
}

async fn there_are_as_many_calls_as_may_be_and_what_is_over_makes_room<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { calls_max: 2, ..Rules::default() }).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.call(2).await;
    let refusal = play.refusal(Ask::Request(Box::new(new(3)))).await;
    assert_eq!(limit(&refusal), "calls.calls_max");
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("1")).await;
    let refusal = play.refusal(Ask::Request(Box::new(new(3)))).await;
    assert_eq!(limit(&refusal), "calls.calls_max", "its caller does not have the answer yet");
    play.ack(1).await;
    play.call(3).await;
    assert_eq!(play.find(1).await, None);
}

async fn there_are_as_many_bytes_as_may_be<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { bytes_max: 25, ..Rules::default() }).await;
    let sized = |n| NewCall { params: Bytes::from(vec![b'1'; 10]), ..new(n) };
    play.request(sized(1)).await;
    play.request(sized(2)).await;
    let refusal = play.refusal(Ask::Request(Box::new(sized(3)))).await;
    assert_eq!(limit(&refusal), "calls.bytes_max");
    play.ask(Ask::Cancel { call: id(1), by: None }).await;
    let reply = play.request(sized(3)).await;
    assert_eq!(reply, Reply::Registered { call: id(3), again: false });
}

async fn answers_count_and_what_nobody_needs_makes_room_for_them<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { bytes_max: 25, ..Rules::default() }).await;
    let sized = |n| NewCall { params: Bytes::from(vec![b'1'; 10]), ..new(n) };
    play.serves(WORKER, 1).await;
    for n in [1, 2] {
        play.request(sized(n)).await;
        let offer = play.begun(n).await;
        let taken = play.respond(WORKER, n, offer.fence, answer("12345678901234567890")).await;
        assert_eq!(taken, Reply::Taken(Ok(())), "what was promised is taken");
        assert_eq!(play.find(1).await.is_some(), n == 1, "it makes room for the second");
        let refusal = play.refusal(Ask::Request(Box::new(sized(3)))).await;
        assert_eq!(limit(&refusal), "calls.bytes_max", "its caller does not have the answer yet");
        play.ack(n).await;
    }
    let reply = play.request(sized(3)).await;
    assert_eq!(reply, Reply::Registered { call: id(3), again: false });
}

async fn there_are_as_many_channels_as_may_be<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { channels_max: 1, ..Rules::default() }).await;
    play.call(1).await;
    let other = NewCall { channel: channel("other"), ..new(2) };
    let refusal = play.refusal(Ask::Request(Box::new(other))).await;
    assert_eq!(limit(&refusal), "calls.channels_max");
    let settings = crate::ChannelSettings::default();
    let set = Ask::SetChannel { channel: channel("other"), settings };
    assert_eq!(limit(&play.refusal(set).await), "calls.channels_max");
    let serves = vec![Serves { channel: channel("other"), concurrency: 1 }];
    let init = Ask::Init { client: WORKER, name: "".into(), serves, eager: false };
    assert_eq!(limit(&play.refusal(init).await), "calls.channels_max");
    play.ask(Ask::Cancel { call: id(1), by: None }).await;
    let other = NewCall { channel: channel("other"), ..new(2) };
    let reply = play.request(other).await;
    assert_eq!(reply, Reply::Registered { call: id(2), again: false }, "an empty channel is none");
}

async fn there_are_as_many_clients_as_may_be<F: Fresh>(fresh: &F) {
    // Two callers are there.
    let play = Play::with(fresh, Rules { clients_max: 3, ..Rules::default() }).await;
    play.serves(WORKER, 1).await;
    let client = ClientId::of_chance(77);
    let init = Ask::Init { client, name: "".into(), serves: Vec::new(), eager: false };
    assert_eq!(limit(&play.refusal(init).await), "calls.clients_max");
    play.serves(WORKER, 2).await;
}

async fn a_key_has_as_many_followers_as_may_be<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    let keyed = |n| NewCall { key: "k".parse().ok(), params: Bytes::from("7"), ..new(n) };
    for n in 0..=FOLLOWERS_MAX as u128 {
        let reply = play.request(keyed(n)).await;
        assert_eq!(reply, Reply::Registered { call: id(n), again: false });
    }
    let refusal = play.refusal(Ask::Request(Box::new(keyed(1_000)))).await;
    assert_eq!(limit(&refusal), "the protocol");
    play.ask(Ask::Cancel { call: id(0), by: None }).await;
    assert_eq!(play.ends(CALLER).await.len(), FOLLOWERS_MAX + 1, "all of them are told");
    assert_eq!(play.ends(OTHER_CALLER).await, []);
}

async fn what_nobody_needs_is_forgotten_when_there_is_too_much_of_it<F: Fresh>(fresh: &F) {
    let play = Play::with(fresh, Rules { kept_max: 2, ..Rules::default() }).await;
    for n in 1..=6 {
        play.call(n).await;
        play.ask(Ask::Cancel { call: id(n), by: None }).await;
        play.ack(n).await;
    }
    let mut known = Vec::new();
    for n in 1..=6 {
        if play.find(n).await.is_some() {
            known.push(n);
        }
    }
    assert_eq!(known, [4, 5, 6], "the latest, and one that came since");
}
