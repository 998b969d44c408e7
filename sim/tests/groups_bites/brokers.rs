//! Stores that brokers cannot rely on.

use handoff_sim::dice::Dice;
use handoff_sim::groups::brokers::{Brokered, Honest, Meddle};
use handoff_streams::groups::{GroupChange, Step as Move};
use handoff_streams::memory::Memory;
use handoff_streams::port::Step;
use handoff_streams::{Change, Streams};

use crate::{SEEDS, STEPS_OF_BROKERS, fault};

#[track_caller]
fn brokers_notice<D: Meddle>() {
    let meddled = |seed| {
        fault(&mut Brokered::<Streams, D>::new(Dice::new(seed)), seed, STEPS_OF_BROKERS).is_some()
    };
    assert!(SEEDS.into_iter().any(meddled), "the world did not notice");
}

#[test]
fn the_store_as_it_is_breaks_nothing() {
    for seed in 0..6 {
        let mut world = Brokered::<Streams, Honest>::new(Dice::new(seed));
        assert_eq!(fault(&mut world, seed, STEPS_OF_BROKERS), None);
    }
}

/// Two brokers hand out the same message.
#[test]
fn a_store_that_does_not_compare_versions() {
    #[derive(Debug)]
    struct Trusting;
    impl Meddle for Trusting {
        fn commit(mut steps: Vec<Step>, memory: &Memory) -> Vec<Step> {
            for step in &mut steps {
                if matches!(step.key, handoff_streams::Key::Position(..)) {
                    step.expected = memory.version(&step.key);
                }
            }
            steps
        }
    }
    brokers_notice::<Trusting>();
}

/// A partition is polled by one who has it no more.
#[test]
fn a_store_that_does_not_compare_who_is_in_a_group() {
    #[derive(Debug)]
    struct Blind;
    impl Meddle for Blind {
        fn commit(mut steps: Vec<Step>, _: &Memory) -> Vec<Step> {
            let members = |step: &Step| matches!(step.key, handoff_streams::Key::Members(_));
            steps.retain(|step| !members(step) || !step.changes.is_empty());
            steps
        }
    }
    brokers_notice::<Blind>();
}

#[test]
fn a_store_that_loses_a_lease() {
    #[derive(Debug)]
    struct Loses;
    impl Meddle for Loses {
        fn commit(mut steps: Vec<Step>, _: &Memory) -> Vec<Step> {
            for step in &mut steps {
                for change in &mut step.changes {
                    if let Change::Group(GroupChange::Moved(_, _, moves)) = change {
                        moves.retain(|one| !matches!(one, Move::Lease { .. }));
                    }
                }
            }
            steps
        }
    }
    brokers_notice::<Loses>();
}
