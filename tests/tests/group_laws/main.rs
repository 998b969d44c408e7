//! The laws of groups on the real binary, through its socket: who owns what when members come, go,
//! die and freeze; what a delay and a slow consumer do to others.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod delaying;
mod freezing;
mod moving;
mod slowing;
mod world;
