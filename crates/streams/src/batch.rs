//! Kafka record batches, version 2: what is stored of messages.
//!
//! ```text
//! batch   │ base offset i64 │ length i32 │ leader epoch i32 │ magic 2 │ CRC-32C u32 │ attributes i16 │
//!         │ last offset delta i32 │ base timestamp i64 │ max timestamp i64 │ producer id i64 │
//!         │ producer epoch i16 │ base sequence i32 │ records i32 │ record × records (compressed or not)
//! record  │ length │ attributes i8 │ timestamp delta │ offset delta │ key │ value │ headers
//! ```
//!
//! Numbers are big-endian, lengths in records are zigzag varints. The sum covers everything behind
//! itself, so that base offset and leader epoch may be changed without it.
//!
//! * The server gives messages their time, so batches made here say `LogAppendTime` (attribute bit
//!   3). The leader epoch is 0 everywhere: there is never another leader. Producer id, producer
//!   epoch and base sequence are -1, because a producer's sequence is the room's affair.
//! * Offsets of a batch are dense: a batch whose last offset delta is not its count minus one is
//!   refused. So are batches without records; both come only from compaction, which is not done here.
//! * Nothing here trusts a length: what is read is bounded by what is there, and what is
//!   decompressed by what the caller allows.

mod builder;
mod compress;
mod reader;
mod varint;

use bytes::Bytes;
use handoff_types::Wall;
use thiserror::Error;

use crate::{Compression, Header};

pub use builder::Builder;
pub use reader::{head, records};

/// Bytes before the first record.
pub const HEAD_BYTES: usize = 61;

/// Bytes that the length field does not count: the base offset and itself.
const UNCOUNTED_BYTES: usize = 12;

/// Bytes before what the sum covers.
const UNSUMMED_BYTES: usize = 21;

const MAGIC: u8 = 2;

/// The bits of the attributes that name the compression.
const COMPRESSION_BITS: u16 = 0b111;

/// Set if all records have the batch's largest timestamp, because the server gave it.
const LOG_APPEND_TIME: u16 = 0b1000;

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The offset of its first record.
    pub base: u64,
    /// Bytes of the whole batch, head included.
    pub bytes: usize,
    /// How many records.
    pub count: u32,
    /// How its records are compressed.
    pub compression: Compression,
    /// The timestamp of its first record.
    pub first: Wall,
    /// The largest timestamp.
    pub last: Wall,
}

/// A record read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its offset.
    pub offset: u64,
    /// Its timestamp.
    pub timestamp: Wall,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its payload; none is Kafka's null.
    pub payload: Option<Bytes>,
    /// Its headers. Kafka's null value reads as an empty one.
    pub headers: Vec<Header>,
}

/// Bytes that are no sound batch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not a sound record batch: {0}")]
pub struct BadBatch(pub String);

impl BadBatch {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A compression's number in the attributes.
const fn number(compression: Compression) -> u16 {
    match compression {
        Compression::None => 0,
        Compression::Gzip => 1,
        Compression::Snappy => 2,
        Compression::Lz4 => 3,
        Compression::Zstd => 4,
    }
}

/// The compression that has this number.
fn numbered(number: u16) -> Result<Compression, BadBatch> {
    match number {
        0 => Ok(Compression::None),
        1 => Ok(Compression::Gzip),
        2 => Ok(Compression::Snappy),
        3 => Ok(Compression::Lz4),
        4 => Ok(Compression::Zstd),
        _ => Err(BadBatch::new(format!("compression {number} is unknown"))),
    }
}
