//! The relay: samples from the edge, sharded, compressed, spooled, delivered once.

mod ack;
mod batch;
pub mod codec;
mod key;
mod labels;
pub mod refill;
mod sharder;
mod wire;

pub use ack::{AckStatus, DESTINATIONS_MAX, DestinationId};
pub use batch::{Batch, BatchLimits, Draft, OpaqueKind, Sample, Series, Unfit};
pub use key::{
    BadName, BlockId, LAST_SEGMENT, NAME_BYTES_MAX, NO_SEGMENT, Name, Origin, SHARD_POWER_MAX,
    SegmentKey, ShardId, Shards,
};
pub use labels::Labels;
pub use sharder::{Sharded, Sharder};
pub use wire::Malformed;
