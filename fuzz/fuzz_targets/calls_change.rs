//! Bytes that are read as a change of the calls room are what it writes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::rooms::calls_change(data));
