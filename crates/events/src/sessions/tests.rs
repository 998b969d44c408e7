use std::sync::Arc;

use handoff_types::{Room, Wall};
use proptest::prelude::*;

use super::*;
use crate::{Change, Due, Event, Events, Repeat, Schedule};
use handoff_types::{Machine, Steady};

fn sight(patterns: &[&str]) -> Sight {
    let scopes: Vec<handoff_types::Scope> =
        patterns.iter().map(|name| format!("events:{name}").parse().unwrap()).collect();
    Sight::of(&scopes, Room::Events).unwrap()
}

fn id(number: u32) -> Id {
    Id::new(number).unwrap()
}

/// A state with events of these types, numbered from 0.
fn state(events: &[&[&str]]) -> State {
    let mut state = State::default();
    for (number, types) in (0..).zip(events) {
        let event = Event {
            description: "".into(),
            types: types.iter().map(|name| Arc::from(*name)).collect(),
            schedule: Schedule::every_secs(1.0).unwrap(),
            repeat: Repeat::Forever,
            updated: Wall(0),
            due: Due::Steady(Steady(0)),
            occurrences: 0,
            skipped: 0,
        };
        let event = Box::new(event);
        Events::evolve(&mut state, &Change::Registered { id: id(number), event });
    }
    state
}

fn occurrence(state: &State, number: u32) -> Notification {
    let event = state.get(id(number)).unwrap();
    Notification {
        id: id(number),
        types: event.types.to_vec(),
        description: "".into(),
        period_secs: 1.0,
        repeat: event.repeat,
        updated: Wall(0),
        due: Wall(0),
        occurrence: 1,
        late: false,
    }
}

fn select(ids: &[i32], types: &[&str]) -> Selection {
    let types = types.iter().map(|name| (*name).to_owned()).collect();
    Selection { ids: ids.to_vec(), types }
}

#[test]
fn a_filter_matches_by_id_or_by_any_type_and_tells_each_session_once() {
    let state = state(&[&["a", "b"], &["b"], &[]]);
    let mut sessions = Sessions::default();
    let [both, by_type, by_id, nobody, all] = [(); 5].map(|()| sessions.open(Sight::All, 10));
    sessions.subscribe(both, &select(&[0], &["b", "a"]), &state).unwrap();
    sessions.subscribe(by_type, &select(&[], &["a", "unheard-of"]), &state).unwrap();
    sessions.subscribe(by_id, &select(&[2, 1], &[]), &state).unwrap();
    sessions.subscribe_to_everything(all);
    for (number, expected) in
        [(0, vec![both, by_type, all]), (1, vec![both, by_id, all]), (2, vec![by_id, all])]
    {
        let one = occurrence(&state, number);
        assert_eq!(sessions.matching(&one), expected);
        for session in [both, by_type, by_id, nobody, all] {
            assert_eq!(sessions.matches(session, &one), expected.contains(&session));
        }
    }
    assert_eq!(sessions.len(), 5);
    sessions.close(all);
    sessions.close(both);
    assert_eq!(sessions.matching(&occurrence(&state, 0)), [by_type]);
    assert_eq!(sessions.filter(both), None);
}

#[test]
fn a_filter_changes_as_a_whole_or_not_at_all() {
    let state = state(&[&["a"], &["other"]]);
    let mut sessions = Sessions::default();
    let session = sessions.open(sight(&["a", "b"]), 3);
    sessions.subscribe(session, &select(&[0], &["a"]), &state).unwrap();
    let before = sessions.filter(session).unwrap().clone();
    for (selection, error) in [
        (select(&[0, 7], &["b"]), FilterError::NoEvent(7)),
        (select(&[-1], &["b"]), FilterError::NoEvent(-1)),
        (select(&[1], &["b"]), FilterError::NoEvent(1)),
        (select(&[], &["b", "other"]), FilterError::OutOfSight(String::new())),
    ] {
        let same = |result: Result<(), FilterError>| {
            let found = result.unwrap_err();
            match &error {
                FilterError::OutOfSight(_) => assert!(matches!(found, FilterError::OutOfSight(_))),
                _ => assert_eq!(found, error),
            }
        };
        same(sessions.subscribe(session, &selection, &state));
        same(sessions.unsubscribe(session, &selection, &state));
        same(sessions.replace(session, &selection, &state));
        assert_eq!(sessions.filter(session), Some(&before));
        assert_eq!(sessions.matching(&occurrence(&state, 0)), [session]);
    }
}

#[test]
fn a_filter_has_a_bound_and_long_names_count_for_more() {
    let state = state(&[&["a"], &["a"], &["a"]]);
    let mut sessions = Sessions::default();
    let session = sessions.open(Sight::All, 3);
    sessions.subscribe(session, &select(&[0, 1], &["a"]), &state).unwrap();
    sessions.subscribe(session, &select(&[0, 1, 1], &["a", "a"]), &state).unwrap();
    let full = Err(FilterError::TooLarge(3));
    assert_eq!(sessions.subscribe(session, &select(&[2], &[]), &state), full);
    assert_eq!(sessions.replace(session, &select(&[0, 1, 2], &["a"]), &state), full);
    sessions.unsubscribe(session, &select(&[1, 2], &["b"]), &state).unwrap();
    sessions.subscribe(session, &select(&[2], &[]), &state).unwrap();
    sessions.forget(id(2));
    sessions.subscribe(session, &select(&[1], &[]), &state).unwrap();
    assert_eq!(sessions.subscribe(session, &select(&[], &["b"]), &state), full);
    sessions.replace(session, &select(&[], &[&"x".repeat(768)]), &state).unwrap();
    assert_eq!(sessions.replace(session, &select(&[], &[&"x".repeat(769)]), &state), full);
    sessions.unsubscribe(session, &select(&[], &[&"x".repeat(768)]), &state).unwrap();
    sessions.replace(session, &select(&[0, 1, 2], &[]), &state).unwrap();
}

#[test]
fn what_is_taken_from_a_filter_need_not_be_in_it() {
    let state = state(&[&["a"], &["b"]]);
    let mut sessions = Sessions::default();
    let session = sessions.open(Sight::All, 3);
    sessions.subscribe(session, &select(&[0], &["b"]), &state).unwrap();
    sessions.unsubscribe(session, &select(&[1, 0], &["a"]), &state).unwrap();
    assert!(sessions.matching(&occurrence(&state, 0)).is_empty());
    assert_eq!(sessions.matching(&occurrence(&state, 1)), [session]);
}

#[test]
fn a_filter_that_is_replaced_forgets_everything_before() {
    let state = state(&[&["a"], &["b"]]);
    let mut sessions = Sessions::default();
    let session = sessions.open(Sight::All, 3);
    sessions.subscribe(session, &select(&[0], &["a"]), &state).unwrap();
    sessions.subscribe_to_everything(session);
    sessions.replace(session, &select(&[], &["b"]), &state).unwrap();
    assert!(sessions.matching(&occurrence(&state, 0)).is_empty());
    assert_eq!(sessions.matching(&occurrence(&state, 1)), [session]);
    sessions.replace(session, &select(&[], &[]), &state).unwrap();
    assert_eq!(sessions.filter(session), Some(&Filter::default()));
}

#[test]
fn an_event_that_is_gone_leaves_every_filter_at_once() {
    let state = state(&[&["a"], &["a"]]);
    let mut sessions = Sessions::default();
    let first = sessions.open(Sight::All, 9);
    let second = sessions.open(Sight::All, 9);
    sessions.subscribe(first, &select(&[0, 1], &[]), &state).unwrap();
    sessions.subscribe(second, &select(&[0], &["a"]), &state).unwrap();
    sessions.forget(id(0));
    assert_eq!(sessions.filter(first).unwrap().ids, BTreeSet::from([id(1)]));
    assert!(sessions.filter(second).unwrap().ids.is_empty());
    sessions.close(first);
    sessions.forget(id(1));
    assert!(sessions.by_id.is_empty());
}

#[test]
fn everything_means_everything_in_sight() {
    let state = state(&[&["acme.x", "other"], &["other"], &[]]);
    let mut sessions = Sessions::default();
    let some = sessions.open(sight(&["acme.*"]), 9);
    let all = sessions.open(Sight::All, 9);
    sessions.subscribe_to_everything(some);
    sessions.subscribe_to_everything(all);
    assert_eq!(sessions.matching(&occurrence(&state, 0)), [some, all]);
    assert_eq!(sessions.matching(&occurrence(&state, 1)), [all]);
    assert_eq!(sessions.matching(&occurrence(&state, 2)), [all]);
    assert!(!sessions.matches(some, &occurrence(&state, 1)));
}

#[test]
fn a_session_that_has_ended_hears_nothing_and_its_number_is_not_used_again() {
    let state = state(&[&["a"]]);
    let mut sessions = Sessions::default();
    let first = sessions.open(Sight::All, 9);
    sessions.close(first);
    sessions.close(first);
    sessions.subscribe(first, &select(&[0], &["a"]), &state).unwrap();
    sessions.replace(first, &select(&[99], &["a"]), &state).unwrap();
    sessions.unsubscribe(first, &select(&[99], &["a"]), &state).unwrap();
    sessions.subscribe_to_everything(first);
    assert!(sessions.matching(&occurrence(&state, 0)).is_empty() && sessions.is_empty());
    assert_ne!(sessions.open(Sight::All, 9), first);
}

#[derive(Clone, Debug)]
enum Step {
    Open,
    Close(u64),
    Subscribe(u64, Selection),
    Unsubscribe(u64, Selection),
    Replace(u64, Selection),
    Everything(u64),
    Forget(u32),
}

const TYPES: [&str; 4] = ["a", "b", "c", "d"];

fn step() -> impl Strategy<Value = Step> {
    let selection = (
        prop::collection::vec(-1i32..6, 0..3),
        prop::collection::vec(prop::sample::select(&TYPES[..]), 0..3),
    )
        .prop_map(|(ids, types)| select(&ids, &types));
    let session = 0u64..5;
    prop_oneof![
        Just(Step::Open),
        session.clone().prop_map(Step::Close),
        (session.clone(), selection.clone()).prop_map(|(id, what)| Step::Subscribe(id, what)),
        (session.clone(), selection.clone()).prop_map(|(id, what)| Step::Unsubscribe(id, what)),
        (session.clone(), selection).prop_map(|(id, what)| Step::Replace(id, what)),
        session.prop_map(Step::Everything),
        (0u32..5).prop_map(Step::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_index_finds_whoever_looking_at_each_session_finds(
        steps in prop::collection::vec(step(), 0..60)
    ) {
        let state = state(&[&["a"], &["a", "b"], &["c", "d"], &[], &["d"]]);
        let mut sessions = Sessions::default();
        for step in steps {
            // A refusal leaves the filter as it is, and the index must agree all the same.
            match step {
                Step::Open => drop(sessions.open(Sight::All, 5)),
                Step::Close(id) => sessions.close(SessionId(id)),
                Step::Subscribe(id, what) => drop(sessions.subscribe(SessionId(id), &what, &state)),
                Step::Unsubscribe(id, what) => drop(sessions.unsubscribe(SessionId(id), &what, &state)),
                Step::Replace(id, what) => drop(sessions.replace(SessionId(id), &what, &state)),
                Step::Everything(id) => sessions.subscribe_to_everything(SessionId(id)),
                Step::Forget(number) => sessions.forget(id(number)),
            }
            for number in 0..5 {
                let one = occurrence(&state, number);
                let slow: Vec<SessionId> =
                    sessions.sessions.keys().copied().filter(|id| sessions.matches(*id, &one)).collect();
                prop_assert_eq!(sessions.matching(&one), slow);
            }
            for session in sessions.sessions.values() {
                prop_assert_eq!(session.entries, session.filter.entries());
                prop_assert!(session.entries <= session.entries_max);
            }
        }
        let open: Vec<SessionId> = sessions.sessions.keys().copied().collect();
        open.into_iter().for_each(|id| sessions.close(id));
        prop_assert!(sessions.by_id.is_empty() && sessions.by_type.is_empty() && sessions.by_everything.is_empty());
    }
}
