//! A lane after damage: what is served was written, what is missing is told.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::segments::reader(data));
