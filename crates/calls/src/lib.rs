//! Calls: requests and answers that survive broken connections on either side.
//!
//! ```text
//!  caller                            the room                          consumer
//!    │ request ─────────────────────▶ registered, offered ── b offer ──▶ │
//!    │ ◀── c registered                                                  │
//!    │                     running ◀──────────── request_ack (fence) ─── │
//!    │                               d held ────────────────────────────▶│ handler runs,
//!    │                               ◀───────────────── heartbeat ────── │ heartbeats
//!    │ ◀── e ended ────────── over ◀──────────── response (fence) ────── │
//!    │ response_ack ───▶ f           g taken ───────────────────────────▶│
//! ```
//!
//! Every step is confirmed to whoever took it, and is taken again until it is; taken twice, it counts
//! once. A call that was registered ends in exactly one of answer, error, timeout and cancelled. An
//! offer has a fencing token, and a result under an old one is refused. A channel that nobody serves
//! is in nobody's way.

mod call;
mod change;
mod client;
mod codec;
mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
mod decide;
mod evolve;
mod fences;
mod key;
mod names;
mod notice;
mod outcome;
mod reply;
mod settings;
mod state;
pub mod transport;
pub mod wire;

pub use call::{Call, Ended, Event, Happened, Stage, digest};
pub use change::{Aggregate, Change, Keep, written};
pub use client::{Client, Serves, Standing};
pub use codec::{Undecodable, decode_aggregate, decode_change, encode_aggregate, encode_change};
pub use command::{Ask, Command, Failing, NewCall, Rules};
pub use decide::{Calls, DUE_AT_ONCE, FOLLOWERS_MAX};
pub use key::Key;
pub use names::{BadName, CallId, ChannelName, ClientId, ID_LENGTH, IdempotencyKey, TraceParent};
pub use notice::{Notice, Offer};
pub use outcome::{Failure, HandlerError, Outcome, TimedOut};
pub use reply::{Late, Refusal, Reply};
pub use settings::{ChannelSettings, Durability, OnLost, WithoutConsumer};
pub use state::{Counts, State};
