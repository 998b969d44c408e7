//! A topic that is followed: what is there, what comes, and what came while nobody was connected.

use std::time::Duration;

use handoff_sdk::streams::{Start, Tail, TailOptions, Told};
use handoff_sdk::{Backoff, Error};
use serde_json::{Value, json};

use crate::pack::refusal;
use crate::peer::{Listener, Peer, listener, ok, within};
use crate::reading::{message, page, trimmed};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn topic(id: u64, ends: &[(u32, u64)]) -> String {
    let list: Vec<Value> = ends
        .iter()
        .map(|(partition, end)| json!({ "partition": partition, "start": 0, "end": end }))
        .collect();
    ok(&json!({"version": 1, "topic": {"name": "orders", "id": id, "partitions": ends.len(),
        "durability": "fsync", "compression": "none", "createdAt": "2027-01-15T08:00:00Z",
        "partitionList": list}})
    .to_string())
}

fn told(partition: u32, offset: u64) -> String {
    let data = message(offset);
    chunk(&format!("event: message\nid: {partition}:{offset}\ndata: {data}\n\n"))
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn options() -> TailOptions {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    TailOptions::new().from(Start::Earliest).reconnect(Some(backoff))
}

async fn next(tail: &mut Tail) -> Option<Result<Told, Error>> {
    within(tail.next()).await
}

async fn offset(tail: &mut Tail) -> (u32, u64) {
    match next(tail).await {
        Some(Ok(Told::Message(message))) => (message.partition, message.offset),
        other => panic!("{other:?}"),
    }
}

fn at(offset: u64) -> String {
    format!("/partitions/2/messages?offset={offset}")
}

/// A tail of partition 2, which has messages 0 and 1. Gives the connection for requests, and the
/// one of the stream.
async fn tail(listener: &Listener) -> (Tail, Peer, Peer) {
    let client = listener.client();
    let streams = client.streams();
    let server = async {
        let mut peer = listener.accept().await;
        assert_eq!(peer.says(topic(1, &[(2, 2)])).await, "");
        assert_eq!(peer.says(page(&[0, 1], 2, 2)).await, "/partitions/2/messages");
        // The connection is free: the stream takes it.
        assert_eq!(peer.says(HEAD).await, "/tail?from=latest");
        let mut pages = listener.accept().await;
        assert_eq!(pages.says(page(&[2], 3, 3)).await, at(2), "what came between");
        (pages, peer)
    };
    let (tail, (pages, stream)) =
        within(async { tokio::join!(streams.tail("orders", options()), server) }).await;
    let mut tail = tail.unwrap();
    for expected in [0, 1, 2] {
        assert_eq!(offset(&mut tail).await, (2, expected));
    }
    (tail, pages, stream)
}

#[tokio::test]
async fn what_is_there_is_told_and_then_what_comes_each_once() {
    let listener = listener().await;
    let (mut tail, _pages, mut stream) = tail(&listener).await;
    stream.write(chunk("event: ready\ndata: {}\n\n:\n\n").as_bytes()).await;
    for n in [2, 3, 4] {
        stream.write(told(2, n).as_bytes()).await;
    }
    assert_eq!(offset(&mut tail).await, (2, 3), "2 was told before");
    assert_eq!(offset(&mut tail).await, (2, 4));
}

#[tokio::test]
async fn a_tail_that_breaks_goes_on_behind_the_last_message() {
    let listener = listener().await;
    let (mut tail, mut pages, mut stream) = tail(&listener).await;
    stream.write(told(2, 3).as_bytes()).await;
    assert_eq!(offset(&mut tail).await, (2, 3));
    stream.write(&told(2, 4).as_bytes()[..40]).await;
    drop(stream);
    let interrupted = next(&mut tail).await;
    assert!(matches!(interrupted, Some(Ok(Told::Interrupted { .. }))), "{interrupted:?}");
    assert_eq!(pages.says(refusal("503 Busy", "server.busy")).await, "");
    assert_eq!(pages.says(topic(1, &[(2, 6)])).await, "");
    assert_eq!(pages.says(page(&[4, 5], 6, 6)).await, at(4));
    assert_eq!(pages.says(HEAD).await, "/tail?from=latest");
    let mut again = listener.accept().await;
    assert_eq!(again.says(page(&[], 6, 6)).await, at(6));
    for expected in [4, 5] {
        assert_eq!(offset(&mut tail).await, (2, expected));
    }
    assert!(matches!(next(&mut tail).await, Some(Ok(Told::Reconnected))));
    pages.write(told(2, 6).as_bytes()).await;
    assert_eq!(offset(&mut tail).await, (2, 6));
}

#[tokio::test]
async fn a_stream_cut_at_any_byte_leaves_nothing_out_and_tells_nothing_twice() {
    let stream_text = [told(2, 3), told(2, 4)].concat();
    for end in (0..=stream_text.len()).step_by(11) {
        let listener = listener().await;
        let (mut tail, mut pages, mut stream) = tail(&listener).await;
        stream.write(&stream_text.as_bytes()[..end]).await;
        drop(stream);
        let server = async {
            assert_eq!(pages.says(topic(1, &[(2, 6)])).await, "");
            let asked = pages.asked().await.line;
            let from: u64 = asked.rsplit('=').next().unwrap().parse().unwrap();
            let offsets: Vec<u64> = (from..6).collect();
            pages.write(&page(&offsets, 6, 6)).await;
            pages.says(HEAD).await;
            let mut again = listener.accept().await;
            again.says(page(&[], 6, 6)).await;
            (pages, again)
        };
        let take = async {
            let mut offsets = Vec::new();
            loop {
                match tail.next().await {
                    Some(Ok(Told::Message(message))) => offsets.push(message.offset),
                    Some(Ok(Told::Reconnected)) => return offsets,
                    Some(Ok(Told::Interrupted { .. })) => {}
                    other => panic!("{end}: {other:?}"),
                }
            }
        };
        let (offsets, _) = within(async { tokio::join!(take, server) }).await;
        assert_eq!(offsets, [3, 4, 5], "{end}");
    }
}

#[tokio::test]
async fn what_was_past_its_retention_before_it_was_told_is_told_as_lost() {
    let listener = listener().await;
    let (mut tail, mut pages, stream) = tail(&listener).await;
    drop(stream);
    assert!(matches!(next(&mut tail).await, Some(Ok(Told::Interrupted { .. }))));
    assert_eq!(pages.says(topic(1, &[(2, 60)])).await, "");
    assert_eq!(pages.says(trimmed(50)).await, at(3));
    assert_eq!(pages.says(page(&[50], 51, 51)).await, at(50));
    match next(&mut tail).await {
        Some(Ok(Told::Trimmed { partition: 2, lost })) => assert_eq!((lost.from, lost.to), (3, 49)),
        other => panic!("{other:?}"),
    }
    assert_eq!(offset(&mut tail).await, (2, 50));
}

#[tokio::test]
async fn what_the_server_skips_is_told_as_lost() {
    let listener = listener().await;
    let (mut tail, _pages, mut stream) = tail(&listener).await;
    for (from, to, reason) in [(3, 4, "corrupt"), (5, 9, "trimmed")] {
        let data = json!({"version": 1, "partition": 2, "from": from, "to": to, "reason": reason});
        stream.write(chunk(&format!("event: skipped\ndata: {data}\n\n")).as_bytes()).await;
    }
    stream.write(told(2, 10).as_bytes()).await;
    match next(&mut tail).await {
        Some(Ok(Told::Corrupt { partition: 2, lost })) => assert_eq!((lost.from, lost.to), (3, 4)),
        other => panic!("{other:?}"),
    }
    match next(&mut tail).await {
        Some(Ok(Told::Trimmed { partition: 2, lost })) => assert_eq!((lost.from, lost.to), (5, 9)),
        other => panic!("{other:?}"),
    }
    assert_eq!(offset(&mut tail).await, (2, 10));
}

#[tokio::test]
async fn a_partition_that_is_new_is_told_from_its_begin() {
    let listener = listener().await;
    let (mut tail, mut pages, mut stream) = tail(&listener).await;
    stream.write(told(3, 1).as_bytes()).await;
    let asked = pages.asked().await.line;
    assert!(asked.ends_with("/partitions/3/messages"), "{asked}");
    let body = json!({"version": 1, "topic": "orders", "partition": 3, "start": 0, "end": 2,
        "nextOffset": 2, "messages": [message(0), message(1)]});
    pages.write(&crate::pack::packed(&body)).await;
    assert_eq!(offset(&mut tail).await, (3, 0));
    assert_eq!(offset(&mut tail).await, (3, 1));
    stream.write(told(3, 2).as_bytes()).await;
    assert_eq!(offset(&mut tail).await, (3, 2));
}

#[tokio::test]
async fn another_topic_of_the_same_name_is_not_followed() {
    let listener = listener().await;
    let (mut tail, mut pages, stream) = tail(&listener).await;
    drop(stream);
    assert!(matches!(next(&mut tail).await, Some(Ok(Told::Interrupted { .. }))));
    assert_eq!(pages.says(topic(2, &[(2, 1)])).await, "");
    let Some(Err(error)) = next(&mut tail).await else { panic!("it goes on") };
    assert!(error.to_string().contains("deleted"), "{error}");
    assert!(next(&mut tail).await.is_none());
}

#[tokio::test]
async fn what_time_does_not_heal_ends_a_tail() {
    let listener = listener().await;
    let (mut tail, mut pages, stream) = tail(&listener).await;
    drop(stream);
    assert!(matches!(next(&mut tail).await, Some(Ok(Told::Interrupted { .. }))));
    pages.says(refusal("404 No", "streams.topic_not_found")).await;
    let Some(Err(error)) = next(&mut tail).await else { panic!("it goes on") };
    assert_eq!(error.code(), Some("streams.topic_not_found"));
    assert!(next(&mut tail).await.is_none());
}

#[tokio::test]
async fn a_topic_that_is_not_there_cannot_be_followed() {
    let listener = listener().await;
    let client = listener.client();
    let streams = client.streams();
    let reply = refusal("404 No", "streams.topic_not_found");
    let opening = streams.tail("orders", options());
    let (tail, _) = within(async { tokio::join!(opening, listener.serve(&reply)) }).await;
    assert_eq!(tail.unwrap_err().code(), Some("streams.topic_not_found"));
}

#[tokio::test]
async fn a_tail_of_one_partition_and_key_from_now_on_asks_for_nothing_else() {
    let listener = listener().await;
    let client = listener.client();
    let streams = client.streams();
    let server = async {
        let mut peer = listener.accept().await;
        assert_eq!(peer.says(topic(1, &[(1, 9), (2, 4)])).await, "");
        let asked = "/partitions/2/messages?offset=4&key=a%26b";
        assert_eq!(peer.says(page(&[], 4, 4)).await, asked);
        assert_eq!(peer.says(HEAD).await, "/tail?partition=2&from=latest&key=a%26b");
        let mut pages = listener.accept().await;
        assert_eq!(pages.says(page(&[], 4, 4)).await, asked);
        peer.write(told(2, 7).as_bytes()).await;
        (peer, pages)
    };
    let opening = streams.tail("orders", options().from(Start::Latest).partition(2).key("a&b"));
    let (tail, _peers) = within(async { tokio::join!(opening, server) }).await;
    assert_eq!(offset(&mut tail.unwrap()).await, (2, 7));
}

#[tokio::test]
async fn dropping_a_tail_closes_its_connection() {
    let listener = listener().await;
    let (tail, _pages, stream) = tail(&listener).await;
    drop(tail);
    stream.closed().await;
}
