//! A consumer: what it asks, what it gives, and what it does when the other side is gone.

use std::time::Duration;

use handoff_sdk::streams::{Consumer, ConsumerOptions, Delivered, Notice, Notices, Start};
use handoff_sdk::{Backoff, Error};
use serde_json::{Value, json};

use crate::pack::{packed, refusal};
use crate::peer::{Asked, Listener, Peer, answer, listener, ok, within};

const TIME: &str = "2027-01-15T08:00:00Z";

/// Tries again at once, as far as a test is concerned.
pub(crate) fn options() -> ConsumerOptions {
    let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(2) };
    ConsumerOptions::new("billing").topic("orders").backoff(backoff)
}

pub(crate) fn joined(member: &str) -> String {
    let body = json!({"version": 1, "member": member, "generation": 1,
        "sessionTimeoutMs": 3_600_000,
        "assignment": [{"topic": "orders", "partition": 0, "committed": 5}]});
    answer("201 Created", "application/json", &body.to_string())
}

pub(crate) fn gone() -> String {
    refusal("404 Not Found", "streams.member_gone")
}

/// A batch of partition 0 of `orders`.
pub(crate) fn batch(base: u64, count: u64, attempt: u32, lease: &str) -> Value {
    let message = |offset: u64| json!({"payload": offset.to_string(), "timestamp": TIME});
    let messages: Vec<Value> = (base..base + count).map(message).collect();
    json!({"topic": "orders", "partition": 0, "baseOffset": base, "count": count,
        "attempt": attempt, "lease": lease, "leaseDeadline": TIME, "messages": messages})
}

/// What a poll brings.
pub(crate) fn polled(batches: &[Value]) -> Vec<u8> {
    packed(&json!({"version": 1, "generation": 1, "batches": batches}))
}

fn beat(generation: u64, partitions: &[u32]) -> String {
    let assignment: Vec<Value> =
        partitions.iter().map(|p| json!({"topic": "orders", "partition": p})).collect();
    ok(&json!({"version": 1, "generation": generation, "assignment": assignment, "changed": true})
        .to_string())
}

/// What was asked below the group.
pub(crate) fn path(asked: &Asked) -> &str {
    asked.line.strip_prefix("POST /v1/streams/groups/billing").unwrap_or(&asked.line)
}

/// A member, and the other ends of its connections.
pub(crate) struct Seat {
    pub(crate) consumer: Consumer,
    pub(crate) notices: Notices,
    /// Joins and commits.
    pub(crate) calls: Peer,
    /// Heartbeats. The first was asked and is held.
    pub(crate) heart: Peer,
}

pub(crate) async fn seat(listener: &Listener, options: ConsumerOptions) -> Seat {
    let client = listener.client();
    let streams = client.streams();
    let server = async {
        let mut calls = listener.accept().await;
        assert_eq!(path(&calls.asked().await), "/members");
        calls.write(joined("m1").as_bytes()).await;
        let mut heart = listener.accept().await;
        let asked = heart.asked().await;
        assert_eq!(path(&asked), "/members/m1/heartbeat");
        assert_eq!(asked.json(), json!({"version": 1, "generation": 1}));
        (calls, heart)
    };
    let (consumer, (calls, heart)) =
        within(async { tokio::join!(streams.consumer(options), server) }).await;
    let mut consumer = consumer.unwrap();
    let notices = consumer.notices().unwrap();
    Seat { consumer, notices, calls, heart }
}

pub(crate) async fn next(consumer: &mut Consumer) -> Delivered {
    within(consumer.next()).await.unwrap().unwrap()
}

async fn notice(notices: &mut Notices) -> Notice {
    within(notices.next()).await.unwrap()
}

/// Waits for the first message, which somebody must bring.
async fn brought(consumer: &mut Consumer, server: impl Future<Output = Peer>) -> (Delivered, Peer) {
    let (message, peer) = within(async { tokio::join!(consumer.next(), server) }).await;
    (message.unwrap().unwrap(), peer)
}

/// Answers a poll on a new connection.
async fn polls(listener: &Listener, member: &str, reply: &[u8]) -> Peer {
    let mut peer = listener.accept().await;
    assert_eq!(path(&peer.asked().await), format!("/members/{member}/poll"));
    peer.write(reply).await;
    peer
}

#[tokio::test]
async fn a_consumer_says_who_it_is_and_what_it_wants() {
    let listener = listener().await;
    let client = listener.client();
    let full = options()
        .topic("bills")
        .client("worker 7")
        .instance("seven")
        .session_timeout(Duration::from_secs(20))
        .from(Start::Offset(3))
        .max_messages(10)
        .max_bytes(1000)
        .wait(Duration::from_secs(2));
    let streams = client.streams();
    let server = async {
        let mut calls = listener.accept().await;
        let said = calls.asked().await;
        calls.write(joined("m1").as_bytes()).await;
        let mut heart = listener.accept().await;
        heart.asked().await;
        (said, calls, heart)
    };
    let (consumer, (said, _calls, _heart)) =
        within(async { tokio::join!(streams.consumer(full), server) }).await;
    let mut consumer = consumer.unwrap();
    assert_eq!(
        said.json(),
        json!({"version": 1, "topics": ["orders", "bills"], "client": "worker 7",
            "instance": "seven", "sessionTimeoutMs": 20000, "from": {"offset": 3}})
    );
    assert_eq!((consumer.group(), consumer.member().as_deref()), ("billing", Some("m1")));
    assert_eq!(consumer.assignment()[0].committed, Some(5));
    let server = async {
        let mut peer = listener.accept().await;
        let asked = peer.asked().await;
        assert_eq!(asked.header("accept"), Some("application/msgpack"));
        assert_eq!(
            asked.json(),
            json!({"version": 1, "maxMessages": 10, "maxBytes": 1000, "waitMs": 2000})
        );
        peer.write(&polled(&[batch(5, 1, 1, "l")])).await;
        peer
    };
    brought(&mut consumer, server).await;
}

#[tokio::test]
async fn a_group_that_declares_its_topics_is_joined_without_any() {
    let listener = listener().await;
    let client = listener.client();
    let streams = client.streams();
    let joining = streams.consumer(ConsumerOptions::new("billing"));
    let refused = refusal("404 Not Found", "streams.group_not_found");
    let (consumer, said) = within(async { tokio::join!(joining, listener.serve(&refused)) }).await;
    assert_eq!(said.json(), json!({"version": 1}));
    assert_eq!(consumer.unwrap_err().code(), Some("streams.group_not_found"), "at once");
}

#[tokio::test]
async fn messages_are_given_with_what_is_known_of_their_delivery() {
    let listener = listener().await;
    let Seat { mut consumer, calls: _calls, heart: _heart, .. } = seat(&listener, options()).await;
    let mut rich = batch(9, 1, 2, "l2");
    rich["lease"] = json!(77);
    rich["messages"][0] = json!({"payload": {"octets": [255]}, "timestamp": TIME, "key": "k",
        "headers": {"reply-to": "answers", "correlation-id": "c1"}});
    let reply = polled(&[batch(5, 2, 1, "l1"), rich]);
    let (first, mut peer) = brought(&mut consumer, polls(&listener, "m1", &reply)).await;
    assert_eq!(
        serde_json::to_value(&first).unwrap(),
        json!({"topic": "orders", "partition": 0, "offset": 5, "timestamp": TIME, "payload": "5",
            "attempt": 1, "leaseDeadline": TIME})
    );
    assert_eq!(next(&mut consumer).await.message.offset, 6);
    let third = next(&mut consumer).await;
    assert_eq!((third.message.offset, third.attempt(), third.topic()), (9, 2, "orders"));
    assert_eq!(third.reply_to(), Some("answers"));
    assert_eq!(third.correlation_id().unwrap(), "c1");
    // Batches are given whole, or what is left of them.
    let reply = polled(&[batch(10, 2, 1, "l3"), batch(20, 3, 1, "l4")]);
    let server = async {
        peer.asked().await;
        peer.write(&reply).await;
        peer
    };
    let (_, _peer) = brought(&mut consumer, server).await;
    let mut offsets = Vec::new();
    for _ in 0..2 {
        let batch = within(consumer.next_batch()).await.unwrap().unwrap();
        offsets.push(batch.messages().iter().map(|message| message.offset).collect::<Vec<_>>());
    }
    assert_eq!(offsets, [vec![11], vec![20, 21, 22]]);
}

#[tokio::test]
async fn polls_are_repeated_until_there_is_something() {
    let listener = listener().await;
    let Seat { mut consumer, calls: _calls, heart: _heart, .. } = seat(&listener, options()).await;
    let server = async {
        let mut peer = polls(&listener, "m1", &polled(&[])).await;
        for reply in [polled(&[]), refusal("503 Busy", "server.busy").into(), polled(&[])] {
            peer.asked().await;
            peer.write(&reply).await;
        }
        peer.asked().await;
        peer.write(&polled(&[batch(5, 1, 1, "l")])).await;
        peer
    };
    assert_eq!(brought(&mut consumer, server).await.0.message.offset, 5);
}

#[tokio::test]
async fn a_next_that_is_dropped_loses_no_message_and_asks_nothing_twice() {
    let listener = listener().await;
    let Seat { mut consumer, calls: _calls, heart: _heart, .. } = seat(&listener, options()).await;
    let mut peer = {
        let server = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer
        };
        tokio::select! {
            biased;
            _ = consumer.next() => panic!("nobody has answered"),
            peer = within(server) => peer,
        }
    };
    peer.write(&polled(&[batch(5, 2, 1, "l")])).await;
    for offset in [5, 6] {
        assert_eq!(next(&mut consumer).await.message.offset, offset);
    }
    let more = async {
        assert_eq!(path(&peer.asked().await), "/members/m1/poll", "only now again");
        peer.write(&polled(&[batch(7, 1, 1, "l")])).await;
        peer
    };
    assert_eq!(brought(&mut consumer, more).await.0.message.offset, 7);
}

#[tokio::test]
async fn what_a_lost_answer_held_is_given_when_its_lease_has_run_out() {
    let reply = polled(&[batch(5, 2, 1, "l1")]);
    for end in (0..reply.len()).step_by(13) {
        let listener = listener().await;
        let Seat { mut consumer, calls: _calls, heart: _heart, .. } =
            seat(&listener, options()).await;
        let server = async {
            drop(polls(&listener, "m1", &reply[..end]).await);
            polls(&listener, "m1", &polled(&[batch(5, 2, 2, "l2")])).await
        };
        let (message, _peer) = brought(&mut consumer, server).await;
        assert_eq!((message.message.offset, message.attempt()), (5, 2), "{end}");
    }
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_not_believed() {
    let mut short = batch(5, 2, 1, "l");
    short["count"] = json!(3);
    let mut apart = batch(5, 2, 1, "l");
    apart["messages"][1]["offset"] = json!(9);
    for (body, words) in [
        (json!({"version": 1}), "no batches"),
        (json!({"batches": [{"topic": "orders"}]}), "no partition"),
        (json!({"batches": [short]}), "more or fewer"),
        (json!({"batches": [apart]}), "not consecutive"),
    ] {
        let listener = listener().await;
        let Seat { mut consumer, calls: _calls, heart: _heart, .. } =
            seat(&listener, options()).await;
        let reply = packed(&body);
        let server = polls(&listener, "m1", &reply);
        let (told, _peer) = within(async { tokio::join!(consumer.next(), server) }).await;
        let error = told.unwrap().unwrap_err();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert!(within(consumer.next()).await.is_none(), "then it is over");
    }
}

#[tokio::test]
async fn a_rebalance_is_told_and_what_was_given_before_stays() {
    let listener = listener().await;
    let Seat { mut consumer, mut notices, calls: _calls, mut heart } =
        seat(&listener, options()).await;
    let reply = polled(&[batch(5, 2, 1, "l")]);
    let (_, _peer) = brought(&mut consumer, polls(&listener, "m1", &reply)).await;
    heart.write(beat(4, &[1, 2]).as_bytes()).await;
    match notice(&mut notices).await {
        Notice::Assigned { generation, assignment, gained, lost } => {
            let numbers = |all: &[handoff_sdk::streams::Assigned]| -> Vec<u32> {
                all.iter().map(|one| one.partition).collect()
            };
            assert_eq!(generation, 4);
            assert_eq!(numbers(&assignment), [1, 2]);
            assert_eq!((numbers(&gained), numbers(&lost)), (vec![1, 2], vec![0]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(heart.asked().await.json()["generation"], 4, "it is asked for the next");
    assert_eq!(consumer.assignment().len(), 2);
    assert_eq!(next(&mut consumer).await.message.offset, 6, "its lease is still good");
    // Others changed places.
    heart.write(beat(5, &[1, 2]).as_bytes()).await;
    assert_eq!(heart.asked().await.json()["generation"], 5);
    heart.write(beat(6, &[1]).as_bytes()).await;
    assert!(matches!(notice(&mut notices).await, Notice::Assigned { generation: 6, .. }));
}

/// Answers a join on the connection of the heart, and waits for the next heartbeat.
async fn joins_again(heart: &mut Peer, member: &str) {
    assert_eq!(path(&heart.asked().await), "/members");
    heart.write(joined(member).as_bytes()).await;
    assert_eq!(path(&heart.asked().await), format!("/members/{member}/heartbeat"));
}

#[tokio::test]
async fn a_member_that_a_heartbeat_finds_gone_joins_again_and_forgets_what_is_void() {
    let listener = listener().await;
    let Seat { mut consumer, mut notices, calls: _calls, mut heart } =
        seat(&listener, options()).await;
    let reply = polled(&[batch(5, 9, 1, "l1")]);
    let (_, mut poller) = brought(&mut consumer, polls(&listener, "m1", &reply)).await;
    heart.write(gone().as_bytes()).await;
    joins_again(&mut heart, "m2").await;
    assert!(matches!(notice(&mut notices).await, Notice::Gone));
    match notice(&mut notices).await {
        Notice::Rejoined { member, assignment } => {
            assert_eq!((member.as_str(), assignment.len()), ("m2", 1));
        }
        other => panic!("{other:?}"),
    }
    let server = async {
        assert_eq!(path(&poller.asked().await), "/members/m2/poll");
        poller.write(&polled(&[batch(5, 1, 2, "l2")])).await;
        poller
    };
    let (message, _poller) = brought(&mut consumer, server).await;
    assert_eq!((message.message.offset, message.attempt()), (5, 2), "6 to 13 were void");
}

#[tokio::test]
async fn a_member_that_a_poll_finds_gone_joins_again_and_goes_on() {
    let listener = listener().await;
    let Seat { mut consumer, mut notices, calls: _calls, heart } = seat(&listener, options()).await;
    let server = async {
        let mut poller = polls(&listener, "m1", gone().as_bytes()).await;
        // The heartbeat that was held is of no use any more: its connection is closed.
        heart.closed().await;
        let mut heart = listener.accept().await;
        joins_again(&mut heart, "m2").await;
        assert_eq!(path(&poller.asked().await), "/members/m2/poll");
        poller.write(&polled(&[batch(5, 1, 2, "l2")])).await;
        (poller, heart)
    };
    let (message, _peers) = within(async { tokio::join!(consumer.next(), server) }).await;
    assert_eq!(message.unwrap().unwrap().attempt(), 2);
    assert!(matches!(notice(&mut notices).await, Notice::Gone));
    assert!(matches!(notice(&mut notices).await, Notice::Rejoined { .. }));
}

#[tokio::test]
async fn joining_again_is_tried_for_as_long_as_it_takes() {
    let listener = listener().await;
    let Seat { consumer, mut notices, calls: _calls, mut heart } = seat(&listener, options()).await;
    heart.write(gone().as_bytes()).await;
    for reply in [refusal("503 Busy", "server.busy"), refusal("503 Busy", "server.busy")] {
        assert_eq!(path(&heart.asked().await), "/members");
        assert_eq!(consumer.member(), None);
        heart.write(reply.as_bytes()).await;
    }
    assert_eq!(path(&heart.asked().await), "/members");
    drop(heart);
    let mut heart = listener.accept().await;
    joins_again(&mut heart, "m2").await;
    let told: Vec<Notice> =
        [notice(&mut notices).await, notice(&mut notices).await, notice(&mut notices).await].into();
    assert!(matches!(told[..], [Notice::Gone, Notice::Interrupted { .. }, Notice::Reconnected]));
    assert!(matches!(notice(&mut notices).await, Notice::Rejoined { .. }));
}

#[tokio::test]
async fn a_consumer_that_is_not_let_in_again_says_why_and_ends() {
    let listener = listener().await;
    let Seat { mut consumer, calls: _calls, mut heart, .. } = seat(&listener, options()).await;
    let server = async {
        let mut poller = listener.accept().await;
        poller.asked().await;
        heart.write(gone().as_bytes()).await;
        assert_eq!(path(&heart.asked().await), "/members");
        heart.write(refusal("403 No", "out_of_scope").as_bytes()).await;
        poller
    };
    let (told, _poller) = within(async { tokio::join!(consumer.next(), server) }).await;
    assert_eq!(told.unwrap().unwrap_err().code(), Some("out_of_scope"));
    assert!(within(consumer.next()).await.is_none());
    assert!(within(consumer.next()).await.is_none());
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again_and_knows_its_member() {
    let listener = listener().await;
    let Seat { mut consumer, mut notices, calls, heart } = seat(&listener, options()).await;
    let server = async {
        let mut poller = listener.accept().await;
        poller.asked().await;
        drop((poller, calls, heart));
        // Who comes first is not said.
        let (mut beats, mut polls) = (None, None);
        while beats.is_none() || polls.is_none() {
            let mut peer = listener.accept().await;
            match path(&peer.asked().await) {
                "/members/m1/heartbeat" => beats = Some(peer),
                "/members/m1/poll" => polls = Some(peer),
                other => panic!("{other}"),
            }
        }
        let mut poller = polls.unwrap();
        poller.write(&polled(&[batch(5, 1, 1, "l")])).await;
        (beats, poller)
    };
    let (message, _peers) = within(async { tokio::join!(consumer.next(), server) }).await;
    assert_eq!(message.unwrap().unwrap().message.offset, 5);
    assert!(matches!(notice(&mut notices).await, Notice::Interrupted { .. }));
    assert!(matches!(notice(&mut notices).await, Notice::Reconnected));
}

#[tokio::test]
async fn a_heartbeat_that_is_not_held_is_not_asked_without_end() {
    let listener = listener().await;
    let Seat { consumer: _consumer, calls: _calls, mut heart, .. } =
        seat(&listener, options()).await;
    let begun = tokio::time::Instant::now();
    for _ in 0..2 {
        heart.write(beat(1, &[0]).as_bytes()).await;
        heart.asked().await;
    }
    assert!(begun.elapsed() >= Duration::from_millis(500), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_consumer_that_leaves_says_so_and_asks_nothing_more() {
    let listener = listener().await;
    let Seat { mut consumer, mut notices, mut calls, heart } = seat(&listener, options()).await;
    let poller = {
        let server = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer
        };
        tokio::select! {
            biased;
            _ = consumer.next() => panic!("nobody has answered"),
            peer = within(server) => peer,
        }
    };
    let server = async {
        for reply in [refusal("503 Busy", "server.busy"), ok(r#"{"version":1}"#)] {
            let asked = calls.asked().await;
            assert_eq!(asked.line, "DELETE /v1/streams/groups/billing/members/m1");
            calls.write(reply.as_bytes()).await;
        }
        poller.closed().await;
        heart.closed().await;
    };
    let (left, ()) = within(async { tokio::join!(consumer.leave(), server) }).await;
    left.unwrap();
    assert!(within(notices.next()).await.is_none());
}

#[tokio::test]
async fn a_member_that_is_gone_has_left() {
    let listener = listener().await;
    let Seat { consumer, mut calls, heart: _heart, .. } = seat(&listener, options()).await;
    let server = async {
        calls.asked().await;
        calls.write(gone().as_bytes()).await;
    };
    let (left, ()) = within(async { tokio::join!(consumer.leave(), server) }).await;
    left.unwrap();
}

#[tokio::test]
async fn a_consumer_that_is_dropped_is_silent() {
    let listener = listener().await;
    let Seat { consumer, calls: _calls, heart, .. } = seat(&listener, options()).await;
    drop(consumer);
    heart.closed().await;
}
