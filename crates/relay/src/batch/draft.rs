//! A series on its way into a batch.

use super::{Batch, OpaqueEnd, OpaqueKind, Sample, SeriesEnd, Unfit};
use crate::labels::{Labels, push_label};

/// A series that is being written. Dropped before it is finished, it leaves nothing behind.
#[derive(Debug)]
pub struct Draft<'a> {
    batch: &'a mut Batch,
    text: usize,
    samples: usize,
    opaque: usize,
    opaque_bytes: usize,
    labels: usize,
    finished: bool,
}

impl<'a> Draft<'a> {
    pub(super) const fn new(batch: &'a mut Batch) -> Self {
        Self {
            text: batch.text.len(),
            samples: batch.samples.len(),
            opaque: batch.opaque.len(),
            opaque_bytes: batch.opaque_bytes.len(),
            labels: 0,
            finished: false,
            batch,
        }
    }

    /// Appends a label.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn label(&mut self, name: &[u8], value: &[u8]) -> Result<(), Unfit> {
        let limits = &self.batch.limits;
        if self.labels >= limits.labels_max {
            return Err(Unfit::Series("has too many labels"));
        }
        if name.is_empty() || name.len() > limits.name_bytes_max {
            return Err(Unfit::Series("has a label name of no or too great length"));
        }
        if value.len() > limits.value_bytes_max {
            return Err(Unfit::Series("has a label value that is too long"));
        }
        self.batch.room_for(name.len() + value.len() + 8)?;
        self.labels += 1;
        push_label(&mut self.batch.text, name, value);
        Ok(())
    }

    /// Appends a sample.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn sample(&mut self, sample: Sample) -> Result<(), Unfit> {
        self.batch.room_for(size_of::<Sample>())?;
        self.batch.samples.push(sample);
        Ok(())
    }

    /// Appends something that is carried as it is.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn opaque(&mut self, kind: OpaqueKind, bytes: &[u8]) -> Result<(), Unfit> {
        self.batch.room_for(bytes.len() + size_of::<OpaqueEnd>())?;
        self.batch.opaque_bytes.extend_from_slice(bytes);
        let bytes = self.batch.opaque_bytes.len();
        self.batch.opaque.push(OpaqueEnd { kind, bytes });
        Ok(())
    }

    /// Puts the labels into order, as both remote write protocols want them, and refuses those
    /// that name one thing twice or are not UTF-8.
    ///
    /// # Errors
    /// [`Unfit::Series`].
    pub fn put_in_order(&mut self) -> Result<(), Unfit> {
        let text = self.batch.text.get(self.text..).unwrap_or_default();
        // Lengths are among the bytes, so what is not ASCII is looked at once more, piece by piece.
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        if !text.is_ascii()
            && !Labels::of(text).iter().all(|(name, value)| is_text(name) && is_text(value))
        {
            return Err(Unfit::Series("has a label that is not UTF-8"));
        }
        let names = || Labels::of(text).iter().map(|(name, _)| name);
        if !names().zip(names().skip(1)).all(|(one, next)| one < next) {
            let copy = text.to_vec();
            let mut labels: Vec<_> = Labels::of(&copy).iter().collect();
            labels.sort_by_key(|(name, _)| *name);
            if labels.windows(2).any(|pair| matches!(pair, [one, next] if one.0 == next.0)) {
                return Err(Unfit::Series("has a label twice"));
            }
            self.batch.text.truncate(self.text);
            for (name, value) in labels {
                push_label(&mut self.batch.text, name, value);
            }
        }
        Ok(())
    }

    /// How many samples and histograms it has, and how many exemplars.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let of = |kind| {
            let mine = self.batch.opaque.get(self.opaque..).unwrap_or_default();
            mine.iter().filter(|opaque| opaque.kind == kind).count()
        };
        let samples = self.batch.samples.len() - self.samples;
        (samples, of(OpaqueKind::Histogram), of(OpaqueKind::Exemplar))
    }

    /// Puts the series into the batch.
    ///
    /// # Errors
    /// See [`Unfit`].
    pub fn finish(mut self) -> Result<(), Unfit> {
        if self.labels == 0 {
            return Err(Unfit::Series("has no labels"));
        }
        self.batch.room_for(size_of::<SeriesEnd>())?;
        let text = self.batch.text.get(self.text..).unwrap_or_default();
        let hash = Labels::of(text).hash();
        self.batch.series.push(SeriesEnd {
            hash,
            labels: u32::try_from(self.labels).unwrap_or(u32::MAX),
            text: self.batch.text.len(),
            sample: self.batch.samples.len(),
            opaque: self.batch.opaque.len(),
        });
        self.finished = true;
        Ok(())
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.batch.text.truncate(self.text);
            self.batch.samples.truncate(self.samples);
            self.batch.opaque.truncate(self.opaque);
            self.batch.opaque_bytes.truncate(self.opaque_bytes);
        }
    }
}
