//! Groups that are sent elsewhere, and what a message is to them.

use serde_json::{Value, json};

use crate::members::{all_answered, delivered, outcomes};
use crate::world::World;

const SEEK: &str = "/v1/streams/groups/billing/seek";

async fn seek(world: &World, body: Value) -> Value {
    let mut whole = json!({"version": 1, "topic": "orders"});
    whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let answer = world.post(SEEK, &whole).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_preview_says_what_a_seek_does_and_does_nothing() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c", "d"]).await;
    let member = world.join("billing").await;
    let first = world.poll_with(&member, json!({"maxMessages": 2})).await;
    world.commit(&member, all_answered(&first, "ok")).await;
    let held = world.poll_with(&member, json!({"maxMessages": 1})).await;
    let expected = json!([{
        "topic": "orders", "partition": 0, "from": 2, "to": 0, "again": 2, "skipped": 0, "voided": 1,
    }]);
    let preview = seek(&world, json!({"to": "earliest", "preview": true})).await;
    assert_eq!((&preview["partitions"], &preview["preview"]), (&expected, &json!(true)));
    assert_eq!(world.shown_group("billing").await["partitions"][0]["committed"], 2);
    let done = seek(&world, json!({"to": "earliest"})).await;
    assert_eq!((&done["partitions"], &done["preview"]), (&expected, &json!(false)));
    assert_eq!(outcomes(&world.commit(&member, all_answered(&held, "ok")).await), ["fenced"]);
    assert_eq!(delivered(&world.poll(&member).await), ["a", "b", "c", "d"]);
    let audit = world.get("/v1/audit").await.text().to_owned();
    assert!(audit.contains("where group billing is in orders"), "{audit}");
}

#[tokio::test]
async fn a_seek_goes_by_offset_time_and_end_and_wakes_whoever_waits() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    let at = |payload: &str, partition| json!([{"payload": payload, "partition": partition}]);
    for payload in ["a", "b", "c"] {
        world.produce("orders", at(payload, 0)).await;
    }
    world.produce("orders", at("z", 1)).await;
    let member = world.join("billing").await;
    let skipped = seek(&world, json!({"to": "latest"})).await;
    let counts: Vec<&Value> =
        skipped["partitions"].as_array().unwrap().iter().map(|one| &one["skipped"]).collect();
    assert_eq!(counts, [3, 1]);
    let (batches, sought) = tokio::join!(world.poll(&member), async {
        while world.get("/v1/streams/stats").await.json()["waitingReaders"] != 1 {}
        seek(&world, json!({"partition": 0, "to": {"offset": 1}})).await
    });
    assert_eq!(sought["partitions"].as_array().unwrap().len(), 1);
    assert_eq!(delivered(&batches), ["b", "c"]);
    let third = world.read("orders", 0, "?offset=2").await["messages"][0]["timestamp"].clone();
    let by_time = seek(&world, json!({"partition": 0, "to": {"time": third}})).await;
    let to = by_time["partitions"][0]["to"].as_u64().unwrap();
    // Messages of one millisecond have one time.
    let page = world.read("orders", 0, "").await;
    let first = page["messages"].as_array().unwrap().iter().find(|one| one["timestamp"] == third);
    assert_eq!(first.unwrap()["offset"], to);
    let beyond =
        seek(&world, json!({"to": {"time": "2100-01-01T00:00:00Z"}, "preview": true})).await;
    assert_eq!(beyond["partitions"][0]["to"], 3);
}

#[tokio::test]
async fn what_cannot_be_sought_is_said_in_words() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.join("billing").await;
    for (body, code, words) in [
        (json!({"to": "soon"}), "request.invalid", "a place is"),
        (json!({"to": {"time": "noon"}}), "request.invalid", "is no time"),
        (json!({"to": "latest", "partition": 4}), "streams.partition_not_found", "there is no 4"),
        (json!({"to": "latest", "topic": "none"}), "streams.topic_not_found", "none"),
        (json!({}), "request.invalid", "missing field `to`"),
    ] {
        let mut whole = json!({"version": 1, "topic": "orders"});
        whole.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let answer = world.post(SEEK, &whole).await;
        assert_eq!(answer.code(), code, "{body}");
        assert!(answer.detail().contains(words), "{}", answer.detail());
    }
    let body = json!({"version": 1, "topic": "orders", "to": "latest"});
    let nobody = world.post("/v1/streams/groups/nobody/seek", &body).await;
    assert_eq!(nobody.code(), "streams.group_not_found");
}

#[tokio::test]
async fn every_message_has_a_status_for_every_group() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.orders(&["a", "b", "c", "d"]).await;
    let member = world.join("billing").await;
    let one = json!({"maxMessages": 1});
    let first = world.poll_with(&member, one.clone()).await;
    world.commit(&member, all_answered(&first, "ok")).await;
    let second = world.poll_with(&member, one.clone()).await;
    world.commit(&member, all_answered(&second, "failed")).await;
    world.poll_with(&member, one).await;
    let mut standing = Vec::new();
    for offset in 0..4 {
        standing.push(world.status("billing", offset).await["status"].clone());
    }
    assert_eq!(standing, ["processed", "dead", "processing", "pending"]);
    let status = "/v1/streams/groups/billing/status";
    for (query, code) in [
        ("?topic=orders&partition=0", "request.malformed"),
        ("?topic=orders&partition=0&offset=x", "request.malformed"),
        ("?topic=orders&partition=0&offset=4", "streams.invalid"),
        ("?topic=orders&partition=1&offset=0", "streams.partition_not_found"),
        ("?topic=none&partition=0&offset=0", "streams.topic_not_found"),
        ("?topic=orders&partition=0&offset=0&x=1", "request.malformed"),
    ] {
        assert_eq!(world.get(&format!("{status}{query}")).await.code(), code, "{query}");
    }
    let query = "?topic=orders&partition=0&offset=0";
    let nobody = world.get(&format!("/v1/streams/groups/nobody/status{query}")).await;
    assert_eq!(nobody.code(), "streams.group_not_found");
}
