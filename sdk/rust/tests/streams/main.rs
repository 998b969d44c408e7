//! Topics and messages against a server that says exactly what a test tells it to say.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod committing;
mod consuming;
mod failing;
mod groups;
mod pack;
#[path = "../http/peer.rs"]
#[allow(dead_code, reason = "the other suite uses the rest")]
mod peer;
mod producing;
mod reading;
mod requesting;
mod surviving;
mod tailing;
mod topics;
