//! The real binary, killed at any moment while a caller calls and a worker works: what was confirmed ends
//! once, what was taken is what the caller is told, and nothing that must not run twice does.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::calling::Hunt;
use handoff_tests::place::Place;
use handoff_tests::stalk::Hunts;

fn thirty_kills(seed: u64) {
    let place = Place::temporary().expect("the temporary directory takes files");
    let mut hunt = Hunt::new(seed, place.path());
    while hunt.bag().kills < 30 {
        hunt.life().unwrap_or_else(|found| panic!("{found}"));
    }
    hunt.finish().unwrap_or_else(|found| panic!("{found}"));
    let (bag, outcomes) = (hunt.bag(), hunt.outcomes());
    eprintln!("seed {seed}: {bag:?}, {outcomes:?}");
    assert!(outcomes.registered > 0 && outcomes.answered > 0, "{outcomes:?}");
    assert!(outcomes.again > 0, "{outcomes:?}");
}

#[test]
fn thirty_kills_end_every_call_once() {
    thirty_kills(1);
}

#[test]
fn another_thirty_kills_end_every_call_once() {
    thirty_kills(2);
}
