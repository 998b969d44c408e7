//! A chunk of the calls room that is restored is written and restored again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::rooms::calls_chunk(data));
