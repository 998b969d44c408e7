//! The exchange through every crash: the points of the fault analysis by their names, and every sync
//! of a whole day on a disk that keeps any part of what was not synced.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod checker;
mod clients;
mod day;
mod faults;
mod office;
mod points;
mod states;
