//! The program as people meet it: words, exit codes, and what is left behind.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod calls;
mod configuration;
mod doctoring;
mod events;
mod exchange;
mod groups;
mod program;
mod serving;
mod streams;
mod tokens;
mod usage;
