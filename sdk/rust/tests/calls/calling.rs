//! Whoever calls, and every answer that can be lost.

use std::time::Duration;

use handoff_sdk::Outcome;
use handoff_sdk::calls::{CallError, CallerOptions, Link};
use serde_json::{Value, json};

use crate::peer::{HASTY, calm, listener, within};

#[tokio::test]
async fn a_call_says_what_it_is_and_gives_its_answer() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm().name("shop")).await;
    assert_eq!(peer.init["name"], "shop");
    assert_eq!(peer.client, caller.id().to_string());
    let calling = caller
        .call::<_, Vec<u64>>("stock", &json!({"sku": 7}))
        .timeout(Duration::from_secs(5))
        .queue_timeout(Duration::from_secs(2))
        .key("order-1")
        .only_with_consumer()
        .traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let serving = async {
        let asked = peer.asked("request").await;
        assert_eq!(asked["channel"], "stock");
        assert_eq!((&asked["params"], &asked["key"]), (&json!({"sku": 7}), &json!("order-1")));
        assert_eq!(
            (&asked["queueTimeoutMs"], &asked["onlyWithConsumer"]),
            (&json!(2000), &json!(true))
        );
        assert!(asked["timeoutMs"].as_u64().unwrap() <= 5000);
        assert!(asked["traceparent"].as_str().unwrap().starts_with("00-0af7"));
        peer.answer(&asked, json!([1, 2])).await;
    };
    let (answer, ()) = within(async { tokio::join!(calling, serving) }).await;
    assert_eq!(answer.unwrap(), [1, 2]);
    within(async { tokio::join!(caller.close(), peer.closed()) }).await;
}

/// Where the connection is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lost {
    Request,
    Registered,
    End,
    Acknowledgement,
    Confirmation,
}

#[tokio::test]
async fn whatever_is_lost_the_call_has_one_id_and_one_answer() {
    for lost in
        [Lost::Request, Lost::Registered, Lost::End, Lost::Acknowledgement, Lost::Confirmation]
    {
        let listener = listener().await;
        let (caller, mut peer) = listener.caller(calm()).await;
        let calling = tokio::spawn(caller.call::<_, u64>("double", &21).into_future());
        let first = peer.asked("request").await;
        if lost != Lost::Request {
            peer.say(json!({"c": {"id": first["id"]}})).await;
        }
        if !matches!(lost, Lost::Request | Lost::Registered) {
            peer.say(json!({"e": {"id": first["id"], "status": 0, "answer": 42}})).await;
        }
        if matches!(lost, Lost::Acknowledgement | Lost::Confirmation) {
            assert_eq!(peer.asked("response_ack").await["id"], first["id"]);
        }
        drop(peer);
        let mut peer = listener.greeted().await;
        assert_eq!(peer.client, caller.id().to_string(), "the same client");
        // Whether an end that was written just before the cut has arrived, nobody knows.
        let again = peer.heard().await.unwrap();
        if let Some(again) = again.get("request") {
            assert_eq!(
                (&again["id"], &again["params"]),
                (&first["id"], &first["params"]),
                "{lost:?}"
            );
            assert!(!matches!(lost, Lost::Acknowledgement | Lost::Confirmation), "it was answered");
            peer.answer(again, json!(42)).await;
        } else {
            assert_eq!(again["response_ack"]["id"], first["id"], "{lost:?}");
            assert!(!matches!(lost, Lost::Request | Lost::Registered), "nothing was answered");
            peer.say(json!({"f": {"id": first["id"]}})).await;
        }
        assert_eq!(within(calling).await.unwrap().unwrap(), 42, "{lost:?}");
        within(async { tokio::join!(caller.close(), peer.closed()) }).await;
    }
}

#[tokio::test]
async fn calls_made_while_there_is_no_connection_go_over_the_next() {
    let listener = listener().await;
    let (caller, peer) = listener.caller(calm()).await;
    let mut links = caller.links();
    drop(peer);
    within(async {
        while !matches!(links.now(), Link::Down { .. }) {
            drop(links.next().await)
        }
    })
    .await;
    let calls: Vec<_> = (0..5_u64)
        .map(|n| tokio::spawn(caller.call::<_, u64>("double", &n).into_future()))
        .collect();
    let mut peer = listener.greeted().await;
    peer.double(5).await;
    for (n, call) in (0..).zip(calls) {
        assert_eq!(within(call).await.unwrap().unwrap(), n * 2);
    }
    assert!(matches!(caller.links().now(), Link::Up));
}

#[tokio::test]
async fn a_connection_that_goes_silent_is_replaced_and_its_calls_are_answered() {
    let listener = listener().await;
    let options = CallerOptions::new().ping(HASTY, HASTY);
    let (caller, mut silent) = listener.caller(options).await;
    let calling = tokio::spawn(caller.call::<_, u64>("double", &4).into_future());
    // It takes everything and says nothing; nobody closes anything.
    let mut asked = Value::Null;
    while asked.is_null() {
        asked = silent.heard().await.unwrap()["request"].clone();
    }
    let mut peer = listener.greeted().await;
    let again = peer.asked("request").await;
    assert_eq!(again["id"], asked["id"]);
    peer.answer(&again, json!(8)).await;
    assert_eq!(within(calling).await.unwrap().unwrap(), 8);
    within(silent.closed()).await;
}

#[tokio::test]
async fn a_call_that_is_not_confirmed_is_said_again_over_the_same_connection() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm().repeat_after(HASTY)).await;
    let calling = tokio::spawn(caller.call::<_, u64>("double", &4).into_future());
    let asked = peer.asked("request").await;
    let again = peer.asked("request").await;
    assert_eq!(asked["id"], again["id"]);
    peer.say(json!({"c": {"id": asked["id"]}})).await;
    peer.say(json!({"e": {"id": asked["id"], "status": 0, "answer": 8}})).await;
    assert_eq!(within(calling).await.unwrap().unwrap(), 8);
}

#[tokio::test]
async fn each_way_to_fail_has_its_error() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm()).await;
    let mut end = async |status: u64, name: &str, code: &str| {
        let calling = tokio::spawn(caller.call::<_, u64>("double", &1).into_future());
        // Acknowledgements of those before come between.
        let asked = peer.asked_past_acks("request").await;
        let error = json!({"name": name, "message": "words", "code": code});
        peer.say(json!({"e": {"id": asked["id"], "status": status, "error": error}})).await;
        within(calling).await.unwrap().unwrap_err()
    };
    let failed = end(1, "OutOfStock", "stock").await;
    assert!(matches!(&failed, CallError::Failed(why) if why.name == "OutOfStock"), "{failed:?}");
    assert_eq!((failed.to_string(), failed.code()), ("words (stock)".to_owned(), Some("stock")));
    let late = end(2, "Timeout", "deadline").await;
    assert!(matches!(late, CallError::TimedOut(_)));
    assert_eq!(late.outcome(), Outcome::Unknown);
    assert_eq!(end(2, "Timeout", "queue_timeout").await.outcome(), Outcome::NotApplied);
    assert!(matches!(end(1, "Cancelled", "cancelled").await, CallError::Cancelled));
    assert!(matches!(end(1, "NoConsumer", "no_consumer").await, CallError::NoConsumer));
    assert!(matches!(end(1, "ExecutorLost", "executor_lost").await, CallError::ExecutorLost));
    assert!(matches!(end(0, "", "").await, CallError::Unreadable(_)), "null is no number");
}

#[tokio::test]
async fn a_call_that_cannot_be_is_not_sent() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm().buffer_bytes_max(50_000)).await;
    let invalid = |result: Result<u64, CallError>| {
        assert!(matches!(result, Err(CallError::Invalid(_))), "{result:?}");
    };
    invalid(within(caller.call("no such channel", &1).into_future()).await);
    invalid(within(caller.call("double", &1).key("a b").into_future()).await);
    invalid(within(caller.call("double", &1).traceparent("?").into_future()).await);
    let large = "x".repeat(60_000);
    let refused = within(caller.call::<_, u64>("double", &large).into_future()).await;
    assert!(matches!(refused, Err(CallError::TooLarge { max: 50_000, .. })), "{refused:?}");
    let large = "x".repeat(20_000);
    let refused = within(caller.call::<_, u64>("double", &large).into_future()).await;
    assert!(matches!(refused, Err(CallError::TooLarge { max: 10_000, .. })), "the server's limit");
    drop(caller);
    peer.closed().await;
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_handle_or_by_dropping_it_if_so_asked() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm()).await;
    let mut pending = within(caller.call::<_, u64>("double", &1).start()).await.unwrap();
    let asked = peer.asked("request").await;
    peer.say(json!({"c": {"id": asked["id"]}})).await;
    assert!(within(pending.registered()).await);
    assert_eq!(pending.id().to_string(), asked["id"].as_str().unwrap());
    within(pending.cancel()).await;
    assert_eq!(peer.asked("cancel").await["id"], asked["id"]);
    let error = json!({"name": "Cancelled", "message": "", "code": "cancelled"});
    peer.say(json!({"e": {"id": asked["id"], "status": 1, "error": error}})).await;
    assert!(matches!(within(pending).await, Err(CallError::Cancelled)));

    let kept = within(caller.call::<_, u64>("double", &2).start()).await.unwrap();
    let asked = peer.asked_past_acks("request").await;
    drop(kept);
    let dropped =
        within(caller.call::<_, u64>("double", &3).cancel_on_drop().start()).await.unwrap();
    let next = peer.asked_past_acks("request").await;
    assert_ne!(next["id"], asked["id"], "the one that was dropped first goes on");
    drop(dropped);
    assert_eq!(peer.asked_past_acks("cancel").await["id"], next["id"]);
}

#[tokio::test]
async fn when_its_time_is_over_and_nobody_can_be_asked_the_outcome_is_what_is_known() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm()).await;
    let short = Duration::from_millis(1);
    let calling = tokio::spawn(caller.call::<_, u64>("double", &1).timeout(short).into_future());
    peer.asked("request").await;
    let unanswered = within(calling).await.unwrap().unwrap_err();
    assert!(matches!(unanswered, CallError::Unanswered { .. }), "{unanswered:?}");
    assert_eq!(unanswered.outcome(), Outcome::Unknown);
}

#[tokio::test]
async fn as_many_calls_are_under_way_as_are_allowed() {
    let listener = listener().await;
    let (caller, mut peer) = listener.caller(calm().calls_max(1)).await;
    let first = tokio::spawn(caller.call::<_, u64>("double", &1).into_future());
    let asked = peer.asked("request").await;
    let second = tokio::spawn(caller.call::<_, u64>("double", &2).into_future());
    peer.answer(&asked, json!(2)).await;
    assert_eq!(within(first).await.unwrap().unwrap(), 2);
    let asked = peer.asked("request").await;
    assert_eq!(asked["params"], 2);
    peer.answer(&asked, json!(4)).await;
    assert_eq!(within(second).await.unwrap().unwrap(), 4);
}
