//! The events room at work, with a clock that shows what it is told.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod catching_up;
mod checkpoints;
mod faults;
mod room;
mod sockets;
mod telling;
