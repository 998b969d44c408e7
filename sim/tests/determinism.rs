//! The simulator is itself held to its promise: a seed is one history.
//!
//! A simulator that is not deterministic finds a bug once and never again.

use std::collections::BTreeSet;
use std::ops::Range;

use handoff_sim::driver::END;
use handoff_sim::history::{History, Keep};
use handoff_sim::scenario::{Scenario, run};

/// A world with bodies to read over and over costs more.
fn seeds(scenario: Scenario) -> Range<u64> {
    match scenario {
        Scenario::Streams | Scenario::StreamsBrokers => 1000..1004,
        Scenario::Groups => 1000..1002,
        Scenario::GroupsBrokers => 1000..1004,
        Scenario::Exchange => 1000..1003,
        _ => 1000..1030,
    }
}

fn history(scenario: Scenario, seed: u64) -> History {
    run(scenario, seed, scenario.steps(), Keep::All).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_seed_run_twice_gives_the_same_history_line_for_line() {
    for scenario in Scenario::ALL {
        for seed in seeds(scenario) {
            let (once, twice) = (history(scenario, seed), history(scenario, seed));
            let first_difference = once.lines().zip(twice.lines()).find(|(one, two)| one != two);
            assert_eq!(first_difference, None, "seed {seed} of {}", scenario.name());
            assert_eq!(once.hash(), twice.hash(), "seed {seed} of {}", scenario.name());
            assert_eq!(once.census(), twice.census(), "seed {seed} of {}", scenario.name());
        }
    }
}

#[test]
fn different_seeds_give_different_histories() {
    for scenario in Scenario::ALL {
        let hashes: BTreeSet<u64> =
            seeds(scenario).map(|seed| history(scenario, seed).hash()).collect();
        assert_eq!(hashes.len(), seeds(scenario).count(), "{}", scenario.name());
    }
}

#[test]
fn a_longer_run_begins_as_the_shorter_one_did() {
    for scenario in Scenario::ALL {
        let steps = scenario.steps() / 2;
        let short = run(scenario, 1000, steps, Keep::All).unwrap_or_else(|f| panic!("{f}"));
        let long = history(scenario, 1000);
        let common = short.lines().zip(long.lines()).take_while(|(one, two)| one == two).count();
        let before_end = short.lines().position(|line| line == END);
        assert_eq!(Some(common), before_end, "lines of {} in common", scenario.name());
    }
}
