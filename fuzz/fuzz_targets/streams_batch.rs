//! Any bytes are a record batch, or are refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::streams::batch(data));
