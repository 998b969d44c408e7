//! A spool without room.

use std::sync::Arc;

use handoff_log::disk::Memory;
use handoff_relay::{Mode, SendError};
use handoff_relay_agent::Settings;
use handoff_types::Span;

use crate::world::{World, settings};

/// A spool of 64 KiB.
fn small(destinations: usize) -> Settings {
    let mut settings = settings(destinations);
    settings.promise = Mode::Memory;
    settings.spool.bytes_max = 64 << 10;
    settings
}

/// Sends until nothing more is taken.
fn fill(world: &mut World) {
    for round in 0.. {
        if world.ask(200) == Err(SendError::Full) {
            world.forget(200);
            return;
        }
        // Often enough that a block is part in memory, part in its file.
        world.run(Span::from_millis(40 + round % 7 * 10));
        assert!(round < 10_000, "it takes everything");
    }
}

#[test]
fn an_agent_whose_spool_is_full_of_one_block_goes_on_by_itself_once_its_destination_is_back() {
    // The block that is in memory has filled the spool with its own file, and its rest finds no room:
    // nothing but that file can make some.
    for pause in [0, 1, 30, 60, 500, 2_000, 10_000] {
        let mut world = World::new(small(1), Arc::new(Memory::new()));
        world.centres[0].up = false;
        fill(&mut world);
        assert!(!world.files().is_empty());
        world.run(Span::from_millis(pause));
        world.centres[0].up = true;
        world.run(Span::from_secs(20));
        world.assert_has_all(0);
        assert_eq!(world.files(), [""; 0], "after {pause} ms");
        world.ask(10).unwrap();
        world.run(Span::from_secs(5));
        world.assert_has_all(0);
    }
}

#[test]
fn a_full_spool_keeps_nobody_from_what_is_in_it_though_another_stays_gone() {
    let mut world = World::new(small(2), Arc::new(Memory::new()));
    world.centres.iter_mut().for_each(|centre| centre.up = false);
    fill(&mut world);
    world.centres[0].up = true;
    world.run(Span::from_secs(20));
    world.assert_has_all(0);
    assert!(world.centres[1].taken.is_empty());
    assert!(!world.files().is_empty(), "what is for the other is kept");
    world.centres[1].up = true;
    world.run(Span::from_secs(20));
    world.assert_has_all(1);
    assert_eq!(world.files(), [""; 0]);
    world.ask(10).unwrap();
    world.run(Span::from_secs(5));
    world.assert_has_all(0);
    world.assert_has_all(1);
}

#[test]
fn a_spool_that_is_smaller_than_what_is_in_memory_stops_nobody_for_ever() {
    let mut settings = small(1);
    settings.spool.bytes_max = 2_000;
    settings.rules.exchange.bytes_max = 30_000;
    let mut world = World::new(settings, Arc::new(Memory::new()));
    world.centres[0].up = false;
    fill(&mut world);
    world.run(Span::from_secs(3));
    world.centres[0].up = true;
    world.run(Span::from_secs(20));
    world.assert_has_all(0);
    world.ask(10).unwrap();
}

#[test]
fn what_is_too_old_is_given_up_counted_and_makes_room() {
    let mut settings = small(1);
    settings.spool.age_max = Span::from_secs(120);
    let mut world = World::new(settings, Arc::new(Memory::new()));
    world.centres[0].up = false;
    fill(&mut world);
    world.run(Span::from_secs(60));
    assert!(world.agent().given_up() == 0 && !world.files().is_empty());
    world.run(Span::from_secs(90));
    assert!(world.agent().given_up() > 0, "{:?}", world.files());
    // New samples find room, and arrive.
    world.ask(10).unwrap();
    world.centres[0].up = true;
    world.run(Span::from_secs(20));
    assert!(world.centres[0].taken.contains_key(&world.last()));
    assert_eq!(world.files(), [""; 0]);
}
