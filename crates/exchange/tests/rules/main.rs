//! The rules of the exchange, each by what a device, an ERP or an administrator sees of it.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod admin;
mod devices;
mod ends;
mod notices;
mod processes;
mod serving;
mod troubles;
mod world;
