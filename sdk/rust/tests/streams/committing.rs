//! Commits: what is said, what is repeated, and what is stored with them.

use handoff_sdk::Outcome;
use handoff_sdk::streams::{Commit, CommitOutcome, Delivered, Message};
use serde_json::{Value, json};
use std::time::Duration;

use crate::consuming::{Seat, batch, gone, next, options, path, polled, seat};
use crate::pack::{GUID, packed, refusal, unpack};
use crate::peer::{Asked, Listener, Peer, listener, ok, within};

/// A seat to which these batches were brought.
async fn served(listener: &Listener, batches: &[Value], count: usize) -> (Seat, Vec<Delivered>) {
    let mut seat = seat(listener, options()).await;
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(&polled(batches)).await;
    };
    let consumer = &mut seat.consumer;
    let take = async {
        let mut messages = Vec::new();
        while messages.len() < count {
            messages.push(next(consumer).await);
        }
        messages
    };
    let (messages, ()) = within(async { tokio::join!(take, server) }).await;
    (seat, messages)
}

fn said(asked: &Asked) -> Value {
    assert_eq!(path(asked), "/members/m1/commit");
    assert_eq!(asked.header("content-type"), Some("application/msgpack"));
    assert_eq!(asked.header("accept"), Some("application/msgpack"));
    unpack(&asked.body)
}

fn finished(ranges: &[(u64, u64, &str)]) -> Value {
    let results: Vec<Value> = ranges
        .iter()
        .map(|(from, to, outcome)| {
            json!({"topic": "orders", "partition": 0, "from": from, "to": to, "outcome": outcome})
        })
        .collect();
    json!({"version": 1, "results": results})
}

fn done(from: u64, to: u64) -> Vec<u8> {
    packed(&finished(&[(from, to, "done")]))
}

/// A commit that stored one message in each of so many topics.
fn stored(topics: usize) -> Vec<u8> {
    let mut body = finished(&[(5, 5, "done")]);
    let one = json!({"results": [{"status": "stored", "partition": 0, "offset": 9}]});
    body["produced"] = json!(vec![one; topics]);
    packed(&body)
}

#[tokio::test]
async fn what_became_of_messages_is_said_by_ranges_and_leases() {
    let listener = listener().await;
    let batches = [batch(5, 4, 1, "l1"), batch(9, 1, 3, "l2")];
    let (mut seat, messages) = served(&listener, &batches, 5).await;
    let commit = messages[..2].iter().map(Delivered::ok).collect::<Commit>();
    let commit = commit
        .result(messages[2].failed("no such customer"))
        .result(messages[3].retry().error("later").delay(Duration::from_secs(2)))
        .result(messages[4].extend());
    let server = async {
        let asked = seat.calls.asked().await;
        let results = [(5, 6, "done"), (7, 7, "late"), (8, 8, "fenced"), (9, 9, "new")];
        seat.calls.write(&packed(&finished(&results))).await;
        said(&asked)
    };
    let (committed, body) =
        within(async { tokio::join!(seat.consumer.commit(commit), server) }).await;
    let at = |from: u64, to: u64, status: &str, lease: &str| {
        json!({"topic": "orders", "partition": 0, "from": from, "to": to, "status": status,
            "lease": lease})
    };
    let mut expected = [
        at(5, 6, "ok", "l1"),
        at(7, 7, "failed", "l1"),
        at(8, 8, "retry", "l1"),
        at(9, 9, "extend", "l2"),
    ];
    expected[1]["error"] = json!("no such customer");
    expected[2]["error"] = json!("later");
    expected[2]["delayMs"] = json!(2000);
    assert_eq!(body, json!({"version": 1, "results": expected}));
    let committed = committed.unwrap();
    let outcomes: Vec<_> = committed.results.iter().map(|finished| finished.outcome).collect();
    assert_eq!(
        outcomes,
        [CommitOutcome::Done, CommitOutcome::Late, CommitOutcome::Fenced, CommitOutcome::Other]
    );
    assert!(!committed.all_count());
    assert_eq!(committed.fenced().map(|finished| finished.from).collect::<Vec<_>>(), [8]);
}

#[tokio::test]
async fn a_batch_is_committed_with_one_range() {
    let listener = listener().await;
    let mut seat = seat(&listener, options()).await;
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(&polled(&[batch(5, 100, 1, "l1")])).await;
        peer
    };
    let (batch, _peer) = within(async { tokio::join!(seat.consumer.next_batch(), server) }).await;
    let batch = batch.unwrap().unwrap();
    let server = async {
        let asked = seat.calls.asked().await;
        seat.calls.write(&done(5, 104)).await;
        said(&asked)
    };
    let (committed, body) =
        within(async { tokio::join!(seat.consumer.commit(batch.ok()), server) }).await;
    assert!(committed.unwrap().all_count());
    assert_eq!((&body["results"][0]["from"], &body["results"][0]["to"]), (&json!(5), &json!(104)));
    assert_eq!(batch.into_messages().count(), 100);
}

#[tokio::test]
async fn nothing_to_commit_is_no_request() {
    let listener = listener().await;
    let seat = seat(&listener, options()).await;
    assert_eq!(within(seat.consumer.commit(Commit::new())).await.unwrap().results, []);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_repeated_octet_by_octet() {
    let reply = done(5, 5);
    for end in (0..reply.len()).step_by(11) {
        let listener = listener().await;
        let (seat, messages) = served(&listener, &[batch(5, 1, 1, "l")], 1).await;
        let Seat { consumer, mut calls, heart: _heart, .. } = seat;
        let server = async {
            let first = calls.asked().await;
            calls.write(&reply[..end]).await;
            drop(calls);
            let mut calls = listener.accept().await;
            let second = calls.asked().await;
            assert_eq!((said(&first), first.body), (said(&second), second.body), "{end}");
            calls.write(&reply).await;
        };
        let (committed, ()) =
            within(async { tokio::join!(consumer.commit(messages[0].ok()), server) }).await;
        assert!(committed.unwrap().all_count(), "{end}");
    }
}

#[tokio::test]
async fn a_busy_server_is_asked_again_and_not_for_ever() {
    let listener = listener().await;
    let batches = [batch(5, 1, 1, "l")];
    let mut seat = seat(&listener, options().retries(2)).await;
    let server = async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.write(&polled(&batches)).await;
        peer
    };
    let (message, _peer) = within(async { tokio::join!(seat.consumer.next(), server) }).await;
    let message = message.unwrap().unwrap();
    let Seat { consumer, mut calls, heart: _heart, .. } = seat;
    let server = async {
        for _ in 0..3 {
            calls.asked().await;
            calls.write(refusal("503 Busy", "server.busy").as_bytes()).await;
        }
        for _ in 0..3 {
            calls.asked().await;
            drop(calls);
            calls = listener.accept().await;
        }
    };
    let commits = async {
        let busy = consumer.commit(message.ok()).await.unwrap_err();
        assert_eq!((busy.code(), busy.attempts), (Some("server.busy"), 3));
        assert_eq!(busy.outcome, Outcome::NotApplied);
        assert!(!busy.is_fenced());
        consumer.commit(message.ok()).await.unwrap_err()
    };
    let (lost, ()) = within(async {
        let commits = async {
            let lost = commits.await;
            // The server waits for a connection that nobody needs any more.
            drop(listener.client().server().await);
            lost
        };
        tokio::join!(commits, server)
    })
    .await;
    assert_eq!((lost.outcome, lost.attempts), (Outcome::Unknown, 3), "{lost}");
}

#[tokio::test]
async fn a_commit_of_a_member_that_is_gone_is_fenced_and_it_joins_again() {
    let listener = listener().await;
    let (seat, messages) = served(&listener, &[batch(5, 2, 1, "l")], 1).await;
    let Seat { consumer, mut calls, heart, .. } = seat;
    let server = async {
        calls.asked().await;
        calls.write(gone().as_bytes()).await;
        heart.closed().await;
        let mut heart = listener.accept().await;
        assert_eq!(path(&heart.asked().await), "/members");
        heart
    };
    let (refused, _heart) =
        within(async { tokio::join!(consumer.commit(messages[0].ok()), server) }).await;
    let refused = refused.unwrap_err();
    assert!(refused.is_fenced() && refused.outcome == Outcome::NotApplied, "{refused}");
    // As long as it is no member, nothing of what it was given counts.
    let again = within(consumer.commit(messages[0].ok())).await.unwrap_err();
    assert!(again.is_fenced(), "{again}");
    assert_eq!(again.attempts, 0);
}

#[tokio::test]
async fn a_committer_of_a_consumer_that_left_says_so() {
    let listener = listener().await;
    let (seat, messages) = served(&listener, &[batch(5, 1, 1, "l")], 1).await;
    let Seat { consumer, mut calls, heart: _heart, .. } = seat;
    let committer = consumer.committer();
    let server = async {
        calls.asked().await;
        calls.write(ok(r#"{"version":1}"#).as_bytes()).await;
    };
    let (left, ()) = within(async { tokio::join!(consumer.leave(), server) }).await;
    left.unwrap();
    let error = within(committer.commit(messages[0].ok())).await.unwrap_err();
    assert!(error.to_string().contains("has left group billing"), "{error}");
}

#[tokio::test]
async fn what_a_retry_takes_back_is_not_given_and_what_it_leaves_is() {
    let listener = listener().await;
    let batches = [batch(5, 4, 1, "l1"), batch(20, 2, 2, "l1")];
    let (seat, messages) = served(&listener, &batches, 1).await;
    let Seat { mut consumer, mut calls, heart: _heart, .. } = seat;
    let server = async {
        assert_eq!(said(&calls.asked().await)["results"][0]["status"], "retry");
        calls.write(&done(5, 5)).await;
        let body = said(&calls.asked().await);
        let asked = |n: usize| {
            let result = &body["results"][n];
            assert_eq!((&result["status"], &result["lease"]), (&json!("extend"), &json!("l1")));
            (result["from"].as_u64().unwrap(), result["to"].as_u64().unwrap())
        };
        assert_eq!((asked(0), asked(1)), ((6, 8), (20, 21)), "once for all of the partition");
        let results = [(6, 6, "fenced"), (7, 7, "done"), (8, 8, "fenced"), (20, 21, "done")];
        calls.write(&packed(&finished(&results))).await;
        calls
    };
    let work = async {
        consumer.commit(messages[0].retry()).await.unwrap();
        let mut offsets = Vec::new();
        while offsets.len() < 2 {
            let batch = consumer.next_batch().await.unwrap().unwrap();
            offsets.push(batch.messages().iter().map(|message| message.offset).collect());
        }
        offsets
    };
    let (offsets, _calls): (Vec<Vec<u64>>, _) = within(async { tokio::join!(work, server) }).await;
    assert_eq!(offsets, [vec![7], vec![20, 21]]);
}

/// Answers the registration of who produces by commits.
async fn registers(calls: &mut Peer) {
    let asked = calls.asked().await;
    assert_eq!(asked.line, "POST /v1/streams/producers");
    assert_eq!(asked.json(), json!({"version": 1, "name": "group billing", "scope": "topic"}));
    let body = json!({"version": 1, "producer": GUID, "scope": "topic", "last": {}});
    calls.write(ok(&body.to_string()).as_bytes()).await;
}

/// Topics and first sequences of what was produced.
fn sequences(body: &Value) -> Vec<(String, u64)> {
    let one = |entry: &Value| {
        assert_eq!(entry["producer"], GUID);
        (entry["topic"].as_str().unwrap().to_owned(), entry["sequence"].as_u64().unwrap())
    };
    body["produce"].as_array().unwrap().iter().map(one).collect()
}

fn bill(message: &Delivered) -> Commit {
    Commit::of(message.ok()).produce("bills", Message::new("one").key("k"))
}

#[tokio::test]
async fn what_is_produced_travels_with_the_results_and_is_repeated_under_the_same_sequence() {
    let listener = listener().await;
    let (seat, messages) = served(&listener, &[batch(5, 1, 1, "l")], 1).await;
    let Seat { consumer, mut calls, heart: _heart, .. } = seat;
    let commit = bill(&messages[0]).produce("log", "x").produce("bills", "two");
    let server = async {
        registers(&mut calls).await;
        let first = calls.asked().await;
        drop(calls);
        let mut calls = listener.accept().await;
        let second = calls.asked().await;
        assert_eq!(first.body, second.body, "octet by octet the same");
        let body = said(&second);
        let message = |payload: &str| json!({"payload": payload});
        let mut keyed = message("one");
        keyed["key"] = json!("k");
        assert_eq!(
            body["produce"],
            json!([
                {"topic": "bills", "producer": GUID, "sequence": 1,
                    "messages": [keyed, message("two")]},
                {"topic": "log", "producer": GUID, "sequence": 1, "messages": [message("x")]},
            ])
        );
        calls.write(&stored(2)).await;
        calls
    };
    let (committed, mut calls) =
        within(async { tokio::join!(consumer.commit(commit), server) }).await;
    let committed = committed.unwrap();
    assert_eq!(committed.produced.len(), 2);
    assert_eq!(committed.produced[0].results[0].offset, Some(9));
    // The next goes on behind them.
    let server = async {
        let asked = calls.asked().await;
        calls.write(&stored(1)).await;
        sequences(&said(&asked))
    };
    let (committed, used) =
        within(async { tokio::join!(consumer.commit(bill(&messages[0])), server) }).await;
    committed.unwrap();
    assert_eq!(used, [("bills".to_owned(), 3)]);
}

#[tokio::test]
async fn a_sequence_that_may_be_stored_is_never_given_to_another_message() {
    let listener = listener().await;
    let (seat, messages) = served(&listener, &[batch(5, 1, 1, "l")], 1).await;
    let Seat { consumer, mut calls, heart: _heart, .. } = seat;
    let unknown = crate::peer::answer(
        "422 No",
        "application/problem+json",
        r#"{"title":"no","code":"streams.invalid","outcome":"unknown"}"#,
    );
    // Refused for sure, nobody knows, and refused because somebody else has this GUID.
    let replies = [
        (refusal("409 No", "streams.fenced"), 1),
        (unknown, 1),
        (refusal("422 No", "streams.invalid"), 2),
        (refusal("409 No", "streams.sequence_reused"), 2),
    ];
    let server = async {
        registers(&mut calls).await;
        for (reply, sequence) in &replies {
            let asked = calls.asked().await;
            assert_eq!(sequences(&said(&asked)), [("bills".to_owned(), *sequence)], "{reply}");
            calls.write(reply.as_bytes()).await;
        }
        registers(&mut calls).await;
        let asked = calls.asked().await;
        assert_eq!(sequences(&said(&asked)), [("bills".to_owned(), 1)], "another producer");
        calls.write(&stored(1)).await;
    };
    let commits = async {
        let mut fenced = Vec::new();
        for _ in &replies {
            fenced.push(consumer.commit(bill(&messages[0])).await.unwrap_err().is_fenced());
        }
        consumer.commit(bill(&messages[0])).await.unwrap();
        fenced
    };
    let (fenced, ()) = within(async { tokio::join!(commits, server) }).await;
    assert_eq!(fenced, [true, false, false, false]);
}

#[tokio::test]
async fn a_commit_that_is_dropped_gives_its_sequence_up() {
    let listener = listener().await;
    let (seat, messages) = served(&listener, &[batch(5, 1, 1, "l")], 1).await;
    let Seat { consumer, mut calls, heart: _heart, .. } = seat;
    let asked = async {
        registers(&mut calls).await;
        calls.asked().await;
    };
    tokio::select! {
        biased;
        _ = consumer.commit(bill(&messages[0])) => panic!("nobody has answered"),
        () = within(asked) => {}
    }
    let server = async {
        let mut calls = listener.accept().await;
        let asked = calls.asked().await;
        calls.write(&stored(1)).await;
        sequences(&said(&asked))
    };
    let (committed, used) =
        within(async { tokio::join!(consumer.commit(bill(&messages[0])), server) }).await;
    committed.unwrap();
    assert_eq!(used, [("bills".to_owned(), 2)]);
}

fn question() -> Value {
    let mut question = batch(5, 1, 1, "l");
    question["messages"][0]["headers"] = json!({"reply-to": "answers", "correlation-id": "c7"});
    question
}

#[tokio::test]
async fn an_answer_is_produced_in_the_commit_of_its_question() {
    let listener = listener().await;
    let (seat, messages) = served(&listener, &[question()], 1).await;
    let Seat { consumer, mut calls, heart: _heart, .. } = seat;
    let server = async {
        registers(&mut calls).await;
        let body = said(&calls.asked().await);
        assert_eq!(body["results"][0]["status"], "ok");
        assert_eq!(body["produce"][0]["topic"], "answers");
        assert_eq!(
            body["produce"][0]["messages"],
            json!([{"payload": "42", "headers": {"correlation-id": "c7"}}])
        );
        calls.write(&stored(1)).await;
    };
    let (replied, ()) =
        within(async { tokio::join!(consumer.reply(&messages[0], "42"), server) }).await;
    assert_eq!(replied.unwrap().produced.len(), 1);
}

#[tokio::test]
async fn a_question_nobody_waits_for_is_finished_without_an_answer() {
    for (question, is_asked) in [(batch(5, 1, 1, "l"), false), (question(), true)] {
        let listener = listener().await;
        let (seat, messages) = served(&listener, &[question], 1).await;
        let Seat { consumer, mut calls, heart: _heart, .. } = seat;
        let server = async {
            if is_asked {
                registers(&mut calls).await;
                calls.asked().await;
                calls.write(refusal("404 No", "streams.topic_not_found").as_bytes()).await;
            }
            let body = said(&calls.asked().await);
            assert_eq!(
                (&body["results"][0]["status"], &body["produce"]),
                (&json!("ok"), &Value::Null)
            );
            calls.write(&done(5, 5)).await;
        };
        let (replied, ()) =
            within(async { tokio::join!(consumer.reply(&messages[0], "42"), server) }).await;
        assert_eq!(replied.unwrap().produced, []);
    }
}
