//! Calls on a real Redis server: what every transport promises, peers in the layouts of others, the
//! guardian, and what goes wrong with a server, a connection or a peer.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod calling;
mod cut;
mod foreign;
mod guarding;
mod killed;
mod port;

use handoff_tests::storm::{Begun, answer, channel, client, echo, must, runtime};
