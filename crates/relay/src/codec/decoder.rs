//! The reading side of a shard.

use super::container::{self, Chain, DecodeError, Kind, Opened};
use super::dictionary::Dictionary;
use super::tracks::Tracks;
use super::{CodecLimits, Workbench, key_frame, opaque, samples};
use crate::key::{BlockId, ShardId};
use crate::wire::{Front, Malformed};
use crate::{OpaqueKind, Sample};

/// The samples of one series that lie behind each other in [`Decoded::samples`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of the series. [`Decoder::labels`] says which it is.
    pub series: u32,
    /// How many.
    pub samples: u32,
}

/// What was in a segment. Kept from one to the next, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    pub(super) runs: Vec<Run>,
    pub(super) samples: Vec<Sample>,
    opaque: Vec<(OpaqueKind, Option<u32>, usize)>,
    opaque_bytes: Vec<u8>,
}

impl Decoded {
    /// Each series with its samples: series in the order of their numbers, samples in the order in
    /// which they came.
    pub fn series(&self) -> impl Iterator<Item = (u32, &[Sample])> {
        let mut rest = self.samples.as_slice();
        self.runs.iter().filter_map(move |run| {
            let (mine, behind) = rest.split_at_checked(run.samples as usize)?;
            rest = behind;
            Some((run.series, mine))
        })
    }

    /// All samples.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// What was carried as it is, with the number of its series.
    pub fn opaque(&self) -> impl Iterator<Item = (OpaqueKind, Option<u32>, &[u8])> {
        let starts = std::iter::once(0).chain(self.opaque.iter().map(|(_, _, end)| *end));
        starts.zip(&self.opaque).filter_map(|(from, (kind, series, to))| {
            Some((*kind, *series, self.opaque_bytes.get(from..*to)?))
        })
    }

    fn clear(&mut self) {
        self.runs.clear();
        self.samples.clear();
        self.opaque.clear();
        self.opaque_bytes.clear();
    }
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Its samples were given out.
    Given,
    /// It was decoded only to get behind it: it is not above the mark.
    Silent,
    /// It was decoded before and is not above the mark.
    Known,
}

/// Decodes one shard of a block.
#[derive(Debug)]
pub struct Decoder {
    limits: CodecLimits,
    chain: Chain,
    dictionary: Dictionary,
    tracks: Tracks,
    /// Whether it may go on: bytes that lied left it in no state that anybody meant.
    sound: bool,
}

impl Decoder {
    /// A decoder before the first segment.
    #[must_use]
    pub fn new(block: BlockId, shard: ShardId, limits: CodecLimits) -> Self {
        Self {
            limits,
            chain: Chain::new(block, shard),
            dictionary: Dictionary::default(),
            tracks: Tracks::default(),
            sound: true,
        }
    }

    /// A decoder where a key frame was made.
    ///
    /// # Errors
    /// The key frame is damaged, or beyond the limits.
    pub fn from_key_frame(
        bytes: &[u8],
        limits: CodecLimits,
        bench: &mut Workbench,
    ) -> Result<Self, DecodeError> {
        let (dictionary, tracks, chain) = key_frame::read(bytes, &limits, bench)?;
        Ok(Self { limits, chain, dictionary, tracks, sound: true })
    }

    /// The segment it could take. None once bytes lied to it: then only a key frame helps.
    #[must_use]
    pub const fn next_segment(&self) -> Option<u32> {
        if self.sound { Some(self.chain.next) } else { None }
    }

    /// The labels of a series.
    pub fn labels(&self, series: u32) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.dictionary.labels(series)
    }

    pub(crate) const fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Decodes a segment. What is not above `mark` is decoded and not given out.
    ///
    /// # Errors
    /// See [`DecodeError`]. Nothing is given out, and damage changes nothing.
    pub fn take(
        &mut self,
        bytes: &[u8],
        mark: Option<u32>,
        bench: &mut Workbench,
        out: &mut Decoded,
    ) -> Result<Taken, DecodeError> {
        out.clear();
        let max = self.limits.segment_inside_bytes_max;
        let opened = container::open(bytes, Kind::Segment, max, bench)?;
        let found = opened.chain.next;
        let marked = mark.is_some_and(|mark| found <= mark);
        if self.sound && found < self.chain.next && marked {
            return Ok(Taken::Known);
        }
        if !self.sound || opened.chain != self.chain {
            return Err(DecodeError::NeedKeyFrame { expected: self.chain.next, found });
        }
        match self.read(&opened, if marked { None } else { Some(&mut *out) }) {
            Ok(()) if marked => Ok(Taken::Silent),
            Ok(()) => Ok(Taken::Given),
            Err(malformed) => {
                out.clear();
                self.sound = false;
                Err(malformed.into())
            }
        }
    }

    fn read(
        &mut self,
        opened: &Opened<'_>,
        mut out: Option<&mut Decoded>,
    ) -> Result<(), Malformed> {
        let mut front = Front(opened.inside);
        let mut delta = Front(front.sized()?);
        self.dictionary.read(&mut delta, &self.limits)?;
        delta.end()?;
        let series = self.dictionary.extent().series;
        self.tracks.grow(series as usize);
        let samples = Front(front.sized()?);
        samples::read(samples, &mut self.tracks, self.limits.samples_max, out.as_deref_mut())?;
        opaque::read(front, series, |kind, series, bytes| {
            if let Some(out) = &mut out {
                out.opaque_bytes.extend_from_slice(bytes);
                out.opaque.push((kind, series, out.opaque_bytes.len()));
            }
        })?;
        self.chain = Chain { next: opened.chain.next.saturating_add(1), before: opened.crc };
        Ok(())
    }
}
