//! The rules of the events room, each by what a caller sees of it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod clocks;
mod model;
mod occurrences;
mod publishing;
mod registration;
mod room;
mod selection;
