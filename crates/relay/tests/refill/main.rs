//! What was put into a refill file is there after everything that may happen to a disk.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod crashes;
mod damage;
mod files;
mod layout;
mod starting;
mod world;
