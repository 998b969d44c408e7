//! One destination of two is down: the other does not notice.

use std::sync::Arc;

use handoff_log::disk::{Counting, Memory};
use handoff_relay::{DeliveryRules, Mode, Outcome};
use handoff_types::Span;

use crate::world::{World, rules};

#[test]
fn the_healthy_destination_keeps_up_and_the_other_gets_everything_later() {
    let disk = Memory::new();
    let counting = Arc::new(Counting::new(Arc::new(disk.clone())));
    let mut world = World::new(rules(2), counting.clone());
    world.destinations[1].up = false;
    let mut pledges = Vec::new();
    for minute in 0..120 {
        for _ in 0..2 {
            pledges.push(world.send(20, Mode::Durable).unwrap().0);
            world.run(Span::from_millis(300));
            world.assert_exactly_once(0, "within the second");
            world.pass(Span::from_secs(29));
        }
        assert!(world.keeper.present().bytes() < 1 << 20, "minute {minute}");
    }
    world.run(Span::from_secs(11));
    assert!(pledges.iter().all(|pledge| world.ended[pledge] == Outcome::Kept));
    assert!(world.destinations[1].taken.is_empty());
    assert!(world.files() > 0);
    let counts = counting.counts();
    assert!(counts.syncs <= 3 * 240, "{counts:?}: what is written at once is synced once");
    world.destinations[1].up = true;
    world.run(Span::from_secs(5));
    world.assert_all_exactly_once("after two hours");
    assert_eq!(world.files(), 0, "what is delivered is removed");
    assert!(disk.paths().is_empty(), "{:?}", disk.paths());
}

#[test]
fn a_destination_that_is_known_to_be_gone_makes_nobody_wait_and_no_block_short() {
    let mut world = World::new(rules(2), Arc::new(Memory::new()));
    world.notices = true;
    world.destinations[1].up = false;
    world.send(10, Mode::Durable).unwrap();
    world.run(Span::from_secs(11));
    let mut blocks = std::collections::BTreeSet::new();
    for round in 0..100 {
        let pledge = world.send(10, Mode::Durable).unwrap().0;
        world.run(Span::from_millis(300));
        assert_eq!(world.ended.get(&pledge), Some(&Outcome::Kept), "round {round} waits");
        world.assert_exactly_once(0, "the healthy one");
        blocks.insert(world.keeper.present().block());
        world.pass(Span::from_secs(2));
    }
    assert_eq!(blocks.len(), 1, "one block until it is back");
    assert!(world.files() <= 2);
    // The healthy one is cut now and then: it goes on where it was, or with the next block.
    for _ in 0..5 {
        world.destinations[0].up = false;
        world.send(10, Mode::Durable).unwrap();
        world.run(Span::from_secs(1));
        world.destinations[0].up = true;
        world.run(Span::from_secs(12));
        world.assert_exactly_once(0, "the healthy one, cut");
    }
    world.destinations[1].up = true;
    world.run(Span::from_secs(30));
    world.assert_all_exactly_once("it is back");
    assert_eq!(world.files(), 0);
    world.send(10, Mode::Durable).unwrap();
    world.run(Span::from_secs(2));
    world.assert_all_exactly_once("whole again");
    assert_eq!(world.files(), 0, "without the disk");
}

#[test]
fn new_samples_do_not_wait_behind_the_backlog() {
    let mut world = World::new(rules(1), Arc::new(Memory::new()));
    world.destinations[0].up = false;
    world.send(10, Mode::Memory).unwrap();
    world.run(Span::from_secs(20));
    assert_eq!(world.files(), 1);
    let first = world.keeper.present().block();
    world.send(10, Mode::Memory).unwrap();
    world.destinations[0].up = true;
    world.run(Span::from_secs(6));
    assert!(world.destinations[0].marks.keys().any(|(block, _)| *block == first));
    assert!(world.destinations[0].marks.keys().any(|(block, _)| *block != first));
    world.assert_exactly_once(0, "both lanes");
}

#[test]
fn a_short_break_is_healed_without_the_disk() {
    let mut world = World::new(rules(1), Arc::new(Memory::new()));
    for _ in 0..20 {
        world.send(10, Mode::Durable).unwrap();
        world.run(Span::from_millis(200));
        world.destinations[0].up = false;
        world.send(10, Mode::Durable).unwrap();
        world.run(Span::from_secs(3));
        world.destinations[0].up = true;
        world.run(Span::from_millis(500));
    }
    assert_eq!(world.files(), 0);
    world.assert_exactly_once(0, "healed");
    assert!(world.ended.values().all(|outcome| *outcome == Outcome::Kept));
}

#[test]
fn a_sink_that_is_down_is_tried_again_and_nothing_is_taken_twice() {
    let mut world = World::new(rules(1), Arc::new(Memory::new()));
    world.send(10, Mode::Memory).unwrap();
    world.run(Span::from_secs(6));
    world.destinations[0].refusing = Some(handoff_relay::session::Reason::RetryAfter);
    for _ in 0..5 {
        world.send(10, Mode::Memory).unwrap();
        world.run(Span::from_secs(6));
    }
    assert_eq!(world.destinations[0].taken.len(), 10);
    world.destinations[0].refusing = None;
    world.run(Span::from_secs(6));
    world.assert_exactly_once(0, "the sink is back");
    assert_eq!(world.files(), 0);
}

#[test]
fn what_a_destination_will_never_take_is_skipped_and_blocks_nobody() {
    let rules = DeliveryRules { segment_samples: 4, ..rules(2) };
    let mut world = World::new(rules, Arc::new(Memory::new()));
    // It knows at most three series a shard: no segment behind that can be decoded there.
    world.destinations[1].limits.codec.series_max = 3;
    for series in [2, 40, 40] {
        world.send(series, Mode::Memory).unwrap();
        world.run(Span::from_secs(6));
    }
    world.run(Span::from_secs(30));
    assert!(world.skips > 0 && world.skips < 100, "{} skips", world.skips);
    assert_eq!(world.files(), 0, "the file is done with");
    world.assert_exactly_once(0, "the other destination");
    assert!(world.destinations[1].taken.len() < world.sent.len());
    // Once it can, it gets what is new.
    world.destinations[1].limits = Default::default();
    world.destinations[1].restart();
    world.sent.clear();
    world.destinations.iter_mut().for_each(|one| one.taken.clear());
    world.send(40, Mode::Memory).unwrap();
    world.run(Span::from_secs(30));
    world.assert_all_exactly_once("afterwards");
}
