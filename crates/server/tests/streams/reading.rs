//! What is stored is read: by offset, time and key; as messages and as batches; waiting for more.

use std::time::Duration;

use handoff_streams::{batch, partition_of_key};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::http_client::{self, until};
use crate::world::{World, payloads};

const BATCH: &str = "application/vnd.handoff.batch";

async fn stored(world: &World, count: usize) {
    world.topic("orders", 1).await;
    for n in 0..count {
        world.produce("orders", json!([{"payload": format!("m{n}")}])).await;
    }
}

#[tokio::test]
async fn a_page_begins_at_its_offset_and_says_where_the_next_does() {
    let world = World::start().await;
    stored(&world, 5).await;
    let page = world.read("orders", 0, "?offset=1&limit=2").await;
    assert_eq!((payloads(&page), &page["nextOffset"]), (vec!["m1".into(), "m2".into()], &json!(3)));
    let page = world.read("orders", 0, "?offset=3").await;
    assert_eq!((payloads(&page), &page["nextOffset"]), (vec!["m3".into(), "m4".into()], &json!(5)));
    for beyond in [5, 6, u64::MAX] {
        let page = world.read("orders", 0, &format!("?offset={beyond}")).await;
        assert_eq!((payloads(&page).len(), &page["nextOffset"]), (0, &json!(beyond)));
        assert_eq!(page["end"], 5);
    }
}

#[tokio::test]
async fn a_page_is_bounded_by_bytes_and_has_at_least_one_message() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let messages: Vec<Value> = (0..5).map(|_| json!({"payload": "x".repeat(1_000)})).collect();
    world.produce("orders", json!(messages)).await;
    for (bytes, count) in [(1, 1), (1_000, 1), (1_001, 2), (100_000, 5)] {
        let page = world.read("orders", 0, &format!("?maxBytes={bytes}")).await;
        assert_eq!(payloads(&page).len(), count, "{bytes}");
        assert_eq!(page["nextOffset"], count);
    }
}

#[tokio::test]
async fn a_page_begins_at_a_time() {
    let world = World::start().await;
    stored(&world, 1).await;
    let first = world.read("orders", 0, "").await["messages"][0]["timestamp"].clone();
    let first = first.as_str().unwrap();
    let second = loop {
        // Times are cut to milliseconds: go on until the clock shows another.
        world.produce("orders", json!([{"payload": "later"}])).await;
        let page = world.read("orders", 0, "").await;
        let last = page["messages"].as_array().unwrap().last().unwrap().clone();
        if last["timestamp"] != first {
            break last;
        }
    };
    let time = second["timestamp"].as_str().unwrap();
    let page = world.read("orders", 0, &format!("?time={time}")).await;
    assert_eq!(page["messages"][0]["offset"], second["offset"]);
    let page = world.read("orders", 0, &format!("?time={first}")).await;
    assert_eq!(page["messages"][0]["offset"], 0);
    let page = world.read("orders", 0, "?time=2999-01-01T00:00:00Z").await;
    assert_eq!((payloads(&page).len(), &page["nextOffset"]), (0, &page["end"]));
    let page = world.read("orders", 0, "?time=1999-01-01T00:00:00Z").await;
    assert_eq!(page["messages"][0]["offset"], 0);
}

#[tokio::test]
async fn a_key_is_read_from_its_partition_only() {
    let world = World::start().await;
    world.topic("orders", 8).await;
    for n in 0..6 {
        let key = format!("k{}", n % 3);
        world.produce("orders", json!([{"key": key, "payload": format!("{key} {n}")}])).await;
    }
    let partition = partition_of_key(b"k1", 8);
    let page = world.read("orders", partition, "?key=k1").await;
    assert_eq!(payloads(&page), ["k1 1", "k1 4"]);
    let browsed = world.get("/v1/streams/topics/orders/messages?key=k1").await.json();
    assert_eq!((payloads(&browsed), &browsed["partition"]), (payloads(&page), &json!(partition)));
    assert_eq!(browsed["nextOffset"], browsed["end"]);
    let none = world.get("/v1/streams/topics/orders/messages").await;
    assert_eq!((none.status, &*none.code()), (400, "request.malformed"));
}

#[tokio::test]
async fn batches_are_given_as_they_are_stored_and_decode() {
    let world = World::start().await;
    for compression in ["none", "gzip", "snappy", "lz4", "zstd"] {
        world.topic_with(compression, 1, json!({"compression": compression})).await;
        let text = "again and again ".repeat(100);
        for n in 0..3 {
            let messages = json!([{"key": "k", "payload": text}, {"payload": format!("{n}")}]);
            world.produce(compression, messages).await;
        }
        let path = format!("/v1/streams/topics/{compression}/partitions/0/messages?offset=3");
        let answer = http_client::ask(world.address, "GET", &path, &[("accept", BATCH)], "").await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(BATCH)));
        assert_eq!(answer.header("handoff-start"), Some("0"));
        assert_eq!(answer.header("handoff-end"), Some("6"));
        assert_eq!(answer.header("handoff-next-offset"), Some("6"));
        let mut rest = answer.body.clone();
        let mut read = Vec::new();
        while !rest.is_empty() {
            let head = batch::head(&rest).unwrap();
            let one = rest.split_to(head.bytes);
            read.extend(batch::records(&one, 1 << 20).unwrap());
        }
        let offsets: Vec<u64> = read.iter().map(|record| record.offset).collect();
        assert_eq!(offsets, [2, 3, 4, 5], "the batch that has the offset comes whole");
        assert_eq!(read[0].payload.as_deref(), Some(text.as_bytes()), "{compression}");
        assert_eq!(read[3].payload.as_deref(), Some(&b"2"[..]));
        assert_eq!(world.payloads(compression, 0).await[0], text);
    }
}

#[tokio::test]
async fn a_reader_that_waits_is_woken_by_what_is_stored() {
    let world = World::start().await;
    stored(&world, 1).await;
    let mut waiting = TcpStream::connect(world.address).await.unwrap();
    let path = "/v1/streams/topics/orders/partitions/0/messages?offset=1&waitMs=30000";
    let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    waiting.write_all(head.as_bytes()).await.unwrap();
    waits(&world, 1).await;
    let begun = tokio::time::Instant::now();
    world.produce("orders", json!([{"payload": "woken"}])).await;
    let read = until(&mut waiting, "woken").await;
    assert!(read.starts_with("HTTP/1.1 200 OK"), "{read}");
    assert!(begun.elapsed() < Duration::from_secs(29), "not by its patience");
    waits(&world, 0).await;
}

/// Waits until so many readers wait.
async fn waits(world: &World, count: u64) {
    while world.get("/v1/streams/stats").await.json()["waitingReaders"] != count {}
}

#[tokio::test]
async fn a_reader_that_waits_in_vain_is_answered_with_nothing() {
    let world = World::start().await;
    stored(&world, 1).await;
    let page = world.read("orders", 0, "?offset=1&waitMs=1").await;
    assert_eq!((payloads(&page).len(), &page["nextOffset"]), (0, &json!(1)));
}

#[tokio::test]
async fn whoever_waits_goes_when_the_topic_or_the_server_does() {
    let world = World::start().await;
    stored(&world, 1).await;
    let path = "/v1/streams/topics/orders/partitions/0/messages?offset=1&waitMs=30000";
    let address = world.address;
    let waiting = tokio::spawn(async move { http_client::get(address, path).await });
    waits(&world, 1).await;
    assert_eq!(world.delete("/v1/streams/topics/orders").await.status, 200);
    assert_eq!(waiting.await.unwrap().code(), "streams.topic_not_found");

    stored(&world, 1).await;
    let waiting = tokio::spawn(async move { http_client::get(address, path).await });
    waits(&world, 1).await;
    world.tell_to_stop();
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, &answer.json()["messages"]), (200, &json!([])));
}

#[tokio::test]
async fn a_message_past_its_time_to_live_says_so() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    world.produce("orders", json!([{"payload": "short", "ttlMs": 0}])).await;
    world.produce("orders", json!([{"payload": "long", "ttlMs": 3_600_000}])).await;
    let page = world.read("orders", 0, "").await;
    assert_eq!(page["messages"][0]["expired"], true);
    assert_eq!(page["messages"][1].get("expired"), None);
}

#[tokio::test]
async fn a_topic_can_be_deleted_while_it_is_read() {
    let world = World::start().await;
    world.topic("orders", 1).await;
    let messages: Vec<Value> = (0..200).map(|_| json!({"payload": "x".repeat(1_000)})).collect();
    world.produce("orders", json!(messages)).await;
    let address = world.address;
    let reading: Vec<_> = (0..8)
        .map(|_| {
            tokio::spawn(async move {
                let path = "/v1/streams/topics/orders/partitions/0/messages";
                http_client::get(address, path).await
            })
        })
        .collect();
    assert_eq!(world.delete("/v1/streams/topics/orders").await.status, 200);
    for read in reading {
        let answer = read.await.unwrap();
        match answer.status {
            200 => assert!(answer.json()["messages"].as_array().unwrap().len() <= 200),
            404 => assert_eq!(answer.code(), "streams.topic_not_found"),
            // It was begun before and its segments went under it.
            410 => assert_eq!(answer.code(), "log.trimmed"),
            other => panic!("{other}: {}", answer.text()),
        }
    }
}
