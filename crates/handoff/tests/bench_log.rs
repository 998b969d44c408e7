//! The benchmark runs through, prints every figure and leaves nothing behind. What the figures
//! are is no test's business: a slow machine is not a broken one.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The names of the figures. Programs rely on them; add, do not rename.
const KEYS: &[&str] = &[
    "raw_sync_p50",
    "raw_sync_p99",
    "raw_sync_flushes",
    "callers_1_p50",
    "callers_1_above_raw",
    "callers_1_p99",
    "callers_1_rate",
    "callers_1_records_per_sync",
    "callers_1_flushes",
    "callers_16_rate",
    "callers_16_p50",
    "callers_16_p99",
    "callers_16_records_per_sync",
    "callers_16_flushes",
    "callers_256_rate",
    "callers_256_p50",
    "callers_256_p99",
    "callers_256_records_per_sync",
    "callers_256_flushes",
    "burst_rate",
    "sustained_1_lane",
    "sustained_1000_lanes",
    "small_flood_p50",
    "small_flood_p99",
    "small_checkpoint_p50",
    "small_checkpoint_p99",
    "recovery_cold_seconds",
    "recovery_cold_rate",
    "recovery_warm_seconds",
    "recovery_warm_rate",
    "recovery_entries",
    "bystanders",
];

/// An empty directory on the disk that the build uses.
fn empty_dir(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::create_dir_all(&dir).unwrap();
    dir
}

fn bench_log(dir: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["bench", "log", "--quick", "--dir"])
        .arg(dir)
        .args(more)
        .output()
        .unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    fs::read_dir(dir).unwrap().map(|entry| name(entry).into_string().unwrap()).collect()
}

#[test]
fn prints_every_figure_as_json_and_leaves_nothing_behind() {
    let dir = empty_dir("bench-json");
    let output = bench_log(&dir, &["--json"]);
    let talk = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(4) {
        // The build directory of this machine is in memory or nearly full, and it said so.
        assert!(talk.contains("--dir"), "{talk}");
        return;
    }
    assert!(output.status.success(), "{talk}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["bench"], "log");
    let rows = report["rows"].as_array().unwrap();
    let keys: Vec<&str> = rows.iter().filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(keys, KEYS);
    for row in rows {
        let key = row["key"].as_str().unwrap();
        let visible = row["value"].is_f64();
        assert!(
            visible || key.ends_with("_flushes") || key == "bystanders",
            "{key} has no value: {row}"
        );
        for field in ["name", "unit", "floor", "floor_name", "ratio", "goal", "met", "samples"] {
            assert!(row.get(field).is_some(), "{key} has no field {field}");
        }
    }
    assert_eq!(names(&dir), [] as [&str; 0]);
}

#[test]
fn refuses_a_filesystem_in_memory_with_words() {
    let memory = Path::new("/dev/shm");
    if !memory.is_dir() {
        return;
    }
    let output = bench_log(memory, &[]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{talk}");
    assert!(talk.contains("/dev/shm is on a filesystem in memory"), "{talk}");
    assert!(output.stdout.is_empty());
    assert!(!names(memory).iter().any(|name| name.starts_with("handoff-bench-")));
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let missing = empty_dir("bench-missing").join("nowhere");
    let output = bench_log(&missing, &[]);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{talk}");
    assert!(talk.contains("nowhere"), "{talk}");
}
