//! The rules of the streams room, each by what a caller sees of it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bytes;
mod model;
mod placing;
mod producers;
mod room;
mod scheduling;
mod sequences;
mod topics;
