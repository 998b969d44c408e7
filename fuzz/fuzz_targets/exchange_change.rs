//! Bytes that are read as a change of the exchange are what it writes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::rooms::exchange_change(data));
