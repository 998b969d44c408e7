//! The whole server in this process, on free ports and a directory of its own, asked over sevent.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod client;
mod keeping;
mod letting_in;
mod reloading;
mod sessions;
mod starting;
mod stopping;
mod world;
