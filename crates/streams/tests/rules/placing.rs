//! Where messages go, and as what.

use bytes::Bytes;
use handoff_streams::{
    Action, Change, Command, Compression, Header, Message, PartitionId, Produce, Refusal, Reply,
    TopicSettings,
};
use handoff_types::{Span, Wall};

use crate::room::{Room, SETTINGS, at, keyed, records, results, text, texts, to, topic};

fn header(name: &str, value: &str) -> Header {
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    Header { name: bytes(name), value: bytes(value) }
}

#[test]
fn a_message_with_a_key_goes_where_kafkas_hash_of_it_says() {
    let mut room = Room::with(10);
    let stored = room.store(&[keyed("21", "a"), keyed("abc", "b"), keyed("21", "c")]);
    assert_eq!(stored.iter().map(at).collect::<Vec<_>>(), [(0, 0), (7, 0), (0, 1)]);
}

#[test]
fn a_partition_that_is_named_wins_over_the_key() {
    let mut room = Room::with(10);
    let message = Message { partition: Some(3), ..keyed("21", "a") };
    assert_eq!(at(&room.store(&[message])[0]), (3, 0));
}

#[test]
fn a_partition_that_is_not_there_is_refused() {
    let mut room = Room::with(3);
    let refusal = room.refused_message(to(3, "a"));
    let expected = Refusal::NoPartition { topic: topic("orders"), partition: 3, count: 3 };
    assert_eq!(refusal, expected);
}

#[test]
fn messages_without_a_key_go_to_the_partition_with_the_fewest_bytes() {
    let mut room = Room::with(3);
    room.store(&[
        to(0, "a long message that takes some bytes"),
        to(2, "b"),
        to(1, "a middling one"),
    ]);
    assert_eq!(at(&room.store(&[text("c")])[0]), (2, 1));
    assert_eq!(at(&room.store(&[text("d")])[0]), (1, 1));
}

#[test]
fn messages_without_a_key_fill_all_partitions_alike() {
    let mut room = Room::with(4);
    for _ in 0..40 {
        room.store(&[text("equal")]);
    }
    assert_eq!(room.ends("orders"), [10, 10, 10, 10]);
}

#[test]
fn messages_of_one_request_without_a_key_stay_together() {
    let mut room = Room::with(4);
    room.store(&[to(0, "x")]);
    let stored = room.store(&texts(&["a", "b", "c"]));
    assert_eq!(stored.iter().map(at).collect::<Vec<_>>(), [(1, 0), (1, 1), (1, 2)]);
}

#[test]
fn a_partition_whose_messages_went_is_filled_again_first() {
    let mut room = Room::with(2);
    room.store(&[to(0, "a long one, longer than the other"), to(1, "short")]);
    let id = room.state.topic(&topic("orders")).unwrap().id;
    let partition = PartitionId { topic: id, number: 0 };
    room.apply(&Command::Trim { partition, below: 1, bytes: 0 });
    assert_eq!(at(&room.store(&[text("b")])[0]), (0, 1));
}

#[test]
fn each_partition_gets_one_batch_and_is_published_once() {
    let mut room = Room::with(3);
    let decided = room.send("orders", None, &[to(2, "a"), to(0, "b"), to(2, "c")]);
    let stored: Vec<_> = results(&decided).iter().map(at).collect();
    assert_eq!(stored, [(2, 0), (0, 0), (2, 1)]);
    assert_eq!(decided.changes.len(), 2);
    let published = |action: &Action| match action {
        Action::Published { partition, end, .. } => (partition.number, *end),
        other => panic!("{other:?}"),
    };
    assert_eq!(decided.actions.iter().map(published).collect::<Vec<_>>(), [(0, 1), (2, 2)]);
    let payloads: Vec<_> = records(&decided).into_iter().map(|(p, r)| (p, r.payload)).collect();
    let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
    assert_eq!(payloads, [(0, bytes("b")), (2, bytes("a")), (2, bytes("c"))]);
}

#[test]
fn what_is_stored_reads_back_whatever_the_compression() {
    use Compression::{Gzip, Lz4, None as Plain, Snappy, Zstd};
    for (n, compression) in [Plain, Gzip, Snappy, Lz4, Zstd].into_iter().enumerate() {
        let mut room = Room::new();
        let settings = TopicSettings { compression, ..SETTINGS };
        let name = format!("topic-{n}");
        room.create_with(&name, 1, settings);
        let message = Message {
            headers: vec![header("trace", "1"), header("trace", "2"), header("", "")],
            ..keyed("k", &"again and ".repeat(100))
        };
        let decided = room.send(&name, None, &[message.clone(), text("b")]);
        let records = records(&decided);
        assert_eq!(records.len(), 2);
        let (_, first) = &records[0];
        assert_eq!(first.offset, 0);
        assert_eq!((&first.key, &first.payload), (&message.key, &Some(message.payload)));
        assert_eq!(first.headers, message.headers);
    }
}

#[test]
fn a_time_to_live_becomes_the_time_it_expires() {
    let mut room = Room::with(1);
    let message = Message {
        headers: vec![header("a", "b")],
        ttl: Some(Span::from_secs(60)),
        ..text("short-lived")
    };
    let decided = room.send("orders", None, &[message]);
    let (_, record) = &records(&decided)[0];
    assert_eq!(record.timestamp, Wall(1_800_000_000_123_000));
    let expected = [header("a", "b"), header("handoff.expires", "1800000060123")];
    assert_eq!(record.headers, expected);
}

#[test]
fn timestamps_do_not_decrease_when_the_clock_is_set_back() {
    let mut room = Room::with(2);
    room.store(&[to(0, "a")]);
    room.now.wall = Wall(1_700_000_000_000_999);
    let decided = room.send("orders", None, &[to(0, "b"), to(1, "c")]);
    let times: Vec<_> = records(&decided).iter().map(|(_, record)| record.timestamp.0).collect();
    assert_eq!(times, [1_800_000_000_123_000, 1_700_000_000_000_000]);
}

#[test]
fn a_request_over_eight_mebibytes_becomes_several_batches_without_a_gap() {
    let mut room = Room::with(1);
    let megabytes = "x".repeat(3 << 20);
    let decided = room.send("orders", None, &[&megabytes; 5].map(|payload| text(payload)));
    let parts: Vec<_> = decided
        .changes
        .iter()
        .map(|change| match change {
            Change::Appended { base, count, .. } => (*base, *count),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(parts, [(0, 2), (2, 2), (4, 1)]);
    assert_eq!(decided.actions.len(), 1);
    assert_eq!(results(&decided).iter().map(at).next_back(), Some((0, 4)));
    // One that is larger for itself is stored for itself.
    let decided = room.send("orders", None, &[text("a"), text(&"x".repeat(9 << 20)), text("b")]);
    assert_eq!(decided.changes.len(), 3);
}

#[test]
fn headers_of_the_server_are_not_taken_from_callers() {
    let mut room = Room::with(1);
    let message = Message { headers: vec![header("handoff.expires", "1")], ..text("a") };
    assert!(matches!(room.refused_message(message), Refusal::Message { number: 0, .. }));
    let message = Message { headers: vec![header("handoff", "1")], ..text("a") };
    room.store(&[message]);
}

#[test]
fn a_header_whose_name_is_not_utf_8_is_refused() {
    let mut room = Room::with(1);
    let name = Bytes::from_static(b"\xff");
    let message = Message { headers: vec![Header { name, value: Bytes::new() }], ..text("a") };
    assert!(matches!(room.refused_message(message), Refusal::Message { number: 0, .. }));
}

#[test]
fn one_bad_message_refuses_the_whole_request_and_is_named() {
    let mut room = Room::with(1);
    let mut bad = text("b");
    bad.headers = vec![header("a", ""); 5];
    let messages = vec![text("a"), bad];
    let produce = Produce { topic: topic("orders"), producer: None, messages };
    let refusal = room.refused(&Command::Produce { produce, bounds: room.bounds });
    let Refusal::Message { number: 1, why } = refusal else { panic!("{refusal:?}") };
    assert!(why.contains("streams.headers_max"), "{why}");
    assert_eq!(room.ends("orders"), [0]);
}

#[test]
fn key_payload_and_headers_count_together_against_the_largest_message() {
    let mut room = Room::with(1);
    room.bounds.message_bytes_max = 10;
    let mut message = keyed("abc", "defg");
    message.headers = vec![header("h", "ij")];
    room.store(std::slice::from_ref(&message));
    message.headers = vec![header("h", "ijk")];
    let refusal = room.refused_message(message);
    let Refusal::Message { number: 0, why } = refusal else { panic!("{refusal:?}") };
    assert!(why.contains("11 bytes") && why.contains("streams.message_bytes_max"), "{why}");
}

#[test]
fn a_request_without_messages_or_with_too_many_is_refused() {
    let mut room = Room::with(1);
    let produce = |messages| Produce { topic: topic("orders"), producer: None, messages };
    let bounds = room.bounds;
    let empty = Command::Produce { produce: produce(Vec::new()), bounds };
    assert_eq!(room.refused(&empty), Refusal::Empty);
    let many = Command::Produce { produce: produce(vec![text("a"); 1_001]), bounds };
    assert!(
        matches!(room.refused(&many), Refusal::Limit(why) if why.contains("batch_messages_max"))
    );
}

#[test]
fn a_topic_that_is_not_there_takes_nothing() {
    let mut room = Room::with(1);
    let decided = room.send("other", None, &[text("a")]);
    assert_eq!(decided.reply, Reply::Refused(Refusal::NoTopic(topic("other"))));
}

#[test]
fn whether_the_producer_waits_is_the_topics_durability() {
    use handoff_streams::Durability;
    let mut room = Room::with(1);
    room.create_with("fast", 1, TopicSettings { durability: Durability::Os, ..SETTINGS });
    let waits = |decided: crate::room::Decided| match decided.reply {
        Reply::Produced { waits, .. } => waits,
        other => panic!("{other:?}"),
    };
    assert!(waits(room.send("orders", None, &[text("a")])));
    assert!(!waits(room.send("fast", None, &[text("a")])));
}
