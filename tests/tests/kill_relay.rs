//! The real agent, killed at any moment while somebody sends and two centres come and go: what was
//! acknowledged arrives at both, and nothing arrives twice. The same with the real server behind it, which
//! is killed too: its topic is compared sample by sample. And with a program that keeps samples behind the
//! server, which is killed as well: its ledger is compared segment by segment.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use std::path::Path;

use handoff_tests::place::Place;
use handoff_tests::relay::{Chase, Hunt};

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

fn kills_of_both(seed: u64, rounds: u64) {
    let place = Place::temporary().unwrap();
    let mut chase = Chase::new(seed, place.path()).unwrap();
    for _ in 0..rounds {
        chase.round().unwrap_or_else(|found| panic!("{found}"));
    }
    chase.finish().unwrap_or_else(|found| panic!("{found}"));
    let (outcomes, servers) = chase.outcomes();
    eprintln!("seed {seed}: {servers} servers killed, {outcomes:?}");
    assert!(outcomes.acknowledged > 300 && outcomes.kills > 5 && servers > 5, "{outcomes:?}");
}

#[test]
fn kills_of_agent_and_server_leave_each_sample_in_the_topic_once() {
    kills_of_both(11, 30);
}

#[test]
fn other_kills_of_agent_and_server_leave_each_sample_in_the_topic_once() {
    kills_of_both(12, 30);
}

fn kills_of_all(seed: u64, is_forgetful: bool) {
    let place = Place::temporary().unwrap();
    let keeper = Path::new(env!("CARGO_BIN_EXE_keeper"));
    let mut chase = Chase::keeping(keeper, is_forgetful, seed, place.path()).unwrap();
    for _ in 0..30 {
        chase.round().unwrap_or_else(|found| panic!("{found}"));
    }
    let again = chase.finish().unwrap_or_else(|found| panic!("{found}"));
    let ((outcomes, servers), keepers) = (chase.outcomes(), chase.keepers());
    eprintln!(
        "seed {seed}: {servers} servers and {keepers} programs killed, {again} again, {outcomes:?}"
    );
    assert!(outcomes.acknowledged > 100 && outcomes.kills > 5 && servers > 5, "{outcomes:?}");
    assert!(keepers > 5, "{keepers}");
}

#[test]
fn kills_of_agent_server_and_the_program_that_keeps_samples_leave_each_segment_in_its_ledger_once()
{
    kills_of_all(21, false);
}

/// What it is handed again has the same id and is the same, so that whoever looks at ids has each once.
#[test]
fn a_program_that_keeps_no_marks_is_handed_nothing_twice_but_by_the_same_id() {
    kills_of_all(22, true);
}

/// The ledger must be able to object here too.
#[test]
fn an_agent_that_promises_less_is_found_out_in_the_topic() {
    let place = Place::temporary().unwrap();
    let mut chase = Chase::promising("memory", 13, place.path()).unwrap();
    while chase.outcomes().0.kills < 12 {
        chase.round().unwrap_or_else(|found| panic!("{found}"));
    }
    let found = chase.finish().expect_err("twelve kills lose nothing that was only in memory");
    assert!(found.to_string().contains("is missing"), "{found}");
}
