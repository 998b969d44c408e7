//! What a sender of samples is told, and when.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_relay::{Mode, Outcome, SendError};
use handoff_types::Span;

use crate::world::{World, rules};

fn world(destinations: usize) -> World {
    World::new(rules(destinations), Arc::new(Memory::new()))
}

#[test]
fn memory_is_promised_at_once() {
    let mut world = world(1);
    world.destinations[0].up = false;
    let (pledge, outcome) = world.send(3, Mode::Memory).unwrap();
    assert_eq!(outcome, Some(Outcome::Kept));
    assert_eq!(world.ended[&pledge], Outcome::Kept);
}

#[test]
fn durable_is_kept_when_every_destination_has_the_samples_and_no_disk_is_touched() {
    let mut world = world(2);
    let (pledge, outcome) = world.send(10, Mode::Durable).unwrap();
    assert_eq!(outcome, None);
    world.settle();
    assert!(!world.ended.contains_key(&pledge), "the segment is still open");
    world.pass(Span::from_millis(50));
    world.settle();
    assert_eq!(world.ended[&pledge], Outcome::Kept);
    assert_eq!(world.files(), 0);
    world.assert_all_exactly_once("healthy");
}

#[test]
fn durable_is_kept_by_the_disk_for_a_destination_that_is_down() {
    let mut world = world(2);
    world.destinations[1].up = false;
    let (pledge, _) = world.send(10, Mode::Durable).unwrap();
    world.run(Span::from_secs(9));
    assert!(!world.ended.contains_key(&pledge));
    world.assert_exactly_once(0, "the healthy one has it long since");
    world.run(Span::from_secs(2));
    assert_eq!(world.ended[&pledge], Outcome::Kept);
    assert_eq!(world.files(), 1);
}

#[test]
fn delivery_is_not_kept_by_the_disk() {
    let mut world = world(1);
    world.destinations[0].up = false;
    let (pledge, _) = world.send(10, Mode::Delivered).unwrap();
    world.run(Span::from_secs(11));
    assert_eq!(world.ended[&pledge], Outcome::Spooled);
    world.destinations[0].up = true;
    world.settle();
    world.assert_exactly_once(0, "it is delivered all the same");
}

#[test]
fn a_promise_that_nothing_settles_ends_late_and_once() {
    let mut world = world(1);
    world.destinations[0].up = false;
    world.disk_fails = true;
    let (pledge, _) = world.send(10, Mode::Durable).unwrap();
    world.run(Span::from_secs(31));
    assert_eq!(world.ended[&pledge], Outcome::Late);
    assert_eq!(world.send(1, Mode::Memory), Err(SendError::Full));
    world.disk_fails = false;
    world.run(Span::from_secs(1));
    assert!(world.send(1, Mode::Memory).is_ok(), "it recovers by itself");
    world.destinations[0].up = true;
    world.run(Span::from_secs(10));
    world.assert_exactly_once(0, "late is not lost");
}

#[test]
fn memory_is_bounded_and_full_is_said_before_anything_is_taken() {
    let mut rules = rules(1);
    rules.exchange.bytes_max = 2_000;
    rules.segment_samples = 50;
    let mut world = World::new(rules, Arc::new(Memory::new()));
    world.destinations[0].up = false;
    let mut taken = 0;
    while world.send(100, Mode::Memory).is_ok() {
        taken += 1;
        assert!(taken < 1_000);
    }
    assert!(world.keeper.present().bytes() < 4_000, "{}", world.keeper.present().bytes());
    world.destinations[0].up = true;
    world.run(Span::from_secs(6));
    world.assert_exactly_once(0, "what was taken arrives, what was refused does not");
}
