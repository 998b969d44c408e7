//! `/v1/streams/topics/{topic}/tail`

use handoff_streams::partition_of_key;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http_client::{until, until_closed};
use crate::world::World;

const READY: &str = "event: ready\ndata: {\"version\":1}\n\n";

/// A tail that is ready, and what it has said already.
async fn tail(world: &World, topic: &str, query: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let path = format!("/v1/streams/topics/{topic}/tail{query}");
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let read = until(&mut stream, READY).await;
    assert!(read.starts_with("HTTP/1.1 200 OK"), "{read}");
    assert!(read.contains("content-type: text/event-stream\r\n"), "{read}");
    let rest = read.split_once(READY).unwrap().1.to_owned();
    (stream, rest)
}

/// What a tail says until a text comes.
pub async fn everything_until(world: &World, path: &str, text: &str) -> String {
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    until(&mut stream, text).await
}

/// Id and data of every message that came whole.
fn told(read: &str) -> Vec<(String, Value)> {
    let events = read.split("event: message\nid: ").skip(1);
    let event = |text: &str| {
        let (id, rest) = text.split_once("\ndata: ")?;
        let data = serde_json::from_str(rest.split("\n\n").next()?).ok()?;
        Some((id.to_owned(), data))
    };
    events.filter_map(event).collect()
}

/// Reads until so many messages have come.
async fn messages(stream: &mut TcpStream, mut read: String, count: usize) -> Vec<(String, Value)> {
    while told(&read).len() < count {
        read.push_str(&until(stream, "\n\n").await);
    }
    told(&read)
}

#[tokio::test]
async fn messages_are_told_as_they_come() {
    let world = World::start().await;
    world.topic("orders", 2).await;
    world.produce("orders", json!([{"payload": "before", "partition": 0}])).await;
    let (mut stream, rest) = tail(&world, "orders", "").await;
    world.produce("orders", json!([{"payload": "one", "partition": 0, "key": "k"}])).await;
    world.produce("orders", json!([{"payload": "two", "partition": 1}])).await;
    let told = messages(&mut stream, rest, 2).await;
    let (id, data) = &told[0];
    assert_eq!((&**id, &data["payload"], &data["key"]), ("0:1", &json!("one"), &json!("k")));
    assert_eq!((&data["version"], &data["topic"]), (&json!(1), &json!("orders")));
    assert_eq!((&data["partition"], &data["offset"]), (&json!(0), &json!(1)));
    assert_eq!((&*told[1].0, &told[1].1["payload"]), ("1:0", &json!("two")));
}

#[tokio::test]
async fn a_tail_from_the_earliest_tells_everything_once() {
    let world = World::start().await;
    world.topic("orders", 3).await;
    for n in 0..30 {
        world.produce("orders", json!([{"payload": format!("{n}"), "partition": n % 3}])).await;
    }
    let (mut stream, rest) = tail(&world, "orders", "?from=earliest").await;
    world.produce("orders", json!([{"payload": "30", "partition": 0}])).await;
    let told = messages(&mut stream, rest, 31).await;
    let mut ids: Vec<&String> = told.iter().map(|(id, _)| id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 31);
    for partition in 0..3 {
        let of = told.iter().filter(|(_, data)| data["partition"] == partition);
        let offsets: Vec<u64> = of.map(|(_, data)| data["offset"].as_u64().unwrap()).collect();
        assert!(offsets.is_sorted(), "in order: {offsets:?}");
    }
}

#[tokio::test]
async fn a_tail_of_a_partition_or_a_key_tells_only_that() {
    let world = World::start().await;
    world.topic("orders", 4).await;
    let of_key = partition_of_key(b"k", 4);
    let other = (of_key + 1) % 4;
    let (mut by_key, key_rest) = tail(&world, "orders", "?key=k").await;
    let (mut by_partition, rest) = tail(&world, "orders", &format!("?partition={other}")).await;
    world.produce("orders", json!([{"payload": "no", "partition": of_key, "key": "x"}])).await;
    world.produce("orders", json!([{"payload": "yes", "key": "k"}])).await;
    world.produce("orders", json!([{"payload": "other", "partition": other}])).await;
    assert_eq!(messages(&mut by_key, key_rest, 1).await[0].1["payload"], "yes");
    assert_eq!(messages(&mut by_partition, rest, 1).await[0].1["payload"], "other");
}

#[tokio::test]
async fn partitions_that_a_topic_grows_by_are_told_too() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let (mut stream, rest) = tail(&world, "orders", "").await;
    let grow = json!({"version": 1, "partitions": 2});
    assert_eq!(world.post("/v1/streams/topics/orders/partitions", &grow).await.status, 200);
    world.produce("orders", json!([{"payload": "new", "partition": 1}])).await;
    assert_eq!(messages(&mut stream, rest, 1).await[0].0, "1:0");
}

#[tokio::test]
async fn a_tail_ends_with_its_topic_and_says_so() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let (mut stream, _) = tail(&world, "orders", "").await;
    world.delete("/v1/streams/topics/orders").await;
    let read = until(&mut stream, "\"reason\"").await;
    assert!(read.contains("event: closed\ndata: {\"version\":1,\"reason\":\"deleted\"}"), "{read}");
}

#[tokio::test]
async fn a_tail_ends_with_the_server_and_says_so() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let (mut stream, _) = tail(&world, "orders", "").await;
    world.tell_to_stop();
    let read = until_closed(&mut stream).await;
    assert!(
        read.contains("event: closed\ndata: {\"version\":1,\"reason\":\"stopping\"}"),
        "{read}"
    );
}

#[tokio::test]
async fn a_token_that_is_revoked_ends_its_tails() {
    let (world, admin) = World::locked().await;
    let topic = json!({"version": 1, "name": "orders"});
    world.ask(&admin, "POST", "/v1/streams/topics", &topic).await;
    let body = json!({"version": 1, "name": "reader", "scopes": ["streams"]});
    let made = world.ask(&admin, "POST", "/v1/tokens", &body).await.json();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let head = format!(
        "GET /v1/streams/topics/orders/tail HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    until(&mut stream, READY).await;
    let path = format!("/v1/tokens/{id}");
    assert_eq!(world.ask(&admin, "DELETE", &path, &Value::Null).await.status, 200);
    let message = json!({"version": 1, "messages": [{"payload": "secret"}]});
    world.ask(&admin, "POST", "/v1/streams/topics/orders/messages", &message).await;
    let read = until(&mut stream, "\"reason\":\"revoked\"").await;
    assert!(!read.contains("secret"), "{read}");
}
