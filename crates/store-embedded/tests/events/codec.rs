//! The bytes of changes and chunks.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use handoff_events::cron::Cron;
use handoff_events::{
    CatchUp, Change, Command, Due, Event, Events, Gone, Handed, Id, Letter, Letters, Outlet,
    Publishing, Repeat, Schedule, Source, State, Tardiness, Totals,
};
use handoff_store_embedded::Persist;
use handoff_types::{Entropy, Machine, Now, Sight, Span, Steady, Wall};
use proptest::prelude::*;

use crate::samples::{changes, events, ids, letters, outlets, totals};

const PUBLISHING: Publishing = Publishing { pending_max: 2, letters_max: 2 };

fn put(state: &mut State, outlets: BTreeMap<Id, Outlet>, letters: BTreeMap<u64, Letter>) {
    outlets.into_iter().for_each(|(id, outlet)| state.restore_outlet(id, Box::new(outlet)));
    letters.into_iter().for_each(|(number, letter)| state.restore_letter(number, letter));
}

fn encoded(change: &Change) -> Vec<u8> {
    let mut out = Vec::new();
    Events::encode_change(change, &mut out);
    out
}

/// All chunks of a state, in order.
fn chunks(state: &State, bytes_max: usize) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    let mut from = Some(Bytes::new());
    while let Some(key) = from {
        let (chunk, next) = Events::snapshot(state, &key, bytes_max);
        assert!(next.as_ref().is_none_or(|next| *next > key), "chunks do not ascend");
        chunks.push(chunk);
        from = next;
    }
    chunks
}

fn id(number: u32) -> Id {
    Id::new(number).unwrap()
}

fn event(schedule: Schedule, due: Due) -> Box<Event> {
    Box::new(Event {
        description: "hé".into(),
        types: ["a".into(), "b".into()].into(),
        schedule,
        repeat: Repeat::Left(300),
        updated: Wall(-2),
        due,
        occurrences: 1,
        skipped: 0,
    })
}

/// A directory of any release is read by every later one, so these bytes are for ever.
#[test]
fn each_kind_of_change_has_the_bytes_it_always_had() {
    let check = |change: Change, expected: &[u8]| {
        assert_eq!(encoded(&change), expected, "{change:?}");
        let decoded = Events::decode_change(expected).unwrap();
        assert_eq!(decoded, (change, &[][..]));
    };
    let front = [&[3][..], "hé".as_bytes(), &[2, 1, b'a', 1, b'b']].concat();
    let every = Schedule::every_secs(0.5).unwrap();
    let head = |id: &[u8]| [&[1], id, &front].concat();
    check(
        Change::Registered { id: id(128), event: event(every, Due::Steady(Steady(5))) },
        &[&head(&[0x80, 1])[..], &[0, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f], &[0xac, 2, 3, 0, 5, 1, 0]]
            .concat(),
    );
    let cron = Cron::parse("@daily", Some("UTC")).unwrap();
    check(
        Change::Registered {
            id: id(0),
            event: event(Schedule::Cron(Box::new(cron)), Due::Wall(Wall(1))),
        },
        &[&head(&[0])[..], &[1, 6], b"@daily", &[3], b"UTC", &[0xac, 2, 3, 1, 2, 1, 0]].concat(),
    );
    check(
        Change::Registered { id: id(0), event: event(Schedule::At(Wall(-1)), Due::Wall(Wall(-1))) },
        &[&head(&[0])[..], &[2, 1], &[0xac, 2, 3, 1, 1, 1, 0]].concat(),
    );
    let (updated, due) = (Wall(64), Due::Steady(Steady(128)));
    check(
        Change::Occurred { id: id(7), count: 2, skipped: 1, updated, due },
        &[2, 7, 2, 1, 0x80, 1, 0, 0x80, 1],
    );
    let gone = |why, count| Change::Gone { id: id(7), why, count, skipped: 0 };
    check(gone(Gone::Deleted, 0), &[3, 7, 0, 0, 0]);
    check(gone(Gone::Finished, 4), &[3, 7, 1, 4, 0]);
    check(Change::Rescheduled { id: id(7), due: Due::Wall(Wall(3)) }, &[4, 7, 1, 6]);
    let totals = Totals {
        registered: 1,
        deleted: 2,
        finished: 3,
        occurred: 4,
        skipped: 5,
        ..Totals::default()
    };
    check(Change::Counted(totals), &[5, 1, 2, 3, 4, 5]);
    let totals = Totals { published: 6, dead: 7, dropped: 8, ..totals };
    check(Change::Counted(totals), &[15, 1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn each_kind_of_publishing_has_the_bytes_it_always_had() {
    let check = |change: Change, expected: &[u8]| {
        assert_eq!(encoded(&change), expected, "{change:?}");
        assert_eq!(Events::decode_change(expected).unwrap(), (change, &[][..]));
    };
    let handed = Handed { sequence: 2, number: 300, due: Wall(3), late: true };
    let source = |key: Option<&str>| Source {
        producer: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        topic: "t".into(),
        key: key.map(Into::into),
        description: "hé".into(),
        types: ["a".into()].into(),
    };
    let outlet = |key, ended, waiting: &[Handed]| Outlet {
        source: Arc::new(source(key)),
        ended,
        next: 3,
        waiting: waiting.iter().copied().collect(),
    };
    let producer: Vec<u8> = (1..=16).collect();
    let words = [&[3][..], "hé".as_bytes(), &[1, 1, b'a']].concat();
    check(
        Change::Opened { id: id(7), outlet: Box::new(outlet(None, false, &[])) },
        &[&[6, 7], &producer[..], &[1, b't', 0], &words, &[0, 3, 0]].concat(),
    );
    check(
        Change::Opened { id: id(7), outlet: Box::new(outlet(Some("k"), true, &[handed])) },
        &[&[6, 7], &producer[..], &[1, b't', 1, 1, b'k'], &words, &[1, 3, 1, 2, 0xac, 2, 6, 1]]
            .concat(),
    );
    check(
        Change::Handed { id: id(7), handed: vec![handed], next: 3 },
        &[7, 7, 3, 1, 2, 0xac, 2, 6, 1],
    );
    check(Change::Handed { id: id(7), handed: vec![], next: 3 }, &[7, 7, 3, 0]);
    check(Change::Answered { id: id(7), sequence: 2 }, &[8, 7, 2]);
    check(Change::Ended { id: id(7) }, &[9, 7]);
    check(Change::Closed { id: id(7) }, &[10, 7]);
    let letter =
        |retrying| Letter { event: id(7), handed, why: "no".into(), since: Wall(-1), retrying };
    check(
        Change::Died { number: 9, letter: Box::new(letter(false)) },
        &[11, 9, 7, 2, 0xac, 2, 6, 1, 2, b'n', b'o', 1, 0],
    );
    check(
        Change::Died { number: 9, letter: Box::new(letter(true)) },
        &[11, 9, 7, 2, 0xac, 2, 6, 1, 2, b'n', b'o', 1, 1],
    );
    check(Change::Retried { number: 9 }, &[12, 9]);
    check(Change::RefusedAgain { number: 9, why: "no".into() }, &[13, 9, 2, b'n', b'o']);
    check(Change::LetterGone { number: 9 }, &[14, 9]);
}

#[test]
fn what_no_room_writes_is_refused() {
    let sound = encoded(&Change::Registered {
        id: id(0),
        event: event(Schedule::At(Wall(0)), Due::Wall(Wall(0))),
    });
    assert!(Events::decode_change(&sound).is_ok());
    let with = |at: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[at] = byte;
        bytes
    };
    let front = 2 + 4 + 5;
    for (what, bytes) in [
        ("an unknown kind", vec![0]),
        ("an unknown kind", vec![16]),
        ("sequences that do not ascend", vec![7, 7, 9, 2, 2, 0, 0, 0, 2, 0, 0, 0]),
        ("a sequence that comes next", vec![7, 7, 2, 1, 2, 0, 0, 0]),
        ("neither late nor not", vec![7, 7, 3, 1, 2, 0, 0, 2]),
        ("totals in two ways", vec![15, 1, 2, 3, 4, 5, 0, 0, 0]),
        ("nothing", vec![]),
        ("a text that is not UTF-8", with(4, 0xff)),
        ("types that do not ascend", with(front - 3, b'b')),
        ("an unknown schedule", with(front, 3)),
        ("a due time by the other clock", with(front + 5, 0)),
        ("an id above the last", vec![4, 0x80, 0x80, 0x80, 0x80, 8, 0, 0]),
        ("a number that is not shortest", vec![4, 0x80, 0, 0, 0]),
        ("a number of more than 64 bits", [&[5][..], &[0xff; 9], &[2, 0, 0, 0, 0]].concat()),
        ("occurrences that are none", vec![2, 7, 0, 0, 0, 0, 0]),
        ("more skipped than occurred", vec![2, 7, 1, 2, 0, 0, 0]),
        ("a third clock", vec![4, 7, 2, 0]),
        ("no reason to be gone", vec![3, 7, 2, 0, 0]),
    ] {
        assert!(Events::decode_change(&bytes).is_err(), "{what}");
    }
    // A period that is no time, is negative, is not a number, or is longer than there is.
    for secs in [0.0, -1.0, f64::NAN, f64::INFINITY, 4e9] {
        let every = Schedule::every_secs(0.5).unwrap();
        let event = event(every, Due::Steady(Steady(5)));
        let mut bytes = encoded(&Change::Registered { id: id(0), event });
        bytes[front + 1..front + 9].copy_from_slice(&f64::to_le_bytes(secs));
        assert!(Events::decode_change(&bytes).is_err(), "{secs}");
    }
}

#[test]
fn a_chunk_holds_what_is_there_and_not_what_happened() {
    for change in [
        Change::Gone { id: id(0), why: Gone::Deleted, count: 0, skipped: 0 },
        Change::Rescheduled { id: id(0), due: Due::Wall(Wall(3)) },
        Change::Closed { id: id(0) },
        Change::LetterGone { number: 0 },
    ] {
        assert!(Events::restore(&mut State::default(), &encoded(&change)).is_err());
    }
}

#[test]
fn keys_ascend_as_ids_do_and_the_totals_come_first() {
    let key =
        |number| Events::key(&Change::Rescheduled { id: id(number), due: Due::Wall(Wall(0)) });
    let totals = Events::key(&Change::Counted(Totals::default()));
    let outlet = |number| Events::key(&Change::Ended { id: id(number) });
    let letter = |number| Events::key(&Change::Retried { number });
    let mut keys = vec![totals, key(0), key(1), key(255), key(256), key(1 << 24)];
    keys.extend([key((1 << 31) - 1), outlet(0), outlet(256), outlet((1 << 31) - 1)]);
    keys.extend([letter(0), letter(256), letter(u64::MAX)]);
    assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_change_comes_back_and_says_where_it_ends(
        change in changes(), behind in prop::collection::vec(any::<u8>(), 0..9),
    ) {
        let bytes = [encoded(&change), behind.clone()].concat();
        let decoded = Events::decode_change(&bytes);
        prop_assert_eq!(decoded, Ok((change, &behind[..])));
    }

    #[test]
    fn a_change_that_was_cut_is_refused(change in changes(), at: prop::sample::Index) {
        let bytes = encoded(&change);
        prop_assert!(Events::decode_change(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn any_bytes_are_understood_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        drop(Events::decode_change(&bytes));
        drop(Events::restore(&mut State::default(), &bytes));
    }

    #[test]
    fn damaged_changes_are_understood_or_refused(
        change in changes(), at: prop::sample::Index, byte: u8, id in ids(),
    ) {
        let mut bytes = encoded(&change);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok((change, _)) = Events::decode_change(&bytes) {
            let mut state = State::default();
            for change in [&change, &Change::Rescheduled { id, due: Due::Wall(Wall(0)) }, &change] {
                Events::evolve(&mut state, change);
            }
        }
    }

    /// Bytes that pass their checksum may still be nonsense; whatever is understood can be lived
    /// with.
    #[test]
    fn a_state_of_any_events_can_be_driven(
        events in prop::collection::btree_map(ids(), events(), 0..6),
        outlets in prop::collection::btree_map(ids(), outlets(), 0..4),
        letters in prop::collection::btree_map(any::<u64>(), letters(), 0..4),
        wall in prop_oneof![any::<i64>(), -1_000_000_000_000i64..4_000_000_000_000_000],
        steady: u64, late: u64,
    ) {
        let mut state = State::default();
        for (id, event) in events {
            state.restore(id, Box::new(event));
        }
        put(&mut state, outlets, letters);
        let now = Now { wall: Wall(wall), steady: Steady(steady) };
        for catch_up in [CatchUp::Skip, CatchUp::Once, CatchUp::All] {
            let tardiness = Tardiness { catch_up, catch_up_max: 9, late_max: Span(late) };
            for command in [
                Command::Resume { limit: 2, tardiness, publishing: PUBLISHING },
                Command::Tick { limit: 2, tardiness, publishing: PUBLISHING },
                Command::Reschedule { from: id(0), limit: 9 },
                Command::HandOver { from: id(0), limit: 9 },
                Command::Published { id: id(1), sequence: 1 },
                Command::RetryLetters { letters: Letters::From(0), sight: Sight::All, limit: 9 },
                Command::DeleteLetters { letters: Letters::From(0), sight: Sight::All, limit: 1 },
            ] {
                let decision = Events::decide(&state, &command, now, Entropy(0));
                for change in &decision.changes {
                    Events::evolve(&mut state, change);
                }
            }
        }
        prop_assert_eq!(Events::next_deadline(&state, now).is_some(), !state.is_empty());
        prop_assert!(state.page(None, &Sight::All, id(0), 9, now).len() == state.len());
    }

    #[test]
    fn a_state_comes_back_from_chunks_of_any_size(
        events in prop::collection::btree_map(ids(), events(), 0..30), totals in totals(),
        outlets in prop::collection::btree_map(ids(), outlets(), 0..9),
        letters in prop::collection::btree_map(any::<u64>(), letters(), 0..9),
        bytes_max in prop_oneof![Just(1usize), 1..400usize, Just(1 << 20)],
    ) {
        let mut state = State::default();
        state.restore_totals(totals);
        let events: BTreeMap<Id, Event> = events;
        for (id, event) in events {
            state.restore(id, Box::new(event));
        }
        put(&mut state, outlets, letters);
        let mut restored = State::default();
        for chunk in chunks(&state, bytes_max) {
            prop_assert!(!chunk.is_empty());
            Events::restore(&mut restored, &chunk).unwrap();
        }
        prop_assert_eq!(restored.hash(), state.hash());
        prop_assert_eq!(restored, state);
    }
}
