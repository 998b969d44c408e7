//! Bytes inside a key frame with a right checksum make a decoder that goes on, or none.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::relay::key_frame(data));
