//! Everything at once, by dice: sends, breaks, restarts, refusals, time. The seed is in every
//! message.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_relay::session::Reason;
use handoff_relay::{DeliveryRules, Mode};
use handoff_types::Span;
use handoff_types::entropy::mix;

use crate::world::{World, rules};

fn live(seed: u64) -> World {
    let mut dice = mix(seed);
    let mut roll = |sides: u64| {
        dice = mix(dice);
        dice % sides
    };
    let destinations = 1 + usize::try_from(roll(3)).unwrap();
    let rules = DeliveryRules {
        segment_samples: 1 + usize::try_from(roll(20)).unwrap(),
        block_age_max: Span::from_secs(5 + roll(60)),
        key_frame_bytes: 1 + roll(2_000),
        ..rules(destinations)
    };
    let mut world = World::new(rules, Arc::new(Memory::new()));
    world.notices = roll(2) == 0;
    for _ in 0..60 {
        let to = usize::try_from(roll(destinations as u64)).unwrap();
        match roll(10) {
            0..=3 => {
                let series = 1 + u32::try_from(roll(15)).unwrap();
                let mode = [Mode::Memory, Mode::Durable, Mode::Delivered];
                let mode = mode[usize::try_from(roll(3)).unwrap()];
                // A refusal takes nothing.
                world.send(series, mode).ok();
            }
            4 => world.destinations[to].up ^= true,
            5 => {
                world.destinations[to].up = false;
                world.turn();
                world.destinations[to].restart();
                world.destinations[to].up = true;
            }
            6 => {
                let reasons = [None, None, Some(Reason::RetryAfter)];
                world.destinations[to].refusing = reasons[usize::try_from(roll(3)).unwrap()];
            }
            7 => {
                let passing = usize::try_from(roll(3_000)).unwrap();
                world.cut_next = [None, Some((passing, usize::MAX)), Some((usize::MAX, passing))]
                    [usize::try_from(roll(3)).unwrap()];
            }
            8 => world.run(Span::from_millis(100 + roll(15_000))),
            _ => world.turn(),
        }
    }
    world.cut_next = None;
    for destination in &mut world.destinations {
        destination.up = true;
        destination.refusing = None;
    }
    world.run(Span::from_secs(20));
    world.run(Span::from_secs(20));
    world
}

#[test]
fn whatever_happens_every_destination_has_every_sample_once_and_the_disk_is_clean() {
    let (mut samples, mut cuts) = (0, 0);
    for seed in 0..150 {
        let world = live(seed);
        world.assert_all_exactly_once(&format!("seed {seed}"));
        assert_eq!(world.files(), 0, "seed {seed}");
        for (pledge, _) in &world.pledged {
            assert!(world.ended.contains_key(pledge), "seed {seed}: {pledge:?} never ended");
        }
        samples += world.sent.len();
        cuts += world.cuts;
    }
    assert!(samples > 5_000 && cuts > 500, "{samples} samples, {cuts} cuts");
}

#[test]
fn equal_seeds_live_equal_lives() {
    let (one, other) = (live(7), live(7));
    assert_eq!(one.sent, other.sent);
    for (one, other) in one.destinations.iter().zip(&other.destinations) {
        assert_eq!(one.taken, other.taken);
    }
}
