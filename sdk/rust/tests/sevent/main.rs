//! A sevent session against a server that says exactly what a test tells it to say.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod answers;
mod endings;
mod notifications;
mod peer;
