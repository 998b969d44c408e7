//! The real binary and the consumers of its groups, killed and frozen at any moment under load: what
//! was acknowledged is processed or dead in every group, what counts counts once, what is stored with
//! a commit is there once. The long form is `scripts/torture groups`.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod disorder;
#[path = "../group_laws/world.rs"]
mod world;

use std::path::PathBuf;

use handoff_tests::groups::Hunt;
use handoff_tests::place::Place;
use handoff_tests::stalk::Hunts;

const CONSUMER: &str = env!("CARGO_BIN_EXE_consumer");

fn forty_kills(seed: u64) {
    let place = Place::temporary().expect("the temporary directory takes files");
    let mut hunt = Hunt::new(seed, PathBuf::from(CONSUMER), place.path());
    while hunt.bag().kills < 40 {
        hunt.life().unwrap_or_else(|found| panic!("{found}"));
    }
    hunt.finish().unwrap_or_else(|found| panic!("{found}"));
    let (bag, written, read) = (hunt.bag(), hunt.written(), hunt.read());
    eprintln!("seed {seed}: {bag:?}, {written:?}, {read:?}");
    assert!(written.acknowledged > 0 && read.ok > 0 && read.failed > 0, "{read:?}");
    assert!(read.again > 0 && read.retried > 0 && read.refused > 0, "{read:?}");
    assert!(read.unknown_there + read.unknown_missing > 0, "{read:?}");
    assert!(read.dead > 0 && read.copies > 0, "{read:?}");
}

#[test]
fn forty_kills_leave_every_message_processed_or_dead_and_counted_once() {
    forty_kills(1);
}

#[test]
fn another_forty_kills_leave_every_message_processed_or_dead_and_counted_once() {
    forty_kills(2);
}
