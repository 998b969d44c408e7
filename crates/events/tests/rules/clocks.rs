//! The operator sets the clock: nothing occurs twice, and nothing stands still for longer than
//! its period.

use handoff_events::{Due, Events, Schedule};
use handoff_types::{Machine, Span, Wall};

use crate::room::*;

fn back(room: &mut Room, by: Span) -> u64 {
    room.now.wall = room.now.wall - by;
    room.reschedule()
}

/// Lets time pass until everything that is due has been told; how long that took and how many.
fn next_told(room: &mut Room) -> (Span, usize) {
    let begin = room.now.steady;
    let at = Events::next_deadline(&room.state, room.now).unwrap();
    room.pass(at.since(room.now.steady));
    let told = room.tick(SKIP).told.len();
    (room.now.steady.since(begin), told)
}

#[test]
fn a_periodic_event_does_not_feel_the_clock_being_set() {
    for step in [-400 * 86_400_000_000, -1, 1, 400 * 86_400_000_000] {
        let mut room = Room::new();
        room.register(every(10.0), -1, &[]);
        room.pass(Span::from_secs(4));
        room.now.wall = Wall(room.now.wall.0 + step);
        assert_eq!(room.reschedule(), 0);
        assert!(room.tick(SKIP).told.is_empty());
        assert_eq!(next_told(&mut room), (Span::from_secs(6), 1), "{step}");
        assert_eq!(next_told(&mut room), (Span::from_secs(10), 1), "{step}");
    }
}

#[test]
fn what_is_shown_of_a_periodic_event_follows_the_clock_as_it_stands() {
    let mut room = Room::new();
    let id = room.register(every(10.0), -1, &[]);
    room.pass(Span::from_secs(11));
    room.now.wall = Wall(MONDAY) + HOUR;
    let one = room.tick(SKIP).told.remove(0);
    assert_eq!((one.updated, one.due), (Wall(MONDAY), Wall(MONDAY) + HOUR - SECOND));
    assert_eq!(room.state.get(id).unwrap().updated, one.due);
}

#[test]
fn a_clock_set_back_a_little_does_not_let_a_calendar_time_come_twice() {
    let mut room = Room::new();
    let id = room.register(cron("0 3 * * *"), -1, &[]);
    room.pass(Span(3 * HOUR.0));
    assert_eq!(room.tick(SKIP).told.len(), 1);
    let due = room.state.get(id).unwrap().due;
    room.pass(HOUR);
    // It is 03:00 again in an hour; that time has come already.
    assert_eq!(back(&mut room, Span(2 * HOUR.0)), 0);
    assert_eq!(room.state.get(id).unwrap().due, due);
    assert_eq!(next_told(&mut room), (Span(25 * HOUR.0), 1));
    assert_eq!(next_told(&mut room), (DAY, 1));
}

#[test]
fn a_clock_set_back_by_an_interval_makes_an_event_wait_no_more_than_one_longer() {
    let mut room = Room::new();
    room.register(cron("0 3 * * *"), -1, &[]);
    room.pass(Span(3 * HOUR.0));
    room.tick(SKIP);
    assert_eq!(back(&mut room, DAY), 0, "one interval is still kept");
    assert_eq!(next_told(&mut room).0, Span(2 * DAY.0));

    let mut room = Room::new();
    room.register(cron("0 3 * * *"), -1, &[]);
    room.pass(Span(3 * HOUR.0));
    room.tick(SKIP);
    assert_eq!(back(&mut room, Span(DAY.0 + SECOND.0)), 1);
    assert_eq!(next_told(&mut room), (SECOND, 1));
    assert_eq!(next_told(&mut room), (DAY, 1));
}

#[test]
fn a_clock_set_back_by_years_does_not_stop_a_calendar() {
    let mut room = Room::new();
    for number in 0..5 {
        let schedule = if number % 2 == 0 { cron("*/15 * * * *") } else { every(1e6) };
        room.register(schedule, -1, &[]);
    }
    room.pass(HOUR);
    room.tick(SKIP);
    room.pass(Span::from_secs(60));
    assert_eq!(back(&mut room, Span(1_000 * DAY.0)), 3);
    assert_eq!(room.reschedule(), 0, "looking twice changes nothing");
    assert_eq!(next_told(&mut room), (Span::from_secs(14 * 60), 3));
    assert_eq!(next_told(&mut room), (Span::from_secs(15 * 60), 3));
    assert_eq!(room.reschedule(), 0);
}

#[test]
fn many_small_steps_back_are_one_large_one() {
    let mut room = Room::new();
    room.register(cron("0 * * * *"), -1, &[]);
    room.pass(HOUR);
    room.tick(SKIP);
    assert_eq!(back(&mut room, Span::from_secs(2_000)), 0);
    assert_eq!(back(&mut room, Span::from_secs(2_000)), 1);
    assert_eq!(next_told(&mut room), (Span::from_secs(400), 1));
}

#[test]
fn an_event_that_has_not_occurred_yet_waits_for_the_clock_as_it_stands() {
    let mut room = Room::new();
    let id = room.register(cron("0 3 * * *"), -1, &[]);
    assert_eq!(back(&mut room, Span(10 * DAY.0)), 1);
    let due = Wall(MONDAY) - Span(10 * DAY.0) + Span(3 * HOUR.0);
    assert_eq!(room.state.get(id).unwrap().due, Due::Wall(due));
}

#[test]
fn a_one_shot_time_means_the_time_it_says() {
    let mut room = Room::new();
    let at = room.now.wall + HOUR;
    room.register(Schedule::At(at), 1, &[]);
    room.register(cron("@hourly"), 0, &[]);
    assert_eq!(back(&mut room, Span(1_000 * DAY.0)), 0);
    assert_eq!(next_told(&mut room), (Span(1_000 * DAY.0 + HOUR.0), 1));
}

#[test]
fn times_that_the_clock_jumped_over_are_missed() {
    let mut room = Room::new();
    let hourly = room.register(cron("@hourly"), -1, &[]);
    let at = room.register(Schedule::At(room.now.wall + HOUR), 1, &[]);
    room.now.wall = room.now.wall + Span(5 * HOUR.0 + 3_000_000);
    assert_eq!(Events::next_deadline(&room.state, room.now), Some(room.now.steady));
    let ticked = room.tick(SKIP);
    // The last one is three seconds late, which is in time.
    assert_eq!((ticked.told.len(), ticked.told[0].id, ticked.told[0].occurrence), (1, hourly, 5));
    assert_eq!((ticked.skipped, ticked.forgotten), (5, vec![at]));
    assert_eq!(next_told(&mut room), (Span(HOUR.0 - 3_000_000), 1));
}

#[test]
fn a_clock_set_forward_and_back_again_fires_nothing_twice() {
    let mut room = Room::new();
    room.register(cron("0 3 * * *"), -1, &[]);
    room.now.wall = room.now.wall + Span(3 * HOUR.0);
    assert_eq!(room.tick(SKIP).told.len(), 1);
    assert_eq!(back(&mut room, Span(3 * HOUR.0)), 0);
    assert_eq!(next_told(&mut room), (Span(27 * HOUR.0), 1));
}
