//! What a producer's sequences mean: the seed's points 1 and 2, case by case.

use bytes::Bytes;
use handoff_streams::Status::{Duplicate, Stored, StoredAfterGap, StoredLate};
use handoff_streams::{
    Change, Command, Header, Message, Place, Produce, ProducerId, Refusal, Reply, Scope,
};
use handoff_types::{Span, Wall};

use crate::room::{ME, Room, at, keyed, results, text, texts, topic};

fn refused(room: &mut Room, first: u64, messages: &[Message]) -> Refusal {
    let producer = Some((ME, first));
    let produce = Produce { topic: topic("orders"), producer, messages: messages.to_vec() };
    room.refused(&Command::Produce { produce, bounds: room.bounds })
}

/// A room that has stored one message for each of these sequences, its number as its text.
fn having(sequences: &[u64]) -> Room {
    let mut room = Room::with(1);
    for sequence in sequences {
        room.sequence(*sequence, &[text(&sequence.to_string())]);
    }
    room
}

fn missing(room: &Room) -> Vec<(u64, u64)> {
    let sequences = room.state.sequences(ME, None).unwrap();
    sequences.missing.iter().map(|range| (*range.start(), *range.end())).collect()
}

#[test]
fn the_first_sequence_is_stored_whatever_it_is() {
    for first in [0, 1, 7, u64::MAX / 2] {
        let mut room = Room::with(1);
        assert_eq!(room.sequence(first, &[text("a")]), (vec![Stored], vec![]));
    }
}

#[test]
fn the_sequence_after_the_last_is_stored() {
    let mut room = having(&[7]);
    assert_eq!(room.sequence(8, &[text("8")]), (vec![Stored], vec![]));
    assert_eq!(room.ends("orders"), [2]);
}

#[test]
fn the_last_sequence_again_is_a_duplicate_at_its_place_and_nothing_is_stored() {
    let mut room = having(&[7, 8]);
    let decided = room.send("orders", Some((ME, 8)), &[text("8")]);
    let [result] = results(&decided)[..] else { panic!() };
    assert_eq!((result.status, at(&result)), (Duplicate, (0, 1)));
    assert_eq!(decided.changes, []);
    assert_eq!(decided.actions, []);
}

#[test]
fn an_older_sequence_again_is_a_duplicate_at_its_place() {
    let mut room = having(&[7, 8, 9, 10]);
    let decided = room.send("orders", Some((ME, 8)), &[text("8")]);
    assert_eq!(at(&results(&decided)[0]), (0, 1));
    assert_eq!(room.ends("orders"), [4]);
}

#[test]
fn a_retry_after_a_lost_answer_is_answered_as_the_first_time_and_stores_nothing() {
    let mut room = Room::with(4);
    let messages = [keyed("a", "1"), keyed("b", "2"), text("3")];
    let first = results(&room.send("orders", Some((ME, 1)), &messages));
    for _ in 0..3 {
        let again = room.send("orders", Some((ME, 1)), &messages);
        assert_eq!(again.changes, []);
        let again = results(&again);
        assert!(again.iter().all(|result| result.status == Duplicate));
        let place = |all: &[handoff_streams::Produced]| all.iter().map(at).collect::<Vec<_>>();
        assert_eq!(place(&again), place(&first));
    }
}

#[test]
fn a_sequence_beyond_the_next_is_stored_and_what_is_missing_is_named() {
    let mut room = having(&[7]);
    assert_eq!(
        room.sequence(11, &texts(&["11", "12"])),
        (vec![StoredAfterGap, Stored], vec![(8, 10)])
    );
    assert_eq!(room.ends("orders"), [3]);
    // Named once: the next has nothing new to say.
    assert_eq!(room.sequence(13, &[text("13")]), (vec![Stored], vec![]));
}

#[test]
fn a_missing_sequence_that_comes_after_all_is_stored_late_and_then_a_duplicate() {
    let mut room = having(&[7, 11]);
    assert_eq!(room.sequence(9, &[text("9")]), (vec![StoredLate], vec![]));
    assert_eq!(missing(&room), [(8, 8), (10, 10)]);
    assert_eq!(room.sequence(9, &[text("9")]), (vec![Duplicate], vec![]));
    assert_eq!(room.sequence(8, &[text("8")]), (vec![StoredLate], vec![]));
    assert_eq!(room.sequence(10, &[text("10")]), (vec![StoredLate], vec![]));
    assert_eq!(missing(&room), []);
    assert_eq!(room.sequence(12, &[text("12")]), (vec![Stored], vec![]));
}

#[test]
fn a_late_sequence_at_an_edge_shrinks_what_is_missing() {
    let mut room = having(&[1, 10]);
    room.sequence(2, &[text("2")]);
    room.sequence(9, &[text("9")]);
    assert_eq!(missing(&room), [(3, 8)]);
}

#[test]
fn a_sequence_with_other_content_is_refused_and_says_where_the_first_is() {
    let mut room = having(&[7, 8]);
    let refusal = refused(&mut room, 8, &[text("not 8")]);
    let Refusal::SequenceReused { sequence: 8, place: Place::At(partition, 1) } = refusal else {
        panic!("{refusal:?}")
    };
    assert_eq!(partition.number, 0);
}

#[test]
fn whatever_differs_makes_it_another_message() {
    let header = |name: &'static str, value: &'static str| Header {
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
    };
    let message = Message { headers: vec![header("a", "bc")], ..keyed("k", "payload") };
    let others = [
        Message { key: None, ..message.clone() },
        Message { key: Some(Bytes::new()), ..message.clone() },
        Message { payload: Bytes::from_static(b"Payload"), ..message.clone() },
        Message { headers: vec![], ..message.clone() },
        Message { headers: vec![header("ab", "c")], ..message.clone() },
        Message { headers: vec![header("a", "bc"), header("", "")], ..message.clone() },
        Message { partition: Some(0), ..message.clone() },
        Message { deliver_at: Some(Wall(5)), ..message.clone() },
        Message { ttl: Some(Span::from_secs(1)), ..message.clone() },
    ];
    for other in others {
        let mut room = Room::with(1);
        room.sequence(1, std::slice::from_ref(&message));
        let refusal = refused(&mut room, 1, std::slice::from_ref(&other));
        assert!(matches!(refusal, Refusal::SequenceReused { sequence: 1, .. }), "{other:?}");
        assert_eq!(room.sequence(1, std::slice::from_ref(&message)).0, [Duplicate]);
    }
}

#[test]
fn the_same_sequence_to_another_topic_is_another_message() {
    let mut room = having(&[7]);
    room.create("other", 1);
    let decided = room.send("other", Some((ME, 7)), &[text("7")]);
    assert!(matches!(decided.reply, Reply::Refused(Refusal::SequenceReused { sequence: 7, .. })));
}

#[test]
fn a_sequence_below_all_that_is_known_is_refused() {
    let mut room = having(&[7, 8]);
    let expected = Refusal::SequenceTooOld { sequence: 6, floor: 7 };
    assert_eq!(refused(&mut room, 6, &[text("6")]), expected);
}

#[test]
fn a_duplicate_whose_place_is_forgotten_is_still_a_duplicate() {
    let mut room = Room::with(1);
    for sequence in 1..=9 {
        room.sequence(sequence, &[text(&sequence.to_string())]);
    }
    let placed = |room: &mut Room, sequence: u64| {
        let message = text(&sequence.to_string());
        let [result] = results(&room.send("orders", Some((ME, sequence)), &[message]))[..] else {
            panic!()
        };
        assert_eq!(result.status, Duplicate);
        result.place.is_some()
    };
    assert!(!placed(&mut room, 1), "eight are remembered");
    assert!(placed(&mut room, 2));
    assert!(placed(&mut room, 9));
}

#[test]
fn a_request_longer_than_what_is_remembered_leaves_its_last_ones_remembered() {
    let mut room = Room::with(1);
    let messages: Vec<_> = (1..=20).map(|n: u32| text(&n.to_string())).collect();
    room.sequence(1, &messages);
    let again = results(&room.send("orders", Some((ME, 1)), &messages));
    let places: Vec<_> = again.iter().map(|result| result.place.is_some()).collect();
    assert!(places[..12].iter().all(|there| !there) && places[12..].iter().all(|there| *there));
}

#[test]
fn with_too_many_gaps_the_oldest_is_given_up_and_what_is_below_is_too_old() {
    let mut room = having(&[1, 3, 5, 7]);
    assert_eq!(missing(&room), [(2, 2), (4, 4), (6, 6)]);
    assert_eq!(room.sequence(9, &[text("9")]), (vec![StoredAfterGap], vec![(8, 8)]));
    assert_eq!(missing(&room), [(4, 4), (6, 6), (8, 8)]);
    let expected = Refusal::SequenceTooOld { sequence: 2, floor: 3 };
    assert_eq!(refused(&mut room, 2, &[text("2")]), expected);
    // It is below the floor, and yet it is remembered to be stored.
    assert_eq!(room.sequence(1, &[text("1")]).0, [Duplicate]);
    assert_eq!(room.sequence(4, &[text("4")]).0, [StoredLate]);
}

#[test]
fn a_split_that_makes_too_many_gaps_gives_up_the_oldest() {
    let mut room = having(&[1, 3, 5, 9]);
    assert_eq!(missing(&room), [(2, 2), (4, 4), (6, 8)]);
    assert_eq!(room.sequence(7, &[text("7")]).0, [StoredLate]);
    assert_eq!(missing(&room), [(4, 4), (6, 6), (8, 8)]);
    assert_eq!(room.state.sequences(ME, None).unwrap().floor, Some(3));
    // The oldest may be a part of the one that was split.
    room.bounds.missing_max = 1;
    let mut room = having(&[1, 9]);
    room.bounds.missing_max = 1;
    assert_eq!(room.sequence(5, &[text("5")]).0, [StoredLate]);
    assert_eq!(missing(&room), [(6, 8)]);
    assert_eq!(room.state.sequences(ME, None).unwrap().floor, Some(5));
}

#[test]
fn without_room_for_gaps_nothing_comes_late() {
    let mut room = Room::with(1);
    room.bounds.missing_max = 0;
    room.sequence(1, &[text("1")]);
    assert_eq!(room.sequence(5, &[text("5")]), (vec![StoredAfterGap], vec![(2, 4)]));
    let expected = Refusal::SequenceTooOld { sequence: 3, floor: 5 };
    assert_eq!(refused(&mut room, 3, &[text("3")]), expected);
}

#[test]
fn a_request_with_old_and_new_messages_stores_the_new_ones_without_a_hole() {
    let mut room = having(&[1, 2, 5]);
    let messages = texts(&["2", "3", "4", "5", "6"]);
    let decided = room.send("orders", Some((ME, 2)), &messages);
    let results = results(&decided);
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [Duplicate, StoredLate, StoredLate, Duplicate, Stored]);
    assert_eq!(
        results.iter().map(at).map(|(_, offset)| offset).collect::<Vec<_>>(),
        [1, 3, 4, 2, 5]
    );
    assert_eq!(room.ends("orders"), [6]);
}

#[test]
fn one_refused_sequence_refuses_the_whole_request() {
    let mut room = having(&[1, 2, 5]);
    let messages = texts(&["3", "4", "not 5", "6"]);
    let refusal = refused(&mut room, 3, &messages);
    assert!(matches!(refusal, Refusal::SequenceReused { sequence: 5, .. }));
    assert_eq!(missing(&room), [(3, 4)]);
    assert_eq!(room.ends("orders"), [3]);
}

#[test]
fn a_refused_request_does_not_make_its_producer_known() {
    let mut room = Room::with(1);
    let bad = Message { partition: Some(9), ..text("a") };
    refused(&mut room, 1, &[bad]);
    assert_eq!(room.state.producer(ME), None);
}

#[test]
fn sequences_go_to_the_largest_signed_number_and_no_further() {
    let max = u64::MAX / 2;
    let mut room = Room::with(1);
    assert_eq!(room.sequence(max - 1, &texts(&["a", "b"])).0, [Stored, Stored]);
    assert_eq!(refused(&mut room, max + 1, &[text("c")]), Refusal::SequenceRange);
    assert_eq!(refused(&mut room, max, &texts(&["b", "c"])), Refusal::SequenceRange);
    assert_eq!(refused(&mut room, u64::MAX, &texts(&["b", "c"])), Refusal::SequenceRange);
}

#[test]
fn sequences_count_over_all_topics() {
    let mut room = having(&[1]);
    room.create("other", 1);
    let status = |room: &mut Room, name: &str, sequence: u64| {
        results(&room.send(name, Some((ME, sequence)), &[text("x")]))[0].status
    };
    assert_eq!(status(&mut room, "other", 2), Stored);
    assert_eq!(status(&mut room, "orders", 4), StoredAfterGap);
    assert_eq!(status(&mut room, "other", 3), StoredLate);
}

#[test]
fn sequences_count_for_each_topic_if_the_producer_said_so() {
    let mut room = Room::with(1);
    room.create("other", 1);
    room.register(Some(ME), Some(Scope::Topic));
    let status = |room: &mut Room, name: &str, sequence: u64| {
        results(&room.send(name, Some((ME, sequence)), &[text("x")]))[0].status
    };
    assert_eq!(status(&mut room, "orders", 1), Stored);
    assert_eq!(status(&mut room, "other", 1), Stored);
    assert_eq!(status(&mut room, "orders", 2), Stored);
    assert_eq!(status(&mut room, "other", 3), StoredAfterGap);
    assert_eq!(status(&mut room, "orders", 1), Duplicate);
}

#[test]
fn producers_do_not_disturb_each_other() {
    let mut room = having(&[1, 2]);
    let other = Some((ProducerId(2), 1));
    let decided = room.send("orders", other, &[text("1")]);
    assert_eq!(results(&decided)[0].status, Stored);
}

#[test]
fn what_is_stored_is_said_in_one_change() {
    let mut room = having(&[1]);
    let decided = room.send("orders", Some((ME, 1)), &texts(&["1", "2", "3"]));
    let sequenced: Vec<_> = decided
        .changes
        .iter()
        .filter_map(|change| match change {
            Change::Sequenced { stored, .. } => Some(stored.iter().map(|one| one.sequence)),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(sequenced, [2, 3]);
}
