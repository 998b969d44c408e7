//! Calls end, each once.

use bytes::Bytes;

use super::Fresh;
use super::kit::{CALLER, OTHER_CALLER, Play, WORKER, answer, id, new, secs};
use crate::transport::Whereabouts;
use crate::{Ask, Late, NewCall, Notice, Outcome, Refusal, Reply, Rules};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    an_end_is_acknowledged_by_its_caller_only_and_as_often_as_it_likes(fresh).await;
    what_is_not_over_cannot_be_acknowledged(fresh).await;
    what_is_not_known_is_acknowledged_all_the_same(fresh).await;
    a_waiting_call_is_cancelled(fresh).await;
    a_running_call_is_cancelled_and_its_executor_is_told(fresh).await;
    what_is_over_cannot_be_cancelled(fresh).await;
    what_is_not_known_cannot_be_cancelled(fresh).await;
    only_its_caller_cancels_a_call(fresh).await;
    cancelling_the_first_of_a_key_ends_those_that_follow(fresh).await;
    cancelling_one_that_follows_ends_that_one_alone(fresh).await;
    whoever_has_not_heard_of_an_end_hears_it_when_it_asks_again(fresh).await;
    what_is_over_is_forgotten_when_its_time_is_over(fresh).await;
}

async fn an_end_is_acknowledged_by_its_caller_only_and_as_often_as_it_likes<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("1")).await;
    let other = Ask::Acknowledge { client: OTHER_CALLER, call: id(1) };
    assert_eq!(play.refusal(other).await, Refusal::NotYours(id(1)));
    play.heard(CALLER).await;
    for _ in 0..2 {
        assert_eq!(play.ack(1).await, Reply::Done);
    }
    let told = Notice::Acknowledged { to: CALLER, call: id(1) };
    assert_eq!(play.heard(CALLER).await, vec![told; 2]);
}

async fn what_is_not_over_cannot_be_acknowledged<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.call(1).await;
    let refusal = play.refusal(Ask::Acknowledge { client: CALLER, call: id(1) }).await;
    assert!(matches!(refusal, Refusal::Invalid(_)), "{refusal:?}");
}

async fn what_is_not_known_is_acknowledged_all_the_same<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    assert_eq!(play.ack(1).await, Reply::Done);
    assert_eq!(play.heard(CALLER).await, [Notice::Acknowledged { to: CALLER, call: id(1) }]);
    assert_eq!(play.find(1).await, None, "and nothing is left of it");
}

async fn a_waiting_call_is_cancelled<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.call(1).await;
    assert_eq!(play.ask(Ask::Cancel { call: id(1), by: None }).await, Reply::Done);
    assert_eq!(play.end(1).await, Outcome::Cancelled);
    play.serves(WORKER, 1).await;
    assert_eq!(play.offers(WORKER).await, []);
}

async fn a_running_call_is_cancelled_and_its_executor_is_told<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.call(2).await;
    play.heard(WORKER).await;
    play.ask(Ask::Cancel { call: id(1), by: None }).await;
    assert_eq!(play.end(1).await, Outcome::Cancelled);
    let told = play.heard(WORKER).await;
    assert!(told.contains(&Notice::Cancelled { to: WORKER, call: id(1), fence: 1 }), "{told:?}");
    assert_eq!(play.whereabouts(2).await, Whereabouts::Offered, "it has room for another");
    let late = play.respond(WORKER, 1, 1, answer("1")).await;
    assert_eq!(late, Reply::Taken(Err(Late::Over)));
}

async fn what_is_over_cannot_be_cancelled<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("1")).await;
    let end = play.end(1).await;
    assert_eq!(play.ask(Ask::Cancel { call: id(1), by: None }).await, Reply::Done);
    assert_eq!(play.look(1).await.outcome, Some(end));
    assert_eq!(play.ends(CALLER).await, []);
}

async fn what_is_not_known_cannot_be_cancelled<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    assert_eq!(play.refusal(Ask::Cancel { call: id(1), by: None }).await, Refusal::NoCall(id(1)));
}

async fn only_its_caller_cancels_a_call<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.call(1).await;
    let other = Ask::Cancel { call: id(1), by: Some(OTHER_CALLER) };
    assert_eq!(play.refusal(other).await, Refusal::NotYours(id(1)));
    let own = Ask::Cancel { call: id(1), by: Some(CALLER) };
    assert_eq!(play.ask(own).await, Reply::Done);
    assert_eq!(play.end(1).await, Outcome::Cancelled);
}

fn keyed(n: u128, caller: crate::ClientId) -> NewCall {
    let params = Bytes::from("7");
    NewCall { key: "k".parse().ok(), params, caller: Some(caller), ..new(n) }
}

async fn cancelling_the_first_of_a_key_ends_those_that_follow<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.request(keyed(1, CALLER)).await;
    play.request(keyed(2, OTHER_CALLER)).await;
    play.ask(Ask::Cancel { call: id(1), by: None }).await;
    assert_eq!(play.ends(OTHER_CALLER).await, [(id(2), Outcome::Cancelled)]);
    assert_eq!(play.end(1).await, Outcome::Cancelled);
}

async fn cancelling_one_that_follows_ends_that_one_alone<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.request(keyed(1, CALLER)).await;
    play.request(keyed(2, OTHER_CALLER)).await;
    play.ask(Ask::Cancel { call: id(2), by: None }).await;
    assert_eq!(play.ends(OTHER_CALLER).await, [(id(2), Outcome::Cancelled)]);
    assert_eq!(play.whereabouts(1).await, Whereabouts::Waiting);
    play.serves(WORKER, 1).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("1")).await;
    assert_eq!(play.ends(OTHER_CALLER).await, [], "it ended before");
}

async fn whoever_has_not_heard_of_an_end_hears_it_when_it_asks_again<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.ask(Ask::Away { client: CALLER }).await;
    play.respond(WORKER, 1, 1, answer("1")).await;
    // Whatever was told while it was away is lost.
    play.heard(CALLER).await;
    play.here(CALLER).await;
    play.request(new(1)).await;
    assert_eq!(play.end(1).await, Outcome::Answer(Bytes::from("1")));
}

async fn what_is_over_is_forgotten_when_its_time_is_over<F: Fresh>(fresh: &F) {
    let rules = Rules { kept: secs(30), ..Rules::default() };
    let play = Play::with(fresh, rules).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("1")).await;
    play.pass(secs(29)).await;
    assert!(play.find(1).await.is_some());
    play.pass(secs(1)).await;
    assert_eq!(play.find(1).await, None);
}
