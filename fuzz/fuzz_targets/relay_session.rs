//! Messages that are read are what their writer writes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::relay::session(data));
