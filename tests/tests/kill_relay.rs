//! The real agent, killed at any moment while somebody sends and two centres come and go: what was
//! acknowledged arrives at both, and nothing arrives twice.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::place::Place;
use handoff_tests::relay::Hunt;

fn thirty_kills(seed: u64) {
    let place = Place::temporary().expect("the temporary directory takes files");
    let mut hunt = Hunt::new(seed, place.path()).unwrap();
    while hunt.outcomes().kills < 30 {
        hunt.life().unwrap_or_else(|found| panic!("{found}"));
    }
    hunt.finish().unwrap_or_else(|found| panic!("{found}"));
    let outcomes = hunt.outcomes();
    eprintln!("seed {seed}: {outcomes:?}");
    assert!(outcomes.acknowledged > 500 && outcomes.found_files > 5, "{outcomes:?}");
}

#[test]
fn thirty_kills_lose_nothing_that_was_acknowledged_and_double_nothing() {
    thirty_kills(1);
}

#[test]
fn another_thirty_kills_lose_nothing_that_was_acknowledged_and_double_nothing() {
    thirty_kills(2);
}

/// The ledger must be able to object: samples that are acknowledged in memory are lost with it.
#[test]
fn an_agent_that_promises_less_is_found_out() {
    let place = Place::temporary().unwrap();
    let mut hunt = Hunt::promising("memory", 3, place.path()).unwrap();
    while hunt.outcomes().kills < 10 {
        hunt.life().unwrap_or_else(|found| panic!("{found}"));
    }
    let found = hunt.finish().expect_err("ten kills lose nothing that was only in memory");
    assert!(found.to_string().contains("is missing"), "{found}");
}
