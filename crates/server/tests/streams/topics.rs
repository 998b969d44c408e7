//! Topics come, change and go.

use handoff_server::settings::{Compression, DeclaredTopic, Durability};
use serde_json::{Value, json};

use crate::world::{World, payloads};

const TOPICS: &str = "/v1/streams/topics";

fn names(page: &Value) -> Vec<&str> {
    let topics = page["topics"].as_array().unwrap();
    topics.iter().map(|topic| topic["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_topic_is_made_listed_and_shown() {
    let world = World::start().await;
    let body = json!({
        "version": 1, "name": "orders", "partitions": 3, "retentionMs": 60_000,
        "retentionBytes": 1_000_000, "durability": "os", "compression": "zstd",
    });
    let made = world.post(TOPICS, &body).await;
    assert_eq!((made.status, made.header("location")), (201, Some("/v1/streams/topics/orders")));
    let topic = made.json()["topic"].clone();
    for field in
        ["name", "partitions", "retentionMs", "retentionBytes", "durability", "compression"]
    {
        assert_eq!(topic[field], body[field], "{field}");
    }
    assert!(topic["id"].is_u64() && topic["createdAt"].as_str().unwrap().ends_with('Z'));
    let page = world.get(TOPICS).await.json();
    assert_eq!((names(&page), &page["topics"][0]["messages"]), (vec!["orders"], &json!(0)));
    world.produce("orders", json!([{"payload": "a", "partition": 1}])).await;
    let page = world.read("orders", 1, "?waitMs=30000").await;
    assert_eq!(payloads(&page), ["a"]);
    let shown = world.get("/v1/streams/topics/orders").await.json()["topic"].clone();
    assert_eq!(shown["messages"], 1);
    assert_eq!(shown["partitionList"].as_array().unwrap().len(), 3);
    let second = &shown["partitionList"][1];
    assert_eq!(
        (&second["partition"], &second["start"], &second["end"]),
        (&json!(1), &json!(0), &json!(1))
    );
    assert_eq!(second["bytes"], shown["bytes"]);
    assert_eq!(second["lastTimestamp"], page["messages"][0]["timestamp"]);
    assert_eq!(shown["skew"]["least"], 0);
    assert_eq!(shown["skew"]["most"], shown["bytes"]);
    assert_eq!(shown["skew"]["ratio"], 3.0);
}

#[tokio::test]
async fn a_topic_that_says_nothing_has_the_settings_of_the_room() {
    let world =
        World::start_with(|settings| settings.streams.retention_bytes = Some(7 << 20)).await;
    let topic = world.topic_with("plain", 1, json!({})).await;
    assert_eq!(topic["retentionMs"], 168 * 3_600_000);
    assert_eq!(topic["retentionBytes"], 7 << 20);
    assert_eq!((&topic["durability"], &topic["compression"]), (&json!("fsync"), &json!("none")));
    let topic =
        world.topic_with("kept", 1, json!({"retentionMs": null, "retentionBytes": null})).await;
    assert_eq!((&topic["retentionMs"], &topic["retentionBytes"]), (&json!(null), &json!(null)));
}

#[tokio::test]
async fn topics_are_listed_by_name_page_by_page() {
    let world = World::start().await;
    for name in ["c", "a", "e", "b", "d"] {
        world.topic(name, 1).await;
    }
    let first = world.get("/v1/streams/topics?limit=2").await.json();
    assert_eq!((names(&first), &first["next"]), (vec!["a", "b"], &json!("b")));
    let second = world.get("/v1/streams/topics?limit=2&after=b").await.json();
    assert_eq!((names(&second), &second["next"]), (vec!["c", "d"], &json!("d")));
    let last = world.get("/v1/streams/topics?limit=2&after=d").await.json();
    assert_eq!((names(&last), last.get("next")), (vec!["e"], None));
}

#[tokio::test]
async fn settings_that_are_not_named_stay_and_null_clears_a_retention() {
    let world = World::start().await;
    world.topic_with("orders", 1, json!({"retentionMs": 5_000, "retentionBytes": 9})).await;
    let path = "/v1/streams/topics/orders";
    let altered = world.send("PATCH", path, &json!({"version": 1, "compression": "lz4"})).await;
    assert_eq!(altered.status, 200, "{}", altered.text());
    let topic = altered.json()["topic"].clone();
    assert_eq!((&topic["retentionMs"], &topic["retentionBytes"]), (&json!(5_000), &json!(9)));
    assert_eq!((&topic["durability"], &topic["compression"]), (&json!("fsync"), &json!("lz4")));
    let change = json!({"version": 1, "retentionMs": null, "durability": "os"});
    let topic = world.send("PATCH", path, &change).await.json()["topic"].clone();
    assert_eq!((&topic["retentionMs"], &topic["retentionBytes"]), (&json!(null), &json!(9)));
    let shown = world.get(path).await.json()["topic"].clone();
    assert_eq!((&shown["retentionMs"], &shown["durability"]), (&json!(null), &json!("os")));
}

#[tokio::test]
async fn a_topic_grows_and_never_shrinks() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    let path = "/v1/streams/topics/orders/partitions";
    let refused = world.post(path, &json!({"version": 1, "partitions": 1})).await;
    assert_eq!((refused.status, &*refused.code()), (422, "streams.invalid"));
    let grown = world.post(path, &json!({"version": 1, "partitions": 5})).await;
    assert_eq!((grown.status, &grown.json()["topic"]["partitions"]), (200, &json!(5)));
    world.produce("orders", json!([{"payload": "a", "partition": 4}])).await;
    assert_eq!(world.payloads("orders", 4).await, ["a"]);
}

#[tokio::test]
async fn a_topic_of_the_same_name_has_nothing_of_the_one_before() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    world.produce("orders", json!([{"payload": "old", "partition": 0}])).await;
    let gone = world.delete("/v1/streams/topics/orders").await;
    assert_eq!((gone.status, &gone.json()["topic"]["name"]), (200, &json!("orders")));
    let path = "/v1/streams/topics/orders/partitions/0/messages";
    assert_eq!(world.get(path).await.code(), "streams.topic_not_found");
    world.topic("orders", 2).await;
    assert!(world.payloads("orders", 0).await.is_empty());
    world.produce("orders", json!([{"payload": "new", "partition": 0}])).await;
    let world = world.restart().await;
    assert_eq!(world.payloads("orders", 0).await, ["new"]);
}

#[tokio::test]
async fn what_an_administrator_does_to_topics_is_in_the_audit() {
    let (world, admin) = World::locked().await;
    let body = json!({"version": 1, "name": "orders", "partitions": 1});
    world.ask(&admin, "POST", TOPICS, &body).await;
    let path = "/v1/streams/topics/orders";
    world.ask(&admin, "PATCH", path, &json!({"version": 1, "compression": "lz4"})).await;
    let grow = json!({"version": 1, "partitions": 2});
    world.ask(&admin, "POST", &format!("{path}/partitions"), &grow).await;
    world.ask(&admin, "DELETE", path, &Value::Null).await;
    let acts = world.ask(&admin, "GET", "/v1/audit", &Value::Null).await.json();
    let acts: Vec<_> = acts["acts"].as_array().unwrap().iter().take(3).collect();
    let said: Vec<_> = acts
        .iter()
        .map(|act| (act["kind"].as_str().unwrap(), act["target"].as_str().unwrap()))
        .collect();
    assert_eq!(
        said,
        [
            ("deleted", "topic orders"),
            ("altered", "topic orders to 2 partitions"),
            ("altered", "settings of topic orders"),
        ]
    );
}

fn declared(name: &str, partitions: u32) -> DeclaredTopic {
    DeclaredTopic {
        name: name.parse().unwrap(),
        partitions,
        retention: None,
        retention_bytes: Some(5),
        durability: Durability::Os,
        compression: Compression::Gzip,
    }
}

#[tokio::test]
async fn declared_topics_are_made_at_start_grown_and_never_shrunk() {
    let world =
        World::start_with(|settings| settings.streams.topics = vec![declared("orders", 2)]).await;
    let topic = world.get("/v1/streams/topics/orders").await.json()["topic"].clone();
    assert_eq!((&topic["partitions"], &topic["retentionBytes"]), (&json!(2), &json!(5)));
    assert_eq!((&topic["durability"], &topic["compression"]), (&json!("os"), &json!("gzip")));
    let world = world
        .restart_with(|settings| {
            settings.streams.topics = vec![declared("orders", 4), declared("second", 1)];
        })
        .await;
    let page = world.get(TOPICS).await.json();
    assert_eq!(
        (names(&page), &page["topics"][0]["partitions"]),
        (vec!["orders", "second"], &json!(4))
    );
    let world =
        world.restart_with(|settings| settings.streams.topics = vec![declared("orders", 3)]).await;
    let page = world.get(TOPICS).await.json();
    assert_eq!(
        (names(&page), &page["topics"][0]["partitions"]),
        (vec!["orders", "second"], &json!(4))
    );
}
