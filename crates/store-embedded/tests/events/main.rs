//! The events room on embedded storage: its bytes, and that a checkpoint taken piece by piece,
//! while the room goes on, comes back as the room was.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod checkpoints;
mod codec;
mod samples;
