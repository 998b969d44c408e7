//! Runs benchmarks.
fn main() {}
