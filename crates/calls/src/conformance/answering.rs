//! Consumers at work, and work that is too late.

use bytes::Bytes;

use super::kit::{CALLER, LEASE, OTHER_WORKER, Play, WORKER, answer, failing, id, millis, secs};
use super::{Bench, Fresh};
use crate::transport::Whereabouts;
use crate::{
    Ask, ChannelSettings, Failing, Failure, HandlerError, Late, Notice, OnLost, Outcome, Refusal,
    Reply,
};

pub(super) async fn all<F: Fresh>(fresh: &F) {
    an_answer_reaches_the_caller_and_both_are_told(fresh).await;
    an_accept_said_twice_is_one(fresh).await;
    an_answer_said_twice_is_taken_once(fresh).await;
    an_answer_without_an_accept_is_taken(fresh).await;
    what_is_not_known_cannot_be_accepted_kept_or_answered(fresh).await;
    only_whoever_has_it_answers(fresh).await;
    a_heartbeat_keeps_a_call(fresh).await;
    a_lost_executor_s_call_goes_to_another_under_another_fence(fresh).await;
    a_late_answer_is_refused(fresh).await;
    every_offer_of_the_room_has_a_fence_of_its_own(fresh).await;
    whoever_holds_a_forgotten_call_has_nothing_of_another_with_its_id(fresh).await;
    a_lost_executor_ends_a_call_that_must_not_run_twice(fresh).await;
    a_call_is_not_begun_more_often_than_its_channel_says(fresh).await;
    a_handler_s_error_is_tried_again_later(fresh).await;
    the_wait_grows(fresh).await;
    the_handler_says_when_it_is_worth_another_attempt(fresh).await;
    a_terminal_error_is_for_good(fresh).await;
    an_error_said_twice_counts_once(fresh).await;
    an_error_that_could_only_be_tried_too_late_is_told_at_once(fresh).await;
    an_answer_that_is_too_large_is_refused(fresh).await;
}

async fn an_answer_reaches_the_caller_and_both_are_told<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    let offer = play.begun(1).await;
    let held = Notice::Held { to: WORKER, call: id(1), fence: 1, held: true };
    assert_eq!(play.heard(WORKER).await, [held]);
    play.heard(CALLER).await;
    let reply = play.respond(WORKER, 1, offer.fence, answer("42")).await;
    assert_eq!(reply, Reply::Taken(Ok(())));
    let taken = Notice::Taken { to: WORKER, call: id(1), fence: 1, taken: true };
    assert_eq!(play.heard(WORKER).await, [taken]);
    let ended = Notice::Ended {
        to: Some(CALLER),
        call: id(1),
        outcome: Outcome::Answer(Bytes::from("42")),
        executor: Some(WORKER),
    };
    assert_eq!(play.heard(CALLER).await, [ended]);
    assert_eq!(play.ack(1).await, Reply::Done);
    assert_eq!(play.heard(CALLER).await, [Notice::Acknowledged { to: CALLER, call: id(1) }]);
}

async fn an_accept_said_twice_is_one<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    assert!(play.accept(WORKER, 1, 1).await);
    assert_eq!(play.look(1).await.attempt, 1);
}

async fn an_answer_said_twice_is_taken_once<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.respond(WORKER, 1, 1, answer("42")).await;
    play.heard(WORKER).await;
    let again = play.respond(WORKER, 1, 1, answer("43")).await;
    assert_eq!(again, Reply::Taken(Ok(())), "it is told that its answer is there");
    let taken = Notice::Taken { to: WORKER, call: id(1), fence: 1, taken: true };
    assert_eq!(play.heard(WORKER).await, [taken]);
    assert_eq!(play.end(1).await, Outcome::Answer(Bytes::from("42")), "the first counts");
}

async fn an_answer_without_an_accept_is_taken<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    let offer = play.offer(WORKER).await;
    let reply = play.respond(WORKER, 1, offer.fence, answer("42")).await;
    assert_eq!(reply, Reply::Taken(Ok(())));
    assert_eq!(play.end(1).await, Outcome::Answer(Bytes::from("42")));
    assert_eq!(play.look(1).await.attempt, 1, "whoever answered it has begun it");
}

async fn what_is_not_known_cannot_be_accepted_kept_or_answered<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.heard(WORKER).await;
    assert!(!play.accept(WORKER, 1, 1).await);
    let (client, call, fence) = (WORKER, id(1), 1);
    assert_eq!(play.ask(Ask::Heartbeat { client, call, fence }).await, Reply::Held(false));
    let reply = play.respond(WORKER, 1, 1, answer("1")).await;
    assert_eq!(reply, Reply::Taken(Err(Late::Unknown)));
    let held = Notice::Held { to: WORKER, call, fence, held: false };
    let taken = Notice::Taken { to: WORKER, call, fence, taken: false };
    assert_eq!(play.heard(WORKER).await, [held.clone(), held, taken]);
    assert_eq!(play.find(1).await, None, "and nothing is left of it");
}

async fn only_whoever_has_it_answers<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.serves(OTHER_WORKER, 1).await;
    let other = play.respond(OTHER_WORKER, 1, 1, answer("0")).await;
    assert_eq!(other, Reply::Taken(Err(Late::Fenced)), "somebody else");
    let wrong = play.respond(WORKER, 1, 2, answer("0")).await;
    assert_eq!(wrong, Reply::Taken(Err(Late::Fenced)), "a fence that never was");
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running);
}

async fn a_heartbeat_keeps_a_call<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    let beat = Ask::Heartbeat { client: WORKER, call: id(1), fence: 1 };
    for _ in 0..5 {
        play.pass(secs(20)).await;
        assert_eq!(play.ask(beat.clone()).await, Reply::Held(true));
    }
    assert_eq!(play.look(1).await.attempt, 1);
    play.pass(LEASE).await;
    assert_eq!(play.ask(beat).await, Reply::Held(false), "too late");
}

async fn a_lost_executor_s_call_goes_to_another_under_another_fence<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.heard(WORKER).await;
    play.serves(OTHER_WORKER, 1).await;
    play.heard(OTHER_WORKER).await;
    play.pass_with(secs(29), &[CALLER, OTHER_WORKER]).await;
    assert_eq!(play.offers(OTHER_WORKER).await, []);
    play.bench.pass(secs(1)).await;
    let offer = play.offer(OTHER_WORKER).await;
    assert_eq!((offer.call, offer.fence, offer.attempt), (id(1), 2, 2));
    let cancelled = Notice::Cancelled { to: WORKER, call: id(1), fence: 1 };
    assert!(play.heard(WORKER).await.contains(&cancelled), "should it still be there");
}

async fn a_late_answer_is_refused<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.serves(OTHER_WORKER, 1).await;
    play.heard(OTHER_WORKER).await;
    play.pass_with(LEASE, &[CALLER, OTHER_WORKER]).await;
    let offer = play.offer(OTHER_WORKER).await;
    assert!(play.accept(OTHER_WORKER, 1, offer.fence).await);
    play.heard(WORKER).await;
    let late = play.respond(WORKER, 1, 1, answer("old")).await;
    assert_eq!(late, Reply::Taken(Err(Late::Fenced)));
    let told = Notice::Taken { to: WORKER, call: id(1), fence: 1, taken: false };
    assert!(play.heard(WORKER).await.contains(&told));
    play.respond(OTHER_WORKER, 1, offer.fence, answer("new")).await;
    assert_eq!(play.end(1).await, Outcome::Answer(Bytes::from("new")));
    let later = play.respond(WORKER, 1, 1, answer("old")).await;
    assert_eq!(later, Reply::Taken(Err(Late::Over)));
}

async fn every_offer_of_the_room_has_a_fence_of_its_own<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 2).await;
    play.call(1).await;
    play.call(2).await;
    let offers = play.offers(WORKER).await;
    let fences: Vec<u64> = offers.iter().map(|offer| offer.fence).collect();
    assert!(matches!(fences[..], [one, two] if one < two), "{fences:?}");
}

/// An id may be used again once its call is forgotten. Whoever was told of the first and slept meanwhile
/// must not pass as whoever runs the second.
async fn whoever_holds_a_forgotten_call_has_nothing_of_another_with_its_id<F: Fresh>(fresh: &F) {
    let rules = crate::Rules { kept: secs(60), ..crate::Rules::default() };
    let play = Play::with(fresh, rules).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    let first = play.begun(1).await;
    play.respond(WORKER, 1, first.fence, answer("1")).await;
    play.end(1).await;
    play.ack(1).await;
    play.pass(secs(61)).await;
    assert_eq!(play.find(1).await, None, "it is forgotten");
    play.heard(WORKER).await;
    play.call(1).await;
    let second = play.offer(WORKER).await;
    assert_eq!((second.call, second.attempt), (id(1), 1), "another call");
    assert!(second.fence > first.fence, "{} is not above {}", second.fence, first.fence);
    assert!(!play.accept(WORKER, 1, first.fence).await, "under the old fence it has nothing");
    let beat = Ask::Heartbeat { client: WORKER, call: id(1), fence: first.fence };
    assert_eq!(play.ask(beat).await, Reply::Held(false));
    let old = play.respond(WORKER, 1, first.fence, answer("old")).await;
    assert_eq!(old, Reply::Taken(Err(Late::Fenced)));
    assert_eq!(play.whereabouts(1).await, Whereabouts::Offered, "and changes nothing");
    assert!(play.accept(WORKER, 1, second.fence).await);
    play.respond(WORKER, 1, second.fence, answer("new")).await;
    assert_eq!(play.end(1).await, Outcome::Answer(Bytes::from("new")));
}

async fn a_lost_executor_ends_a_call_that_must_not_run_twice<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.settings(ChannelSettings { on_lost: OnLost::Fail, ..ChannelSettings::default() }).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.serves(OTHER_WORKER, 1).await;
    play.heard(OTHER_WORKER).await;
    play.pass_with(LEASE, &[CALLER, OTHER_WORKER]).await;
    assert_eq!(play.end(1).await, Outcome::Failed(Failure::ExecutorLost));
    assert_eq!(play.offers(OTHER_WORKER).await, []);
    assert!(play.look(1).await.dead, "it is kept for somebody to look at");
}

async fn a_call_is_not_begun_more_often_than_its_channel_says<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.settings(ChannelSettings { attempts_max: 2, ..ChannelSettings::default() }).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    play.pass(LEASE).await;
    let second = play.begun(1).await;
    assert_eq!((second.fence, second.attempt), (2, 2));
    play.pass(LEASE).await;
    assert_eq!(play.end(1).await, Outcome::Failed(Failure::ExecutorLost));
    assert_eq!(play.offers(WORKER).await, []);
}

fn patient() -> ChannelSettings {
    let (backoff_min, backoff_max) = (millis(1_000), millis(4_000));
    ChannelSettings { backoff_min, backoff_max, attempts_max: 5, ..ChannelSettings::default() }
}

async fn a_handler_s_error_is_tried_again_later<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.settings(patient()).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    let reply = play.respond(WORKER, 1, 1, Err(failing())).await;
    assert_eq!(reply, Reply::Taken(Ok(())));
    assert_eq!(play.whereabouts(1).await, Whereabouts::Later);
    assert_eq!(play.ends(CALLER).await, [], "the caller waits");
    play.bench.pass(millis(499)).await;
    assert_eq!(play.offers(WORKER).await, [], "at least half of it");
    play.bench.pass(millis(501)).await;
    let second = play.begun(1).await;
    assert_eq!((second.fence, second.attempt), (2, 2));
    play.respond(WORKER, 1, 2, answer("42")).await;
    assert_eq!(play.end(1).await, Outcome::Answer(Bytes::from("42")));
}

async fn the_wait_grows<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.settings(patient()).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    for (attempt, most) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 4_000)] {
        let offer = play.begun(1).await;
        assert_eq!(offer.attempt, attempt);
        play.respond(WORKER, 1, offer.fence, Err(failing())).await;
        play.heard(WORKER).await;
        play.bench.pass(millis(most / 2 - 1)).await;
        assert_eq!(play.whereabouts(1).await, Whereabouts::Later, "attempt {attempt}");
        play.bench.pass(millis(most / 2 + 1)).await;
        assert_eq!(play.whereabouts(1).await, Whereabouts::Offered, "attempt {attempt}");
    }
    let last = play.begun(1).await;
    play.respond(WORKER, 1, last.fence, Err(failing())).await;
    assert_eq!(play.end(1).await, Outcome::Failed(Failure::Handler(failing().error)));
    assert!(play.look(1).await.dead);
}

async fn the_handler_says_when_it_is_worth_another_attempt<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    let failing = Failing { retry_after: Some(secs(7)), ..failing() };
    play.respond(WORKER, 1, 1, Err(failing)).await;
    play.heard(WORKER).await;
    play.pass(millis(6_999)).await;
    assert_eq!(play.whereabouts(1).await, Whereabouts::Later);
    play.pass(millis(1)).await;
    assert_eq!(play.whereabouts(1).await, Whereabouts::Offered);
}

async fn a_terminal_error_is_for_good<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    let failing = Failing { terminal: true, ..failing() };
    play.respond(WORKER, 1, 1, Err(failing.clone())).await;
    assert_eq!(play.end(1).await, Outcome::Failed(Failure::Handler(failing.error)));
    assert!(!play.look(1).await.dead, "it is an answer of a kind");
}

async fn an_error_said_twice_counts_once<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.settings(patient()).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    for _ in 0..3 {
        let reply = play.respond(WORKER, 1, 1, Err(failing())).await;
        assert_eq!(reply, Reply::Taken(Ok(())));
    }
    assert_eq!(play.look(1).await.attempt, 1);
    play.bench.pass(secs(1)).await;
    let second = play.begun(1).await;
    assert_eq!(second.attempt, 2);
    let again = play.respond(WORKER, 1, 1, Err(failing())).await;
    assert_eq!(again, Reply::Taken(Ok(())), "it was taken, long ago");
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running, "and changes nothing now");
}

async fn an_error_that_could_only_be_tried_too_late_is_told_at_once<F: Fresh>(fresh: &F) {
    let play = Play::new(fresh).await;
    play.serves(WORKER, 1).await;
    play.request(crate::NewCall { timeout: Some(secs(5)), ..super::kit::new(1) }).await;
    play.begun(1).await;
    let error = HandlerError { code: "E2".into(), ..HandlerError::default() };
    let failing = Failing { error: error.clone(), terminal: false, retry_after: Some(secs(6)) };
    play.respond(WORKER, 1, 1, Err(failing)).await;
    assert_eq!(play.end(1).await, Outcome::Failed(Failure::Handler(error)));
}

async fn an_answer_that_is_too_large_is_refused<F: Fresh>(fresh: &F) {
    let play =
        Play::with(fresh, crate::Rules { body_bytes_max: 100, ..crate::Rules::default() }).await;
    play.serves(WORKER, 1).await;
    play.call(1).await;
    play.begun(1).await;
    let (client, call, fence) = (WORKER, id(1), 1);
    let result = Ok(Bytes::from(vec![b'1'; 101]));
    let refusal = play.refusal(Ask::Respond { client, call, fence, result }).await;
    assert!(matches!(refusal, Refusal::TooLarge { bytes: 101, max: 100, .. }), "{refusal:?}");
    assert_eq!(play.whereabouts(1).await, Whereabouts::Running, "it may answer something else");
}
