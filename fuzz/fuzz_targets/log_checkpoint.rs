//! A checkpoint after damage: whole, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::checkpoint::reader(data));
