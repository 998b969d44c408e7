//! The agent turned by hand, step by step: a disk that fails or is full, a destination that comes and
//! goes, a clock that is set.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking, and its name is its documentation; numbers are small"
)]

mod damage;
mod disk;
mod full;
mod outage;
mod world;
