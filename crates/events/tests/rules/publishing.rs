//! What is told of an event is handed over to its topic, once.

use std::collections::BTreeMap;

use handoff_events::{
    Action, Change, Command, Events, Id, Letters, Publication, Publish, Refusal, Registration,
    Reply, Schedule, State,
};
use handoff_types::{Entropy, Machine, Sight, Span};
use proptest::prelude::*;

use crate::room::{
    ALL, HOUR, ONCE, PUBLISHING, Room, SECOND, SKIP, every, id, registration, select, sight,
};

fn to(topic: &str, schedule: Schedule, repeat: i32, types: &[&str]) -> Registration {
    let publish = Some(Publish { topic: topic.to_owned(), key: None });
    Registration { publish, ..registration(schedule, repeat, types) }
}

impl Room {
    fn publishes(&mut self, repeat: i32) -> Id {
        self.try_register(to("t", every(1.0), repeat, &["a"])).unwrap().id
    }

    fn published(&mut self, id: Id, sequence: u64) -> (bool, Vec<(u32, u64)>) {
        let (reply, actions) = self.apply(&Command::Published { id, sequence });
        let Reply::Answered { known } = reply else { panic!("{reply:?}") };
        (known, on_their_way(&actions))
    }

    fn refused(&mut self, id: Id, sequence: u64) -> (bool, Vec<(u32, u64)>) {
        let why = format!("no place for {sequence}");
        let command = Command::PublishRefused { id, sequence, why, publishing: PUBLISHING };
        let (reply, actions) = self.apply(&command);
        let Reply::Answered { known } = reply else { panic!("{reply:?}") };
        (known, on_their_way(&actions))
    }

    fn letters(&self) -> Vec<(u64, u32, u64)> {
        let letters = self.state.letters(&Sight::All, 0, usize::MAX);
        letters
            .into_iter()
            .map(|view| (view.number, view.letter.event.number(), view.letter.handed.sequence))
            .collect()
    }

    fn retry(&mut self, letters: Letters, sight: Sight) -> (Vec<u64>, Vec<(u32, u64)>) {
        let (reply, actions) =
            self.apply(&Command::RetryLetters { letters, sight, limit: usize::MAX });
        let Reply::Letters { numbers, more: false } = reply else { panic!("{reply:?}") };
        (numbers, on_their_way(&actions))
    }

    fn hand_over(&mut self) -> Vec<(u32, u64)> {
        let (mut from, mut all) = (Some(Id::default()), Vec::new());
        while let Some(first) = from {
            let (reply, actions) = self.apply(&Command::HandOver { from: first, limit: 2 });
            let Reply::HandedOver { next } = reply else { panic!("{reply:?}") };
            all.extend(on_their_way(&actions));
            from = next;
        }
        all
    }

    fn waiting(&self, id: Id) -> Vec<u64> {
        let outlets = self.state.outlets_from(id).find(|(found, _)| *found == id);
        outlets.map_or(vec![], |(_, outlet)| {
            outlet.waiting.iter().map(|handed| handed.sequence).collect()
        })
    }
}

fn on_their_way(actions: &[Action]) -> Vec<(u32, u64)> {
    let publications = actions.iter().filter_map(|action| match action {
        Action::Publish(publication) => Some(publication),
        _ => None,
    });
    publications.map(|one| (one.id.number(), one.handed.sequence)).collect()
}

#[test]
fn what_is_told_is_handed_over_one_after_the_other_as_the_topic_answers() {
    let mut room = Room::new();
    let event = room.publishes(-1);
    room.pass(Span::from_secs(2));
    let ticked = room.tick(SKIP);
    let [first] = &ticked.published[..] else { panic!("{ticked:?}") };
    assert_eq!((first.id, first.handed.sequence, first.handed.number), (event, 1, 1));
    assert_eq!(first.handed.due, ticked.told[0].due);
    assert_eq!((&*first.source.topic, &*first.source.description), ("t", "what it is"));
    room.pass(SECOND);
    assert!(room.tick(SKIP).published.is_empty(), "one is on its way already");
    assert_eq!(room.waiting(event), [1, 2, 3]);
    assert_eq!(room.published(event, 1), (true, vec![(0, 2)]));
    assert_eq!(room.published(event, 1), (false, vec![]), "answered before");
    assert_eq!(room.published(event, 2), (true, vec![(0, 3)]));
    assert_eq!(room.published(event, 3), (true, vec![]));
    let view = room.state.view(event, &Sight::All, room.now).unwrap().publish.unwrap();
    assert_eq!((&*view.topic, view.waiting, view.dead), ("t", 0, 0));
    assert_eq!(room.state.totals().published, 3);
    room.pass(SECOND);
    assert_eq!(room.tick(SKIP).published[0].handed.sequence, 4);
}

#[test]
fn each_event_is_a_producer_of_its_own() {
    let mut room = Room::new();
    let (a, b) = (room.publishes(-1), room.publishes(-1));
    let producer = |id: Id| room.state.view(id, &Sight::All, room.now).unwrap().publish.unwrap();
    assert_ne!(producer(a).producer, producer(b).producer);
}

#[test]
fn an_event_without_a_topic_hands_nothing_over() {
    let mut room = Room::new();
    let event = room.register(every(1.0), 2, &["a"]);
    room.pass(Span::from_secs(5));
    assert!(room.tick(SKIP).published.is_empty());
    assert_eq!(room.state.outlets_from(event).count(), 0);
}

#[test]
fn skipped_occurrences_are_not_handed_over_and_leave_no_hole_in_the_sequences() {
    let mut room = Room::new();
    room.publishes(-1);
    room.pass(HOUR);
    let published = room.resume(SKIP).published;
    assert!(published.is_empty(), "{published:?}");
    room.pass(HOUR);
    let published = room.resume(ONCE).published;
    let [late] = &published[..] else { panic!("{published:?}") };
    assert_eq!((late.handed.sequence, late.handed.number, late.handed.late), (1, 7_200, true));
    room.published(id(0), 1);
    room.pass(Span::from_secs(2));
    let published = room.resume(ALL).published;
    assert_eq!((published[0].handed.sequence, published[0].handed.number), (2, 7_201));
    assert_eq!(room.waiting(id(0)), [2, 3]);
}

#[test]
fn what_a_topic_refuses_becomes_a_dead_letter_and_the_next_goes_on() {
    let mut room = Room::new();
    let event = room.publishes(-1);
    room.pass(Span::from_secs(2));
    room.tick(SKIP);
    assert_eq!(room.refused(event, 1), (true, vec![(0, 2)]));
    assert_eq!(room.letters(), [(0, 0, 1)]);
    let letter = &room.state.letters(&Sight::All, 0, 9)[0];
    assert_eq!(&*letter.letter.why, "no place for 1");
    assert_eq!(letter.letter.since, room.now.wall);
    assert_eq!(room.refused(event, 1), (false, vec![]), "it is one already");
    assert_eq!(room.state.totals().dead, 1);
}

#[test]
fn what_finds_no_place_in_line_becomes_a_dead_letter_that_says_so() {
    let mut room = Room::new();
    let event = room.publishes(-1);
    room.pass(Span::from_secs(5));
    room.tick(SKIP);
    assert_eq!(room.waiting(event), [1, 2, 3]);
    assert_eq!(room.letters(), [(0, 0, 4), (1, 0, 5)]);
    let why = &room.state.letters(&Sight::All, 0, 1)[0].letter.why;
    assert!(why.contains("events.publish_pending_max") && why.contains("topic t"), "{why}");
    room.published(event, 1);
    room.pass(SECOND);
    room.tick(SKIP);
    assert_eq!(room.waiting(event), [2, 3, 6], "sequences of letters are not used again");
}

#[test]
fn the_oldest_dead_letters_make_way_and_are_counted() {
    let mut room = Room::new();
    let event = room.publishes(-1);
    for sequence in 1..=6 {
        room.pass(SECOND);
        room.tick(SKIP);
        room.refused(event, sequence);
    }
    assert_eq!(room.letters(), [(2, 0, 3), (3, 0, 4), (4, 0, 5), (5, 0, 6)]);
    assert_eq!((room.state.totals().dead, room.state.totals().dropped), (6, 2));
    // More at once than may be dead at all.
    room.pass(Span::from_secs(10));
    room.tick(ALL);
    assert_eq!(room.waiting(event), [7, 8, 9]);
    assert_eq!(room.letters(), [(9, 0, 13), (10, 0, 14), (11, 0, 15), (12, 0, 16)]);
    assert_eq!((room.state.totals().dead, room.state.totals().dropped), (13, 9));
}

#[test]
fn an_event_that_is_gone_is_still_handed_over_to_the_last_of_it() {
    let mut room = Room::new();
    let (finished, deleted) = (room.publishes(2), room.publishes(-1));
    room.pass(Span::from_secs(2));
    assert_eq!(room.tick(SKIP).forgotten, [finished]);
    room.delete(select(&[1], &[]), Sight::All, 9);
    assert!(room.state.is_empty() && room.state.view(deleted, &Sight::All, room.now).is_none());
    for (event, other) in [(finished, deleted), (deleted, finished)] {
        assert_eq!(room.waiting(event), [1, 2]);
        assert_eq!(room.published(event, 1), (true, vec![(event.number(), 2)]));
        assert_eq!(room.refused(event, 2), (true, vec![]));
        assert!(room.state.outlets_from(event).any(|(found, _)| found == event), "{other}");
    }
    let delete = Command::DeleteLetters {
        letters: Letters::These(vec![0, 0, 77]),
        sight: Sight::All,
        limit: 9,
    };
    let (reply, _) = room.apply(&delete);
    assert_eq!(reply, Reply::Letters { numbers: vec![0], more: false });
    assert_eq!(room.state.outlets_from(Id::default()).count(), 1);
    room.retry(Letters::From(0), Sight::All);
    room.published(deleted, 2);
    assert_eq!(room.state.outlets_from(Id::default()).count(), 0, "nothing is left of them");
    assert_eq!(room.state, {
        let mut bare = State::default();
        bare.restore_totals(room.state.totals());
        bare
    });
}

#[test]
fn an_event_that_is_gone_with_nothing_waiting_leaves_nothing() {
    let mut room = Room::new();
    let (a, _) = (room.publishes(1), room.publishes(-1));
    room.delete(select(&[1], &[]), Sight::All, 9);
    room.pass(SECOND);
    room.tick(SKIP);
    room.published(a, 1);
    assert_eq!(room.state.outlets_from(Id::default()).count(), 0);
}

#[test]
fn a_dead_letter_is_retried_under_its_sequence_until_it_is_answered() {
    let mut room = Room::new();
    let event = room.publishes(-1);
    room.pass(SECOND);
    room.tick(SKIP);
    room.refused(event, 1);
    assert_eq!(room.retry(Letters::These(vec![0]), Sight::All), (vec![0], vec![(0, 1)]));
    assert_eq!(room.retry(Letters::From(0), Sight::All), (vec![], vec![]), "it is on its way");
    assert_eq!(room.hand_over(), [(0, 1)], "after a restart too");
    let command = Command::PublishRefused {
        id: event,
        sequence: 1,
        why: "again".to_owned(),
        publishing: PUBLISHING,
    };
    room.apply(&command);
    let letter = &room.state.letters(&Sight::All, 0, 9)[0].letter;
    assert!(&*letter.why == "again" && !letter.retrying);
    assert!(room.hand_over().is_empty());
    room.retry(Letters::From(0), Sight::All);
    assert_eq!(room.published(event, 1), (true, vec![]));
    assert!(room.letters().is_empty());
    assert_eq!((room.state.totals().published, room.state.totals().dead), (1, 1));
}

#[test]
fn letters_are_seen_and_touched_by_the_types_of_their_events() {
    let mut room = Room::new();
    for types in [&["a"], &["b"]] {
        room.try_register(to("t", every(1.0), 1, types)).unwrap();
    }
    room.pass(SECOND);
    room.tick(SKIP);
    for event in [0, 1] {
        room.refused(id(event), 1);
    }
    let of_b = sight(&["b"]);
    let seen = room.state.letters(&of_b, 0, 9);
    assert_eq!(seen.iter().map(|view| view.number).collect::<Vec<_>>(), [1]);
    assert_eq!(room.retry(Letters::From(0), of_b), (vec![1], vec![(1, 1)]));
    assert_eq!(room.retry(Letters::These(vec![0]), sight(&["c"])), (vec![], vec![]));
}

#[test]
fn a_topic_or_key_that_cannot_be_a_name_is_refused() {
    let mut room = Room::new();
    let long = "x".repeat(250);
    for (topic, key) in [("", None), (&*long, None), ("t", Some("")), ("t", Some(&*long))] {
        let publish = Some(Publish { topic: topic.to_owned(), key: key.map(str::to_owned) });
        let refused = room.try_register(Registration { publish, ..to("t", every(1.0), 1, &[]) });
        assert!(matches!(refused, Err(Refusal::Publish(_))), "{topic} {key:?}");
    }
    assert_eq!(room.state.totals().registered, 0);
}

#[test]
fn what_is_left_of_published_events_counts_among_the_events_there_may_be() {
    let mut room = Room::new();
    room.bounds.events_max = 1;
    let gone = room.publishes(1);
    room.pass(SECOND);
    room.tick(SKIP);
    assert!(matches!(room.try_register(to("t", every(1.0), 1, &[])), Err(Refusal::Full(1))));
    let plain = room.register(every(1.0), 1, &[]);
    room.delete(select(&[i32::try_from(plain.number()).unwrap()], &[]), Sight::All, 1);
    room.published(gone, 1);
    room.publishes(1);
}

#[test]
fn an_event_that_never_occurs_needs_no_way_to_its_topic() {
    let mut room = Room::new();
    room.publishes(0);
    assert_eq!(room.state.outlets_from(Id::default()).count(), 0);
}

/// What happens to a few published events.
#[derive(Clone, Debug)]
enum Step {
    Register(i32),
    Delete(i32),
    Tick(u64),
    /// The topic has what is on its way there, and answers.
    Take(prop::sample::Index),
    /// The topic has it, and the answer is lost.
    TakeAndLose(prop::sample::Index),
    Refuse(prop::sample::Index),
    Retry,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        (-1..4).prop_map(Step::Register),
        (0..4).prop_map(Step::Delete),
        (1..6_u64).prop_map(Step::Tick),
        (1..6_u64).prop_map(Step::Tick),
        index().prop_map(Step::Take),
        index().prop_map(Step::Take),
        index().prop_map(Step::TakeAndLose),
        index().prop_map(Step::Refuse),
        Just(Step::Retry),
        Just(Step::Restart),
    ]
}

/// A topic that keeps what it has not, and what is on its way to it.
#[derive(Default)]
struct Topic {
    stored: BTreeMap<(u128, u64), Publication>,
    order: BTreeMap<u128, Vec<u64>>,
    on_the_way: Vec<Publication>,
}

impl Topic {
    fn store(&mut self, one: &Publication) {
        let key = (one.source.producer, one.handed.sequence);
        match self.stored.insert(key, one.clone()) {
            Some(before) => assert_eq!(before, *one, "a sequence means one message"),
            None => self.order.entry(key.0).or_default().push(key.1),
        }
    }
}

/// A room and its topic.
#[derive(Default)]
struct World {
    room: Option<Room>,
    topic: Topic,
    changes: Vec<Change>,
    told: usize,
}

impl World {
    fn room(&mut self) -> &mut Room {
        self.room.get_or_insert_with(Room::new)
    }

    fn run(&mut self, command: &Command) {
        let room = self.room.get_or_insert_with(Room::new);
        let chance = Entropy(room.state.totals().registered.into());
        let decision = Events::decide(&room.state, command, room.now, chance);
        for change in &decision.changes {
            Events::evolve(&mut room.state, change);
        }
        self.changes.extend(decision.changes);
        for action in decision.actions {
            match action {
                Action::Publish(one) => self.topic.on_the_way.push(one),
                Action::Notify(_) => self.told += 1,
                Action::Forget(_) => {}
            }
        }
    }

    fn pick(&mut self, index: prop::sample::Index) -> Option<Publication> {
        let on_the_way = &mut self.topic.on_the_way;
        (!on_the_way.is_empty()).then(|| on_the_way.swap_remove(index.index(on_the_way.len())))
    }

    fn take(&mut self, one: &Publication) {
        self.topic.store(one);
        self.run(&Command::Published { id: one.id, sequence: one.handed.sequence });
    }

    fn step(&mut self, step: Step) {
        let sight = Sight::All;
        match step {
            Step::Register(repeat) => {
                let event = to("t", every(1.0), repeat, &["a"]);
                let bounds = self.room().bounds;
                self.run(&Command::Register { event, bounds, sight });
            }
            Step::Delete(one) => {
                self.run(&Command::Delete { selection: select(&[one], &[]), sight, limit: 1 });
            }
            Step::Tick(secs) => {
                self.room().pass(Span::from_secs(secs));
                self.run(&Command::Tick { limit: 9, tardiness: SKIP, publishing: PUBLISHING });
            }
            Step::Take(index) => {
                if let Some(one) = self.pick(index) {
                    self.take(&one);
                }
            }
            Step::TakeAndLose(index) => {
                if let Some(one) = self.pick(index) {
                    self.topic.store(&one);
                    self.topic.on_the_way.push(one);
                }
            }
            Step::Refuse(index) => {
                let Some(one) = self.pick(index) else { return };
                let (id, sequence) = (one.id, one.handed.sequence);
                // What it has it does not refuse.
                if self.topic.stored.contains_key(&(one.source.producer, sequence)) {
                    return self.take(&one);
                }
                let why = "no".to_owned();
                self.run(&Command::PublishRefused { id, sequence, why, publishing: PUBLISHING });
            }
            Step::Retry => {
                self.run(&Command::RetryLetters { letters: Letters::From(0), sight, limit: 9 });
            }
            Step::Restart => {
                let mut rebuilt = State::default();
                for change in &self.changes {
                    Events::evolve(&mut rebuilt, change);
                }
                assert!(rebuilt == self.room().state);
                assert_eq!(rebuilt.hash(), self.room().state.hash());
                self.topic.on_the_way.clear();
                self.run(&Command::HandOver { from: Id::default(), limit: 99 });
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_occurrence_is_in_the_topic_once_or_is_dead(
        steps in prop::collection::vec(step(), 1..60)
    ) {
        let mut world = World::default();
        for step in steps {
            world.step(step);
            let World { room: Some(room), topic, .. } = &world else { continue };
            for one in &topic.on_the_way {
                prop_assert!(room.state.is_on_its_way(one), "{one:?}");
            }
        }
        // Whatever waits arrives in the end.
        while let Some(one) = world.topic.on_the_way.pop() {
            world.take(&one);
        }
        let state = &world.room().state.clone();
        prop_assert_eq!(state.waiting(), 0);
        let (totals, dead) = (state.totals(), state.dead() as u64);
        let stored = world.topic.stored.len() as u64;
        prop_assert_eq!(totals.published, stored);
        prop_assert_eq!(stored + dead + totals.dropped, world.told as u64);
        for sequences in world.topic.order.values().filter(|_| totals.dead == 0) {
            prop_assert!(sequences.iter().copied().eq(1..=sequences.len() as u64));
        }
        for (id, outlet) in state.outlets_from(Id::default()) {
            let view = state.letters(&Sight::All, 0, 99);
            let has_letters = view.iter().any(|view| view.letter.event == id);
            prop_assert!(!outlet.ended || has_letters, "it has nothing to do");
        }
    }
}

#[test]
fn a_letter_that_is_on_its_way_does_not_make_way_for_another() {
    let mut room = Room::new();
    let event = room.publishes(-1);
    for sequence in 1..=4 {
        room.pass(SECOND);
        room.tick(SKIP);
        room.refused(event, sequence);
    }
    room.retry(Letters::These(vec![0, 1]), Sight::All);
    for sequence in 5..=8 {
        room.pass(SECOND);
        room.tick(SKIP);
        room.refused(event, sequence);
    }
    assert_eq!(room.letters(), [(0, 0, 1), (1, 0, 2), (6, 0, 7), (7, 0, 8)]);
    room.retry(Letters::From(0), Sight::All);
    room.pass(SECOND);
    room.tick(SKIP);
    room.refused(event, 9);
    assert_eq!(room.letters().len(), 4);
    assert_eq!(room.state.totals().dropped, 5);
}
