//! Pages of a partition: what is asked, what is understood, and where reading goes on.

use std::time::Duration;

use handoff_sdk::streams::{ReadQuery, Reader, Start};
use handoff_sdk::{Error, Time};
use serde_json::{Value, json};

use crate::pack::{packed, refusal};
use crate::peer::{Listener, Peer, listener, within};

pub(crate) fn message(offset: u64) -> Value {
    json!({ "offset": offset, "timestamp": "2027-01-15T08:00:00Z", "payload": offset.to_string() })
}

/// A page with these offsets.
pub(crate) fn page(offsets: &[u64], next: u64, end: u64) -> Vec<u8> {
    let messages: Vec<Value> = offsets.iter().copied().map(message).collect();
    packed(&json!({"version": 1, "topic": "orders", "partition": 2, "start": 0, "end": end,
        "nextOffset": next, "messages": messages}))
}

/// What the server says to an offset that is past its retention.
pub(crate) fn trimmed(start: u64) -> String {
    let body = json!({ "title": "gone", "code": "trimmed", "start": start }).to_string();
    crate::peer::answer("410 Gone", "application/problem+json", &body)
}

impl Peer {
    /// Answers the next request, and gives what was asked for below the topic.
    pub(crate) async fn says(&mut self, answer: impl AsRef<[u8]>) -> String {
        let asked = self.asked().await;
        self.write(answer.as_ref()).await;
        asked.line.strip_prefix("GET /v1/streams/topics/orders").unwrap().to_owned()
    }
}

async fn read(query: ReadQuery, answers: &[Vec<u8>]) -> (Vec<String>, Result<Value, Error>) {
    let listener = listener().await;
    let client = listener.client();
    let server = async {
        let mut peer = listener.accept().await;
        let mut asked = Vec::new();
        for answer in answers {
            asked.push(peer.says(answer).await);
        }
        asked
    };
    let streams = client.streams();
    let (page, asked) = within(async { tokio::join!(streams.read(&query), server) }).await;
    let shown = page.map(|page| {
        json!({"partition": page.partition, "start": page.start, "end": page.end,
            "next": page.next_offset, "messages": page.messages,
            "corrupt": page.corrupt.iter().map(|lost| (lost.from, lost.to)).collect::<Vec<_>>()})
    });
    (asked, shown)
}

#[tokio::test]
async fn a_page_is_asked_for_by_offset_time_and_key() {
    let empty = page(&[], 9, 9);
    let of = |query: ReadQuery| read(query, std::slice::from_ref(&empty));
    let base = || ReadQuery::new("orders", 2);
    for (query, asked) in [
        (base(), ""),
        (base().offset(7), "?offset=7"),
        (base().time(Time::new("2027-01-15T08:00:00Z")), "?time=2027-01-15T08%3A00%3A00Z"),
        (base().offset(7).key("a b").limit(3), "?offset=7&key=a%20b&limit=3"),
        (
            base().offset(7).max_bytes(1000).wait(Duration::from_secs(2)),
            "?offset=7&maxBytes=1000&waitMs=2000",
        ),
    ] {
        let (lines, page) = of(query).await;
        assert_eq!(lines, [format!("/partitions/2/messages{asked}")]);
        page.unwrap();
    }
}

#[tokio::test]
async fn a_page_is_understood_with_everything_in_it() {
    let answer = packed(&json!({"version": 1, "topic": "orders", "partition": 2, "start": 3,
    "end": 9, "nextOffset": 8, "colour": ["red"], "corrupt": [{"from": 4, "to": 5}],
    "messages": [
        {"offset": 3, "timestamp": "2027-01-15T08:00:00Z", "key": "k", "payload": "text",
            "headers": {"a": "b", "c": {"octets": [255]}}, "expired": true, "new": null},
        {"offset": 7, "timestamp": 1_800_000_000_500_u64, "key": null,
            "payload": {"octets": [0, 255]}},
    ]}));
    let (_, page) = read(ReadQuery::new("orders", 2).offset(3), &[answer]).await;
    let expected = json!({"partition": 2, "start": 3, "end": 9, "next": 8, "corrupt": [[4, 5]],
    "messages": [
        {"partition": 2, "offset": 3, "timestamp": "2027-01-15T08:00:00Z", "key": "k",
            "payload": "text", "headers": {"a": "b", "c": {"base64": "/w=="}},
            "expired": true},
        {"partition": 2, "offset": 7, "timestamp": "2027-01-15T08:00:00.500Z",
            "payload": {"base64": "AP8="}},
    ]});
    assert_eq!(page.unwrap(), expected);
}

#[tokio::test]
async fn whoever_asks_for_what_is_gone_is_told_what_is_left() {
    let query = ReadQuery::new("orders", 2).offset(7);
    let (_, page) = read(query, &[trimmed(40).into_bytes()]).await;
    let error = page.unwrap_err();
    assert_eq!((error.code(), error.problem().unwrap().start), (Some("trimmed"), Some(40)));
}

#[tokio::test]
async fn the_latest_is_what_comes_next() {
    let topic = json!({"version": 1, "topic": {"name": "orders", "id": 1, "partitions": 3,
        "durability": "fsync", "compression": "none", "createdAt": "2027-01-15T08:00:00Z",
        "partitionList": [{"partition": 2, "start": 0, "end": 17}]}});
    let topic = crate::peer::ok(&topic.to_string()).into_bytes();
    let query = ReadQuery::new("orders", 2).from(Start::Latest);
    let (lines, _) = read(query, &[topic, page(&[], 17, 17)]).await;
    assert_eq!(lines, ["", "/partitions/2/messages?offset=17"]);
}

async fn reader(listener: &Listener, query: ReadQuery) -> Reader {
    listener.client().streams().reader(query)
}

#[tokio::test]
async fn a_reader_goes_on_where_the_page_before_ended() {
    let listener = listener().await;
    let mut reader = reader(&listener, ReadQuery::new("orders", 2)).await;
    let server = async {
        let mut peer = listener.accept().await;
        let mut asked = Vec::new();
        for answer in [page(&[0, 1], 2, 6), page(&[], 4, 6), page(&[4, 5], 6, 6)] {
            asked.push(peer.says(answer).await);
        }
        (asked, peer)
    };
    let take = async {
        let mut offsets = Vec::new();
        while let Some(message) = reader.next().await {
            offsets.push(message.unwrap().offset);
        }
        offsets
    };
    let (offsets, (asked, mut peer)) = within(async { tokio::join!(take, server) }).await;
    assert_eq!(offsets, [0, 1, 4, 5]);
    let at = |offset| format!("/partitions/2/messages?offset={offset}");
    assert_eq!(asked, ["/partitions/2/messages".to_owned(), at(2), at(4)]);
    assert_eq!(reader.position(), Some(6));
    // More may have come.
    let busy = refusal("503 Busy", "server.busy");
    let (next, _) = within(async { tokio::join!(reader.next(), peer.says(busy)) }).await;
    assert!(next.unwrap().is_err());
    let more = page(&[6], 7, 7);
    let (next, asked) = within(async { tokio::join!(reader.next(), peer.says(more)) }).await;
    assert_eq!((next.unwrap().unwrap().offset, asked), (6, at(6)));
    assert!(reader.next().await.is_none());
}

#[tokio::test]
async fn a_server_that_gives_the_same_again_is_not_believed() {
    let (_, result) = read(ReadQuery::new("orders", 2).offset(5), &[page(&[5], 5, 9)]).await;
    assert!(matches!(result.unwrap_err(), Error::Protocol { .. }));
    // One that stands still is not asked for ever.
    let listener = listener().await;
    let mut reader = reader(&listener, ReadQuery::new("orders", 2).offset(5)).await;
    let server = async { listener.accept().await.says(page(&[], 5, 9)).await };
    let (next, _) = within(async { tokio::join!(reader.next(), server) }).await;
    assert!(next.is_none());
}
