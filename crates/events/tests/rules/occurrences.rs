//! When events occur, what is told of it, and what becomes of what was missed.

use handoff_events::{
    CatchUp, Due, Events, Notification, Period, Repeat, Schedule, Tardiness, Totals,
};
use handoff_types::{Machine, Sight, Span, Steady, Wall};

use crate::room::*;

/// (occurrence, seconds since Monday it was due, what was left)
fn shown(told: &[Notification]) -> Vec<(u64, f64, i32)> {
    told.iter()
        .map(|one| (one.occurrence, (one.due.0 - MONDAY) as f64 / 1e6, one.repeat.wire()))
        .collect()
}

#[test]
fn a_periodic_event_does_not_drift_however_late_it_is_told() {
    let mut room = Room::new();
    let id = room.register(every(1.0), -1, &[]);
    let first = room.now.steady + SECOND;
    for n in 1..=50u64 {
        // Each time noticed a little later, up to nine tenths of the period.
        room.now.steady = first + Span(1_000_000 * (n - 1) + 18_000 * n);
        room.now.wall = Wall(MONDAY) + Span(1_000_000 * n + 18_000 * n);
        let ticked = room.tick(SKIP);
        assert_eq!(shown(&ticked.told), [(n, n as f64, -1)]);
        assert_eq!(room.state.get(id).unwrap().due, Due::Steady(first + Span(1_000_000 * n)));
        assert_eq!(room.state.get(id).unwrap().updated, Wall(MONDAY) + Span(1_000_000 * n));
    }
}

#[test]
fn what_is_told_is_the_event_as_it_was_before() {
    let mut room = Room::new();
    let id = room.register(every(60.0), 2, &["b", "a"]);
    room.pass(Span::from_secs(61));
    let one = room.tick(SKIP).told.remove(0);
    let names: Vec<&str> = one.types.iter().map(|name| &**name).collect();
    assert_eq!((one.id, names, &*one.description), (id, vec!["a", "b"], "what it is"));
    assert_eq!((one.period_secs, one.repeat), (60.0, Repeat::Left(2)));
    assert_eq!((one.updated, one.due), (Wall(MONDAY), Wall(MONDAY) + Span::from_secs(60)));
    assert!(!one.late);
    let view = room.state.view(id, &Sight::All, room.now).unwrap();
    assert_eq!((view.repeat, view.updated, view.occurrences), (Repeat::Left(1), one.due, 1));
    assert_eq!(view.next, Wall(MONDAY) + Span::from_secs(120));
}

#[test]
fn an_event_that_ran_out_is_gone() {
    let mut room = Room::new();
    let id = room.register(every(1.0), 2, &["a"]);
    room.pass(SECOND);
    assert!(room.tick(SKIP).forgotten.is_empty());
    room.pass(SECOND);
    let last = room.tick(SKIP);
    assert_eq!((shown(&last.told), last.forgotten), (vec![(2, 2.0, 1)], vec![id]));
    assert!(room.state.is_empty());
    assert_eq!(Events::next_deadline(&room.state, room.now), None);
    let totals = Totals { registered: 1, finished: 1, occurred: 2, ..Totals::default() };
    assert_eq!(room.state.totals(), totals);
    room.pass(HOUR);
    assert!(room.tick(SKIP).told.is_empty());
}

#[test]
fn nothing_occurs_before_it_is_due() {
    let mut room = Room::new();
    room.register(every(1.0), -1, &[]);
    room.register(cron("* * * * *"), -1, &[]);
    room.register(Schedule::At(room.now.wall + SECOND), 1, &[]);
    assert_eq!(Events::next_deadline(&room.state, room.now), Some(room.now.steady + SECOND));
    room.pass(Span(999_999));
    let ticked = room.tick(SKIP);
    assert!(ticked.told.is_empty() && !ticked.more);
    room.pass(Span(1));
    assert_eq!(room.tick(SKIP).told.len(), 2);
}

#[test]
fn each_occurrence_that_is_in_time_is_told() {
    let mut room = Room::new();
    let id = room.register(every(2.0), 5, &[]);
    room.pass(Span::from_secs(9));
    let ticked = room.tick(SKIP);
    assert_eq!(shown(&ticked.told), [(1, 2.0, 5), (2, 4.0, 4), (3, 6.0, 3), (4, 8.0, 2)]);
    let updates: Vec<i64> = ticked.told.iter().map(|one| one.updated.0 - MONDAY).collect();
    assert_eq!(updates, [0, 2_000_000, 4_000_000, 6_000_000]);
    assert_eq!(room.state.get(id).unwrap().repeat, Repeat::Left(1));
    assert_eq!((ticked.late, ticked.skipped), (0, 0));
}

#[test]
fn an_occurrence_is_missed_when_it_is_later_than_allowed_and_not_before() {
    for schedule in [every(60.0), cron("* * * * *"), Schedule::At(Wall(MONDAY + 60_000_000))] {
        for (late, told) in [(10_000_000, 1), (10_000_001, 0)] {
            let mut room = Room::new();
            room.register(schedule.clone(), 1, &[]);
            room.pass(Span(60_000_000 + late));
            let ticked = room.tick(SKIP);
            assert_eq!((ticked.told.len(), ticked.skipped), (told, 1 - told as u64), "{late}");
            assert_eq!(ticked.forgotten, [id(0)]);
            assert_eq!(room.state.totals().skipped, 1 - told as u64);
        }
    }
}

#[test]
fn skip_counts_what_was_missed_and_tells_the_rest() {
    for schedule in [every(60.0), cron("* * * * *")] {
        let mut room = Room::new();
        let id = room.register(schedule, 100, &[]);
        // Due at 60, 120, …, 600; the last is 5 seconds late.
        room.pass(Span::from_secs(605));
        let ticked = room.tick(SKIP);
        assert_eq!(shown(&ticked.told), [(10, 600.0, 91)]);
        assert_eq!(ticked.told[0].updated, Wall(MONDAY) + Span::from_secs(540));
        assert_eq!((ticked.late, ticked.skipped), (0, 9));
        let event = room.state.get(id).unwrap();
        assert_eq!((event.repeat, event.occurrences, event.skipped), (Repeat::Left(90), 10, 9));
        let totals = Totals { registered: 1, occurred: 10, skipped: 9, ..Totals::default() };
        assert_eq!(room.state.totals(), totals);
    }
}

#[test]
fn once_tells_the_last_missed_one_and_then_what_is_in_time() {
    for schedule in [every(60.0), cron("* * * * *")] {
        let mut room = Room::new();
        room.register(schedule, -1, &[]);
        room.pass(Span::from_secs(605));
        let ticked = room.tick(ONCE);
        assert_eq!(shown(&ticked.told), [(9, 540.0, -1), (10, 600.0, -1)]);
        assert_eq!(ticked.told.iter().map(|one| one.late).collect::<Vec<_>>(), [true, false]);
        assert_eq!((ticked.late, ticked.skipped), (1, 8));
    }
}

#[test]
fn all_tells_each_in_order_and_the_oldest_are_skipped_when_there_are_too_many() {
    for schedule in [every(60.0), cron("* * * * *")] {
        let mut room = Room::new();
        room.register(schedule.clone(), 12, &[]);
        room.pass(Span::from_secs(605));
        let ticked = room.tick(ALL);
        let expected: Vec<_> =
            (1..=10).map(|n: u8| (u64::from(n), 60.0 * f64::from(n), 13 - i32::from(n))).collect();
        assert_eq!(shown(&ticked.told), expected);
        assert_eq!((ticked.late, ticked.skipped), (9, 0));

        let mut room = Room::new();
        room.register(schedule, 12, &[]);
        room.pass(Span::from_secs(605));
        let ticked = room.tick(Tardiness { catch_up_max: 3, ..ALL });
        assert_eq!(shown(&ticked.told), expected[6..]);
        assert_eq!((ticked.late, ticked.skipped), (3, 6));
        assert_eq!(ticked.told[0].updated, Wall(MONDAY) + Span::from_secs(360));
    }
}

#[test]
fn the_bound_of_all_is_for_the_whole_command() {
    let mut room = Room::new();
    for _ in 0..3 {
        room.register(every(60.0), -1, &[]);
    }
    room.pass(Span::from_secs(300));
    let ticked = room.resume(Tardiness { catch_up_max: 7, ..ALL });
    let by_event = |number| ticked.told.iter().filter(|one| one.id == id(number)).count();
    assert_eq!([by_event(0), by_event(1), by_event(2)], [5, 2, 0]);
    assert_eq!((ticked.late, ticked.skipped), (7, 8));
}

#[test]
fn a_start_misses_whatever_is_due_however_little() {
    let mut room = Room::new();
    room.register(every(1.0), 3, &[]);
    room.register(cron("* * * * *"), -1, &[]);
    room.pass(SECOND);
    let resumed = room.resume(SKIP);
    assert_eq!((resumed.told.len(), resumed.skipped, resumed.more), (0, 1, false));
    room.pass(SECOND);
    assert_eq!(shown(&room.tick(SKIP).told), [(2, 2.0, 2)]);
    room.pass(Span::from_secs(58));
    let resumed = room.resume(ONCE);
    assert_eq!(shown(&resumed.told), [(3, 3.0, 1), (1, 60.0, -1)]);
    assert!(resumed.told.iter().all(|one| one.late));
    assert_eq!((resumed.late, resumed.skipped, resumed.forgotten), (2, 0, vec![id(0)]));
}

#[test]
fn an_event_that_ran_out_while_the_server_was_down_is_gone_with_its_counts() {
    for (policy, told) in [(SKIP, vec![]), (ONCE, vec![(3, 180.0, 1)])] {
        for schedule in [every(60.0), cron("* * * * *")] {
            let mut room = Room::new();
            room.register(schedule, 3, &[]);
            room.pass(DAY);
            let resumed = room.resume(policy);
            assert_eq!(shown(&resumed.told), told);
            assert_eq!(resumed.skipped, 3 - told.len() as u64);
            assert_eq!(resumed.forgotten, [id(0)]);
            let Totals { occurred, skipped, finished, .. } = room.state.totals();
            assert_eq!((occurred, skipped, finished), (3, resumed.skipped, 1));
        }
    }
}

#[test]
fn a_missed_one_shot_time_follows_the_policy() {
    for (policy, told) in [(SKIP, 0), (ONCE, 1), (ALL, 1)] {
        let mut room = Room::new();
        room.register(Schedule::At(room.now.wall + HOUR), 1, &[]);
        room.pass(DAY);
        let resumed = room.resume(policy);
        assert_eq!((resumed.told.len(), resumed.skipped), (told, 1 - told as u64));
        assert!(room.state.is_empty());
        assert!(resumed.told.iter().all(|one| one.period_secs == 3_600.0));
    }
}

#[test]
fn years_of_silence_are_counted_and_not_walked() {
    for schedule in [every(0.1), cron("* * * * *")] {
        let mut room = Room::new();
        let id = room.register(schedule.clone(), -1, &[]);
        room.pass(Span(DAY.0 * 36_525));
        let ticked = room.tick(Tardiness { late_max: Span(50_000), ..ONCE });
        let event = room.state.get(id).unwrap();
        let expected = match schedule {
            Schedule::Every(_) => 36_525 * 864_000,
            _ => 36_525 * 1_440,
        };
        assert_eq!((event.occurrences, event.skipped), (expected, ticked.skipped));
        assert_eq!(event.occurrences - event.skipped, ticked.told.len() as u64);
        assert!(event.due.wall(room.now) > room.now.wall);
        assert!(!ticked.more);
    }
}

#[test]
fn as_many_events_as_asked_for_the_longest_due_first() {
    let mut room = Room::new();
    let slow = room.register(every(3.0), -1, &[]);
    let fast = room.register(every(1.0), -1, &[]);
    let at = room.register(Schedule::At(room.now.wall + Span::from_secs(2)), 1, &[]);
    room.pass(Span::from_secs(3));
    let mut order = Vec::new();
    for more in [true, true, false] {
        let ticked = room.tick_some(1, SKIP);
        assert_eq!(ticked.more, more);
        order.extend(ticked.told.iter().map(|one| one.id));
    }
    assert_eq!(order, [fast, fast, fast, at, slow]);
    assert!(room.tick_some(1, SKIP).told.is_empty());
    room.pass(Span::from_secs(3));
    assert!(room.tick_some(0, SKIP).more, "nothing was done, so there is more to do");
}

#[test]
fn one_command_tells_only_so_much() {
    let mut room = Room::new();
    room.bounds.period_min = Span(1);
    let patient = Tardiness { late_max: DAY, ..SKIP };
    let fast = room.register(every(0.001), -1, &[]);
    room.pass(Span::from_secs(25));
    let mut told = Vec::new();
    for (count, more) in [(10_000, true), (10_000, true), (5_000, false)] {
        let ticked = room.tick(patient);
        assert_eq!((ticked.told.len(), ticked.more), (count, more));
        told.extend(ticked.told.into_iter().map(|one| one.occurrence));
    }
    assert_eq!(told, (1..=25_000).collect::<Vec<_>>());
    assert_eq!(room.state.get(fast).unwrap().skipped, 0);
}

#[test]
fn a_calendar_runs_from_scheduled_time_to_scheduled_time() {
    let mut room = Room::new();
    let id = room.register(cron("0 3 * * MON-FRI"), 6, &[]);
    let mut due = Vec::new();
    for _ in 0..8 {
        room.pass(Span(3 * HOUR.0 + 5_000_000));
        due.extend(shown(&room.tick(SKIP).told));
        room.pass(Span(21 * HOUR.0 - 5_000_000));
    }
    let hours: Vec<f64> = due.iter().map(|one| one.1 / 3_600.0).collect();
    assert_eq!(hours, [3.0, 27.0, 51.0, 75.0, 99.0, 171.0]);
    assert_eq!(due.iter().map(|one| one.2).collect::<Vec<_>>(), [6, 5, 4, 3, 2, 1]);
    assert!(room.state.get(id).is_none());
}

#[test]
fn a_calendar_event_is_shown_with_the_time_to_its_next_occurrence() {
    let mut room = Room::new();
    let id = room.register(cron("0 3 * * *"), -1, &[]);
    room.pass(HOUR);
    let view = room.state.view(id, &Sight::All, room.now).unwrap();
    assert_eq!((view.period_secs, view.next), (7_200.0, Wall(MONDAY) + Span(3 * HOUR.0)));
    room.pass(Span(2 * HOUR.0));
    let one = room.tick(SKIP).told.remove(0);
    assert_eq!((one.period_secs, one.updated), (10_800.0, Wall(MONDAY)));
    room.pass(DAY);
    let one = room.tick(SKIP).told.remove(0);
    assert_eq!((one.period_secs, one.updated), (86_400.0, Wall(MONDAY) + Span(3 * HOUR.0)));
    room.pass(Span(DAY.0 + HOUR.0));
    let overdue = room.state.view(id, &Sight::All, room.now).unwrap();
    assert_eq!(overdue.period_secs, 0.0, "never negative");
}

#[test]
fn a_calendar_that_ends_ends_the_event() {
    let mut room = Room::new();
    // 30 December 9999, the last day there is.
    room.now.wall = Wall(253_402_128_000_000_000) - DAY;
    room.register(cron("0 0 30 12 *"), -1, &[]);
    room.pass(DAY);
    let ticked = room.tick(SKIP);
    assert_eq!((ticked.told.len(), ticked.forgotten), (1, vec![id(0)]));
    assert_eq!(room.state.totals().finished, 1);
}

#[test]
fn times_far_away_do_not_overflow() {
    let mut room = Room::new();
    room.register(every(Period::from(Period::MAX).secs()), -1, &[]);
    room.now.steady = Steady(u64::MAX - 1);
    room.now.wall = Wall(i64::MAX - 1);
    for catch_up in [CatchUp::Skip, CatchUp::Once, CatchUp::All] {
        let tardiness = Tardiness { catch_up, catch_up_max: 3, late_max: Span(u64::MAX) };
        let mut again = Room { state: room.state.clone(), ..Room::new() };
        again.now = room.now;
        again.resume(tardiness);
        again.tick_some(4, tardiness);
    }
}
