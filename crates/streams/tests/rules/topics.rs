//! Topics come, grow and go; what is old goes.

use handoff_streams::{
    Action, BadTopicName, Change, Command, Compression, Durability, Key, Partition, PartitionId,
    Refusal, Reply, State, Streams, TopicName, TopicSettings, TopicSpec,
};
use handoff_types::{Entropy, Machine, Sight, Span};

use crate::room::{BOUNDS, ME, Room, SETTINGS, keyed, text, to, topic};

fn create(name: &str, partitions: u32) -> Command {
    let topic = TopicSpec { name: topic(name), partitions, settings: SETTINGS };
    Command::CreateTopic { topic, bounds: BOUNDS }
}

fn grow(name: &str, partitions: u32) -> Command {
    Command::GrowTopic { name: topic(name), partitions, bounds: BOUNDS }
}

#[test]
fn a_topic_has_as_many_partitions_as_asked_for_all_empty() {
    let mut room = Room::new();
    let made = room.create("orders", 3);
    assert_eq!((made.partitions, made.created), (3, room.now.wall));
    let view = room.state.view(&topic("orders"), &Sight::All).unwrap();
    assert_eq!(view.partitions, [Partition::default(); 3]);
    assert_eq!(view.topic, made);
}

#[test]
fn a_name_is_taken_once() {
    let mut room = Room::with(1);
    assert_eq!(room.refused(&create("orders", 1)), Refusal::TopicExists(topic("orders")));
}

#[test]
fn a_topic_without_partitions_is_refused() {
    let mut room = Room::new();
    assert!(matches!(room.refused(&create("orders", 0)), Refusal::Partitions(_)));
}

#[test]
fn topics_and_partitions_have_limits_that_are_named() {
    let mut room = Room::new();
    let limit = |refusal: Refusal, key: &str| match refusal {
        Refusal::Limit(why) => assert!(why.contains(key), "{why}"),
        other => panic!("{other:?}"),
    };
    limit(room.refused(&create("orders", 51)), "streams.partitions_max");
    limit(room.refused(&create("orders", u32::MAX)), "streams.partitions_max");
    room.create("orders", 20);
    limit(room.refused(&grow("orders", 51)), "streams.partitions_max");
    room.apply(&grow("orders", 41));
    for n in 0..9 {
        room.create(&format!("t{n}"), 1);
    }
    limit(room.refused(&create("more", 1)), "streams.topics_max");
}

#[test]
fn a_topics_number_is_never_used_again() {
    let mut room = Room::new();
    let first = room.create("orders", 1).id;
    room.send("orders", Some((ME, 1)), &[text("a")]);
    room.apply(&Command::DeleteTopic { name: topic("orders") });
    let second = room.create("orders", 1).id;
    assert!(second > first);
    assert_eq!(room.ends("orders"), [0], "nothing of the old one shows");
}

#[test]
fn a_topic_grows_and_what_it_holds_stays() {
    let mut room = Room::with(2);
    room.store(&[to(1, "a")]);
    let decided = room.apply(&grow("orders", 4));
    let Reply::Altered(grown) = decided.reply else { panic!() };
    assert_eq!(grown.partitions, 4);
    assert_eq!(room.ends("orders"), [0, 1, 0, 0]);
    room.store(&[to(3, "b")]);
}

#[test]
fn a_topic_never_shrinks() {
    let mut room = Room::with(3);
    assert!(matches!(room.refused(&grow("orders", 2)), Refusal::Partitions(_)));
    let decided = room.apply(&grow("orders", 3));
    assert_eq!(decided.changes, [], "it is as asked for already");
    assert!(matches!(decided.reply, Reply::Altered(_)));
}

#[test]
fn settings_change_and_the_same_again_changes_nothing() {
    let mut room = Room::with(1);
    let settings = TopicSettings {
        retention: Some(Span::from_secs(60)),
        retention_bytes: Some(1 << 40),
        durability: Durability::Os,
        compression: Compression::Zstd,
    };
    let alter = Command::AlterTopic { name: topic("orders"), settings };
    let Reply::Altered(altered) = room.apply(&alter).reply else { panic!() };
    assert_eq!(altered.settings, settings);
    assert_eq!(room.state.topic(&topic("orders")), Some(&altered));
    assert_eq!(room.apply(&alter).changes, []);
}

#[test]
fn what_is_asked_of_a_topic_that_is_not_there_is_refused() {
    let mut room = Room::new();
    let name = topic("orders");
    let commands = [
        Command::AlterTopic { name: name.clone(), settings: SETTINGS },
        grow("orders", 2),
        Command::DeleteTopic { name: name.clone() },
    ];
    for command in commands {
        assert_eq!(room.refused(&command), Refusal::NoTopic(name.clone()));
    }
}

#[test]
fn a_deleted_topic_takes_its_partitions_along() {
    let mut room = Room::with(2);
    let other = room.create("other", 1).id;
    room.store(&[keyed("a", "b")]);
    let decided = room.apply(&Command::DeleteTopic { name: topic("orders") });
    let Reply::Deleted(gone) = decided.reply else { panic!() };
    let id = |number| PartitionId { topic: gone.id, number };
    assert_eq!(decided.actions, [Action::Remove(id(0)), Action::Remove(id(1))]);
    let left: Vec<_> = room.state.partitions().map(|(id, _)| id).collect();
    assert_eq!(left, [PartitionId { topic: other, number: 0 }]);
    assert_eq!(room.state.view(&topic("orders"), &Sight::All), None);
    assert_eq!(room.state.topic_by_id(gone.id), None);
}

#[test]
fn trimming_goes_forward_and_never_beyond_the_end() {
    let mut room = Room::with(1);
    room.store(&[to(0, "a"), to(0, "b"), to(0, "c")]);
    let partition = room.state.partitions().next().unwrap().0;
    let bytes = room.state.partition(partition).unwrap().bytes;
    let trim = |below, bytes| Command::Trim { partition, below, bytes };
    let decided = room.apply(&trim(2, 40));
    assert_eq!(decided.reply, Reply::Trimmed { start: 2 });
    assert_eq!(decided.actions, [Action::Drop { partition, below: 2 }]);
    let kept = *room.state.partition(partition).unwrap();
    assert_eq!((kept.start, kept.end, kept.bytes), (2, 3, 40));
    assert!(bytes > 40);
    // Back: nothing changes, and what should be gone is dropped again.
    let decided = room.apply(&trim(1, 70));
    assert_eq!((decided.reply, decided.changes), (Reply::Trimmed { start: 2 }, vec![]));
    assert_eq!(decided.actions, [Action::Drop { partition, below: 2 }]);
    let decided = room.apply(&trim(99, 70));
    assert_eq!(decided.reply, Reply::Trimmed { start: 3 });
    let kept = *room.state.partition(partition).unwrap();
    assert_eq!((kept.start, kept.end, kept.bytes), (3, 3, 0));
    assert_eq!(crate::room::at(&room.store(&[text("d")])[0]), (0, 3), "offsets go on");
}

#[test]
fn trimming_a_partition_that_is_gone_changes_nothing() {
    let mut room = Room::with(1);
    let partition = PartitionId { topic: handoff_streams::TopicId(99), number: 0 };
    let decided = room.apply(&Command::Trim { partition, below: 5, bytes: 0 });
    assert_eq!((decided.changes, decided.actions), (vec![], vec![]));
}

#[test]
fn a_view_says_how_evenly_a_topic_is_filled() {
    let mut room = Room::with(4);
    let even = room.state.view(&topic("orders"), &Sight::All).unwrap().skew;
    assert_eq!((even.most, even.least), (0, 0));
    assert!((even.ratio - 1.0).abs() < f64::EPSILON);
    room.store(&[to(2, "all in one")]);
    let skew = room.state.view(&topic("orders"), &Sight::All).unwrap().skew;
    assert_eq!(skew.least, 0);
    assert!(skew.most > 0);
    assert!((skew.ratio - 4.0).abs() < 1e-9);
}

#[test]
fn topics_are_listed_by_name_in_sight_and_on_from_a_name() {
    let mut room = Room::new();
    for name in ["b", "acme.b", "a", "acme.a"] {
        room.create(name, 1);
    }
    let names = |sight: &Sight, after: Option<&str>| -> Vec<String> {
        let after = after.map(topic);
        room.state.topics(sight, after.as_ref()).map(|topic| topic.name.to_string()).collect()
    };
    assert_eq!(names(&Sight::All, None), ["a", "acme.a", "acme.b", "b"]);
    assert_eq!(names(&Sight::All, Some("acme.a")), ["acme.b", "b"]);
    let scope = "streams:acme.*".parse().unwrap();
    let sight = Sight::of(&[scope], handoff_types::Room::Streams).unwrap();
    assert_eq!(names(&sight, None), ["acme.a", "acme.b"]);
    assert_eq!(room.state.view(&topic("a"), &sight), None);
}

#[test]
fn a_name_is_one_that_kafka_takes() {
    for good in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
        assert_eq!(topic(good).as_str(), good);
    }
    for bad in ["", ".", "..", "a b", "a/b", "ä", &"x".repeat(250)] {
        assert!(matches!(bad.parse::<TopicName>(), Err(BadTopicName(_))), "{bad}");
    }
}

/// A broker that loads exactly what is needed decides as one that has everything.
#[test]
fn what_a_command_needs_is_enough_to_decide_it() {
    let mut room = Room::with(5);
    room.create("other", 2);
    room.store(&[to(0, "x"), to(1, "y"), keyed("abc", "z")]);
    const THEM: handoff_streams::ProducerId = handoff_streams::ProducerId(9);
    room.register(Some(THEM), Some(handoff_streams::Scope::Topic));
    let mine = Some((ME, 1));
    let theirs = Some((THEM, 1));
    room.send("orders", mine, &[text("a")]);
    room.send("orders", theirs, &[text("a")]);
    room.send("other", theirs, &[text("a")]);
    let due = handoff_streams::Message {
        deliver_at: Some(room.now.wall + Span::from_secs(1)),
        ..text("later")
    };
    let decided = room.send("other", None, &[due]);
    let id = match crate::room::results(&decided)[0].place {
        Some(handoff_streams::Place::Scheduled(id)) => id,
        other => panic!("{other:?}"),
    };
    let produce = |name: &str, producer, messages| Command::Produce {
        produce: handoff_streams::Produce { topic: topic(name), producer, messages },
        bounds: BOUNDS,
    };
    let register = |id| Command::RegisterProducer {
        registration: handoff_streams::Registration { producer: Some(id), name: None, scope: None },
        sight: Sight::All,
        bounds: BOUNDS,
    };
    let partition = room.state.partitions().next().unwrap().0;
    let commands = [
        create("new", 3),
        create("orders", 3),
        grow("orders", 6),
        Command::AlterTopic { name: topic("orders"), settings: SETTINGS },
        Command::DeleteTopic { name: topic("orders") },
        produce("orders", None, vec![text("a")]),
        produce("orders", None, vec![keyed("abc", "a"), to(3, "b")]),
        produce("orders", mine, vec![text("a"), text("b")]),
        produce("orders", theirs, vec![text("a"), text("b")]),
        produce("other", Some((handoff_streams::ProducerId(10), 5)), vec![to(7, "a")]),
        produce("nowhere", mine, vec![text("a")]),
        register(ME),
        register(handoff_streams::ProducerId(10)),
        register(THEM),
        Command::CancelScheduled { id, sight: Sight::All },
        Command::Trim { partition, below: 1, bytes: 7 },
        Command::Tick { limit: 100, bytes_max: 1_000, bounds: BOUNDS },
    ];
    // The message is due, and both producers were idle for long.
    room.pass(Span::from_secs(366 * 86_400));
    for command in commands {
        let mut part = State::default();
        let mut seen = std::collections::BTreeSet::new();
        loop {
            let mut keys = Streams::needs(&part, &command);
            // What waits and who is idle is not named by the command: the broker looks for it.
            if matches!(command, Command::Tick { .. }) {
                keys.extend([ME, THEM].map(Key::Producer));
                keys.push(Key::Scheduled(id));
            }
            let fresh: Vec<_> = keys.into_iter().filter(|key| seen.insert(key.clone())).collect();
            if fresh.is_empty() {
                break;
            }
            fresh.iter().for_each(|key| part.put(key, room.state.aggregate(key)));
        }
        let decide = |state| Streams::decide(state, &command, room.now, Entropy(77));
        assert_eq!(decide(&part), decide(&room.state), "{command:?}");
        // Or its version is not known, and no commit is ever made on it.
        for key in decide(&room.state).changes.iter().map(Change::key) {
            let there = room.state.aggregate(&key).is_some();
            assert!(!there || seen.contains(&key), "{key:?} is changed unseen by {command:?}");
        }
    }
}

/// A broker may have a waiting message in its cache and not the topic.
#[test]
fn a_message_is_not_thrown_away_because_its_topic_is_not_known_here() {
    let mut room = Room::with(1);
    let due = handoff_streams::Message {
        deliver_at: Some(room.now.wall + Span::from_secs(1)),
        ..text("later")
    };
    room.store(&[due]);
    room.pass(Span::from_secs(2));
    let mut part = State::default();
    let waiting: Vec<_> =
        room.state.keys_from(&Key::Scheduled(handoff_streams::ScheduledId(0))).collect();
    part.put(&waiting[0], room.state.aggregate(&waiting[0]));
    let tick = Command::Tick { limit: 10, bytes_max: 100, bounds: BOUNDS };
    for key in Streams::needs(&part, &tick) {
        part.put(&key, room.state.aggregate(&key));
    }
    let decided = Streams::decide(&part, &tick, room.now, Entropy(1));
    assert_eq!(decided.changes, Vec::<Change>::new());
}
