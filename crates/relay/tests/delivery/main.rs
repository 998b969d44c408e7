//! Samples arrive at every destination once, whatever breaks on the way.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod chaos;
mod crashes;
mod destination;
mod exchange;
mod outages;
mod promises;
mod races;
mod sessions;
mod stopping;
mod wire;
mod world;
