//! Changes, events and totals of every kind.

use handoff_events::cron::Cron;
use handoff_events::{Change, Due, Event, Gone, Id, Period, Repeat, Schedule, Totals};
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
    any::<[u64; 5]>().prop_map(|[registered, deleted, finished, occurred, skipped]| Totals {
        registered,
        deleted,
        finished,
        occurred,
        skipped,
    })
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
    ]
}
