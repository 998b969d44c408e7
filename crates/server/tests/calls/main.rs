//! Calls through a real socket, on a directory of their own.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod calling;
mod connecting;
#[path = "../http_client/mod.rs"]
mod http_client;
mod plain;
mod restarting;
mod scoping;
mod world;
