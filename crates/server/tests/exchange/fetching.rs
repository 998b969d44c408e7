//! What devices are given.

use serde_json::{Value, json};

use crate::world::{Phone, World, ids, is_ok, reply};

/// Lets the ERP send messages to devices, in a process about one message of a device.
async fn reply_to(world: &World, phone: &Phone, about: &str, replies: Value) {
    world.send(phone, about, json!(1)).await;
    let (process, served) = world.started().await;
    let prepared = world.prepare(&process, &served, replies).await;
    assert!(is_ok(&prepared), "{}", prepared.text());
    assert!(is_ok(&world.commit(&process).await));
}

/// Asks until so many devices wait.
async fn until_waiting(world: &World, count: u64) {
    while world.see("stats").await["waitingDevices"] != count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_device_that_waits_is_woken_by_its_message_and_not_by_others() {
    let world = World::start().await;
    let (phone, other) = (world.phone("phone-1").await, world.phone("phone-2").await);
    let begun = tokio::time::Instant::now();
    let waits = world.fetch(&phone, "?wait=30");
    let sends = async {
        until_waiting(&world, 1).await;
        reply_to(&world, &other, "m-1", json!([reply("r-1", "phone-2", json!(1))])).await;
        reply_to(&world, &other, "m-2", json!([reply("r-2", "phone-1", json!(1))])).await;
    };
    let (fetched, ()) = tokio::join!(waits, sends);
    assert_eq!(ids(&fetched), ["r-2"]);
    assert!(begun.elapsed().as_secs() < 25, "it did not wait to the end");
    until_waiting(&world, 0).await;
}

#[tokio::test]
async fn whoever_waits_in_vain_gets_nothing_when_the_time_is_over() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let fetched = world.fetch(&phone, "?wait=1").await;
    assert_eq!(fetched, json!({"version": 1, "messages": [], "more": false}));
}

#[tokio::test]
async fn a_device_that_is_locked_out_while_it_waits_is_told() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let waits = world.ask(Some(&phone.token), "GET", "/v1/exchange/messages?wait=30", &Value::Null);
    let blocks = async {
        until_waiting(&world, 1).await;
        world.admin("POST", "devices/acme/phone-1/block", Value::Null).await
    };
    let (answer, _) = tokio::join!(waits, blocks);
    assert_eq!((answer.status, answer.code().as_str()), (403, "exchange.device_blocked"));
}

#[tokio::test]
async fn a_server_that_stops_lets_go_whoever_waits() {
    let world = World::start().await;
    let phone = world.phone("phone-1").await;
    let waits = world.fetch(&phone, "?wait=30");
    let stops = async {
        until_waiting(&world, 1).await;
        world.tell_to_stop();
    };
    let (fetched, ()) = tokio::join!(waits, stops);
    assert!(ids(&fetched).is_empty());
}

#[tokio::test]
async fn more_devices_than_may_wait_are_told_to_come_again() {
    let world = World::start_with(|settings| settings.exchange.waiting_max = 1).await;
    let (phone, other) = (world.phone("phone-1").await, world.phone("phone-2").await);
    let waits = world.fetch(&phone, "?wait=30");
    let second = async {
        until_waiting(&world, 1).await;
        let path = "/v1/exchange/messages?wait=30";
        let busy = world.ask(Some(&other.token), "GET", path, &Value::Null).await;
        assert!(
            ids(&world.fetch(&other, "").await).is_empty(),
            "whoever does not wait is answered"
        );
        reply_to(&world, &other, "m-1", json!([reply("r-1", "phone-1", json!(1))])).await;
        busy
    };
    let (fetched, busy) = tokio::join!(waits, second);
    assert_eq!(ids(&fetched), ["r-1"]);
    assert_eq!((busy.status, busy.code().as_str()), (503, "log.room_busy"));
}

#[tokio::test]
async fn the_smaller_limit_counts_and_one_is_always_given() {
    let world = World::start_with(|settings| settings.exchange.fetch_messages_max = 3).await;
    let phone = world.phone("phone-1").await;
    let large = |n: usize| reply(&format!("r-{n}"), "phone-1", json!("x".repeat(1_000)));
    reply_to(&world, &phone, "m-1", json!([large(1), large(2), large(3), large(4)])).await;
    for (query, expected) in [
        ("", 3),
        ("?limit=2", 2),
        ("?limit=1000", 3),
        ("?maxBytes=1", 1),
        ("?maxBytes=2500", 2),
        ("?limit=1&maxBytes=2500", 1),
    ] {
        let fetched = world.fetch(&phone, query).await;
        assert_eq!((ids(&fetched).len(), &fetched["more"]), (expected, &json!(true)), "{query}");
        assert_eq!(ids(&fetched)[0], "r-1", "the oldest first, until it is acknowledged");
    }
    for query in ["?limit=0", "?limit=x", "?wait=-1", "?maxBytes=x", "?lmit=1"] {
        let path = format!("/v1/exchange/messages{query}");
        let answer = world.ask(Some(&phone.token), "GET", &path, &Value::Null).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "request.malformed"), "{query}");
    }
    assert_eq!(world.ack(&phone, &["r-1", "r-2"]).await.json()["acked"], 2);
    let again = world.ack(&phone, &["r-2", "r-3"]).await.json();
    assert_eq!((&again["acked"], &again["again"]), (&json!(1), &json!(1)));
    let last = world.fetch(&phone, "").await;
    assert_eq!((ids(&last), &last["more"]), (vec!["r-4".to_owned()], &json!(false)));
}

#[tokio::test]
async fn what_is_not_for_a_device_cannot_be_acknowledged() {
    let world = World::start().await;
    let (phone, other) = (world.phone("phone-1").await, world.phone("phone-2").await);
    let replies = json!([reply("r-1", "phone-1", json!(1)), reply("r-2", "phone-2", json!(1))]);
    reply_to(&world, &phone, "m-1", replies).await;
    for ids in [&["r-2"][..], &["r-1", "r-2"], &["m-1"], &["r-9"]] {
        let answer = world.ack(&phone, ids).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "exchange.not_found"), "{ids:?}");
    }
    assert_eq!(ids(&world.fetch(&phone, "").await), ["r-1"]);
    assert_eq!(ids(&world.fetch(&other, "").await), ["r-2"]);
}

#[tokio::test]
async fn answers_of_many_megabytes_come_whole() {
    let world = World::start_with(|settings| settings.exchange.max_files = 100).await;
    let phone = world.phone("phone-1").await;
    let text = "x".repeat(700 << 10);
    for n in 0..5 {
        world.send(&phone, &format!("m-{n}"), json!(text)).await;
    }
    let answer = world.begin_process(json!({})).await.json();
    let messages = answer["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 5);
    for (n, message) in messages.iter().enumerate() {
        assert_eq!(message["id"], format!("m-{n}"));
        assert_eq!((&message["attempt"], &message["payload"]), (&json!(1), &json!(text)));
    }
    let process = answer["processId"].as_str().unwrap();
    let replies: Vec<Value> =
        (0..6).map(|n| reply(&format!("r-{n}"), "phone-1", json!(text))).collect();
    let served: Vec<String> = (0..5).map(|n| format!("m-{n}")).collect();
    let prepared = world.prepare(process, &served, json!(replies)).await;
    assert!(is_ok(&prepared), "{}", prepared.text());
    assert!(is_ok(&world.commit(process).await));
    let fetched = world.fetch(&phone, "").await;
    assert_eq!(ids(&fetched).len(), 6);
    assert_eq!(fetched["messages"][5]["payload"], json!(text));
}
