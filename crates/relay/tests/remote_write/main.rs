//! Bodies of remote write as others write them, and as we write them.

#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod independent;
mod reading;
mod whole_stream;
mod writing;
