//! HTTP with rooms behind it, through a real socket.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod bodies;
mod events;
#[path = "../http_client/mod.rs"]
mod http_client;
mod locks;
mod server;
mod streams;
mod world;
