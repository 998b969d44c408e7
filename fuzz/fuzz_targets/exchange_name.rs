//! A text that is the name of a message's file is written the same.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::rooms::exchange_name(data));
