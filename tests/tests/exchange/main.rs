//! The exchange of the real binary where a test inside it would not do: on a disk that is full, behind a
//! folder that takes nothing, under SIGHUP, read line by line for secrets, and watched by the system for
//! what it asks of the disk.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod behind;
mod full_disk;
mod office;
mod reloading;
mod secrets;
mod watched;
