//! Messages that wait for their time.

use handoff_streams::{
    Action, Change, Command, Key, Message, Place, Refusal, Reply, ScheduledId, Scope, State,
    Status, Streams,
};
use handoff_types::{Entropy, Machine, Now, Sight, Span, Steady, Wall};

use crate::room::{BOUNDS, Decided, ME, Room, at, keyed, records, results, text, topic};

const MINUTE: Span = Span::from_secs(60);

fn later(room: &Room, span: Span, payload: &str) -> Message {
    Message { deliver_at: Some(room.now.wall + span), ..text(payload) }
}

fn ids(decided: &Decided) -> Vec<ScheduledId> {
    results(decided)
        .iter()
        .map(|result| match (result.status, result.place) {
            (Status::Scheduled, Some(Place::Scheduled(id))) => id,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn listed(room: &Room, sight: &Sight) -> Vec<ScheduledId> {
    room.state.scheduled(None, sight, None).map(|scheduled| scheduled.id).collect()
}

fn payloads(decided: &Decided) -> Vec<String> {
    let text =
        |payload: Option<bytes::Bytes>| String::from_utf8(payload.unwrap().to_vec()).unwrap();
    records(decided).into_iter().map(|(_, record)| text(record.payload)).collect()
}

#[test]
fn a_message_for_later_has_an_id_and_no_offset_until_it_is_due() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "a");
    let decided = room.send("orders", None, &[message]);
    assert_eq!(ids(&decided).len(), 1);
    assert_eq!(decided.actions, []);
    assert_eq!(room.ends("orders"), [0]);
    room.pass(Span(MINUTE.0 - 1));
    assert_eq!(room.tick(10).reply, Reply::Ticked { delivered: 0, more: false });
    room.pass(Span(1));
    let decided = room.tick(10);
    assert_eq!(decided.reply, Reply::Ticked { delivered: 1, more: false });
    assert_eq!(payloads(&decided), ["a"]);
    assert!(matches!(decided.actions[..], [Action::Published { end: 1, .. }]));
    assert_eq!(room.state.counts().scheduled, 0);
}

#[test]
fn a_message_whose_time_has_come_is_stored_at_once() {
    let mut room = Room::with(1);
    for span in [Span::ZERO, Span(1)] {
        let message = Message { deliver_at: Some(room.now.wall - span), ..text("a") };
        assert_eq!(room.store(&[message])[0].status, Status::Stored);
    }
}

#[test]
fn ids_of_one_request_differ() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "a");
    let decided = room.send("orders", None, &vec![message; 20]);
    let mut ids = ids(&decided);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20);
}

#[test]
fn what_is_due_is_delivered_by_time_and_then_by_id() {
    let mut room = Room::with(1);
    for (seconds, payload) in [(3, "c"), (1, "a"), (2, "b"), (9, "not yet")] {
        let message = later(&room, Span::from_secs(seconds), payload);
        room.store(&[message]);
    }
    room.pass(Span::from_secs(5));
    assert_eq!(payloads(&room.tick(10)), ["a", "b", "c"]);
    let messages = ["x", "y", "z"].map(|payload| later(&room, MINUTE, payload));
    let decided = room.send("orders", None, &messages);
    let mut expected: Vec<_> = ids(&decided).into_iter().zip(["x", "y", "z"]).collect();
    expected.sort();
    room.pass(MINUTE);
    let expected: Vec<_> = expected.into_iter().map(|(_, payload)| payload).collect();
    assert_eq!(
        payloads(&room.tick(10)),
        ["not yet"].into_iter().chain(expected).collect::<Vec<_>>()
    );
}

#[test]
fn delivery_stops_at_the_limits_and_goes_on() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "0123456789");
    room.store(&vec![message; 10]);
    room.pass(MINUTE);
    assert_eq!(room.tick(4).reply, Reply::Ticked { delivered: 4, more: true });
    let by_bytes = Command::Tick { limit: 100, bytes_max: 25, bounds: BOUNDS };
    assert_eq!(room.apply(&by_bytes).reply, Reply::Ticked { delivered: 3, more: true });
    assert_eq!(room.tick(100).reply, Reply::Ticked { delivered: 3, more: false });
    assert_eq!(room.ends("orders"), [10]);
}

#[test]
fn a_delivered_message_goes_where_its_key_or_its_partition_says() {
    let mut room = Room::with(10);
    let keyed = Message { deliver_at: Some(room.now.wall + MINUTE), ..keyed("abc", "k") };
    let named = Message { partition: Some(2), ..later(&room, MINUTE, "p") };
    room.store(&[keyed, named]);
    room.pass(MINUTE);
    let decided = room.tick(10);
    let mut at: Vec<_> = records(&decided).into_iter().map(|(partition, _)| partition).collect();
    at.sort_unstable();
    assert_eq!(at, [2, 7]);
}

#[test]
fn the_time_to_live_begins_when_it_is_delivered() {
    let mut room = Room::with(1);
    let message = Message { ttl: Some(MINUTE), ..later(&room, MINUTE, "a") };
    room.store(&[message]);
    room.pass(MINUTE);
    let decided = room.tick(1);
    let (_, record) = &records(&decided)[0];
    assert_eq!(record.headers[0].value, "1800000120123");
}

#[test]
fn a_cancelled_message_is_never_delivered() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "a");
    let id = ids(&room.send("orders", None, &[message]))[0];
    let cancel = Command::CancelScheduled { id, sight: Sight::All };
    assert_eq!(room.apply(&cancel).reply, Reply::Cancelled(id));
    room.pass(MINUTE);
    assert_eq!(room.tick(10).reply, Reply::Ticked { delivered: 0, more: false });
    assert_eq!(room.refused(&cancel), Refusal::NoScheduled(id));
}

#[test]
fn what_is_out_of_sight_is_neither_listed_nor_cancelled() {
    let mut room = Room::with(1);
    room.create("acme.a", 1);
    let message = later(&room, MINUTE, "a");
    let hidden = ids(&room.send("orders", None, std::slice::from_ref(&message)))[0];
    let seen = ids(&room.send("acme.a", None, &[message]))[0];
    let scope = "streams:acme.*".parse().unwrap();
    let sight = Sight::of(&[scope], handoff_types::Room::Streams).unwrap();
    assert_eq!(listed(&room, &sight), [seen]);
    let cancel = Command::CancelScheduled { id: hidden, sight: sight.clone() };
    assert_eq!(room.refused(&cancel), Refusal::NoScheduled(hidden));
    assert_eq!(
        room.apply(&Command::CancelScheduled { id: seen, sight }).reply,
        Reply::Cancelled(seen)
    );
}

#[test]
fn waiting_messages_are_listed_by_time_and_on_from_a_place() {
    let mut room = Room::with(1);
    room.create("other", 1);
    let mut expected = Vec::new();
    for (seconds, name) in [(30, "orders"), (10, "other"), (20, "orders")] {
        let message = later(&room, Span::from_secs(seconds), "a");
        let id = ids(&room.send(name, None, &[message]))[0];
        expected.push((room.now.wall + Span::from_secs(seconds), id, name));
    }
    expected.sort_by_key(|(due, ..)| *due);
    let all: Vec<_> = expected.iter().map(|(_, id, _)| *id).collect();
    assert_eq!(listed(&room, &Sight::All), all);
    let (due, id, _) = expected[0];
    let on: Vec<_> =
        room.state.scheduled(None, &Sight::All, Some((due, id))).map(|s| s.id).collect();
    assert_eq!(on, all[1..]);
    let orders = room.state.topic(&topic("orders")).unwrap().id;
    let one = |after| room.state.scheduled(Some(orders), &Sight::All, after).map(|s| s.id);
    assert_eq!(one(None).collect::<Vec<_>>(), all[1..]);
    let (due, id, _) = expected[1];
    assert_eq!(one(Some((due, id))).collect::<Vec<_>>(), all[2..]);
}

#[test]
fn a_deleted_topics_waiting_messages_are_hidden_at_once_and_then_removed() {
    let mut room = Room::with(1);
    room.create("other", 1);
    room.register(Some(ME), Some(Scope::Topic));
    for name in ["orders", "other"] {
        let message = later(&room, MINUTE, "a");
        room.send(name, Some((ME, 1)), &vec![message; 3]);
    }
    assert_eq!(Streams::next_deadline(&room.state, room.now), Some(room.now.steady + MINUTE));
    room.apply(&Command::DeleteTopic { name: topic("orders") });
    assert_eq!(listed(&room, &Sight::All).len(), 3);
    assert_eq!(room.state.counts().scheduled, 6);
    assert_eq!(Streams::next_deadline(&room.state, room.now), Some(room.now.steady));
    let hidden: Vec<ScheduledId> = room
        .state
        .keys_from(&handoff_streams::Key::Scheduled(ScheduledId(0)))
        .filter_map(|key| match key {
            handoff_streams::Key::Scheduled(id) => Some(id),
            _ => None,
        })
        .filter(|id| !listed(&room, &Sight::All).contains(id))
        .collect();
    let cancel = Command::CancelScheduled { id: hidden[0], sight: Sight::All };
    assert_eq!(room.refused(&cancel), Refusal::NoScheduled(hidden[0]));
    // Bounded: messages and sequences count.
    assert_eq!(room.tick(2).reply, Reply::Ticked { delivered: 0, more: true });
    assert_eq!(room.tick(2).reply, Reply::Ticked { delivered: 0, more: false });
    assert_eq!(room.state.counts().scheduled, 3);
    assert_eq!(room.state.sequences_of(ME).count(), 1);
    assert_eq!(Streams::next_deadline(&room.state, room.now), Some(room.now.steady + MINUTE));
}

#[test]
fn what_is_due_for_a_topic_that_is_gone_is_removed_and_not_delivered() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "a");
    room.store(&[message]);
    room.apply(&Command::DeleteTopic { name: topic("orders") });
    room.create("orders", 1);
    room.pass(MINUTE);
    let decided = room.tick(10);
    assert_eq!(decided.reply, Reply::Ticked { delivered: 0, more: false });
    assert!(matches!(decided.changes[..], [Change::Unscheduled(_)]));
    assert_eq!(room.ends("orders"), [0]);
}

#[test]
fn a_scheduled_message_sent_again_is_a_duplicate_before_and_after_its_delivery() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "a");
    let id = ids(&room.send("orders", Some((ME, 1)), std::slice::from_ref(&message)))[0];
    for _ in 0..2 {
        let again = room.send("orders", Some((ME, 1)), std::slice::from_ref(&message));
        let [result] = results(&again)[..] else { panic!() };
        assert_eq!(result.status, Status::Duplicate);
        assert_eq!(result.place, Some(Place::Scheduled(id)));
        room.pass(MINUTE);
        room.tick(10);
    }
    assert_eq!(room.ends("orders"), [1]);
}

#[test]
fn a_gap_before_a_scheduled_message_is_named() {
    let mut room = Room::with(1);
    room.sequence(1, &[text("1")]);
    let message = later(&room, MINUTE, "5");
    assert_eq!(room.sequence(5, &[message]), (vec![Status::Scheduled], vec![(2, 4)]));
    assert_eq!(room.sequence(3, &[text("3")]), (vec![Status::StoredLate], vec![]));
}

#[test]
fn a_request_may_hold_messages_for_now_and_for_later() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "b");
    let stored = room.store(&[text("a"), message, text("c")]);
    let statuses: Vec<_> = stored.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [Status::Stored, Status::Scheduled, Status::Stored]);
    assert_eq!((at(&stored[0]), at(&stored[2])), ((0, 0), (0, 1)));
}

#[test]
fn a_time_too_far_ahead_is_refused() {
    let mut room = Room::with(1);
    let message = later(&room, BOUNDS.deliver_ahead_max, "a");
    room.store(&[message]);
    let message = later(&room, Span(BOUNDS.deliver_ahead_max.0 + 1), "a");
    let expected = Refusal::TooFarAhead { number: 0, hours: 366 * 24 };
    assert_eq!(room.refused_message(message), expected);
}

#[test]
fn more_messages_or_bytes_than_may_wait_are_refused_as_a_whole() {
    let mut room = Room::with(1);
    let message = later(&room, MINUTE, "a");
    room.store(&vec![message.clone(); 19]);
    let decided = room.send("orders", None, &vec![message.clone(); 2]);
    let Reply::Refused(Refusal::Limit(why)) = decided.reply else { panic!() };
    assert!(why.contains("streams.scheduled_max"), "{why}");
    assert_eq!(room.state.counts().scheduled, 19);
    room.store(&[message]);

    let mut room = Room::with(1);
    room.bounds.scheduled_bytes_max = 10;
    let message = later(&room, MINUTE, "123456");
    room.store(std::slice::from_ref(&message));
    let refusal = room.refused_message(message);
    assert!(matches!(refusal, Refusal::Limit(why) if why.contains("streams.scheduled_bytes_max")));
    assert_eq!(room.state.counts().scheduled_bytes, 6);
}

#[test]
fn a_message_that_waits_does_not_keep_the_request_it_came_in() {
    let mut room = Room::with(1);
    let request = bytes::Bytes::from(vec![b'x'; 1 << 20]);
    let message = Message { payload: request.slice(..10), ..later(&room, MINUTE, "") };
    let decided = room.send("orders", None, &[message]);
    let id = ids(&decided)[0];
    let kept = room.state.waiting(id).unwrap().message.payload.as_ptr_range();
    let request = request.as_ptr_range();
    assert!(kept.end <= request.start || request.end <= kept.start);
}

#[test]
fn the_next_deadline_is_the_first_due_or_the_first_to_be_forgotten() {
    let mut room = Room::with(1);
    assert_eq!(Streams::next_deadline(&room.state, room.now), None);
    room.register(Some(ME), None);
    let idle = Streams::next_deadline(&room.state, room.now).unwrap();
    let until = idle.since(room.now.steady);
    assert!(BOUNDS.producer_idle < until && until <= Span(BOUNDS.producer_idle.0 + 3_600_000_000));
    let message = later(&room, MINUTE, "a");
    room.store(&[message]);
    assert_eq!(Streams::next_deadline(&room.state, room.now), Some(room.now.steady + MINUTE));
    // What is past is due now; a clock that is set moves it.
    room.pass(Span(MINUTE.0 * 2));
    assert_eq!(Streams::next_deadline(&room.state, room.now), Some(room.now.steady));
    let now = Now { wall: Wall(room.now.wall.0 - 240_000_000), steady: Steady(5) };
    assert_eq!(Streams::next_deadline(&room.state, now), Some(Steady(180_000_005)));
}

/// Data directories from before topics' numbers had names have none.
#[test]
fn a_topic_whose_number_has_no_name_is_found_by_its_number_all_the_same() {
    let mut room = Room::with(1);
    let waiting = [later(&room, MINUTE, "first"), later(&room, MINUTE, "second")];
    let id = ids(&room.send("orders", None, &waiting))[0];
    let mut old = State::default();
    for key in room.state.keys_from(&Key::Counters).filter(|key| !matches!(key, Key::Name(_))) {
        old.put(&key, room.state.aggregate(&key));
    }
    assert_ne!(old, room.state);
    room.pass(MINUTE);
    for command in [
        Command::CancelScheduled { id, sight: Sight::All },
        Command::Tick { limit: 10, bytes_max: 100, bounds: BOUNDS },
        Command::DeleteTopic { name: topic("orders") },
    ] {
        let decide = |state| Streams::decide(state, &command, room.now, Entropy(1));
        assert_eq!(decide(&old), decide(&room.state), "{command:?}");
    }
}
