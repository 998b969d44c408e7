//! Topics: what is asked and what is understood, call by call.

use std::time::Duration;

use handoff_sdk::streams::{Compression, Durability, NewTopic, TopicChanges};
use handoff_sdk::{Client, Error};
use serde_json::{Value, json};

use crate::peer::{Asked, answer, listener, ok, within};

fn topic() -> Value {
    json!({"name": "orders", "id": 7, "partitions": 3, "retentionMs": 1000,
        "retentionBytes": null, "durability": "os", "compression": "zstd",
        "createdAt": "2027-01-15T08:00:00Z", "colour": "red"})
}

fn shown() -> Value {
    json!({ "version": 1, "topic": topic() })
}

async fn call<T>(reply: &str, ask: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> (T, Asked) {
    let listener = listener().await;
    let client = listener.client();
    let (result, asked) = within(async { tokio::join!(ask(&client), listener.serve(reply)) }).await;
    (result.unwrap(), asked)
}

#[tokio::test]
async fn a_topic_is_made_as_it_was_asked_for() {
    let reply = answer("201 Created", "application/json", &shown().to_string());
    let new = NewTopic::new("orders");
    let (made, asked) = call(&reply, async |client| client.streams().create(&new).await).await;
    assert_eq!(asked.line, "POST /v1/streams/topics");
    assert_eq!(asked.json(), json!({"version": 1, "name": "orders"}), "the rest is the server's");
    assert_eq!((made.name.as_str(), made.id, made.partitions), ("orders", 7, 3));
    assert_eq!((made.durability, made.compression), (Durability::Os, Compression::Zstd));
    assert_eq!((made.retention_ms, made.retention_bytes), (Some(1000), None));
    assert_eq!(made.more["colour"], "red");

    let new = NewTopic::new("orders")
        .partitions(3)
        .retention(Duration::from_secs(60))
        .retention_bytes(1 << 30)
        .durability(Durability::Fsync)
        .compression(Compression::Lz4);
    let (_, asked) = call(&reply, async |client| client.streams().create(&new).await).await;
    assert_eq!(
        asked.json(),
        json!({"version": 1, "name": "orders", "partitions": 3, "retentionMs": 60000,
            "retentionBytes": 1_u64 << 30, "durability": "fsync", "compression": "lz4"})
    );
}

#[tokio::test]
async fn topics_are_listed_page_by_page() {
    let reply = ok(&json!({"version": 1, "topics": [topic()], "next": "orders"}).to_string());
    let (page, asked) =
        call(&reply, async |client| client.streams().list(Some("a&b"), Some(1)).await).await;
    assert_eq!(asked.line, "GET /v1/streams/topics?after=a%26b&limit=1");
    assert_eq!((page.topics[0].name.as_str(), page.next.as_deref()), ("orders", Some("orders")));
    let (_, asked) = call(&reply, async |client| client.streams().list(None, None).await).await;
    assert_eq!(asked.line, "GET /v1/streams/topics");
}

#[tokio::test]
async fn a_list_that_does_not_go_on_is_not_followed_for_ever() {
    let listener = listener().await;
    let client = listener.client();
    let reply = ok(&json!({"version": 1, "topics": [], "next": "b"}).to_string());
    let streams = client.streams();
    let listing = streams.list(Some("b"), None);
    let (page, _) = within(async { tokio::join!(listing, listener.serve(&reply)) }).await;
    assert!(matches!(page, Err(Error::Protocol { .. })), "{page:?}");
}

#[tokio::test]
async fn a_topic_is_shown_with_its_partitions() {
    let mut body = shown();
    body["topic"]["messages"] = json!(12);
    body["topic"]["skew"] = json!({"most": 30, "least": 10, "ratio": 1.5});
    body["topic"]["partitionList"] = json!([
        {"partition": 0, "start": 1, "end": 9, "bytes": 30, "lastTimestamp": "2027-01-15T08:00:00Z"},
        {"partition": 1, "start": 0, "end": 0, "bytes": 10}
    ]);
    let reply = ok(&body.to_string());
    let (topic, asked) = call(&reply, async |client| client.streams().topic("a/b").await).await;
    assert_eq!(asked.line, "GET /v1/streams/topics/a%2Fb");
    assert_eq!((topic.messages, topic.skew.unwrap().ratio), (Some(12), Some(1.5)));
    assert_eq!((topic.partition_list[0].start, topic.partition_list[0].end), (1, 9));
    assert_eq!(topic.partition_list[1].last_timestamp, None);
}

#[tokio::test]
async fn a_topic_is_grown_altered_and_deleted() {
    let reply = ok(&shown().to_string());
    let (_, asked) = call(&reply, async |client| client.streams().grow("orders", 9).await).await;
    assert_eq!(asked.line, "POST /v1/streams/topics/orders/partitions");
    assert_eq!(asked.json(), json!({"version": 1, "partitions": 9}));

    let changes = TopicChanges::new()
        .retention(None)
        .retention_bytes(Some(5))
        .durability(Durability::Os)
        .compression(Compression::Gzip);
    let (_, asked) =
        call(&reply, async |client| client.streams().alter("orders", &changes).await).await;
    assert_eq!(asked.line, "PATCH /v1/streams/topics/orders");
    assert_eq!(
        asked.json(),
        json!({"version": 1, "retentionMs": null, "retentionBytes": 5, "durability": "os",
            "compression": "gzip"})
    );
    let changes = TopicChanges::new().retention(Some(Duration::from_secs(1)));
    assert!(!changes.is_empty() && TopicChanges::new().is_empty());
    let (_, asked) =
        call(&reply, async |client| client.streams().alter("orders", &changes).await).await;
    assert_eq!(asked.json(), json!({"version": 1, "retentionMs": 1000}), "the rest stays");

    let gone = "HTTP/1.1 204 No Content\r\n\r\n";
    let ((), asked) = call(gone, async |client| client.streams().delete("orders").await).await;
    assert_eq!(asked.line, "DELETE /v1/streams/topics/orders");
}

#[tokio::test]
async fn messages_that_wait_are_listed_and_cancelled() {
    let reply = ok(&json!({"version": 1, "next": "b", "scheduled": [
        {"id": "a", "deliverAt": "2027-01-15T08:00:00Z", "key": {"base64": "/w=="}, "bytes": 7}
    ]})
    .to_string());
    let (page, asked) =
        call(&reply, async |client| client.streams().scheduled("orders", Some("z"), Some(9)).await)
            .await;
    assert_eq!(asked.line, "GET /v1/streams/topics/orders/scheduled?after=z&limit=9");
    assert_eq!((page.scheduled[0].id.as_str(), page.scheduled[0].bytes), ("a", 7));
    assert_eq!(page.next.as_deref(), Some("b"));
    let gone = "HTTP/1.1 204 No Content\r\n\r\n";
    let ((), asked) = call(gone, async |client| client.streams().cancel("a/b").await).await;
    assert_eq!(asked.line, "DELETE /v1/streams/scheduled/a%2Fb");
}
