//! The client of the HTTP API against a server that says exactly what a test tells it to say.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod connections;
mod contract;
mod peer;
mod refusals;
mod watching;
