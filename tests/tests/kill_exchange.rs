//! The real binary, killed at any moment while devices send and two ERPs work: what was acknowledged is
//! processed once, replies are those of committed transactions, an ERP that reports leaves nothing
//! undecided, and folders show what is true. The long form is `scripts/torture exchange`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use handoff_tests::mailbox::Hunt;
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
    assert!(outcomes.stored > 0 && outcomes.lost > 0, "{outcomes:?}");
    assert!(outcomes.committed > 0 && outcomes.rolled_back > 0, "{outcomes:?}");
    assert!(outcomes.replies > 0, "{outcomes:?}");
}

#[test]
fn thirty_kills_lose_no_message_and_process_none_twice() {
    thirty_kills(1);
}

#[test]
fn another_thirty_kills_lose_no_message_and_process_none_twice() {
    thirty_kills(2);
}
