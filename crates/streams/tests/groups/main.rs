//! The rules of consumer groups, each by what a member or an operator sees of it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod committing;
mod members;
mod model;
mod polling;
mod seed;
mod seeking;
mod world;
