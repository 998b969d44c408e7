//! Callers and workers against a server that says exactly what a test tells it to say.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod calling;
mod connecting;
#[path = "../http/peer.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod http;
mod looking;
mod peer;
mod working;
