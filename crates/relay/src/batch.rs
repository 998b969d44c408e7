//! What comes in at once: series with their samples and whatever is carried as it is.

mod draft;

pub use draft::Draft;

use thiserror::Error;

use crate::labels::Labels;

/// Bounds of what one batch, and one segment made of it, may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// `relay.batch_bytes_max`: what a batch may take of memory.
    pub bytes_max: usize,
    /// `relay.labels_max`: labels of one series.
    pub labels_max: usize,
    /// `relay.label_name_bytes_max`.
    pub name_bytes_max: usize,
    /// `relay.label_value_bytes_max`.
    pub value_bytes_max: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            bytes_max: 32 << 20,
            labels_max: 320,
            name_bytes_max: 4_096,
            value_bytes_max: 65_536,
        }
    }
}

/// Why something does not go into a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    /// There would be more in it than one batch may hold: the whole batch is refused.
    #[error("the batch takes more than {bytes_max} bytes")]
    TooLarge {
        /// What was allowed.
        bytes_max: usize,
    },
    /// This series is not taken; others may be.
    #[error("a series {0}")]
    Series(&'static str),
}

/// What is carried without being looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpaqueKind {
    /// A native histogram: a protobuf `Histogram`, the same in both remote write protocols.
    Histogram,
    /// An exemplar: a protobuf `prometheus.Exemplar`, its labels spelled out.
    Exemplar,
    /// What is known of a series: a protobuf `prometheus.MetricMetadata` without a name.
    Metadata,
    /// What is known of a metric family: a protobuf `prometheus.MetricMetadata`. Of no series.
    Family,
    /// When the counter of a series began: a signed number, milliseconds.
    Start,
}

impl OpaqueKind {
    /// Its number in a segment.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Histogram => 1,
            Self::Exemplar => 2,
            Self::Metadata => 3,
            Self::Family => 4,
            Self::Start => 5,
        }
    }

    pub(crate) const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Histogram,
            2 => Self::Exemplar,
            3 => Self::Metadata,
            4 => Self::Family,
            5 => Self::Start,
            _ => return None,
        })
    }

    /// Whether it says the same until it says something else, so that only changes are sent.
    pub(crate) const fn lasts(self) -> bool {
        matches!(self, Self::Metadata | Self::Start)
    }
}

/// A sample. The value is its bits: no float is ever taken for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Milliseconds since the Unix epoch.
    pub time: i64,
    /// The bits of the value.
    pub bits: u64,
}

impl Sample {
    /// A sample of a value.
    #[must_use]
    pub const fn new(time: i64, value: f64) -> Self {
        Self { time, bits: value.to_bits() }
    }
}

#[derive(Clone, Copy, Debug)]
struct SeriesEnd {
    hash: u64,
    labels: u32,
    text: usize,
    sample: usize,
    opaque: usize,
}

#[derive(Clone, Copy, Debug)]
struct OpaqueEnd {
    kind: OpaqueKind,
    bytes: usize,
}

/// Series with their samples, in the order in which they came.
#[derive(Clone, Debug)]
pub struct Batch {
    limits: BatchLimits,
    text: Vec<u8>,
    series: Vec<SeriesEnd>,
    samples: Vec<Sample>,
    opaque: Vec<OpaqueEnd>,
    opaque_bytes: Vec<u8>,
    families: Vec<usize>,
    family_bytes: Vec<u8>,
}

/// A series of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    batch: &'a Batch,
    hash: u64,
    labels: Labels<'a>,
    labels_len: u32,
    samples: &'a [Sample],
    opaque: (usize, usize),
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(BatchLimits::default())
    }
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub const fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            text: Vec::new(),
            series: Vec::new(),
            samples: Vec::new(),
            opaque: Vec::new(),
            opaque_bytes: Vec::new(),
            families: Vec::new(),
            family_bytes: Vec::new(),
        }
    }

    /// Takes everything out and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.series.clear();
        self.samples.clear();
        self.opaque.clear();
        self.opaque_bytes.clear();
        self.families.clear();
        self.family_bytes.clear();
    }

    /// How many series are in it.
    #[must_use]
    pub const fn series_len(&self) -> usize {
        self.series.len()
    }

    /// How many samples are in it.
    #[must_use]
    pub const fn samples_len(&self) -> usize {
        self.samples.len()
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.series.is_empty() && self.families.is_empty()
    }

    /// What it holds, in bytes.
    #[must_use]
    pub const fn bytes_len(&self) -> usize {
        let fixed = size_of::<SeriesEnd>() * self.series.len()
            + size_of::<Sample>() * self.samples.len()
            + size_of::<OpaqueEnd>() * self.opaque.len()
            + size_of::<usize>() * self.families.len();
        fixed + self.text.len() + self.opaque_bytes.len() + self.family_bytes.len()
    }

    /// Appends a whole series.
    ///
    /// # Errors
    /// See [`Unfit`]; the batch is then as it was.
    pub fn push<'l>(
        &mut self,
        labels: impl IntoIterator<Item = (&'l [u8], &'l [u8])>,
        samples: &[Sample],
    ) -> Result<(), Unfit> {
        let mut draft = self.begin();
        for (name, value) in labels {
            draft.label(name, value)?;
        }
        for sample in samples {
            draft.sample(*sample)?;
        }
        draft.finish()
    }

    /// Begins a series. It is in the batch once it is finished.
    pub fn begin(&mut self) -> Draft<'_> {
        Draft::new(self)
    }

    /// Appends what is known of a metric family.
    ///
    /// # Errors
    /// [`Unfit::TooLarge`].
    pub fn push_family(&mut self, metadata: &[u8]) -> Result<(), Unfit> {
        self.room_for(metadata.len() + size_of::<usize>())?;
        self.family_bytes.extend_from_slice(metadata);
        self.families.push(self.family_bytes.len());
        Ok(())
    }

    /// What is known of metric families, piece by piece.
    pub fn families(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.families.iter().copied());
        starts.zip(&self.families).filter_map(|(from, to)| self.family_bytes.get(from..*to))
    }

    /// A series by its place.
    #[must_use]
    pub fn series(&self, at: usize) -> Option<Series<'_>> {
        let end = self.series.get(at)?;
        let begin = at.checked_sub(1).and_then(|before| self.series.get(before));
        let (text, sample, opaque) = begin.map_or((0, 0, 0), |b| (b.text, b.sample, b.opaque));
        Some(Series {
            batch: self,
            hash: end.hash,
            labels: Labels::of(self.text.get(text..end.text)?),
            labels_len: end.labels,
            samples: self.samples.get(sample..end.sample)?,
            opaque: (opaque, end.opaque),
        })
    }

    /// The hash of a series.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = u64> + '_ {
        self.series.iter().map(|series| series.hash)
    }

    const fn room_for(&self, more: usize) -> Result<(), Unfit> {
        let bytes_max = self.limits.bytes_max;
        if self.bytes_len().saturating_add(more) > bytes_max {
            Err(Unfit::TooLarge { bytes_max })
        } else {
            Ok(())
        }
    }
}

impl<'a> Series<'a> {
    /// Its labels.
    #[must_use]
    pub const fn labels(&self) -> Labels<'a> {
        self.labels
    }

    /// Its samples, in the order in which they came.
    #[must_use]
    pub const fn samples(&self) -> &'a [Sample] {
        self.samples
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    /// How many labels it has, and their bytes.
    pub(crate) const fn size(&self) -> (usize, usize) {
        (self.labels_len as usize, self.labels.bytes_len())
    }

    /// Whether it says nothing: no sample, and nothing is carried with it.
    pub(crate) const fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.opaque.0 == self.opaque.1
    }

    /// What is carried with it as it is.
    pub fn opaque(&self) -> impl Iterator<Item = (OpaqueKind, &'a [u8])> {
        let batch = self.batch;
        (self.opaque.0..self.opaque.1).filter_map(move |at| {
            let end = batch.opaque.get(at)?;
            let before = at.checked_sub(1).and_then(|before| batch.opaque.get(before));
            Some((end.kind, batch.opaque_bytes.get(before.map_or(0, |b| b.bytes)..end.bytes)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, BatchLimits, OpaqueKind, Sample, Unfit};

    #[test]
    fn a_series_that_is_refused_leaves_nothing_behind() {
        let mut batch = Batch::default();
        let one = [(&b"a"[..], &b"1"[..])];
        batch.push(one, &[Sample::new(1, 1.0)]).unwrap();
        let before = batch.bytes_len();
        let none: [(&[u8], &[u8]); 0] = [];
        assert_eq!(batch.push(none, &[]), Err(Unfit::Series("has no labels")));
        let mut draft = batch.begin();
        draft.label(b"b", b"2").unwrap();
        draft.opaque(OpaqueKind::Exemplar, b"xyz").unwrap();
        drop(draft);
        assert_eq!(batch.bytes_len(), before);
    }

    #[test]
    fn a_batch_is_never_larger_than_its_limit() {
        let limits = BatchLimits { bytes_max: 1_000, ..BatchLimits::default() };
        let mut batch = Batch::new(limits);
        let mut taken = 0;
        while batch.push([(&b"name"[..], &b"value"[..])], &[Sample::new(1, 1.0)]).is_ok() {
            taken += 1;
            assert!(batch.bytes_len() <= 1_000);
        }
        assert!(taken > 5);
        assert_eq!(batch.push_family(&[0; 900]), Err(Unfit::TooLarge { bytes_max: 1_000 }));
    }

    #[test]
    fn labels_out_of_order_are_put_into_order_and_doubled_ones_refused() {
        let mut batch = Batch::default();
        let mut draft = batch.begin();
        draft.label(b"b", b"2").unwrap();
        draft.label(b"a", b"1").unwrap();
        draft.put_in_order().unwrap();
        draft.finish().unwrap();
        let names: Vec<_> =
            batch.series(0).unwrap().labels().iter().map(|(name, _)| name).collect();
        assert_eq!(names, [b"a", b"b"]);
        let mut draft = batch.begin();
        draft.label(b"a", b"2").unwrap();
        draft.label(b"a", b"1").unwrap();
        assert_eq!(draft.put_in_order(), Err(Unfit::Series("has a label twice")));
    }
}
