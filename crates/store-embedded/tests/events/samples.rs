//! Changes, events and totals of every kind.

use handoff_events::cron::Cron;
use std::sync::Arc;

use handoff_events::{
    Change, Due, Event, Gone, Handed, Id, Letter, Outlet, Period, Repeat, Schedule, Source, Totals,
};
use handoff_types::{Span, Steady, Wall};
use proptest::prelude::*;

fn cron() -> impl Strategy<Value = Cron> {
    let expression = prop::sample::select(
        &["@daily", "*/15 * * * *", "30 2 * * MON-FRI", "0 0 29 2 *", "0  3 1,15 JAN *"][..],
    );
    let zone = prop::sample::select(&["UTC", "Europe/Minsk", "America/New_York"][..]);
    (expression, zone).prop_map(|(expression, zone)| Cron::parse(expression, Some(zone)).unwrap())
}

pub(crate) fn ids() -> impl Strategy<Value = Id> {
    prop_oneof![0u32..40, 0..=Id::LAST.number()].prop_map(|number| Id::new(number).unwrap())
}

/// A schedule and when it is due: by its own clock.
fn schedules() -> impl Strategy<Value = (Schedule, Due)> {
    let wall = || any::<i64>().prop_map(|due| Due::Wall(Wall(due)));
    let steady = any::<u64>().prop_map(|due| Due::Steady(Steady(due)));
    let secs = prop_oneof![
        (1..=Period::MAX.0).prop_map(|micros| Period::from(Span(micros))),
        (1e-6..3e9).prop_map(|secs| Period::from_secs(secs).unwrap()),
    ];
    prop_oneof![
        (secs.prop_map(Schedule::Every), steady),
        (cron().prop_map(|cron| Schedule::Cron(Box::new(cron))), wall()),
        (any::<i64>().prop_map(|at| Schedule::At(Wall(at))), wall()),
    ]
}

pub(crate) fn events() -> impl Strategy<Value = Event> {
    let repeat =
        prop_oneof![Just(Repeat::Forever), (1..=i32::MAX.unsigned_abs()).prop_map(Repeat::Left)];
    let types = prop::collection::btree_set("[a-zäß.]{1,12}", 0..4);
    let numbers = (any::<i64>(), any::<u64>(), any::<u64>());
    ("\\PC{0,40}", types, schedules(), repeat, numbers).prop_map(
        |(description, types, (schedule, due), repeat, (updated, occurrences, skipped))| Event {
            description: description.into(),
            types: types.into_iter().map(Into::into).collect(),
            schedule,
            repeat,
            updated: Wall(updated),
            due,
            occurrences,
            skipped,
        },
    )
}

pub(crate) fn totals() -> impl Strategy<Value = Totals> {
    let newer = prop_oneof![Just([0; 3]), any::<[u64; 3]>()];
    (any::<[u64; 5]>(), newer).prop_map(
        |([registered, deleted, finished, occurred, skipped], [published, dead, dropped])| Totals {
            registered,
            deleted,
            finished,
            occurred,
            skipped,
            published,
            dead,
            dropped,
        },
    )
}

fn handed() -> impl Strategy<Value = Handed> {
    (1..u64::MAX, any::<u64>(), any::<i64>(), any::<bool>())
        .prop_map(|(sequence, number, due, late)| Handed { sequence, number, due: Wall(due), late })
}

/// Ascending, and what comes next.
fn line() -> impl Strategy<Value = (Vec<Handed>, u64)> {
    (prop::collection::vec(handed(), 0..5), 1..u64::MAX / 2).prop_map(|(mut line, first)| {
        for (sequence, handed) in (first..).zip(&mut line) {
            handed.sequence = sequence;
        }
        let next = first + line.len() as u64;
        (line, next)
    })
}

pub(crate) fn outlets() -> impl Strategy<Value = Outlet> {
    let types = prop::collection::btree_set("[a-z.]{1,6}", 0..3);
    let source = (any::<u128>(), "[a-z]{1,9}", prop::option::of("[a-z]{1,9}"), "\\PC{0,9}", types);
    (source, any::<bool>(), line()).prop_map(
        |((producer, topic, key, description, types), ended, (waiting, next))| {
            let source = Source {
                producer,
                topic: topic.into(),
                key: key.map(Into::into),
                description: description.into(),
                types: types.into_iter().map(Into::into).collect(),
            };
            Outlet { source: Arc::new(source), ended, next, waiting: waiting.into() }
        },
    )
}

pub(crate) fn letters() -> impl Strategy<Value = Letter> {
    (ids(), handed(), "\\PC{0,20}", any::<i64>(), any::<bool>()).prop_map(
        |(event, handed, why, since, retrying)| Letter {
            event,
            handed,
            why: why.into(),
            since: Wall(since),
            retrying,
        },
    )
}

/// What happens to outlets and letters.
fn publishing() -> impl Strategy<Value = Change> {
    let number = any::<u64>;
    prop_oneof![
        (ids(), outlets()).prop_map(|(id, outlet)| Change::Opened { id, outlet: Box::new(outlet) }),
        (ids(), line()).prop_map(|(id, (handed, next))| Change::Handed { id, handed, next }),
        (ids(), number()).prop_map(|(id, sequence)| Change::Answered { id, sequence }),
        ids().prop_map(|id| Change::Ended { id }),
        ids().prop_map(|id| Change::Closed { id }),
        (number(), letters())
            .prop_map(|(number, letter)| Change::Died { number, letter: Box::new(letter) }),
        number().prop_map(|number| Change::Retried { number }),
        (number(), "\\PC{0,20}")
            .prop_map(|(number, why)| Change::RefusedAgain { number, why: why.into() }),
        number().prop_map(|number| Change::LetterGone { number }),
    ]
}

pub(crate) fn changes() -> impl Strategy<Value = Change> {
    let due = || schedules().prop_map(|(_, due)| due);
    let counts = || (any::<u64>(), any::<u64>()).prop_map(|(a, b)| (a.max(b).max(1), a.min(b)));
    prop_oneof![
        (ids(), events()).prop_map(|(id, event)| Change::Registered { id, event: Box::new(event) }),
        (ids(), counts(), any::<i64>(), due()).prop_map(|(id, (count, skipped), updated, due)| {
            Change::Occurred { id, count, skipped, updated: Wall(updated), due }
        }),
        (ids(), counts()).prop_map(|(id, (count, skipped))| {
            Change::Gone { id, why: Gone::Finished, count, skipped }
        }),
        ids().prop_map(|id| Change::Gone { id, why: Gone::Deleted, count: 0, skipped: 0 }),
        (ids(), due()).prop_map(|(id, due)| Change::Rescheduled { id, due }),
        totals().prop_map(Change::Counted),
        publishing(),
    ]
}
