//! Lanes of a room: read from beside it, moved by somebody else, trimmed, removed, damaged.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod beside;
mod damage;
mod flood;
mod lines;
mod many;
mod moving;
mod reading;
mod removing;
mod server;
