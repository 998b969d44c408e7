//! A room on embedded storage, with the smallest machine that has state, bulk data and more than
//! one key.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bulk;
mod checkpoints;
mod server;
mod tally;
