//! Bytes inside a segment with a right checksum are decoded within the limits, or refused.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::relay::segment(data));
