//! The real agent between somebody who sends and centres on real sockets: what arrives, what is kept,
//! what is said, and what nobody can make it do.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod delivering;
mod outages;
mod refusing;
mod stopping;
mod tools;
mod world;
