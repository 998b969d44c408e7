//! A stream of octets becomes the same messages however it arrives.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::sevent::frames(data));
