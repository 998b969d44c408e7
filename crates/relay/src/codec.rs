//! The codec: batches of samples become segments, and segments samples again, bit for bit.
//!
//! ```text
//!  Sharded ──add──▶ Encoder ──encode──▶ segment 0, 1, 2 … ──▶ Decoder ──▶ Decoded
//!                     │  tracks               │                  ▲
//!                     │  dictionary ◀─shares─ Trailing ──key frame┘
//! ```
//!
//! * A segment is made to follow the one before it: it says only what is new. [`Decoder::take`] gives
//!   out samples or says that it needs a key frame; it never gives out wrong ones.
//! * A key frame is all that a decoder knows between two segments. An [`Encoder`] can make one for
//!   where it stands, a [`Trailing`] for the oldest segment that may still be asked for.
//! * Every size a peer claims is compared with what it sent and with [`CodecLimits`] before room is
//!   made for it.
//!
//! The format is written down in `docs/relay-format.md`.

mod container;
mod decoder;
mod dictionary;
mod encoder;
mod index;
mod key_frame;
mod opaque;
mod packing;
mod runs;
mod samples;
mod track;
mod tracks;
mod trailing;
mod values;
mod workbench;

pub use container::{DecodeError, ENCODER_VERSION, HEAD_BYTES, segment_number};
pub use decoder::{Decoded, Decoder, Run, Taken};
pub use encoder::{AddError, Encoder, Segment};
pub use track::STALE;
pub use trailing::Trailing;
pub use workbench::Workbench;

use std::io;

use bytes::Bytes;

use crate::key::{BlockId, ShardId};

/// A key frame for the first segment of a shard: the decoder that knows nothing of it but its name.
/// Whoever gets a block under another name needs one.
///
/// # Errors
/// There is no memory for a compressor.
pub fn beginning(block: BlockId, shard: ShardId) -> io::Result<Bytes> {
    let encoder = Encoder::new(block, shard, CodecLimits::default());
    Ok(encoder.key_frame(&mut Workbench::new()?))
}

/// Bounds of what a block may know and a segment may hold. Both sides keep them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodecLimits {
    /// `relay.series_max`: series of one shard of a block.
    pub series_max: u32,
    /// `relay.symbol_bytes_max`: names and values of all labels of a shard, each counted once.
    pub symbol_bytes_max: usize,
    /// `relay.label_count_max`: labels of all series of a shard together.
    pub label_count_max: usize,
    /// `relay.labels_max`: labels of one series.
    pub labels_max: usize,
    /// `relay.segment_samples_max`: samples of one segment.
    pub samples_max: usize,
    /// `relay.segment_inside_bytes_max`: a segment, unpacked.
    pub segment_inside_bytes_max: usize,
    /// `relay.key_frame_inside_bytes_max`: a key frame, unpacked.
    pub key_frame_inside_bytes_max: usize,
}

impl Default for CodecLimits {
    fn default() -> Self {
        Self {
            series_max: 1 << 20,
            symbol_bytes_max: 32 << 20,
            label_count_max: 8 << 20,
            labels_max: 320,
            samples_max: 1 << 20,
            segment_inside_bytes_max: 64 << 20,
            key_frame_inside_bytes_max: 128 << 20,
        }
    }
}

impl CodecLimits {
    /// The most bytes a segment or a key frame can have.
    #[must_use]
    pub const fn frame_bytes_max(&self) -> usize {
        let inside = if self.segment_inside_bytes_max > self.key_frame_inside_bytes_max {
            self.segment_inside_bytes_max
        } else {
            self.key_frame_inside_bytes_max
        };
        HEAD_BYTES + inside
    }
}
