//! Bodies of remote write are taken within the limits, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::relay::body(data));
