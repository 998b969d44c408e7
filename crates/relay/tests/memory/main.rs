//! What it takes of memory, counted by the allocator and not by the system.

#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "an allocator that counts can be written in no other way; a test fails by panicking"
)]

mod counting;
mod hostile;
mod series;
