//! Whatever is in a refill file, it opens, and what it gives was written into it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::relay::refill(data));
