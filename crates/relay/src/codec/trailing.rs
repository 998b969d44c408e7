//! Where an agent can still make a key frame for.

use bytes::Bytes;

use super::container::{self, Chain, DecodeError, Kind};
use super::dictionary::{Extent, read_extents};
use super::tracks::Tracks;
use super::{Encoder, Workbench, key_frame, samples};
use crate::key::{BlockId, ShardId};
use crate::wire::Front;

/// A decoder that follows its encoder at a distance: it stands before the oldest segment that may
/// still have to be continued from. It has no dictionary of its own: the encoder's only grows, so
/// what was known here is a prefix of it.
#[derive(Debug)]
pub struct Trailing {
    chain: Chain,
    extent: Extent,
    tracks: Tracks,
}

impl Trailing {
    /// Before the first segment.
    #[must_use]
    pub fn new(block: BlockId, shard: ShardId) -> Self {
        Self {
            chain: Chain::new(block, shard),
            extent: Extent::default(),
            tracks: Tracks::default(),
        }
    }

    /// The segment it stands before.
    #[must_use]
    pub const fn next_segment(&self) -> u32 {
        self.chain.next
    }

    /// Goes behind a segment, which must be the next one.
    ///
    /// # Errors
    /// See [`DecodeError`]. After damage it can only catch up.
    pub fn skip(
        &mut self,
        bytes: &[u8],
        encoder: &Encoder,
        bench: &mut Workbench,
    ) -> Result<(), DecodeError> {
        let limits = encoder.limits();
        let opened = container::open(bytes, Kind::Segment, limits.segment_inside_bytes_max, bench)?;
        if opened.chain != self.chain {
            let (expected, found) = (self.chain.next, opened.chain.next);
            return Err(DecodeError::NeedKeyFrame { expected, found });
        }
        let mut front = Front(opened.inside);
        let (_, extent) = read_extents(&mut Front(front.sized()?))?;
        self.tracks.grow(extent.series as usize);
        samples::read(Front(front.sized()?), &mut self.tracks, limits.samples_max, None)?;
        self.extent = extent;
        self.chain = Chain { next: opened.chain.next + 1, before: opened.crc };
        Ok(())
    }

    /// Goes where the encoder stands: cheaper than decoding when nothing in between is wanted.
    pub fn catch_up(&mut self, encoder: &Encoder) {
        self.chain = encoder.chain();
        self.extent = encoder.said();
        self.tracks.copy(encoder.tracks());
    }

    /// What a decoder needs to continue with the segment this stands before.
    #[must_use]
    pub fn key_frame(&self, encoder: &Encoder, bench: &mut Workbench) -> Bytes {
        key_frame::write(encoder.dictionary(), self.extent, &self.tracks, self.chain, bench)
    }
}
