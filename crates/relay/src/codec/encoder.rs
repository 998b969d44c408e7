//! The writing side of a shard.

use bytes::Bytes;
use thiserror::Error;

use super::container::{self, Chain, Kind};
use super::dictionary::{Dictionary, Extent};
use super::index::Index;
use super::opaque::Waiting;
use super::samples::{self, Row};
use super::tracks::Tracks;
use super::{CodecLimits, Workbench, key_frame};
use crate::key::{BlockId, LAST_SEGMENT, SegmentKey, ShardId};
use crate::sharder::Sharded;
use crate::{OpaqueKind, wire};

/// The most bytes a sample takes before it is packed: its control, eight of its value and one
/// more, ten of its time, twenty of its series.
const SAMPLE_BYTES_MAX: usize = 40;

/// The most bytes of a number that names a symbol.
const LABEL_BYTES_MAX: usize = 5;

/// The most bytes a series takes in a key frame beside its labels: eight of its bits, ten each of
/// time and drift, five each of step and name set, one of its scale.
const KEY_FRAME_SERIES_BYTES_MAX: usize = 39;

/// Bytes around the columns.
const AROUND_BYTES_MAX: usize = 256;

/// An encoded piece of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its name in the block.
    pub key: SegmentKey,
    /// Its bytes, as they are sent and spooled.
    pub bytes: Bytes,
    /// How many samples are in it.
    pub samples: u32,
}

/// Why samples do not go in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddError {
    /// They do not fit beside what waits already: encode that, then add them again.
    #[error("the segment is full")]
    SegmentFull,
    /// The block knows as many series as it may: begin another.
    #[error("the block is full")]
    BlockFull,
    /// They would not fit into an empty segment of a new block either.
    #[error("the batch does not fit into one segment")]
    TooLarge,
}

/// Encodes one shard of a block. Samples wait in it until [`Encoder::encode`] closes a segment.
#[derive(Debug)]
pub struct Encoder {
    shard: ShardId,
    limits: CodecLimits,
    chain: Chain,
    dictionary: Dictionary,
    index: Index,
    tracks: Tracks,
    said: Extent,
    rows: Vec<Row>,
    opaque: Waiting,
    waiting_bytes: usize,
}

/// What a part of a batch would take.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    series: u32,
    samples: usize,
    labels: usize,
    text: usize,
    opaque: usize,
}

impl Encoder {
    /// An encoder that has said nothing yet.
    #[must_use]
    pub fn new(block: BlockId, shard: ShardId, limits: CodecLimits) -> Self {
        Self {
            shard,
            limits,
            chain: Chain::new(block, shard),
            dictionary: Dictionary::default(),
            index: Index::default(),
            tracks: Tracks::default(),
            said: Extent::default(),
            rows: Vec::new(),
            opaque: Waiting::default(),
            waiting_bytes: 0,
        }
    }

    /// The number of the last segment.
    #[must_use]
    pub const fn last_encoded(&self) -> Option<u32> {
        self.chain.next.checked_sub(1)
    }

    /// The number of the next segment.
    #[must_use]
    pub const fn next_segment(&self) -> u32 {
        self.chain.next
    }

    /// Samples that wait for their segment.
    #[must_use]
    pub const fn waiting_samples(&self) -> usize {
        self.rows.len()
    }

    /// About how many bytes wait, not packed.
    #[must_use]
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes
    }

    /// Series it knows.
    #[must_use]
    pub fn series_len(&self) -> u32 {
        self.dictionary.extent().series
    }

    /// Whether nothing waits.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.rows.is_empty() && self.opaque.is_empty()
    }

    pub(super) const fn chain(&self) -> Chain {
        self.chain
    }

    pub(super) const fn said(&self) -> Extent {
        self.said
    }

    pub(super) const fn tracks(&self) -> &Tracks {
        &self.tracks
    }

    pub(super) const fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    pub(super) const fn limits(&self) -> &CodecLimits {
        &self.limits
    }

    /// Whether this shard's part of a batch would be taken.
    ///
    /// # Errors
    /// See [`AddError`].
    pub fn check(&self, sharded: &Sharded<'_>) -> Result<(), AddError> {
        self.check_need(&self.need(sharded))
    }

    fn check_need(&self, need: &Need) -> Result<(), AddError> {
        let limits = &self.limits;
        let bytes = need.bytes();
        if need.samples > limits.samples_max || bytes > limits.segment_inside_bytes_max {
            return Err(AddError::TooLarge);
        }
        let known = self.dictionary.extent();
        let series = known.series.saturating_add(need.series);
        let symbol_bytes = self.dictionary.symbol_bytes() + need.text;
        let labels = self.dictionary.label_count() + need.labels;
        let key_frame = symbol_bytes
            + LABEL_BYTES_MAX * labels
            + KEY_FRAME_SERIES_BYTES_MAX * series as usize
            + AROUND_BYTES_MAX;
        let full = self.chain.next >= LAST_SEGMENT
            || series > limits.series_max
            || symbol_bytes > limits.symbol_bytes_max
            || labels > limits.label_count_max
            || key_frame > limits.key_frame_inside_bytes_max;
        if full {
            let empty = known == Extent::default() && self.chain.next == 0;
            return Err(if empty { AddError::TooLarge } else { AddError::BlockFull });
        }
        let samples = self.rows.len() + need.samples;
        if samples > limits.samples_max
            || self.waiting_bytes + bytes > limits.segment_inside_bytes_max
        {
            return Err(AddError::SegmentFull);
        }
        Ok(())
    }

    /// Takes this shard's part of a batch; all of it or nothing.
    ///
    /// # Errors
    /// See [`AddError`].
    pub fn add(&mut self, sharded: &Sharded<'_>) -> Result<(), AddError> {
        let need = self.need(sharded);
        self.check_need(&need)?;
        self.waiting_bytes += need.bytes();
        for series in sharded.series_of(self.shard) {
            if series.is_empty() {
                continue;
            }
            let (hash, labels) = (series.hash(), series.labels());
            let known = self.index.series(&self.dictionary, hash, labels);
            let number =
                known.unwrap_or_else(|| self.index.add(&mut self.dictionary, hash, labels));
            for sample in series.samples() {
                self.rows.push(Row { series: number, time: sample.time, bits: sample.bits });
            }
            for (kind, bytes) in series.opaque() {
                self.opaque.push(kind, Some(number), bytes);
            }
        }
        for family in sharded.families_of(self.shard) {
            self.opaque.push(OpaqueKind::Family, None, family);
        }
        Ok(())
    }

    /// Closes a segment over all that waits. None if nothing does.
    pub fn encode(&mut self, bench: &mut Workbench) -> Option<Segment> {
        if self.is_idle() {
            return None;
        }
        let known = self.dictionary.extent();
        self.tracks.grow(known.series as usize);
        // Stable: the samples of one series stay in the order in which they came.
        self.rows.sort_by_key(|row| row.series);
        bench.inside.clear();
        bench.packed.clear();
        self.dictionary.write(self.said, known, &mut bench.packed);
        wire::put_bytes(&mut bench.inside, &bench.packed);
        bench.packed.clear();
        samples::write(&self.rows, &mut self.tracks, &mut bench.columns, &mut bench.packed);
        wire::put_bytes(&mut bench.inside, &bench.packed);
        self.opaque.write(&mut bench.inside);
        debug_assert!(bench.inside.len() <= self.limits.segment_inside_bytes_max);
        let bytes = container::close(Kind::Segment, self.chain, bench);
        let key = SegmentKey { shard: self.shard, segment: self.chain.next };
        let samples = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        self.chain = Chain { next: self.chain.next + 1, before: container::crc_of(&bytes) };
        self.said = known;
        self.rows.clear();
        self.waiting_bytes = 0;
        Some(Segment { key, bytes, samples })
    }

    /// What a decoder needs to continue with the next segment.
    #[must_use]
    pub fn key_frame(&self, bench: &mut Workbench) -> Bytes {
        key_frame::write(&self.dictionary, self.said, self.tracks(), self.chain, bench)
    }

    fn need(&self, sharded: &Sharded<'_>) -> Need {
        let mut need = Need::default();
        for series in sharded.series_of(self.shard) {
            need.series = need.series.saturating_add(1);
            need.samples += series.samples().len();
            let (labels, text) = series.size();
            need.labels += 2 * labels + 1;
            need.text += text;
            need.opaque += series.opaque().map(|(_, bytes)| bytes.len() + 16).sum::<usize>();
        }
        need.opaque += sharded.families_of(self.shard).map(|bytes| bytes.len() + 16).sum::<usize>();
        need
    }
}

impl Need {
    const fn bytes(&self) -> usize {
        let dictionary = self.text + LABEL_BYTES_MAX * self.labels + 15 * self.series as usize;
        dictionary + self.opaque + self.samples * SAMPLE_BYTES_MAX + AROUND_BYTES_MAX
    }
}
