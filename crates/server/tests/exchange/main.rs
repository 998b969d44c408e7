//! The exchange through a real socket, on a directory of its own.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod activating;
mod cutting;
mod fetching;
#[path = "../http_client/mod.rs"]
mod http_client;
mod isolating;
mod listing;
mod posting;
mod processing;
mod refusing;
mod restarting;
mod shortcut;
mod whole;
mod world;
