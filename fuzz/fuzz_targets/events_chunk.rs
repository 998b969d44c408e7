//! A chunk of the events room that can be restored can be written and restored again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::rooms::events_chunk(data));
