//! What becomes an event, with which id, and what is refused.

use std::sync::Arc;

use handoff_events::{Refusal, Registration, Repeat, Schedule, Totals};
use handoff_types::{Sight, Span, Wall};

use crate::room::*;

fn words(room: &mut Room, schedule: Schedule, repeat: i32) -> String {
    let before = room.state.hash();
    let refusal = room.try_register(registration(schedule, repeat, &[])).unwrap_err();
    assert_eq!(room.state.hash(), before, "a refusal changes nothing");
    refusal.to_string()
}

#[test]
fn ids_count_from_zero_and_a_refusal_takes_none() {
    let mut room = Room::new();
    assert_eq!(room.state.next_id(), Some(id(0)));
    assert_eq!(room.register(every(1.0), 1, &[]), id(0));
    assert_eq!(room.try_register(registration(every(1.0), -2, &[])), Err(Refusal::Repeat(-2)));
    assert_eq!(room.register(every(1.0), -1, &[]), id(1));
    room.delete(select(&[1], &[]), Sight::All, 9);
    assert_eq!(room.register(every(1.0), -1, &[]), id(2), "an id is not used again");
    assert_eq!(room.state.totals(), Totals { registered: 3, deleted: 1, ..Totals::default() });
}

#[test]
fn an_event_that_never_occurs_takes_an_id_and_leaves_nothing() {
    let mut room = Room::new();
    for schedule in [every(1.0), cron("@daily"), Schedule::At(room.now.wall + HOUR)] {
        let number = room.state.next_id();
        let registered = room.try_register(registration(schedule, 0, &["a"])).unwrap();
        assert_eq!((Some(registered.id), registered.next), (number, None));
        assert_eq!(registered.at, room.now.wall);
    }
    assert!(room.state.is_empty());
    assert_eq!(room.state.next_id(), Some(id(3)));
    assert!(room.state.list(Some(&["a".to_owned()]), &Sight::All, id(0), 9).is_empty());
}

#[test]
fn what_is_registered_is_kept_as_it_was_sent() {
    let mut room = Room::new();
    let registered =
        room.try_register(registration(every(1.0 / 3.0), 7, &["b", "a", "b"])).unwrap();
    assert_eq!(registered.next, Some(room.now.wall + Span(333_333)));
    let event = room.state.get(registered.id).unwrap();
    assert_eq!(&*event.description, "what it is");
    assert_eq!(event.types.to_vec(), [Arc::from("a"), Arc::from("b")]);
    assert_eq!((event.repeat, event.updated), (Repeat::Left(7), room.now.wall));
    let view = room.state.view(registered.id, &Sight::All, room.now).unwrap();
    assert_eq!(view.period_secs.to_bits(), (1.0f64 / 3.0).to_bits());
    assert_eq!((view.repeat.wire(), view.occurrences), (7, 0));
    let forever = room.register(every(0.1), -1, &[]);
    assert_eq!(room.state.view(forever, &Sight::All, room.now).unwrap().repeat.wire(), -1);
}

#[test]
fn a_period_outside_the_bounds_is_refused() {
    let mut room = Room::new();
    for secs in [0.0, 0.099, 0.099_999_999_999, 1e-9] {
        assert!(words(&mut room, every(secs), 1).contains("0.1 are the least"), "{secs}");
    }
    room.register(every(0.1), 1, &[]);
    room.bounds.period_min = Span::ZERO;
    for secs in [0.0, 1e-7] {
        assert!(words(&mut room, every(secs), 1).contains("must take time"), "{secs}");
    }
    room.register(every(1e-6), 1, &[]);
    room.bounds.period_max = HOUR;
    assert!(words(&mut room, every(3_600.1), 1).contains("3600 are the most"));
    room.register(every(3_600.0), 1, &[]);
}

#[test]
fn a_one_shot_time_is_still_to_come_and_comes_once() {
    let mut room = Room::new();
    let now = room.now.wall;
    for repeat in [-1, 2, i32::MAX] {
        assert!(words(&mut room, Schedule::At(now + HOUR), repeat).contains("occurs once"));
    }
    assert!(words(&mut room, Schedule::At(Wall(now.0 - 1)), 1).contains("seconds ago"));
    let far = now + BOUNDS.period_max;
    assert!(words(&mut room, Schedule::At(far + Span(1)), 1).contains("the most there is"));
    for at in [now, now + HOUR, far] {
        let registered = room.try_register(registration(Schedule::At(at), 1, &[])).unwrap();
        assert_eq!(registered.next, Some(at));
    }
}

#[test]
fn a_calendar_without_such_a_day_is_refused() {
    let mut room = Room::new();
    assert!(words(&mut room, cron("0 0 30 2 *"), -1).contains("never comes"));
    assert!(words(&mut room, cron("0 0 30 2 *"), 0).contains("never comes"));
    let daily = room.try_register(registration(cron("30 1 * * *"), -1, &[])).unwrap();
    assert_eq!(daily.next, Some(Wall(MONDAY) + Span::from_secs(5_400)));
}

#[test]
fn descriptions_and_types_have_bounds() {
    let mut room = Room::new();
    let with = |description: usize, types: &[&str]| Registration {
        description: "x".repeat(description),
        ..registration(every(1.0), 1, types)
    };
    let refused = room.try_register(with(41, &[]));
    assert_eq!(refused, Err(Refusal::Description { bytes: 41, max: 40 }));
    for types in [&["a", "b", "c", "d"][..], &["123456789"], &[""], &["a", ""]] {
        let refused = room.try_register(with(1, types));
        assert!(matches!(refused, Err(Refusal::Types(_))), "{types:?}");
    }
    room.try_register(with(40, &["a", "b", "12345678", "a", "b"])).unwrap();
}

#[test]
fn a_full_room_takes_no_more_events() {
    let mut room = Room::new();
    room.bounds.events_max = 2;
    for _ in 0..2 {
        room.register(every(1.0), 1, &[]);
    }
    assert_eq!(room.try_register(registration(every(1.0), 1, &[])), Err(Refusal::Full(2)));
    assert_eq!(room.register(every(1.0), 0, &[]), id(2), "what is not kept takes no place");
    room.delete(select(&[0], &[]), Sight::All, 9);
    room.register(every(1.0), 1, &[]);
}

#[test]
fn the_last_id_is_the_last() {
    let mut room = Room::new();
    let used = Totals { registered: (1 << 31) - 1, ..Totals::default() };
    room.state.restore_totals(used);
    assert_eq!(room.register(every(1.0), 1, &[]), handoff_events::Id::LAST);
    assert_eq!(room.state.next_id(), None);
    for repeat in [0, 1] {
        let refused = room.try_register(registration(every(1.0), repeat, &[]));
        assert_eq!(refused, Err(Refusal::Exhausted));
    }
    assert_eq!(room.state.totals().registered, 1 << 31);
}

#[test]
fn a_token_for_some_types_registers_within_them() {
    let mut room = Room::new();
    let mut asked = |types: &[&str]| {
        room.register_as(registration(every(1.0), 1, types), sight(&["acme.*", "backup"]))
    };
    for types in [&["acme.x", "other"][..], &["acme"], &[]] {
        assert!(matches!(asked(types), Err(Refusal::OutOfSight(_))), "{types:?}");
    }
    assert_eq!(asked(&["backup", "acme.x"]).unwrap().id, id(0));
}

#[test]
fn the_name_of_a_type_is_shared_and_goes_with_its_last_event() {
    let mut room = Room::new();
    for _ in 0..3 {
        room.register(every(1.0), 1, &["a"]);
    }
    let name = |number: u32| &room.state.get(id(number)).unwrap().types[0];
    assert!(Arc::ptr_eq(name(0), name(1)) && Arc::ptr_eq(name(1), name(2)));
    let weak = Arc::downgrade(name(0));
    room.delete(select(&[0, 2], &[]), Sight::All, 9);
    assert!(weak.upgrade().is_some());
    room.pass(SECOND);
    room.tick(SKIP);
    assert!(weak.upgrade().is_none());
}
