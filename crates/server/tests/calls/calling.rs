//! Callers and consumers over their WebSockets.

use serde_json::{Value, json};

use crate::world::{OTHER, WORKER, World, id};

#[tokio::test]
async fn a_call_goes_there_and_its_answer_comes_back() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 1).await;
    let mut caller = world.caller().await;
    let params = json!({"text": "grüße \u{1F600}", "null": null, "deep": [[[1.5]]]});
    caller.request(1, params.clone()).await;
    let offer = worker.begin(1).await;
    assert_eq!((&offer["params"], &offer["attempt"]), (&params, &json!(1)));
    assert_eq!(offer["leaseMs"], 30_000);
    assert!(worker.respond(1, 1, json!({"sum": 42})).await);
    let end = caller.end(1).await;
    let expected = json!({"id": id(1), "status": 0, "answer": {"sum": 42}, "executor": WORKER});
    assert_eq!(end, expected);
    let seen = world.see(&format!("/{}", id(1))).await;
    assert_eq!((&seen["stage"], &seen["outcome"]), (&json!("over"), &json!("answer")));
    let happened: Vec<&str> = seen["history"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["what"].as_str().unwrap())
        .collect();
    assert_eq!(happened, ["registered", "offered", "accepted", "ended", "acknowledged"]);
}

#[tokio::test]
async fn what_is_left_out_is_null() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 1).await;
    let mut caller = world.caller().await;
    caller.say(json!({"request": {"id": id(1), "channel": "work"}})).await;
    caller.expect("c").await;
    assert_eq!(worker.begin(1).await["params"], Value::Null);
    worker.say(json!({"response": {"id": id(1), "fence": 1}})).await;
    worker.expect("g").await;
    let end = caller.end(1).await;
    assert_eq!((&end["status"], end.get("answer")), (&json!(0), Some(&Value::Null)));
}

#[tokio::test]
async fn errors_are_told_apart_by_their_codes() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 5).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.begin(1).await;
    let error = json!({"name": "Stock", "message": "none left", "code": "E_STOCK"});
    let failed = json!({"id": id(1), "fence": 1, "error": error, "terminal": true});
    worker.say(json!({"response": failed})).await;
    worker.expect("g").await;
    let end = caller.end(1).await;
    assert_eq!((&end["status"], &end["error"]), (&json!(1), &error));

    let lonely = json!({"id": id(2), "channel": "lonely", "onlyWithConsumer": true});
    caller.say(json!({"request": lonely})).await;
    caller.expect("c").await;
    let end = caller.end(2).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!(1), &json!("no_consumer")));

    let late = json!({"id": id(3), "channel": "lonely", "queueTimeoutMs": 20});
    caller.say(json!({"request": late})).await;
    caller.expect("c").await;
    let end = caller.end(3).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!(2), &json!("queue_timeout")));

    caller.request(4, json!(4)).await;
    let offer = worker.begin(4).await;
    caller.say(json!({"cancel": {"id": id(4)}})).await;
    let end = caller.end(4).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!(1), &json!("cancelled")));
    assert_eq!(worker.expect("cancelled").await, json!({"id": id(4), "fence": offer["fence"]}));
}

#[tokio::test]
async fn an_error_is_tried_again_under_another_fence() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 1).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.begin(1).await;
    let error = json!({"id": id(1), "fence": 1, "error": {"name": "E"}, "retryAfterMs": 1});
    worker.say(json!({"response": error})).await;
    assert_eq!(worker.expect("g").await["taken"], true);
    let offer = worker.begin(1).await;
    assert_eq!((&offer["fence"], &offer["attempt"]), (&json!(2), &json!(2)));
    assert!(worker.respond(1, 2, json!("done")).await);
    assert_eq!(caller.end(1).await["answer"], "done");
}

#[tokio::test]
async fn a_call_that_is_sent_again_runs_once() {
    let world = World::start().await;
    let mut worker = world.worker(WORKER, 5).await;
    let mut caller = world.caller().await;
    for _ in 0..5 {
        caller.request(1, json!(1)).await;
    }
    worker.begin(1).await;
    assert!(worker.respond(1, 1, json!(2)).await);
    assert_eq!(caller.end(1).await["answer"], 2);
    caller.request(1, json!(1)).await;
    assert_eq!(caller.end(1).await["answer"], 2, "it is told its end again");
    // Nothing else was told to the consumer.
    worker.say(json!({"ping": {"n": 9}})).await;
    assert_eq!(worker.expect("a").await["n"], 9);
}

#[tokio::test]
async fn what_is_refused_is_told_with_a_code_and_registers_nothing() {
    let world = World::start_with(|settings| settings.calls.body_bytes_max = 1 << 10).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    let other = json!({"id": id(1), "channel": "work", "params": 2});
    caller.say(json!({"request": other})).await;
    let refused = caller.expect("e").await;
    assert_eq!(
        (&refused["status"], &refused["error"]["code"]),
        (&json!(1), &json!("calls.id_reused"))
    );
    let large = json!({"id": id(2), "channel": "work", "params": "x".repeat(2 << 10)});
    caller.say(json!({"request": large})).await;
    assert_eq!(caller.expect("e").await["error"]["code"], "request.too_large");
    let answer = world.ask("GET", &format!("/{}", id(2)), &Value::Null).await;
    assert_eq!((answer.status, &answer.json()["code"]), (404, &json!("calls.not_found")));
}

#[tokio::test]
async fn a_late_answer_is_refused_and_counted() {
    let world = World::start_with(|settings| {
        settings.calls.channel.lease = handoff_types::Span::from_millis(200);
    })
    .await;
    let mut worker = world.worker(WORKER, 1).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    worker.begin(1).await;
    // It says nothing of the call until its lease is over.
    assert_eq!(worker.expect("cancelled").await["fence"], 1);
    let mut other = world.worker(OTHER, 1).await;
    worker.say(json!({"stop": {}})).await;
    let again = worker.hear().await;
    if again.get("b").is_some() {
        worker.expect("h").await;
    }
    let offer = other.begin(1).await;
    assert!(!worker.respond(1, 1, json!("old")).await);
    assert!(other.respond(1, offer["fence"].as_u64().unwrap(), json!("new")).await);
    assert_eq!(caller.end(1).await["answer"], "new");
    assert_eq!(world.see("/stats").await["late"], 1);
}

#[tokio::test]
async fn a_worker_that_begins_at_once_and_wakes_too_late_has_its_answer_refused() {
    let world = World::start_with(|settings| {
        settings.calls.channel.lease = handoff_types::Span::from_secs(1);
    })
    .await;
    let mut frozen = world.connect().await;
    let serves = json!([{"channel": "work"}]);
    frozen.init(json!({"client": WORKER, "serves": serves, "eager": true})).await;
    let mut caller = world.caller().await;
    caller.request(1, json!(1)).await;
    let first = frozen.expect("b").await;
    assert_eq!(first["held"], true, "it may begin: {first}");
    // It sleeps until its lease is over, and the call is another's.
    assert_eq!(frozen.expect("cancelled").await["fence"], first["fence"]);
    frozen.say(json!({"stop": {}})).await;
    let mut other = world.worker(OTHER, 1).await;
    let second = other.begin(1).await;
    assert!(second["fence"].as_u64() > first["fence"].as_u64(), "{first} {second}");
    // What it was told meanwhile is passed over until its answer is spoken of.
    let old = json!({"id": id(1), "fence": first["fence"], "answer": "old"});
    frozen.say(json!({"response": old})).await;
    let spoken = loop {
        let frame = frozen.hear().await;
        if let Some(spoken) = frame.get("g").filter(|g| g["fence"] == first["fence"]) {
            break spoken.clone();
        }
    };
    assert_eq!(spoken["taken"], false, "{spoken}");
    assert!(other.respond(1, second["fence"].as_u64().unwrap(), json!("new")).await);
    assert_eq!(caller.end(1).await["answer"], "new");
    assert_eq!(world.see("/stats").await["late"], 1);
}

#[tokio::test]
async fn what_a_client_says_does_not_overtake_what_it_said_before() {
    let world = World::start().await;
    for n in 0..50 {
        let mut caller = world.connect().await;
        let client = format!("c64e9eb3-0295-4506-8d69-{n:012x}");
        // Nothing is waited for between these.
        caller.say(json!({"init": {"client": client}})).await;
        caller.say(json!({"request": {"id": id(n), "channel": "work", "params": n}})).await;
        caller.say(json!({"cancel": {"id": id(n)}})).await;
        caller.expect("a").await;
        caller.expect("c").await;
        assert_eq!(caller.end(n).await["error"]["code"], "cancelled", "{n}");
    }
}

#[tokio::test]
async fn calls_that_live_in_memory_are_answered_too() {
    let world = World::start_with(|settings| {
        settings.calls.channel.durability = handoff_calls::Durability::Memory;
    })
    .await;
    let mut worker = world.worker(WORKER, 64).await;
    let mut caller = world.caller().await;
    for n in 0..64 {
        caller.say(json!({"request": {"id": id(n), "channel": "work", "params": n}})).await;
    }
    let mut offers = 0;
    while offers < 64 {
        let frame = worker.hear().await;
        // Its results are confirmed meanwhile.
        let Some(offer) = frame.get("b") else { continue };
        assert_eq!(offer["id"], id(offers), "in their order");
        let answer = json!({"id": offer["id"], "fence": offer["fence"], "answer": offers});
        worker.say(json!({"response": answer})).await;
        offers += 1;
    }
    let mut ends = 0;
    while ends < 64 {
        let frame = caller.hear().await;
        if let Some(end) = frame.get("e") {
            assert_eq!(end["status"], 0);
            ends += 1;
        }
    }
    let seen = world.see(&format!("/{}", id(3))).await;
    assert_eq!((&seen["durable"], &seen["answer"]), (&json!(false), &json!(3)));
}
