//! Values that were read are written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::sevent::primitives(data));
