//! The protocol octet by octet. Every golden message here was written by hand from the protocol's
//! page (`docs/sevent.md`), none by the encoder.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod answers;
mod chunks;
mod frames;
mod malformed;
mod page;
mod primitives;
mod requests;
mod round_trips;
mod support;
