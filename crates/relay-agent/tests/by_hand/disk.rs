//! A disk that fails what is written, for once or for a while.

use std::sync::Arc;

use handoff_log::disk::{Call, Calls, Crash, Memory, Short};
use handoff_relay::{Outcome, SendError};
use handoff_types::Span;

use crate::world::{World, settings};

/// Everything that can fail when a refill file is written.
const FAILING: [Call; 6] =
    [Call::Open, Call::Write, Call::Sync, Call::SyncDir, Call::Rename, Call::Len];

#[test]
fn any_call_that_fails_once_is_survived_and_everything_arrives_once() {
    let mut failures = 0;
    for call in FAILING {
        for nth in 1..8 {
            let mut world = World::new(settings(1), Arc::new(Memory::new()));
            world.centres[0].up = false;
            world.ask(20).unwrap();
            world.faults.fail_nth(Calls::Only(call), nth);
            for _ in 0..6 {
                match world.ask(20) {
                    Ok(_) => {}
                    Err(SendError::Full) => world.forget(20),
                    Err(error) => panic!("{error}"),
                }
                world.run(Span::from_millis(1_100));
            }
            failures += world.faults.struck();
            world.faults.clear();
            world.centres[0].up = true;
            world.run(Span::from_secs(30));
            world.assert_has_all(0);
            assert_eq!(world.files(), [""; 0], "{call:?} {nth}");
            assert!(!world.agent().disk_fails(), "{call:?} {nth}");
            assert_eq!(world.ask(5), Ok(Outcome::Kept), "{call:?} {nth}");
        }
    }
    assert!(failures > 20, "{failures} calls failed");
}

#[test]
fn while_the_disk_fails_nothing_is_promised_and_afterwards_it_goes_on_by_itself() {
    for halfway in [false, true] {
        let mut world = World::new(settings(1), Arc::new(Memory::new()));
        world.centres[0].up = false;
        world.ask(20).unwrap();
        assert!(!world.agent().disk_fails());
        if halfway {
            world.faults.shorten_every(2, Short::OneByte);
        }
        world.faults.fail_all(Calls::Only(if halfway { Call::Write } else { Call::Sync }));
        let mut refused = 0;
        for _ in 0..20 {
            // What was taken before anybody knew is on its way all the same.
            match world.ask(20) {
                Ok(outcome) => assert_eq!(outcome, Outcome::Late, "nothing can be promised"),
                Err(_) => {
                    world.forget(20);
                    refused += 1;
                }
            }
            world.run(Span::from_millis(200));
        }
        assert!(refused > 10 && world.agent().disk_fails());
        world.faults.clear();
        world.run(Span::from_secs(3));
        assert!(!world.agent().disk_fails());
        assert_eq!(world.ask(20), Ok(Outcome::Kept), "on disk");
        world.centres[0].up = true;
        world.run(Span::from_secs(30));
        world.assert_has_all(0);
        assert_eq!(world.files(), [""; 0]);
    }
}

#[test]
fn a_destination_that_takes_everything_needs_no_disk_that_works() {
    let mut world = World::new(settings(1), Arc::new(Memory::new()));
    world.faults.fail_all(Calls::Any);
    for _ in 0..20 {
        assert_eq!(world.ask(20), Ok(Outcome::Kept));
    }
    world.assert_has_all(0);
    // A short outage, and back: what waited in memory is enough.
    world.centres[0].up = false;
    world.send(20);
    world.run(Span::from_secs(4));
    world.centres[0].up = true;
    world.run(Span::from_secs(4));
    world.assert_has_all(0);
    assert_eq!(world.ask(20), Ok(Outcome::Kept));
}

#[test]
fn what_was_promised_before_and_after_a_failure_survives_a_loss_of_power() {
    for nth in 1..6 {
        for seed in 0..10 {
            let disk = Crash::new();
            let mut world = World::new(settings(1), Arc::new(disk.clone()));
            world.centres[0].up = false;
            assert_eq!(world.ask(20), Ok(Outcome::Kept));
            world.faults.fail_nth(Calls::Only(Call::Sync), nth);
            let mut kept = 0;
            for _ in 0..5 {
                // What is refused, or late, need not arrive: it is counted as sent all the same.
                match world.ask(20) {
                    Ok(Outcome::Kept) => kept += 1,
                    Ok(_) => panic!("the disk is well again at once"),
                    Err(_) => world.forget(20),
                }
                world.run(Span::from_millis(700));
            }
            assert!(kept > 2);
            world.agent = None;
            world.replace_disk(Arc::new(disk.crash(seed).0));
            world.start();
            world.centres[0].up = true;
            world.run(Span::from_secs(10));
            world.assert_has_all(0);
        }
    }
}
