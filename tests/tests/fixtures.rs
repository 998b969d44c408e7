//! Every data directory that was ever committed is opened by today's program, and what is found
//! must be what was found then.

use handoff_tests::fixture::{DATA, EXPECT, all, copy, findings};
use handoff_tests::place::Place;
use handoff_tests::workspace::{self, assert_faultless};
use std::collections::BTreeSet;
use std::fs;

/// What was committed with each format. A line here is never taken out.
const COMMITTED: &[(&str, &str)] = &[
    ("1/sound", "tail Marked"),
    ("1/torn-tail", "tail Torn"),
    ("1/zeroed-tail", "tail Zeroed"),
    ("1/flipped-record", "closed counter"),
    ("1/flipped-round-header", "goes on"),
    ("1/damaged-checkpoint", "refused log.room_damaged"),
    ("1/damaged-segment", "corrupt from"),
    ("1/lost-header", "refused data.unreadable"),
    ("2-from-the-future", "refused data.newer"),
];

#[test]
fn every_directory_that_was_ever_committed_opens_as_it_did() {
    let root = workspace::root().join("fixtures");
    let mut wrong = Vec::new();
    for fixture in all(&root).unwrap() {
        let place = Place::temporary().unwrap();
        let data = place.path().join(DATA);
        copy(&fixture.join(DATA), &data).unwrap();
        let expected = fs::read_to_string(fixture.join(EXPECT)).unwrap();
        let found = findings(&data);
        if found != expected {
            let path = fixture.display();
            wrong.push(format!("{path} should find\n{expected}\nand finds\n{found}"));
        }
    }
    assert_faultless(&wrong);
}

#[test]
fn no_directory_that_was_ever_committed_is_missing() {
    let root = workspace::root().join("fixtures");
    let found: BTreeSet<String> = all(&root)
        .unwrap()
        .iter()
        .map(|fixture| fixture.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
        .collect();
    for (name, must_find) in COMMITTED {
        assert!(found.contains(*name), "fixtures/{name} is gone; it stays for ever");
        let expected = fs::read_to_string(root.join(name).join(EXPECT)).unwrap();
        assert!(expected.contains(must_find), "fixtures/{name} is for '{must_find}':\n{expected}");
    }
}
