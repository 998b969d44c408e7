//! The real binary, killed at any moment under load: every answered message is there once at its
//! offset, what was read stays, what was repeated is not doubled. The long form is
//! `scripts/torture streams`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::letters::Hunt;
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
    assert!(outcomes.acknowledged > 0 && outcomes.refused > 0, "{outcomes:?}");
    assert!(outcomes.unknown_there + outcomes.unknown_missing > 0, "{outcomes:?}");
    assert!(outcomes.duplicates > 0 && outcomes.delivered > 0, "{outcomes:?}");
}

#[test]
fn thirty_kills_lose_no_message_double_none_and_move_none() {
    thirty_kills(1);
}

#[test]
fn another_thirty_kills_lose_no_message_double_none_and_move_none() {
    thirty_kills(2);
}
