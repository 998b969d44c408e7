//! The relay: samples from the edge, sharded, compressed, spooled, delivered once.
//!
//! ```text
//!  remote write ──▶ Batch ──Sharder──▶ DeliveryManagerKeeper
//!                                       │ the present block, and one that is leaving
//!                                       ▼
//!                                DeliveryManager ── one block ───────────────────────────────┐
//!                                │  Encoder ──▶ segment ──▶ Exchange ──get──▶ Sender ──────────┼──▶ Receiver
//!                                │     │ 1 a shard            │   ▲              1 a destination│      │ decoder
//!                                │  Trailing                  │   └── ack ───────────────────────┼──────┘ marks
//!                                │     └ snapshot ─▶ Spooling ◀ reject, window                  │      ▼
//!                                └────────────────────┼───────────────────────────────────────┘   samples,
//!                                                     ▼                                            each once
//!                              Refill ─ sealed ─▶ RefillSender ──────────────────────────────────▶ Receiver
//! ```
//!
//! * A healthy path does no disk IO. What a destination does not confirm within the window, or
//!   rejects, goes to a refill file, and its block is followed by another: new samples never wait
//!   behind a backlog.
//! * Inside (agent, block, shard) segments are delivered strictly in order, and taken once: the
//!   receiver's mark is the last one.
//! * Nothing here waits, asks a clock, throws dice or opens a socket. Machines are told what
//!   happened and answer with what is to be done; [`refill`] alone touches a disk, through the port
//!   of `handoff-log`.
//!
//! # The parts
//!
//! | name | what it does |
//! |---|---|
//! | [`remote_write`] | bodies of remote write become batches, and segments bodies |
//! | [`codec`] | batches become segments, and segments samples, bit for bit |
//! | [`Sharder`] | deals series out to shards |
//! | [`Exchange`] | segments that somebody still waits for |
//! | [`Promises`] | what was promised to whoever sent samples |
//! | [`DeliveryManager`] | one block on its way |
//! | [`DeliveryManagerKeeper`] | one block after the other, and the end |
//! | [`refill`] | files of what was not confirmed, and their books |
//! | [`Sender`], [`RefillSender`] | the agent's side of a conversation, live and from a file |
//! | [`Receiver`] | the other side |
//! | [`session`] | what they say, and its bytes |
//!
//! The formats are in `docs/relay-format.md`.

mod ack;
mod backoff;
mod batch;
pub mod codec;
mod delivery;
mod exchange;
mod keeper;
mod key;
mod labels;
mod promise;
mod receiver;
pub mod refill;
mod refill_sender;
pub mod remote_write;
mod sender;
pub mod session;
mod sharder;
mod wire;

pub use ack::{AckStatus, DESTINATIONS_MAX, DestinationId};
pub use backoff::{Backoff, BackoffRules};
pub use batch::{Batch, BatchLimits, Draft, OpaqueKind, Sample, Series, Unfit};
pub use delivery::{BadRules, DeliveryManager, DeliveryRules, SendError, Spooling};
pub use exchange::{Exchange, ExchangeLimits, Got, Left, PutError};
pub use keeper::{DeliveryManagerKeeper, Pledge};
pub use key::{
    BadName, BlockId, LAST_SEGMENT, NAME_BYTES_MAX, NO_SEGMENT, Name, Origin, SHARD_POWER_MAX,
    SegmentKey, ShardId, Shards,
};
pub use labels::Labels;
pub use promise::{Mode, Outcome, Promises, Settled, Ticket};
pub use receiver::{PaceRules, Pacer, Received, Receiver, ReceiverLimits};
pub use refill_sender::{RefillSender, Skipped, Step};
pub use sender::{Happened, Sender, SenderRules, Want};
pub use sharder::{Sharded, Sharder};
pub use wire::Malformed;
