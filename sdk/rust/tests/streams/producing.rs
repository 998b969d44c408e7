//! Messages are gathered, sent in order and answered one by one.

use std::time::Duration;

use handoff_sdk::streams::{Message, Producer, ProducerOptions, Scope, SendError, Status};
use handoff_sdk::{Backoff, Client, Outcome, Time};
use serde_json::json;

use crate::pack::{Batch, GUID, packed, unpack};
use crate::peer::{Listener, listener, within};

/// Tries again at once, as far as a test is concerned.
pub(crate) fn options() -> ProducerOptions {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    ProducerOptions::new().backoff(backoff)
}

pub(crate) async fn producer_of(
    client: &Client,
    listener: &Listener,
    options: ProducerOptions,
) -> Producer {
    let streams = client.streams();
    let registering = streams.producer(options);
    let registered = listener.registers("producer", json!({}));
    within(async { tokio::join!(registering, registered) }).await.0.unwrap()
}

pub(crate) async fn producer(listener: &Listener, options: ProducerOptions) -> Producer {
    producer_of(&listener.client(), listener, options).await
}

#[tokio::test]
async fn a_producer_says_who_it_is_and_learns_where_it_was() {
    let listener = listener().await;
    let client = listener.client();
    let options = options().producer(GUID).name("shop").scope(Scope::Topic).connections_max(1);
    let streams = client.streams();
    let registering = streams.producer(options);
    let registered = listener.registers("topic", json!({ "last": { "orders": 41 } }));
    let (producer, said) = within(async { tokio::join!(registering, registered) }).await;
    let producer = producer.unwrap();
    assert_eq!(said, json!({"version": 1, "producer": GUID, "name": "shop", "scope": "topic"}));
    assert_eq!((producer.id(), producer.scope()), (GUID, Scope::Topic));
    assert_eq!(producer.last_sequence("orders"), Some(41));
    assert_eq!(producer.last_sequence("bills"), None);
    let _delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    assert_eq!(peer.stores(0).await.sequence, 42, "it goes on behind the last");
    let _delivery = producer.send("bills", "a").await.unwrap();
    assert_eq!(peer.stores(0).await.sequence, 1, "the other topic counts for itself");
}

#[tokio::test]
async fn a_producer_whose_sequences_count_all_messages_goes_on_behind_the_last() {
    let listener = listener().await;
    let client = listener.client();
    let streams = client.streams();
    let registering = streams.producer(options().producer(GUID));
    let registered = listener.registers("producer", json!({ "lastSequence": 7 }));
    let producer = within(async { tokio::join!(registering, registered) }).await.0.unwrap();
    assert_eq!(producer.last_sequence("any"), Some(7));
    let _delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    assert_eq!(peer.stores(0).await.sequence, 8);
    let _delivery = producer.send("bills", "a").await.unwrap();
    assert_eq!(peer.stores(0).await.sequence, 9, "on the same connection");
}

#[tokio::test]
async fn a_producer_that_cannot_be_registered_says_so_at_once() {
    let listener = listener().await;
    let client = listener.client();
    let streams = client.streams();
    let registering = streams.producer(options());
    let busy = crate::pack::refusal("503 Busy", "server.stopping");
    let (producer, _) = within(async { tokio::join!(registering, listener.serve(&busy)) }).await;
    assert_eq!(producer.unwrap_err().code(), Some("server.stopping"));
}

#[tokio::test]
async fn a_message_travels_with_everything_it_has() {
    let listener = listener().await;
    let producer = producer(&listener, options()).await;
    let message = Message::new(vec![0xff, 0])
        .key("k")
        .header("a", "b")
        .partition(3)
        .deliver_at(Time::new("2027-01-15T08:00:00Z"))
        .ttl(Duration::from_secs(2));
    let delivery = producer.send("a/b", message).await.unwrap();
    let mut peer = listener.accept().await;
    let asked = peer.asked().await;
    assert_eq!(asked.line, "POST /v1/streams/topics/a%2Fb/messages");
    assert_eq!(
        unpack(&asked.body),
        json!({"version": 1, "producer": GUID, "sequence": 1, "messages": [{
            "key": "k", "payload": {"octets": [255, 0]}, "headers": {"a": "b"}, "partition": 3,
            "deliverAt": "2027-01-15T08:00:00Z", "ttlMs": 2000,
        }]})
    );
    peer.write(&packed(&json!({"version": 1, "colour": {"red": [1]}, "results": [
        {"status": "scheduled", "id": "abc", "partition": null, "new": true}
    ]})))
    .await;
    let sent = within(delivery).await.unwrap();
    assert_eq!((sent.status, sent.id.as_deref()), (Status::Scheduled, Some("abc")));
    assert_eq!((sent.partition, sent.offset, sent.sequence), (None, None, Some(1)));
}

#[tokio::test]
async fn messages_gather_while_a_request_is_on_its_way_and_keep_their_order() {
    let listener = listener().await;
    let producer = producer(&listener, options().batch_messages_max(40)).await;
    let first = producer.send("orders", "0").await.unwrap();
    let mut peer = listener.accept().await;
    assert_eq!(peer.batch().await.payloads, ["0"]);
    let mut deliveries = vec![first];
    for n in 1..100 {
        deliveries.push(producer.send("orders", n.to_string()).await.unwrap());
    }
    peer.write(&crate::pack::stored("stored", 10, 1)).await;
    let mut lengths = Vec::new();
    let mut next = 1;
    while next < 100 {
        let batch = peer.stores(10 + next).await;
        assert_eq!(batch.sequence, next + 1);
        let expected: Vec<String> =
            (next..).take(batch.payloads.len()).map(|n| n.to_string()).collect();
        assert_eq!(batch.payloads, expected);
        next += batch.payloads.len() as u64;
        lengths.push(batch.payloads.len());
    }
    assert_eq!(lengths, [40, 40, 19]);
    for (n, delivery) in (0..).zip(deliveries) {
        let sent = within(delivery).await.unwrap();
        assert_eq!((sent.offset, sent.sequence), (Some(10 + n), Some(1 + n)), "each its own");
    }
}

#[tokio::test]
async fn results_are_told_message_by_message() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_secs(3600))).await;
    let mut deliveries = Vec::new();
    for _ in 0..5 {
        deliveries.push(producer.send("orders", "x").await.unwrap());
    }
    let server = async {
        let mut peer = listener.accept().await;
        assert_eq!(peer.batch().await.payloads.len(), 5);
        peer.write(&packed(&json!({"version": 1, "missing": [{"from": 3, "to": 4}], "results": [
            {"status": "stored", "partition": 2, "offset": 7},
            {"status": "duplicate"},
            {"status": "stored_after_gap", "partition": 2, "offset": 8},
            {"status": "stored_late", "partition": 1, "offset": 0},
            {"status": "something_newer", "partition": 1, "offset": 1},
        ]})))
        .await;
        peer
    };
    let (flushed, _peer) = within(async { tokio::join!(producer.flush(), server) }).await;
    flushed.unwrap();
    let mut told = Vec::new();
    for delivery in deliveries {
        let sent = delivery.await.unwrap();
        told.push((sent.status, sent.partition, sent.offset));
    }
    assert_eq!(
        told,
        [
            (Status::Stored, Some(2), Some(7)),
            (Status::Duplicate, None, None),
            (Status::StoredAfterGap, Some(2), Some(8)),
            (Status::StoredLate, Some(1), Some(0)),
            (Status::Other, Some(1), Some(1)),
        ]
    );
}

#[tokio::test]
async fn topics_that_count_for_themselves_do_not_wait_for_each_other() {
    let listener = listener().await;
    let client = listener.client();
    let streams = client.streams();
    let registering = streams.producer(options().scope(Scope::Topic).connections_max(64));
    let registered = listener.registers("topic", json!({}));
    let producer = within(async { tokio::join!(registering, registered) }).await.0.unwrap();
    let slow = producer.send("a", "1").await.unwrap();
    let mut first = listener.accept().await;
    assert_eq!(first.batch().await.topic, "a");
    let fast = producer.send("b", "2").await.unwrap();
    let mut second = listener.accept().await;
    assert_eq!(second.stores(0).await.topic, "b");
    within(fast).await.unwrap();
    first.write(&crate::pack::stored("stored", 0, 1)).await;
    within(slow).await.unwrap();
}

#[tokio::test]
async fn flush_waits_for_what_was_taken_before_and_not_for_what_comes_later() {
    let listener = listener().await;
    let producer = producer(&listener, options().batch_messages_max(1)).await;
    for n in 0..3 {
        let _delivery = producer.send("orders", n.to_string()).await.unwrap();
    }
    let flushing = producer.clone();
    let mut flush = tokio::spawn(async move { flushing.flush().await });
    let mut peer = listener.accept().await;
    for n in 0..3 {
        assert_eq!(peer.batch().await.payloads, [n.to_string()]);
        assert!(!flush.is_finished(), "{n} is not answered");
        if n == 0 {
            // One more that the flush does not wait for.
            let _delivery = producer.send("orders", "later").await.unwrap();
        }
        peer.write(&crate::pack::stored("stored", n, 1)).await;
    }
    within(&mut flush).await.unwrap().unwrap();
    assert_eq!(peer.batch().await.payloads, ["later"], "which is not answered at all");
    assert!(Box::pin(within(flush_nothing(&listener))).await, "nothing to wait for");
}

async fn flush_nothing(listener: &Listener) -> bool {
    producer(listener, options()).await.flush().await.is_ok()
}

#[tokio::test]
async fn a_full_buffer_makes_the_sender_wait_until_something_is_answered() {
    let listener = listener().await;
    let options = options().buffer_bytes_max(2500).batch_messages_max(1);
    let producer = producer(&listener, options).await;
    let payload = || Message::new(vec![b'x'; 1000]);
    for _ in 0..2 {
        let _delivery = producer.send("orders", payload()).await.unwrap();
    }
    let mut peer = listener.accept().await;
    peer.batch().await;
    let third = producer.send("orders", payload());
    tokio::pin!(third);
    tokio::select! {
        biased;
        sent = &mut third => panic!("there was no space: {sent:?}"),
        () = tokio::task::yield_now() => {}
    }
    peer.write(&crate::pack::stored("stored", 0, 1)).await;
    let delivery = within(third).await.unwrap();
    peer.stores(1).await;
    peer.stores(2).await;
    within(delivery).await.unwrap();
    let error = producer.send("orders", vec![0; 3000]).await.unwrap_err();
    assert!(matches!(error, SendError::TooLarge { max: 2500, .. }), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn a_send_that_is_given_up_while_it_waits_for_space_takes_none() {
    let listener = listener().await;
    let producer = producer(&listener, options().buffer_bytes_max(1200)).await;
    let payload = || Message::new(vec![b'x'; 1000]);
    let first = producer.send("orders", payload()).await.unwrap();
    for _ in 0..10 {
        tokio::select! {
            biased;
            sent = producer.send("orders", payload()) => panic!("{sent:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    let mut peer = listener.accept().await;
    peer.stores(0).await;
    within(first).await.unwrap();
    let last = within(producer.send("orders", "last")).await.unwrap();
    assert_eq!(peer.stores(1).await.payloads, ["last"]);
    within(last).await.unwrap();
}

#[tokio::test]
async fn messages_may_linger_to_travel_together() {
    let listener = listener().await;
    let options = options().linger(Duration::from_secs(3600)).batch_messages_max(3);
    let producer = producer(&listener, options).await;
    for n in 0..3 {
        let _delivery = producer.send("orders", n.to_string()).await.unwrap();
    }
    let mut peer = listener.accept().await;
    assert_eq!(peer.stores(0).await.payloads.len(), 3);
}

#[tokio::test]
async fn a_lingering_message_goes_when_its_time_is_over() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_millis(1))).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    peer.stores(0).await;
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn what_was_taken_is_sent_after_the_producer_is_dropped() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_secs(3600))).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    drop(producer);
    let mut peer = listener.accept().await;
    assert_eq!(peer.stores(0).await.payloads, ["a"]);
    within(delivery).await.unwrap();
    peer.closed().await;
}

#[tokio::test]
async fn a_closed_producer_takes_nothing_and_answers_what_it_took() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_secs(3600))).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let server = async { listener.accept().await.stores(0).await };
    let (closed, _) = within(async { tokio::join!(producer.close(), server) }).await;
    closed.unwrap();
    delivery.await.unwrap();
    let error = producer.send("orders", "b").await.unwrap_err();
    assert!(matches!(error, SendError::Closed), "{error}");
}

#[tokio::test]
async fn a_sender_may_number_its_messages_itself() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_secs(3600))).await;
    for sequence in [5, 6, 9] {
        let message = Message::new(sequence.to_string()).sequence(sequence);
        let _delivery = producer.send("orders", message).await.unwrap();
    }
    let _delivery = producer.send("orders", "free").await.unwrap();
    let server = async {
        let mut peer = listener.accept().await;
        let mut batches = Vec::new();
        for _ in 0..3 {
            let Batch { sequence, payloads, .. } = peer.stores(0).await;
            batches.push((sequence, payloads));
        }
        batches
    };
    let (flushed, batches) = within(async { tokio::join!(producer.flush(), server) }).await;
    flushed.unwrap();
    let own = |text: &[&str]| text.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(batches, [(5, own(&["5", "6"])), (9, own(&["9"])), (10, own(&["free"]))]);
}

#[tokio::test]
async fn messages_without_a_producer_are_sent_once() {
    let listener = listener().await;
    let client = listener.client();
    let messages = [Message::new("a"), Message::new("b").key("k")];
    let streams = client.streams();
    let server = async {
        let mut peer = listener.accept().await;
        let asked = peer.asked().await;
        peer.write(&crate::pack::stored("stored", 3, 2)).await;
        (peer, asked)
    };
    let producing = streams.produce("orders", &messages);
    let (produced, (mut peer, asked)) = within(async { tokio::join!(producing, server) }).await;
    let expected = json!({"version": 1, "messages": [
        {"payload": "a"}, {"key": "k", "payload": "b"}
    ]});
    assert_eq!(unpack(&asked.body), expected);
    let produced = produced.unwrap();
    assert_eq!((produced.results[1].offset, produced.results[1].sequence), (Some(4), None));
    let server = async move { drop(peer.asked().await) };
    let producing = streams.produce("orders", &messages);
    let (produced, ()) = within(async { tokio::join!(producing, server) }).await;
    assert_eq!(produced.unwrap_err().outcome(), Outcome::Unknown);
}
