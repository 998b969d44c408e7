//! The benchmark of the relay runs through and prints every figure, of recorded scrapes too. What the
//! figures are is no test's business.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// The names of the figures. Programs rely on them; add, do not rename.
const MEMORY: [&str; 2] = ["series_bytes", "series_bytes_sudden"];
const CORPORA: [&str; 5] = ["counters", "decimals", "doubles", "mixed", "recorded"];

#[test]
fn every_figure_is_there_once() {
    let corpus = tempfile::tempdir().unwrap();
    for n in 0..5_u32 {
        let text =
            format!("# TYPE a counter\na_total{{cpu=\"0\"}} {}\nb 1.5\nb{{x=\"y\"}} NaN\n", n * 7);
        let name = format!("{}-node.prom", 1_700_000_000_000_u64 + u64::from(n) * 15_000);
        fs::write(corpus.path().join(name), text).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_handoff"))
        .args(["bench", "relay", "--quick", "--json", "--corpus"])
        .arg(corpus.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let keys: BTreeSet<String> =
        rows.iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys.len(), rows.len(), "each once");
    let mut expected = BTreeSet::from(MEMORY.map(str::to_owned));
    for corpus in CORPORA {
        for what in ["bytes", "bytes_by_v1", "bytes_by_v2", "bytes_by_v2_zstd"] {
            expected.insert(format!("{corpus}_{what}"));
        }
    }
    for corpus in ["mixed", "recorded"] {
        expected.insert(format!("{corpus}_encode_rate"));
        expected.insert(format!("{corpus}_decode_rate"));
    }
    assert_eq!(keys, expected);
    // Of so few series the system may see nothing.
    let is_memory = |row: &&Value| MEMORY.iter().any(|key| row["key"] == *key);
    for row in rows.iter().filter(|row| !is_memory(row)) {
        assert!(row["value"].as_f64().is_some_and(|value| value > 0.0), "{row}");
    }
}
