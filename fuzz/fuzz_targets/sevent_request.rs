//! Any octets are a request, or are refused with their code.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| handoff_fuzz::sevent::request(data));
