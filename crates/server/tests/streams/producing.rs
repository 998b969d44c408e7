//! Messages come in: the seed's points 1 to 3, in both formats.

use handoff_streams::partition_of_key;
use serde_json::{Value, json};

use crate::world::{World, unpack};

/// A producer that was never heard of.
const PRODUCER: &str = "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab";

fn from(sequence: u64, payloads: &[&str]) -> Value {
    let messages: Vec<Value> = payloads.iter().map(|payload| json!({"payload": payload})).collect();
    json!({"version": 1, "producer": PRODUCER, "sequence": sequence, "messages": messages})
}

fn statuses(answer: &Value) -> Vec<&str> {
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|result| result["status"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_is_stored_can_be_read_where_it_was_said_to_be() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let stored =
        world.produce("orders", json!([{"payload": "one"}, {"key": "k", "payload": "two"}])).await;
    assert_eq!(stored[0], json!({"status": "stored", "partition": 0, "offset": 0}));
    assert_eq!(stored[1], json!({"status": "stored", "partition": 0, "offset": 1}));
    let page = world.read("orders", 0, "").await;
    assert_eq!(
        (&page["start"], &page["end"], &page["nextOffset"]),
        (&json!(0), &json!(2), &json!(2))
    );
    assert_eq!((&page["topic"], &page["partition"]), (&json!("orders"), &json!(0)));
    assert_eq!(page["messages"][0]["payload"], "one");
    assert_eq!(page["messages"][0].get("key"), None);
    assert_eq!(page["messages"][1]["key"], "k");
    assert!(page["messages"][1]["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn the_next_sequence_is_stored() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    assert_eq!(statuses(&world.produced("orders", &from(7, &["a"])).await), ["stored"]);
    let next = world.produced("orders", &from(8, &["b", "c"])).await;
    assert_eq!(statuses(&next), ["stored", "stored"]);
    assert_eq!(next.get("missing"), None, "the first sequence never counts as a gap");
    assert_eq!(world.payloads("orders", 0).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_request_that_is_repeated_is_a_duplicate_with_its_place() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let request = from(1, &["a", "b"]);
    world.produced("orders", &request).await;
    let again = world.produced("orders", &request).await;
    assert_eq!(statuses(&again), ["duplicate", "duplicate"]);
    assert_eq!(again["results"][1], json!({"status": "duplicate", "partition": 0, "offset": 1}));
    let half_new = world.produced("orders", &from(2, &["b", "c"])).await;
    assert_eq!(statuses(&half_new), ["duplicate", "stored"]);
    assert_eq!(world.payloads("orders", 0).await, ["a", "b", "c"]);
}

#[tokio::test]
async fn a_gap_is_stored_named_and_can_be_filled_late() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.produced("orders", &from(1, &["a"])).await;
    let gap = world.produced("orders", &from(5, &["e"])).await;
    assert_eq!(statuses(&gap), ["stored_after_gap"]);
    assert_eq!(gap["missing"], json!([{"from": 2, "to": 4}]));
    let late = world.produced("orders", &from(3, &["c"])).await;
    assert_eq!(statuses(&late), ["stored_late"]);
    assert_eq!(statuses(&world.produced("orders", &from(3, &["c"])).await), ["duplicate"]);
    assert_eq!(world.payloads("orders", 0).await, ["a", "e", "c"]);
}

#[tokio::test]
async fn a_sequence_with_other_content_is_refused_and_nothing_is_stored() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.produced("orders", &from(1, &["a"])).await;
    let path = "/v1/streams/topics/orders/messages";
    let reused = world.post(path, &from(1, &["other"])).await;
    assert_eq!((reused.status, &*reused.code()), (409, "streams.sequence_reused"));
    let partly = world.post(path, &from(1, &["other", "new"])).await;
    assert_eq!(partly.status, 409, "all or none");
    assert_eq!(world.payloads("orders", 0).await, ["a"]);
}

#[tokio::test]
async fn a_sequence_older_than_what_is_remembered_is_refused() {
    let world = World::start_with(|settings| settings.streams.bounds.remembered_max = 2).await;
    world.topic("orders", 1).await;
    world.produced("orders", &from(10, &["a"])).await;
    let old = world.post("/v1/streams/topics/orders/messages", &from(3, &["x"])).await;
    assert_eq!((old.status, &*old.code()), (409, "streams.sequence_too_old"));
    assert_eq!(world.payloads("orders", 0).await, ["a"]);
}

#[tokio::test]
async fn a_producer_learns_where_it_was() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let path = "/v1/streams/producers";
    let made = world.post(path, &json!({"version": 1, "name": "till 7"})).await;
    assert_eq!(made.status, 200, "{}", made.text());
    let made = made.json();
    assert_eq!((&made["scope"], &made["last"]), (&json!("producer"), &json!({})));
    assert_eq!(made.get("lastSequence"), None);
    let id = made["producer"].as_str().unwrap();
    let request = json!({
        "version": 1, "producer": id, "sequence": 41, "messages": [{"payload": "a"}],
    });
    world.produced("orders", &request).await;
    let again = world.post(path, &json!({"version": 1, "producer": id})).await.json();
    assert_eq!((&again["producer"], &again["lastSequence"]), (&json!(id), &json!(41)));

    let scoped = world.post(path, &json!({"version": 1, "scope": "topic"})).await.json();
    let id = scoped["producer"].as_str().unwrap();
    let request = json!({
        "version": 1, "producer": id, "sequence": 0, "messages": [{"payload": "a"}],
    });
    world.produced("orders", &request).await;
    let again = world.post(path, &json!({"version": 1, "producer": id})).await.json();
    assert_eq!(again["last"], json!({"orders": 0}));
}

#[tokio::test]
async fn messages_without_a_key_go_where_there_is_least_and_stay_together() {
    let world = World::start().await;
    world.topic("orders", 3).await;
    world.produce("orders", json!([{"payload": "x".repeat(100), "partition": 0}])).await;
    world.produce("orders", json!([{"payload": "x".repeat(100), "partition": 2}])).await;
    let stored = world.produce("orders", json!([{"payload": "a"}, {"payload": "b"}])).await;
    let places: Vec<_> = stored.iter().map(|one| one["partition"].as_u64()).collect();
    assert_eq!(places, [Some(1), Some(1)]);
}

#[tokio::test]
async fn messages_of_a_key_go_to_its_partition_and_a_named_partition_wins() {
    let world = World::start().await;
    world.topic("orders", 16).await;
    for key in ["till 1", "till 2", "мир", ""] {
        let stored = world.produce("orders", json!([{"key": key, "payload": "a"}])).await;
        assert_eq!(stored[0]["partition"], partition_of_key(key.as_bytes(), 16), "{key}");
        let named = json!([{"key": key, "payload": "a", "partition": 9}]);
        assert_eq!(world.produce("orders", named).await[0]["partition"], 9);
    }
}

#[tokio::test]
async fn bytes_of_every_kind_come_back_as_they_were_sent() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let messages = json!([
        {"payload": {"base64": "AP8="}, "key": {"base64": "/w=="},
         "headers": {"b": "text", "a": {"base64": "gA=="}}},
        {"payload": ""},
        {"payload": "two\nlines \"quoted\" мир"},
    ]);
    world.produce("orders", messages.clone()).await;
    let page = world.read("orders", 0, "").await;
    for (read, sent) in
        page["messages"].as_array().unwrap().iter().zip(messages.as_array().unwrap())
    {
        for field in ["payload", "key", "headers"] {
            assert_eq!(read.get(field), sent.get(field), "{field}");
        }
    }
}

#[tokio::test]
async fn messagepack_is_read_and_answered() {
    let world = World::start().await;
    let path = "/v1/streams/topics";
    let made =
        world.post_packed(path, &json!({"version": 1, "name": "orders", "partitions": 2})).await;
    assert_eq!((made.status, made.header("content-type")), (201, Some("application/msgpack")));
    assert_eq!(unpack(&made.body)["topic"]["partitions"], 2);
    let body = json!({
        "version": 1, "producer": PRODUCER, "sequence": 3,
        "messages": [{"payload": "a", "key": "k", "headers": {"h": "v"}, "partition": 1}],
    });
    let stored = world.post_packed("/v1/streams/topics/orders/messages", &body).await;
    assert_eq!(stored.status, 200);
    let results = json!([{"status": "stored", "partition": 1, "offset": 0}]);
    assert_eq!(unpack(&stored.body), json!({"version": 1, "results": results}));

    let headers = [("accept", "application/msgpack")];
    let path = "/v1/streams/topics/orders/partitions/1/messages";
    let read = crate::http_client::ask(world.address, "GET", path, &headers, "").await;
    assert_eq!(read.header("content-type"), Some("application/msgpack"));
    let page = unpack(&read.body);
    assert_eq!(
        (&page["version"], &page["nextOffset"], &page["end"]),
        (&json!(1), &json!(1), &json!(1))
    );
    let message = &page["messages"][0];
    assert_eq!((&message["payload"], &message["key"]), (&json!("a"), &json!("k")));
    assert_eq!(message["headers"], json!({"h": "v"}));
    // Whoever writes MessagePack and wants JSON gets it.
    let headers = [("content-type", "application/msgpack"), ("accept", "application/json")];
    let body = crate::world::pack(&json!({"version": 1, "messages": [{"payload": "b"}]}));
    let path = "/v1/streams/topics/orders/messages";
    let stored = crate::http_client::ask(world.address, "POST", path, &headers, body).await;
    assert_eq!(stored.json()["results"][0]["status"], "stored");
}

#[tokio::test]
async fn a_topic_with_durability_os_is_read_like_any_other() {
    let world = World::start().await;
    world.topic_with("fast", 1, json!({"durability": "os"})).await;
    world.produce("fast", json!([{"payload": "a"}])).await;
    // The answer does not wait for the disk, so the message may still be on its way.
    let page = world.read("fast", 0, "?waitMs=30000").await;
    assert_eq!(crate::world::payloads(&page), ["a"]);
    let world = world.restart().await;
    assert_eq!(world.payloads("fast", 0).await, ["a"]);
}

#[tokio::test]
async fn large_requests_from_many_at_once_are_all_stored() {
    let world = World::start_with(|settings| {
        settings.log.limits.journal_bytes_max = 64 << 20;
        settings.log.limits.room_queue_bytes_max = 1 << 20;
    })
    .await;
    world.topic("orders", 4).await;
    let payload = "x".repeat(10_000);
    let messages: Vec<Value> = (0..40).map(|_| json!({"payload": payload})).collect();
    let body = json!({"version": 1, "messages": messages});
    let all = (0..64).map(|_| world.produced("orders", &body));
    let mut stored = Vec::new();
    // One connection each, all at once: more than the journal's queue takes in one go.
    let mut running: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        running.retain_mut(|one| match one.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                stored.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if running.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    let topic = world.get("/v1/streams/topics/orders").await.json();
    assert_eq!(topic["topic"]["messages"], 64 * 40);
}
