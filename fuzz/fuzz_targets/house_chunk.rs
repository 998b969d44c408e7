//! A chunk of the house that can be restored can be written and restored again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::rooms::house_chunk(data));
