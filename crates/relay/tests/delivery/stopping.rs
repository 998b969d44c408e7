//! Blocks follow each other, and the agent stops in time.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_relay::session::Reason;
use handoff_relay::{DeliveryRules, Mode, Outcome, Pledge, SendError};
use handoff_types::{Span, Steady};

use crate::world::{World, rules};

#[test]
fn a_hundred_rotations_under_load_lose_nothing_and_make_nobody_wait() {
    let rules = DeliveryRules { block_age_max: Span::from_secs(1), ..rules(2) };
    let mut world = World::new(rules, Arc::new(Memory::new()));
    let mut blocks = std::collections::BTreeSet::new();
    for _ in 0..200 {
        world.send(10, Mode::Durable).unwrap();
        world.run(Span::from_millis(600));
        blocks.insert(world.keeper.present().block());
    }
    assert!(blocks.len() > 100, "{} blocks", blocks.len());
    world.run(Span::from_secs(6));
    world.assert_all_exactly_once("after the rotations");
    assert!(world.ended.values().all(|outcome| *outcome == Outcome::Kept));
    assert_eq!(world.files(), 0);
}

/// Somebody sends all the time, and again what is not taken; blocks last about a second, and
/// segments are rejected by chance. By the clock of the machines, which nobody else turns.
#[test]
fn a_hundred_rotations_with_random_rejects_block_nobody_for_more_than_a_second() {
    const STEP: Span = Span::from_millis(20);
    const BLOCKED_MAX: Span = Span::from_secs(1);
    let rules = DeliveryRules { block_age_max: Span::from_secs(1), ..rules(2) };
    let mut world = World::new(rules, Arc::new(Memory::new()));
    let (mut dice, mut blocks) = (7_u64, std::collections::BTreeSet::new());
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (dice >> 33) % sides
    };
    // Since when somebody has been trying, and the promise once it was taken.
    let mut waiting: Vec<(Steady, Option<Pledge>)> = Vec::new();
    let (mut longest, mut rejecting) = (Span::ZERO, 0);
    while blocks.len() < 120 {
        blocks.insert(world.keeper.present().block());
        for destination in &mut world.destinations {
            if roll(10) == 0 {
                destination.refusing = (roll(2) == 0).then_some(Reason::RetryAfter);
            }
            rejecting += usize::from(destination.refusing.is_some());
        }
        waiting.push((world.now.steady, None));
        for (_, pledge) in waiting.iter_mut().filter(|(_, pledge)| pledge.is_none()) {
            let series = 1 + u32::try_from(roll(20)).unwrap();
            *pledge = world.send(series, Mode::Durable).ok().map(|(pledge, _)| pledge);
        }
        world.pass(STEP);
        world.turn();
        waiting.retain(|(since, pledge)| {
            longest = longest.max(Span(world.now.steady.0 - since.0));
            !pledge.is_some_and(|pledge| world.ended.get(&pledge) == Some(&Outcome::Kept))
        });
        assert!(longest <= BLOCKED_MAX, "somebody has been waiting for {longest:?}");
    }
    assert!(rejecting > 500, "{rejecting} steps of rejects");
    for destination in &mut world.destinations {
        destination.refusing = None;
    }
    world.run(Span::from_secs(30));
    world.assert_all_exactly_once("after the rotations");
    assert_eq!(world.files(), 0);
}

#[test]
fn a_block_that_knows_too_many_series_is_followed_by_another_at_once() {
    let mut rules = rules(1);
    rules.codec.series_max = 100;
    let mut world = World::new(rules, Arc::new(Memory::new()));
    let first = world.keeper.present().block();
    for series in [90, 150, 10] {
        world.send(series, Mode::Memory).unwrap();
        world.run(Span::from_secs(6));
    }
    assert_ne!(world.keeper.present().block(), first);
    assert_eq!(world.send(400, Mode::Memory), Err(SendError::TooLarge));
    world.run(Span::from_secs(6));
    world.assert_exactly_once(0, "more series than one block knows");
}

#[test]
fn stopping_with_destinations_that_answer_needs_no_disk() {
    let mut world = World::new(rules(2), Arc::new(Memory::new()));
    world.send(10, Mode::Memory).unwrap();
    world.stop(Span::from_secs(30));
    assert_eq!(world.send(1, Mode::Memory), Err(SendError::Full));
    world.settle();
    assert!(world.keeper.has_stopped(world.now.steady));
    assert_eq!(world.files(), 0);
    world.assert_all_exactly_once("stopped");
}

#[test]
fn stopping_with_a_destination_that_never_answers_ends_in_time_with_all_on_disk() {
    let disk = Memory::new();
    let mut world = World::new(rules(2), Arc::new(disk.clone()));
    world.destinations[1].up = false;
    for _ in 0..5 {
        world.send(10, Mode::Memory).unwrap();
        world.pass(Span::from_millis(100));
        world.settle();
    }
    let within = Span::from_secs(4);
    let end = world.now.steady + within;
    world.stop(within);
    while !world.keeper.has_stopped(world.now.steady) {
        world.pass(Span::from_millis(100));
        world.turn();
        assert!(world.now.steady <= end, "it takes longer than it may");
    }
    world.assert_exactly_once(0, "the one that answers");
    assert_eq!(world.files(), 1);
    let sent = std::mem::take(&mut world.sent);
    let mut next = World::over(rules(2), Arc::new(disk), std::mem::take(&mut world.destinations));
    next.sent = sent;
    next.destinations[1].up = true;
    next.run(Span::from_secs(2));
    next.assert_all_exactly_once("after a restart");
    assert_eq!(next.files(), 0);
}

#[test]
fn a_destination_that_is_gone_from_the_configuration_blocks_nobody() {
    let disk = Memory::new();
    let mut world = World::new(rules(2), Arc::new(disk.clone()));
    for destination in &mut world.destinations {
        destination.up = false;
    }
    world.send(10, Mode::Memory).unwrap();
    world.run(Span::from_secs(20));
    assert_eq!(world.files(), 1);
    let sent = std::mem::take(&mut world.sent);
    // Only the first is left, and it is back.
    let mut destinations = std::mem::take(&mut world.destinations);
    destinations.truncate(1);
    destinations[0].up = true;
    let mut next = World::over(rules(1), Arc::new(disk), destinations);
    next.sent = sent;
    next.run(Span::from_secs(2));
    next.assert_exactly_once(0, "the one that is left");
    assert_eq!(next.files(), 1, "what is for the other is kept");
}

#[test]
fn every_life_begins_a_block_of_its_own_however_the_one_before_it_ended() {
    let disk = Memory::new();
    let mut world = World::new(rules(2), Arc::new(disk.clone()));
    let mut blocks = std::collections::BTreeSet::new();
    for life in 0..6 {
        assert!(blocks.insert(world.keeper.present().block()), "life {life}");
        world.destinations[1].up = life % 2 == 0;
        for _ in 0..3 {
            world.send(10, Mode::Durable).unwrap();
            world.run(Span::from_secs(1));
        }
        world.stop(Span::from_secs(4));
        while !world.keeper.has_stopped(world.now.steady) {
            world.pass(Span::from_millis(100));
            world.turn();
        }
        assert_eq!(world.files(), life % 2, "life {life}");
        let sent = std::mem::take(&mut world.sent);
        let mut destinations = std::mem::take(&mut world.destinations);
        destinations[1].up = true;
        world = World::over(rules(2), Arc::new(disk.clone()), destinations);
        world.sent = sent;
        world.resume_counting();
        world.run(Span::from_secs(1));
        world.assert_all_exactly_once(&format!("life {life}"));
    }
    assert_eq!(world.files(), 0);
}
