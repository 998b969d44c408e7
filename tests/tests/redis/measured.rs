//! `bench calls` runs through, prints every figure, names who is missing and leaves nothing behind. What the
//! figures are is no test's business.

use std::fs;
use std::process::Command;

use handoff_tests::place::Place;
use handoff_tests::served::program;
use serde_json::Value;

/// The names of the figures that need nobody but Redis. Programs rely on them; add, do not rename.
const KEYS: &[&str] = &[
    "memory_p50",
    "memory_many",
    "disk_p50",
    "disk_many",
    "redis_p50",
    "redis_many",
    "redis_alone",
    "redis_ping_p50",
    "chain_p50",
    "memory_parked",
    "redis_parked",
    "bystanders",
];

#[test]
fn calls_are_measured_and_who_is_missing_is_named() {
    // On the disk that the build uses: a sync in memory means nothing.
    let place = Place::below(env!("CARGO_TARGET_TMPDIR").as_ref()).unwrap();
    let nobody = place.path().join("nobody");
    let mut bench = Command::new(program());
    bench.args(["bench", "calls", "--quick", "--json", "--dir"]).arg(place.path());
    let ran = bench.arg("--peers").arg(&nobody).output().unwrap();
    let talk = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{talk}");
    for peer in ["NATS", "BullMQ"] {
        assert!(talk.contains(peer), "nobody says that {peer} is missing: {talk}");
    }
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    for key in KEYS {
        let row = rows.iter().find(|row| row["key"] == *key);
        let row = row.unwrap_or_else(|| panic!("there is no figure {key}: {report}"));
        assert!(*key == "bystanders" || row["value"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "something is left");
}
