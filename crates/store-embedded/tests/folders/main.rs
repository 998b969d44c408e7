//! The folders of the exchange, on every kind of disk.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod by_hand;
mod crashes;
mod filing;
mod locked;
mod on_disk;
mod troubles;
mod world;
