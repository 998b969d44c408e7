//! What is listed, selected and deleted, and by whom.

use std::collections::BTreeSet;

use handoff_events::{State, Totals};
use handoff_types::Sight;
use proptest::prelude::*;

use crate::room::*;

fn names(types: &[&str]) -> Vec<String> {
    types.iter().map(|name| (*name).to_owned()).collect()
}

/// 0: a · 1: b · 2: a, b · 3: none · 4: acme.x · 5: acme.x, b
fn filled() -> Room {
    let mut room = Room::new();
    for types in [&["a"][..], &["b"], &["a", "b"], &[], &["acme.x"], &["acme.x", "b"]] {
        room.register(every(1.0), -1, types);
    }
    room
}

fn list(state: &State, types: Option<&[&str]>, sight: &Sight) -> Vec<u32> {
    let types = types.map(names);
    let ids = state.list(types.as_deref(), sight, id(0), 100);
    ids.into_iter().map(handoff_events::Id::number).collect()
}

#[test]
fn without_types_everything_is_listed_and_with_none_nothing() {
    let state = filled().state;
    assert_eq!(list(&state, None, &Sight::All), [0, 1, 2, 3, 4, 5]);
    assert!(list(&state, Some(&[]), &Sight::All).is_empty());
}

#[test]
fn a_list_has_each_event_once_and_ascending() {
    let state = filled().state;
    assert_eq!(list(&state, Some(&["b", "a", "b"]), &Sight::All), [0, 1, 2, 5]);
    assert_eq!(list(&state, Some(&["a", "nobody"]), &Sight::All), [0, 2]);
}

#[test]
fn a_list_goes_on_where_it_stopped() {
    let state = filled().state;
    for types in [None, Some(names(&["a", "b", "acme.x"]))] {
        let all = state.list(types.as_deref(), &Sight::All, id(0), 100);
        let mut pages = Vec::new();
        let mut from = Some(id(0));
        while let Some(first) = from {
            let page = state.list(types.as_deref(), &Sight::All, first, 2);
            assert!(page.len() <= 2);
            from = page.last().map(|last| id(last.number() + 1));
            pages.extend(page);
        }
        assert_eq!(pages, all);
    }
}

#[test]
fn a_page_shows_what_a_list_names() {
    let room = filled();
    let types = names(&["b"]);
    let page = room.state.page(Some(&types), &sight(&["acme.*"]), id(0), 9, room.now);
    assert!(page.is_empty(), "a type out of sight has no events");
    let page = room.state.page(Some(&types), &Sight::All, id(2), 9, room.now);
    assert_eq!(page.iter().map(|view| view.id.number()).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(Some(&page[0]), room.state.view(id(2), &Sight::All, room.now).as_ref());
}

#[test]
fn what_is_out_of_sight_is_not_there() {
    let mut room = filled();
    let acme = sight(&["acme.*", "nobody"]);
    assert_eq!(list(&room.state, None, &acme), [4, 5]);
    assert_eq!(list(&room.state, Some(&["b", "acme.x"]), &acme), [4, 5]);
    assert!(list(&room.state, Some(&["b"]), &acme).is_empty());
    assert!(room.state.view(id(0), &acme, room.now).is_none());
    assert!(room.state.view(id(5), &acme, room.now).is_some());
    assert!(room.state.view(id(6), &Sight::All, room.now).is_none());
    assert_eq!(room.state.select(&select(&[0, 3, 4, 9, -1], &["a", "b"]), &acme), ids(&[4]));
    let deleted = room.delete(select(&[0, 1, 5], &["b", "a"]), acme.clone(), 9);
    assert_eq!(deleted, (ids(&[5]), false));
    assert_eq!(list(&room.state, None, &Sight::All), [0, 1, 2, 3, 4]);
}

#[test]
fn many_types_in_sight_are_listed_all_the_same() {
    let mut room = Room::new();
    room.bounds.type_bytes_max = 20;
    for number in 0..1_200 {
        room.register(every(1.0), -1, &[&format!("{}.{number}", number % 2)]);
    }
    room.register(every(1.0), -1, &["0.0", "1.1"]);
    let odd: Vec<u32> = (0..1_200).filter(|number| number % 2 == 1).chain([1_200]).collect();
    let all = room.state.list(None, &sight(&["1.*"]), id(0), 9_999);
    assert_eq!(all, ids(&odd));
    let both = room.state.list(None, &sight(&["1.*", "0.*"]), id(3), 9_999);
    assert_eq!(both, ids(&(3..=1_200).collect::<Vec<_>>()));
}

#[test]
fn a_deletion_takes_what_is_there_each_once() {
    let mut room = filled();
    let deleted =
        room.delete(select(&[5, 0, 0, 77, -1, i32::MIN], &["a", "nobody"]), Sight::All, 9);
    assert_eq!(deleted, (ids(&[0, 2, 5]), false));
    assert_eq!(list(&room.state, None, &Sight::All), [1, 3, 4]);
    assert_eq!(list(&room.state, Some(&["b", "a"]), &Sight::All), [1]);
    assert_eq!(room.state.totals(), Totals { registered: 6, deleted: 3, ..Totals::default() });
    let nothing = room.delete(select(&[5], &["a"]), Sight::All, 9);
    assert_eq!(nothing, (vec![], false));
    assert_eq!(room.delete(select(&[], &[]), Sight::All, 9), (vec![], false));
    room.pass(SECOND);
    let told: Vec<u32> = room.tick(SKIP).told.iter().map(|one| one.id.number()).collect();
    assert_eq!(told, [1, 3, 4], "what was deleted does not occur");
}

#[test]
fn a_large_deletion_comes_in_pieces() {
    let mut room = filled();
    let all = select(&[3], &["a", "b", "acme.x"]);
    assert_eq!(room.delete(all.clone(), Sight::All, 4), (ids(&[0, 1, 2, 3]), true));
    assert_eq!(room.delete(all.clone(), Sight::All, 2), (ids(&[4, 5]), false));
    assert_eq!(room.delete(all, Sight::All, 2), (vec![], false));
    assert!(room.state.is_empty());
}

#[test]
fn every_part_of_a_state_is_in_its_hash() {
    let room = filled();
    let mut hashes = BTreeSet::from([room.state.hash()]);
    let mut differs = |change: &dyn Fn(&mut handoff_events::Event)| {
        let mut state = room.state.clone();
        let mut event = Box::new(state.get(id(2)).unwrap().clone());
        change(&mut event);
        state.restore(id(2), event);
        assert_ne!(state, room.state);
        assert!(hashes.insert(state.hash()), "another state has this hash");
    };
    differs(&|event| event.description = "what it was".into());
    differs(&|event| event.description = "".into());
    differs(&|event| event.types = ["a".into()].into());
    differs(&|event| event.types = ["a".into(), "c".into()].into());
    differs(&|event| event.schedule = every(1.000_000_1));
    differs(&|event| event.repeat = handoff_events::Repeat::Left(1));
    differs(&|event| event.updated.0 += 1);
    differs(&|event| event.due = handoff_events::Due::Steady(handoff_types::Steady(1)));
    differs(&|event| event.occurrences += 1);
    differs(&|event| event.skipped += 1);
    let mut state = room.state.clone();
    state.restore_totals(Totals { skipped: 1, ..state.totals() });
    assert_ne!(state, room.state);
    assert!(hashes.insert(state.hash()));
    assert!(hashes.insert(State::default().hash()));
}

#[test]
fn an_event_that_cannot_be_kept_is_not_put_in() {
    let room = filled();
    let mut state = room.state.clone();
    let sound = state.get(id(0)).unwrap().clone();
    let at = handoff_events::Due::Wall(room.now.wall);
    for event in [
        handoff_events::Event { due: at, ..sound.clone() },
        handoff_events::Event { repeat: handoff_events::Repeat::Left(0), ..sound.clone() },
        handoff_events::Event { schedule: every(0.0), ..sound.clone() },
        handoff_events::Event { schedule: cron("@daily"), ..sound },
    ] {
        assert!(!event.is_sound());
        state.restore(id(9), Box::new(event));
        assert_eq!(state, room.state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lists_and_selections_are_what_looking_at_each_event_finds(
        events in prop::collection::vec(prop::collection::btree_set(0u8..5, 0..3), 0..20),
        gone in prop::collection::vec(0i32..20, 0..5),
        asked in prop::option::of(prop::collection::vec(0u8..6, 0..4)),
        numbers in prop::collection::vec(-2i32..25, 0..8),
        patterns in prop::option::of(prop::collection::vec(0u8..6, 1..4)),
        from in 0u32..22, limit in 0usize..9,
    ) {
        let name = |number: &u8| if *number < 3 { format!("x.{number}") } else { number.to_string() };
        let mut room = Room::new();
        for types in &events {
            let types: Vec<String> = types.iter().map(name).collect();
            room.register(every(1.0), -1, &types.iter().map(String::as_str).collect::<Vec<_>>());
        }
        room.delete(select(&gone, &[]), Sight::All, 99);
        let sight = patterns.map_or(Sight::All, |patterns| {
            let patterns: Vec<String> =
                patterns.iter().map(|n| if *n == 0 { "x.*".to_owned() } else { name(n) }).collect();
            sight(&patterns.iter().map(String::as_str).collect::<Vec<_>>())
        });
        let asked: Option<Vec<String>> = asked.map(|asked| asked.iter().map(name).collect());
        let there: Vec<(u32, Vec<String>)> = (0u32..).zip(&events)
            .filter(|(number, _)| !gone.contains(&(*number as i32)))
            .map(|(number, types)| (number, types.iter().map(name).collect()))
            .collect();
        let seen = |types: &[String]| sight == Sight::All || types.iter().any(|name| sight.sees(name));
        let named = |types: &[String], asked: &[String]| {
            types.iter().any(|name| asked.contains(name) && sight.sees(name))
        };
        let listed: Vec<u32> = there.iter()
            .filter(|(number, types)| {
                *number >= from && seen(types) && asked.as_ref().is_none_or(|asked| named(types, asked))
            })
            .map(|(number, _)| *number).take(limit).collect();
        prop_assert_eq!(room.state.list(asked.as_deref(), &sight, id(from), limit), ids(&listed));

        let selection = handoff_events::Selection { ids: numbers.clone(), types: asked.unwrap_or_default() };
        let selected: Vec<u32> = there.iter()
            .filter(|(number, types)| {
                named(types, &selection.types) || numbers.contains(&(*number as i32)) && seen(types)
            })
            .map(|(number, _)| *number).collect();
        prop_assert_eq!(room.state.select(&selection, &sight), ids(&selected));
        let (deleted, more) = room.delete(selection, sight, limit);
        prop_assert_eq!(&deleted, &ids(&selected[..selected.len().min(limit)]));
        prop_assert_eq!(more, selected.len() > limit);
        for id in deleted {
            prop_assert!(room.state.get(id).is_none());
        }
    }
}
