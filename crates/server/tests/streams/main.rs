//! Streams through a real socket, on a directory of their own.

#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod committing;
mod consuming;
mod dying;
mod grouping;
#[path = "../http_client/mod.rs"]
mod http_client;
mod keeping;
mod members;
mod producing;
mod reading;
mod refusing;
mod scheduling;
mod seeing;
mod seeking;
mod shortcut;
mod tailing;
mod topics;
mod world;
