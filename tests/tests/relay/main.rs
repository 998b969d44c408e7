//! The real agent between somebody who sends and centres on real sockets: what arrives, what is kept,
//! what is said, and what nobody can make it do.
//!
//! What an agent of this kind is asked for, and where it is shown (`relay/` is `crates/relay/tests`, `agent/`
//! is `crates/relay-agent/tests/by_hand`):
//!
//! | | |
//! |---|---|
//! | 1 lossless, any split into segments | `relay/codec/round_trips.rs` |
//! | 2 size | `relay/codec/sizes.rs`, `relay/remote_write/whole_stream.rs`; all figures in `handoff bench relay` |
//! | 3 speed, memory of a series | `handoff bench relay`; `relay/memory/series.rs` |
//! | 4 a decoder begins at any key frame and nowhere else | `relay/codec/key_frames.rs` |
//! | 5 lost confirmations | `relay/delivery/sessions.rs`, `delivering::confirmations_…`, `sim/src/relay` |
//! | 6 cut after every byte, twenty segments, both directions | `relay/delivery/sessions.rs`; on sockets `delivering::conversations_cut_…` |
//! | 7 killed under load | `tests/tests/kill_relay.rs`, `scripts/torture relay` |
//! | 9 a spool damaged at every byte and bit | `relay/refill/damage.rs`, `relay/refill/crashes.rs`; an agent on it `agent/damage.rs` |
//! | 10 one destination of two gone for hours | `relay/delivery/outages.rs`, `agent/outage.rs` (bytes written by bytes encoded), `outages::one_dead_centre_…` |
//! | 11 caps by bytes and age; a full disk | `agent/full.rs`, `agent/disk.rs`, `disk`, `refusing::a_full_agent_…` |
//! | 12 a confirmation meets a reject and the write of it | `relay/delivery/races.rs`, ten thousand orders; `sim/src/relay` |
//! | 13 rotation under load | `rotating`, `relay/delivery/stopping.rs::a_hundred_rotations_…`, `sim/src/relay` |
//! | 14 stopping before a destination that hangs | `relay/delivery/stopping.rs`, `stopping` |
//! | 15 other shards, other destinations, another version | `changes`, `relay/refill/starting.rs`, `sim/src/relay` |
//! | 16 hostile bodies and peers | `relay/memory/hostile.rs` (counted), `refusing::hostile_bodies_…`, `hostile`, `relay/delivery/wire.rs`, `relay/codec/limits.rs`, `scripts/fuzz` |
//! | 18 a refill that fails says so, and its file stays | `tools::a_replay_that_fails_…`, `outages::what_a_centre_will_never_take_…`, `relay/delivery/sessions.rs` |
//! | numbers that no two processes give | `copies`, `sim/src/relay` |
//! | 8 the server killed likewise | `tests/tests/kill_relay.rs`, `scripts/torture relay` |
//! | 17 remote write as others speak it | `refusing`, `tests/tests/prometheus.rs` |
//! | 19 a herd | `sim/tests/relay_herd.rs`, `scripts/torture herd` |
//! | 20 a receiver without its state | `receiving::a_receiver_…` |
//!
//! Where the receiver puts samples is in `sinks`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking, and its name is its documentation"
)]

mod changes;
mod copies;
mod delivering;
mod disk;
mod hostile;
mod outages;
mod receiving;
mod refusing;
mod rotating;
mod scene;
mod sinks;
mod stopping;
mod tls;
mod tools;
mod world;
