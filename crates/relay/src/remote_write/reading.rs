//! Bodies into batches.

use thiserror::Error;

use super::protobuf::{Fields, Value, each_number, put_bytes, put_double, put_number};
use super::{Protocol, RemoteWriteLimits};
use crate::batch::{Batch, Draft, OpaqueKind, Sample, Unfit};
use crate::wire::{self, Malformed};

/// What of a request was taken, as the `X-Prometheus-Remote-Write-…-Written` headers count it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Samples taken.
    pub samples: u64,
    /// Native histograms taken.
    pub histograms: u64,
    /// Exemplars taken.
    pub exemplars: u64,
    /// Series that were not taken.
    pub refused: u64,
    /// What was wrong with the first of them.
    pub first_refusal: Option<&'static str>,
}

impl Written {
    /// The headers of the answer.
    #[must_use]
    pub const fn headers(&self) -> [(&'static str, u64); 3] {
        [
            ("X-Prometheus-Remote-Write-Samples-Written", self.samples),
            ("X-Prometheus-Remote-Write-Histograms-Written", self.histograms),
            ("X-Prometheus-Remote-Write-Exemplars-Written", self.exemplars),
        ]
    }

    fn refuse(&mut self, words: &'static str) {
        self.refused += 1;
        self.first_refusal.get_or_insert(words);
    }
}

/// Why nothing of a request is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ReadError {
    /// It is not the message it says it is: HTTP 400.
    #[error("the body {0}")]
    Malformed(#[from] Malformed),
    /// There is more in it than one batch may hold: HTTP 413.
    #[error("the body is too large")]
    TooLarge,
}

/// Why a series is not taken.
enum Fault {
    Request(ReadError),
    Series(&'static str),
}

impl From<Malformed> for Fault {
    fn from(malformed: Malformed) -> Self {
        Self::Request(malformed.into())
    }
}

impl From<Unfit> for Fault {
    fn from(unfit: Unfit) -> Self {
        match unfit {
            Unfit::TooLarge { .. } => Self::Request(ReadError::TooLarge),
            Unfit::Series(words) => Self::Series(words),
        }
    }
}

/// Reads a body into a batch. Series that cannot be taken are counted, and the others are taken.
///
/// # Errors
/// See [`ReadError`]. The batch then holds a part of the request and is not to be used.
pub fn read(
    protocol: Protocol,
    body: &[u8],
    limits: &RemoteWriteLimits,
    batch: &mut Batch,
) -> Result<Written, ReadError> {
    match protocol {
        Protocol::V1 => read_v1(body, batch),
        Protocol::V2 => read_v2(body, limits, batch),
    }
}

fn read_v1(body: &[u8], batch: &mut Batch) -> Result<Written, ReadError> {
    let mut written = Written::default();
    let mut fields = Fields::of(body);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(series)) => {
                take(batch, &mut written, |draft| series_v1(series, draft))?;
            }
            (3, Value::Bytes(metadata)) => {
                batch.push_family(metadata).map_err(|_| ReadError::TooLarge)?;
            }
            _ => {}
        }
    }
    Ok(written)
}

/// Takes one series, or counts why not.
fn take(
    batch: &mut Batch,
    written: &mut Written,
    series: impl FnOnce(&mut Draft<'_>) -> Result<(), Fault>,
) -> Result<(), ReadError> {
    let mut draft = batch.begin();
    let done = series(&mut draft).and_then(|()| Ok(draft.put_in_order()?));
    let counts = draft.counts();
    match done.and_then(|()| Ok(draft.finish()?)) {
        Ok(()) => {
            written.samples += counts.0 as u64;
            written.histograms += counts.1 as u64;
            written.exemplars += counts.2 as u64;
            Ok(())
        }
        Err(Fault::Series(words)) => {
            written.refuse(words);
            Ok(())
        }
        Err(Fault::Request(error)) => Err(error),
    }
}

fn series_v1(series: &[u8], draft: &mut Draft<'_>) -> Result<(), Fault> {
    let mut fields = Fields::of(series);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(label)) => {
                let (name, value) = read_label(label)?;
                // An empty value is no label at all.
                if !value.is_empty() {
                    draft.label(name, value)?;
                }
            }
            (2, Value::Bytes(sample)) => draft.sample(read_sample(sample)?.0)?,
            (3, Value::Bytes(exemplar)) => draft.opaque(OpaqueKind::Exemplar, exemplar)?,
            (4, Value::Bytes(histogram)) => draft.opaque(OpaqueKind::Histogram, histogram)?,
            _ => {}
        }
    }
    Ok(())
}

fn read_label(label: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut name, mut value) = (&[][..], &[][..]);
    let mut fields = Fields::of(label);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(bytes)) => name = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((name, value))
}

/// A sample, and when its counter began if that was said.
fn read_sample(bytes: &[u8]) -> Result<(Sample, Option<i64>), Malformed> {
    let mut sample = Sample { time: 0, bits: 0 };
    let mut start = None;
    let mut fields = Fields::of(bytes);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Fixed(bits)) => sample.bits = bits,
            (2, Value::Number(time)) => sample.time = time.cast_signed(),
            (3, Value::Number(time)) => start = Some(time.cast_signed()),
            _ => {}
        }
    }
    Ok((sample, start.filter(|start| *start != 0)))
}

fn read_v2(
    body: &[u8],
    limits: &RemoteWriteLimits,
    batch: &mut Batch,
) -> Result<Written, ReadError> {
    // Nothing says that symbols come first.
    let mut symbols: Vec<&[u8]> = Vec::new();
    let mut fields = Fields::of(body);
    while let Some(field) = fields.next()? {
        if let (4, Value::Bytes(symbol)) = field {
            if symbols.len() >= limits.symbols_max {
                return Err(ReadError::TooLarge);
            }
            symbols.push(symbol);
        }
    }
    if symbols.first().is_some_and(|first| !first.is_empty()) {
        return Err(Malformed("has a first symbol that is not empty").into());
    }
    let mut reader = ReaderV2 { symbols, refs: Vec::new(), scratch: Vec::new() };
    let mut written = Written::default();
    let mut fields = Fields::of(body);
    while let Some(field) = fields.next()? {
        if let (5, Value::Bytes(series)) = field {
            take(batch, &mut written, |draft| reader.series(series, draft))?;
        }
    }
    Ok(written)
}

struct ReaderV2<'a> {
    symbols: Vec<&'a [u8]>,
    refs: Vec<u32>,
    scratch: Vec<u8>,
}

impl<'a> ReaderV2<'a> {
    fn series(&mut self, series: &[u8], draft: &mut Draft<'_>) -> Result<(), Fault> {
        self.refs.clear();
        let mut fields = Fields::of(series);
        while let Some((number, value)) = fields.next()? {
            if number == 1 {
                each_number(value, |number| self.refs.push(number))?;
            }
        }
        let refs = std::mem::take(&mut self.refs);
        let labelled = self.labels(&refs, |name, value| Ok(draft.label(name, value)?));
        self.refs = refs;
        labelled?;
        let mut fields = Fields::of(series);
        while let Some(field) = fields.next()? {
            match field {
                (2, Value::Bytes(bytes)) => {
                    let (sample, start) = read_sample(bytes)?;
                    draft.sample(sample)?;
                    self.start(start, draft)?;
                }
                (3, Value::Bytes(histogram)) => draft.opaque(OpaqueKind::Histogram, histogram)?,
                (4, Value::Bytes(exemplar)) => {
                    self.exemplar(exemplar)?;
                    draft.opaque(OpaqueKind::Exemplar, &self.scratch)?;
                }
                (5, Value::Bytes(metadata)) => {
                    self.metadata(metadata)?;
                    draft.opaque(OpaqueKind::Metadata, &self.scratch)?;
                }
                // Where release candidates up to the third had it.
                (6, Value::Number(time)) => self.start(Some(time.cast_signed()), draft)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn start(&mut self, start: Option<i64>, draft: &mut Draft<'_>) -> Result<(), Fault> {
        if let Some(start) = start.filter(|start| *start != 0) {
            self.scratch.clear();
            wire::put_signed(&mut self.scratch, start);
            draft.opaque(OpaqueKind::Start, &self.scratch)?;
        }
        Ok(())
    }

    fn labels(
        &self,
        refs: &[u32],
        mut each: impl FnMut(&'a [u8], &'a [u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let (pairs, odd) = refs.as_chunks::<2>();
        if !odd.is_empty() {
            return Err(Fault::Series("has a label name without a value"));
        }
        for [name, value] in pairs {
            let (name, value) = (self.symbol(*name)?, self.symbol(*value)?);
            if !value.is_empty() {
                each(name, value)?;
            }
        }
        Ok(())
    }

    fn symbol(&self, number: u32) -> Result<&'a [u8], Fault> {
        let symbol = self.symbols.get(number as usize).copied();
        symbol.ok_or(Fault::Series("names a symbol that does not exist"))
    }

    /// Spells an exemplar out as 1.0 has it.
    fn exemplar(&mut self, exemplar: &[u8]) -> Result<(), Fault> {
        let mut refs = Vec::new();
        let (mut bits, mut time) = (0, 0);
        let mut fields = Fields::of(exemplar);
        while let Some(field) = fields.next()? {
            match field {
                (1, value) => each_number(value, |number| refs.push(number))?,
                (2, Value::Fixed(value)) => bits = value,
                (3, Value::Number(value)) => time = value,
                _ => {}
            }
        }
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        let mut label = Vec::new();
        let spelled = self.labels(&refs, |name, value| {
            label.clear();
            put_bytes(&mut label, 1, name);
            put_bytes(&mut label, 2, value);
            put_bytes(&mut out, 1, &label);
            Ok(())
        });
        put_double(&mut out, 2, bits);
        put_number(&mut out, 3, time);
        self.scratch = out;
        spelled
    }

    /// Spells metadata out as 1.0 has it, without a name.
    fn metadata(&mut self, metadata: &[u8]) -> Result<(), Fault> {
        let (mut kind, mut help, mut unit) = (0, 0, 0);
        let mut fields = Fields::of(metadata);
        while let Some(field) = fields.next()? {
            match field {
                (1, Value::Number(number)) => kind = number,
                (3, value) => each_number(value, |number| help = number)?,
                (4, value) => each_number(value, |number| unit = number)?,
                _ => {}
            }
        }
        let (help, unit) = match (help, unit) {
            (0, 0) => (&[][..], &[][..]),
            _ => (self.symbol(help)?, self.symbol(unit)?),
        };
        self.scratch.clear();
        put_number(&mut self.scratch, 1, kind);
        put_bytes(&mut self.scratch, 4, help);
        put_bytes(&mut self.scratch, 5, unit);
        Ok(())
    }
}
