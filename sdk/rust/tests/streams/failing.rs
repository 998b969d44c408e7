//! Answers that are lost, servers that are busy, messages that are refused: nothing is stored twice,
//! nothing that was answered is missing, and what is told is true.

use std::collections::BTreeMap;
use std::time::Duration;

use handoff_sdk::streams::{Message, Producer, SendError, Status};
use handoff_sdk::{Client, Outcome};
use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, prop_oneof, proptest};
use serde_json::{Value, json};

use crate::pack::{Batch, packed, refusal, stored};
use crate::peer::{Listener, Peer, listener, within};
use crate::producing::{options, producer, producer_of};

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_sequence() {
    let listener = listener().await;
    let producer = producer(&listener, options()).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    let first = peer.batch().await;
    drop(peer);
    let mut peer = listener.accept().await;
    let second = peer.batch().await;
    assert_eq!(first, second, "octet by octet the same");
    peer.write(&stored("duplicate", 7, 1)).await;
    let sent = within(delivery).await.unwrap();
    assert_eq!((sent.status, sent.offset), (Status::Duplicate, Some(7)), "that is a success");
    let delivery = producer.send("orders", "b").await.unwrap();
    assert_eq!(peer.stores(8).await.sequence, 2);
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    for status in ["503 Busy", "500 Oops", "502 Bad Gateway", "507 Full", "429 Slow", "408 Late"] {
        let listener = listener().await;
        let producer = producer(&listener, options()).await;
        let delivery = producer.send("orders", "a").await.unwrap();
        let mut peer = listener.accept().await;
        let first = peer.batch().await;
        peer.write(refusal(status, "busy").as_bytes()).await;
        assert_eq!(peer.batch().await, first, "{status}: the same, on the same connection");
        peer.write(&stored("stored", 0, 1)).await;
        within(delivery).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_asks_for_patience_gets_it() {
    let listener = listener().await;
    let producer = producer(&listener, options()).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    peer.batch().await;
    let body = r#"{"title":"busy","code":"busy"}"#;
    let length = body.len();
    let busy =
        format!("HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: {length}\r\n\r\n{body}");
    let begun = tokio::time::Instant::now();
    peer.write(busy.as_bytes()).await;
    assert_eq!(peer.batch().await.sequence, 1);
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    peer.write(&stored("stored", 0, 1)).await;
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn a_silent_server_is_asked_again_on_another_connection() {
    let listener = listener().await;
    let client =
        Client::new(listener.options().request_timeout(Duration::from_millis(100))).unwrap();
    let producer = producer_of(&client, &listener, options().retries(1000)).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let mut silent = listener.accept().await;
    let first = silent.batch().await;
    let mut peer = listener.accept().await;
    assert_eq!(peer.batch().await, first);
    peer.write(&stored("duplicate", 0, 1)).await;
    silent.closed().await;
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn an_answer_cut_at_any_byte_is_asked_for_again() {
    let answer = stored("stored", 3, 1);
    for end in 0..answer.len() {
        let listener = listener().await;
        let producer = producer(&listener, options()).await;
        let delivery = producer.send("orders", "a").await.unwrap();
        let mut peer = listener.accept().await;
        let first = peer.batch().await;
        peer.write(&answer[..end]).await;
        drop(peer);
        let mut peer = listener.accept().await;
        assert_eq!(peer.batch().await, first, "{end}");
        peer.write(&stored("duplicate", 3, 1)).await;
        assert_eq!(within(delivery).await.unwrap().offset, Some(3), "{end}");
    }
}

#[tokio::test]
async fn a_request_cut_at_any_byte_is_sent_again_whole() {
    for read in (0..240).step_by(17) {
        let listener = listener().await;
        let producer = producer(&listener, options()).await;
        let delivery = producer.send("orders", "a").await.unwrap();
        let peer = listener.accept().await;
        peer.reads(read).await;
        let mut peer = listener.accept().await;
        let batch = peer.stores(0).await;
        assert_eq!((batch.sequence, batch.payloads.len()), (1, 1), "{read}");
        within(delivery).await.unwrap();
    }
}

/// Fails the next batch for good: so many attempts are answered like this.
async fn fails(peer: &mut Peer, attempts: usize, answer: &str) {
    for _ in 0..attempts {
        peer.batch().await;
        peer.write(answer.as_bytes()).await;
    }
}

fn outcome(error: &SendError) -> (Outcome, u32) {
    let SendError::Failed { outcome, attempts, .. } = error else { panic!("{error:?}") };
    (*outcome, *attempts)
}

#[tokio::test]
async fn what_was_surely_not_stored_leaves_no_gap() {
    let listener = listener().await;
    let producer = producer(&listener, options().retries(2)).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    fails(&mut peer, 3, &refusal("507 Full", "disk_low")).await;
    let error = within(delivery).await.unwrap_err();
    assert_eq!(outcome(&error), (Outcome::NotApplied, 3));
    assert_eq!(error.code(), Some("disk_low"));
    assert!(error.to_string().contains("tried 3 times"), "{error}");
    let delivery = producer.send("orders", "b").await.unwrap();
    assert_eq!(peer.stores(0).await.sequence, 1, "the sequence is free");
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn a_sequence_that_may_be_stored_is_never_given_to_another_message() {
    let listener = listener().await;
    let producer = producer(&listener, options().retries(1)).await;
    let delivery = producer.send("orders", "a").await.unwrap();
    let mut peer = listener.accept().await;
    peer.batch().await;
    drop(peer);
    let mut peer = listener.accept().await;
    // This attempt is surely not stored; the one before may be.
    fails(&mut peer, 1, &refusal("503 Busy", "server.busy")).await;
    let error = within(delivery).await.unwrap_err();
    assert_eq!(outcome(&error), (Outcome::Unknown, 2));
    let delivery = producer.send("orders", "b").await.unwrap();
    let batch = peer.batch().await;
    assert_eq!(batch.sequence, 2);
    peer.write(&stored("stored_after_gap", 0, 1)).await;
    assert_eq!(within(delivery).await.unwrap().status, Status::StoredAfterGap);
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let listener = listener().await;
    let producer = producer(&listener, options()).await;
    let (first, second) = (producer.send("gone", "a").await, producer.send("gone", "b").await);
    let mut peer = listener.accept().await;
    let mut refused = 0;
    while refused < 2 {
        refused += peer.batch().await.payloads.len();
        peer.write(refusal("404 No", "streams.topic_not_found").as_bytes()).await;
    }
    for delivery in [first, second] {
        let error = within(delivery.unwrap()).await.unwrap_err();
        assert_eq!(error.code(), Some("streams.topic_not_found"));
        assert_eq!(outcome(&error), (Outcome::NotApplied, 1));
    }
    let flushed = producer.flush().await.unwrap_err();
    assert_eq!(flushed.code(), Some("streams.topic_not_found"), "a flush tells of it");
    producer.flush().await.unwrap();
}

#[tokio::test]
async fn a_message_at_fault_does_not_take_its_neighbours_with_it() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_secs(3600))).await;
    let mut deliveries = Vec::new();
    for n in 0..10 {
        let payload = if n == 6 { "bad".to_owned() } else { n.to_string() };
        deliveries.push(producer.send("orders", payload).await.unwrap());
    }
    let server = async {
        let mut peer = listener.accept().await;
        let mut all = Vec::new();
        while all.len() < 9 {
            let batch = peer.batch().await;
            if batch.payloads.iter().any(|payload| payload == "bad") {
                peer.write(refusal("422 No", "streams.invalid").as_bytes()).await;
                continue;
            }
            assert_eq!(batch.sequence, all.len() as u64 + 1, "no gap");
            peer.write(&stored("stored", all.len() as u64, batch.payloads.len())).await;
            all.extend(batch.payloads);
        }
        all
    };
    let (flushed, all) = within(async { tokio::join!(producer.flush(), server) }).await;
    assert_eq!(flushed.unwrap_err().code(), Some("streams.invalid"));
    assert_eq!(all, ["0", "1", "2", "3", "4", "5", "7", "8", "9"]);
    for (n, delivery) in deliveries.into_iter().enumerate() {
        assert_eq!(delivery.await.is_err(), n == 6, "{n}");
    }
}

#[tokio::test]
async fn a_producer_whose_guid_another_program_uses_stops() {
    let listener = listener().await;
    let producer = producer(&listener, options().batch_messages_max(1)).await;
    let first = producer.send("orders", "a").await.unwrap();
    let second = producer.send("orders", "b").await.unwrap();
    let mut peer = listener.accept().await;
    fails(&mut peer, 1, &refusal("409 No", "streams.sequence_reused")).await;
    for delivery in [first, second] {
        let error = within(delivery).await.unwrap_err();
        assert_eq!(error.code(), Some("streams.sequence_reused"));
    }
    let error = producer.send("orders", "c").await.unwrap_err();
    assert_eq!(error.code(), Some("streams.sequence_reused"));
}

#[tokio::test]
async fn whoever_numbers_its_messages_is_told_which_number_was_used() {
    let listener = listener().await;
    let producer = producer(&listener, options().linger(Duration::from_secs(3600))).await;
    let mut deliveries = Vec::new();
    for sequence in 1..=2 {
        let message = Message::new(sequence.to_string()).sequence(sequence);
        deliveries.push(producer.send("orders", message).await.unwrap());
    }
    let server = async {
        let mut peer = listener.accept().await;
        fails(&mut peer, 2, &refusal("409 No", "streams.sequence_reused")).await;
        assert_eq!(peer.stores(0).await.sequence, 2);
    };
    let (flushed, ()) = within(async { tokio::join!(producer.flush(), server) }).await;
    flushed.unwrap_err();
    assert!(deliveries.remove(0).await.is_err());
    assert_eq!(deliveries.remove(0).await.unwrap().sequence, Some(2));
}

#[tokio::test]
async fn an_answer_that_is_no_answer_is_told_as_such() {
    let one = json!({ "status": "stored", "partition": 0, "offset": 0 });
    for (answer, words) in [
        (packed(&json!({ "version": 1, "results": [] })), "0 results for 1"),
        (packed(&json!({ "version": 1, "results": [one, one] })), "2 results for 1"),
        (packed(&json!({ "version": 1 })), "no results"),
        (packed(&json!([1])), "a map is missing"),
        (packed(&json!({ "results": [{ "partition": 1 }] })), "no status"),
        (crate::peer::ok(r#"{"version":1}"#).into_bytes(), "MessagePack"),
    ] {
        let listener = listener().await;
        let producer = producer(&listener, options()).await;
        let delivery = producer.send("orders", "a").await.unwrap();
        let mut peer = listener.accept().await;
        peer.batch().await;
        peer.write(&answer).await;
        let error = within(delivery).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.outcome(), Outcome::Unknown);
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Stored, and the answer is lost.
    Lost,
    /// Not stored, and the connection is cut.
    Cut,
    Busy,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate =
        prop_oneof![Just(Fate::Answered), Just(Fate::Lost), Just(Fate::Cut), Just(Fate::Busy),];
    vec(fate, 0..30)
}

/// A server that stores each sequence once and suffers these fates, then none.
async fn serve(listener: &Listener, fates: &[Fate], total: usize) -> Vec<String> {
    let mut log: Vec<String> = Vec::new();
    let mut by_sequence: BTreeMap<u64, usize> = BTreeMap::new();
    let mut answered = 0;
    let mut fates = fates.iter();
    let mut peer = listener.accept().await;
    while answered < total {
        let Some(asked) = peer.try_asked().await else {
            peer = listener.accept().await;
            continue;
        };
        let batch = Batch::of(asked);
        let fate = fates.next().copied().unwrap_or(Fate::Answered);
        if matches!(fate, Fate::Busy) {
            peer.write(refusal("503 Busy", "server.busy").as_bytes()).await;
            continue;
        }
        if matches!(fate, Fate::Cut) {
            drop(peer);
            peer = listener.accept().await;
            continue;
        }
        let mut results: Vec<Value> = Vec::new();
        for (sequence, payload) in (batch.sequence..).zip(&batch.payloads) {
            let status = if by_sequence.contains_key(&sequence) { "duplicate" } else { "stored" };
            let at = *by_sequence.entry(sequence).or_insert_with(|| {
                log.push(payload.clone());
                log.len() - 1
            });
            results.push(json!({ "status": status, "partition": 0, "offset": at }));
        }
        if matches!(fate, Fate::Lost) {
            drop(peer);
            peer = listener.accept().await;
            continue;
        }
        answered += results.len();
        peer.write(&packed(&json!({ "version": 1, "results": results }))).await;
    }
    log
}

async fn sends(producer: &Producer, total: usize) {
    let mut deliveries = Vec::new();
    for n in 0..total {
        deliveries.push(producer.send("orders", n.to_string()).await.unwrap());
    }
    for (n, delivery) in (0..).zip(deliveries) {
        assert_eq!(delivery.await.unwrap().offset, Some(n));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_lost_on_the_way_each_message_is_stored_once_and_in_order(
        fates in fates(),
        batch in 1..20_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = listener().await;
            let options = options().retries(100).batch_messages_max(batch);
            let producer = producer(&listener, options).await;
            let total = 60;
            let work = async { tokio::join!(serve(&listener, &fates, total), sends(&producer, total)) };
            let (log, ()) = within(work).await;
            let expected: Vec<String> = (0..total).map(|n| n.to_string()).collect();
            assert_eq!(log, expected);
        });
    }
}
