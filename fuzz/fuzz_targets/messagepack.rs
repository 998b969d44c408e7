//! Any bytes are MessagePack, or are refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::messagepack::body(data));
