//! Segments say all that went into them, bit for bit, and nothing else.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod corpus;
mod damage;
mod key_frames;
mod limits;
mod round_trips;
mod sizes;
mod world;
