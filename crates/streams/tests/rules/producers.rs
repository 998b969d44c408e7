//! Producers come, are known and are forgotten.

use handoff_streams::{
    Change, Command, Producer, ProducerId, Refusal, Registration, Reply, Scope, Status,
};
use handoff_types::{Scope as TokenScope, Sight, Span};

use crate::room::{BOUNDS, ME, Room, results, text, topic};

const HOUR: Span = Span::from_secs(3600);

fn sight(pattern: &str) -> Sight {
    let scope: TokenScope = format!("streams:{pattern}").parse().unwrap();
    Sight::of(&[scope], handoff_types::Room::Streams).unwrap()
}

#[test]
fn an_unknown_guid_registers_itself() {
    let mut room = Room::with(1);
    room.send("orders", Some((ME, 1)), &[text("a")]);
    let producer = room.state.producer(ME).unwrap();
    assert_eq!((producer.scope, producer.name.as_str()), (Scope::Producer, ""));
}

#[test]
fn a_producer_without_a_guid_gets_one_of_version_four() {
    let mut room = Room::new();
    let mut seen = Vec::new();
    for _ in 0..3 {
        let reply = room.register(None, None);
        let Reply::Registered { producer, scope: Scope::Producer, last: None, last_by_topic } =
            reply
        else {
            panic!("{reply:?}")
        };
        assert_eq!(last_by_topic, []);
        let text = producer.to_string();
        assert_eq!(text.parse(), Ok(producer));
        assert_eq!(&text[14..15], "4");
        assert!("89ab".contains(&text[19..20]));
        assert!(!seen.contains(&producer));
        seen.push(producer);
    }
}

#[test]
fn a_producer_that_comes_again_learns_its_last_sequence() {
    let mut room = Room::with(1);
    room.send("orders", Some((ME, 41)), &[text("a"), text("b")]);
    let reply = room.register(Some(ME), None);
    let last_by_topic = vec![];
    let (producer, scope, last) = (ME, Scope::Producer, Some(42));
    assert_eq!(reply, Reply::Registered { producer, scope, last, last_by_topic });
}

#[test]
fn one_that_counts_per_topic_learns_the_last_of_each_topic_in_sight() {
    let mut room = Room::with(1);
    room.create("acme.b", 1);
    room.create("acme.a", 1);
    room.register(Some(ME), Some(Scope::Topic));
    room.send("orders", Some((ME, 5)), &[text("a")]);
    room.send("acme.b", Some((ME, 7)), &[text("a")]);
    room.send("acme.a", Some((ME, 6)), &[text("a")]);
    let registration = Registration { producer: Some(ME), ..Registration::default() };
    let command =
        Command::RegisterProducer { registration, sight: sight("acme.*"), bounds: BOUNDS };
    let reply = room.apply(&command).reply;
    let last_by_topic = vec![(topic("acme.a"), 6), (topic("acme.b"), 7)];
    let (producer, scope, last) = (ME, Scope::Topic, None);
    assert_eq!(reply, Reply::Registered { producer, scope, last, last_by_topic });
}

#[test]
fn what_a_producer_counts_stays() {
    let mut room = Room::with(1);
    room.register(Some(ME), Some(Scope::Topic));
    let reply = room.register(Some(ME), Some(Scope::Producer));
    assert!(matches!(reply, Reply::Refused(Refusal::ScopeFixed(_))), "{reply:?}");
    let reply = room.register(Some(ME), Some(Scope::Topic));
    assert!(matches!(reply, Reply::Registered { scope: Scope::Topic, .. }), "{reply:?}");
    // One that registered itself counts over all.
    let other = ProducerId(2);
    room.send("orders", Some((other, 1)), &[text("a")]);
    let reply = room.register(Some(other), Some(Scope::Topic));
    assert!(matches!(reply, Reply::Refused(Refusal::ScopeFixed(_))), "{reply:?}");
}

#[test]
fn a_name_is_kept_until_another_is_given() {
    let mut room = Room::new();
    let mut register = |name: Option<&str>| {
        let name = name.map(str::to_owned);
        let registration = Registration { producer: Some(ME), name, scope: None };
        let sight = Sight::All;
        let decided =
            room.apply(&Command::RegisterProducer { registration, sight, bounds: BOUNDS });
        let name = room.state.producer(ME).map(|producer| producer.name.clone());
        (decided, name)
    };
    assert_eq!(register(Some("till 4")).1.as_deref(), Some("till 4"));
    let (decided, name) = register(None);
    assert_eq!((decided.changes.len(), name.as_deref()), (0, Some("till 4")));
    assert_eq!(register(Some("till 5")).1.as_deref(), Some("till 5"));
    for bad in ["x".repeat(Producer::NAME_BYTES_MAX + 1), "a\nb".to_owned()] {
        let (decided, _) = register(Some(&bad));
        assert!(matches!(decided.reply, Reply::Refused(Refusal::ProducerName(_))));
    }
}

#[test]
fn a_producer_too_many_is_refused_however_it_comes() {
    let mut room = Room::with(1);
    for n in 0..5 {
        room.register(Some(ProducerId(n)), None);
    }
    let full = |reply: Reply| match reply {
        Reply::Refused(Refusal::Limit(why)) => assert!(why.contains("streams.producers_max")),
        other => panic!("{other:?}"),
    };
    full(room.register(None, None));
    full(room.send("orders", Some((ME, 1)), &[text("a")]).reply);
    assert_eq!(results(&room.send("orders", Some((ProducerId(0), 1)), &[text("a")])).len(), 1);
}

#[test]
fn being_heard_of_is_noted_once_an_hour() {
    let mut room = Room::with(1);
    let mut seen = 0;
    for sequence in 1..=10 {
        let decided = room.send("orders", Some((ME, sequence)), &[text("a")]);
        let noted = |change: &&Change| matches!(change, Change::ProducerSeen(..));
        seen += decided.changes.iter().filter(noted).count();
        room.pass(Span::from_secs(900));
    }
    // Nine quarters of an hour, beginning at 08:00.
    assert_eq!(seen, 3);
}

#[test]
fn a_producer_is_forgotten_with_all_its_sequences_when_it_was_idle_for_long() {
    let mut room = Room::with(1);
    room.create("other", 1);
    room.register(Some(ME), Some(Scope::Topic));
    room.send("orders", Some((ME, 7)), &[text("a")]);
    room.send("other", Some((ME, 7)), &[text("a")]);
    room.pass(BOUNDS.producer_idle);
    room.tick(100);
    assert!(room.state.producer(ME).is_some(), "not a moment before");
    room.pass(HOUR);
    assert_eq!(room.state.sequences_of(ME).count(), 2);
    room.tick(100);
    assert_eq!(room.state.producer(ME), None);
    assert_eq!(room.state.sequences_of(ME).count(), 0);
    // Who comes again begins anew.
    let again = room.send("orders", Some((ME, 1)), &[text("b")]);
    assert_eq!(results(&again)[0].status, Status::Stored);
}

#[test]
fn a_producer_that_is_heard_of_is_not_forgotten() {
    let mut room = Room::with(1);
    for sequence in 1..=5 {
        room.send("orders", Some((ME, sequence)), &[text("a")]);
        room.pass(Span(BOUNDS.producer_idle.0 - 1));
        room.tick(100);
        assert!(room.state.producer(ME).is_some());
    }
}

#[test]
fn forgetting_stops_at_the_limit_and_says_that_there_is_more() {
    let mut room = Room::with(1);
    for n in 0..5 {
        room.register(Some(ProducerId(n)), None);
    }
    room.pass(Span(BOUNDS.producer_idle.0 + HOUR.0));
    assert_eq!(room.tick(3).reply, Reply::Ticked { delivered: 0, more: true });
    assert_eq!(room.state.counts().producers, 2);
    assert_eq!(room.tick(3).reply, Reply::Ticked { delivered: 0, more: false });
    assert_eq!(room.state.counts().producers, 0);
}

#[test]
fn a_guid_is_read_in_one_shape_only() {
    for bad in ["", "6f1c2d3e4a5b4c6d8e7f0123456789ab", "6f1c2d3e-4a5b-4c6d-8e7f-0123456789a", "g"]
    {
        assert!(bad.parse::<ProducerId>().is_err());
    }
    assert_eq!("6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab".parse(), Ok(ME));
}
