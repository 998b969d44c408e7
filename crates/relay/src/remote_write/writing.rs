//! Segments into bodies, for sinks that speak remote write.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::protobuf::{Fields, Value, put_bytes, put_double, put_number};
use crate::batch::{OpaqueKind, Sample};
use crate::codec::{Decoded, Decoder};
use crate::wire::{self, Front, Malformed};

/// What there is of one series.
#[derive(Default)]
struct Content<'a> {
    samples: &'a [Sample],
    opaque: Vec<(OpaqueKind, &'a [u8])>,
}

impl<'a> Content<'a> {
    fn of(&self, kind: OpaqueKind) -> impl Iterator<Item = &'a [u8]> {
        let mine = self.opaque.iter().filter(move |(found, _)| *found == kind);
        mine.map(|(_, bytes)| *bytes)
    }
}

fn contents(decoded: &Decoded) -> BTreeMap<u32, Content<'_>> {
    let mut contents: BTreeMap<u32, Content<'_>> = BTreeMap::new();
    for (series, samples) in decoded.series() {
        contents.insert(series, Content { samples, opaque: Vec::new() });
    }
    for (kind, series, bytes) in decoded.opaque() {
        if let Some(series) = series {
            contents.entry(series).or_default().opaque.push((kind, bytes));
        }
    }
    contents
}

/// Appends a segment as a `prometheus.WriteRequest`. When a counter began has no place in it.
pub fn write_v1(decoded: &Decoded, decoder: &Decoder, out: &mut Vec<u8>) {
    let (mut series, mut piece) = (Vec::new(), Vec::new());
    let mut families = Vec::new();
    for (number, content) in contents(decoded) {
        series.clear();
        for (name, value) in decoder.labels(number) {
            piece.clear();
            put_bytes(&mut piece, 1, name);
            put_bytes(&mut piece, 2, value);
            put_bytes(&mut series, 1, &piece);
        }
        for sample in content.samples {
            piece.clear();
            put_double(&mut piece, 1, sample.bits);
            put_number(&mut piece, 2, sample.time.cast_unsigned());
            put_bytes(&mut series, 2, &piece);
        }
        content.of(OpaqueKind::Exemplar).for_each(|bytes| put_bytes(&mut series, 3, bytes));
        content.of(OpaqueKind::Histogram).for_each(|bytes| put_bytes(&mut series, 4, bytes));
        if !content.samples.is_empty() || content.opaque.iter().any(|(kind, _)| !kind.lasts()) {
            put_bytes(out, 1, &series);
        }
        for metadata in content.of(OpaqueKind::Metadata) {
            let mut labels = decoder.labels(number);
            let name = labels.find(|(name, _)| *name == b"__name__").map(|(_, value)| value);
            piece.clear();
            piece.extend_from_slice(metadata);
            put_bytes(&mut piece, 2, name.unwrap_or_default());
            families.push(piece.clone());
        }
    }
    for (kind, _, bytes) in decoded.opaque() {
        if kind == OpaqueKind::Family {
            put_bytes(out, 3, bytes);
        }
    }
    families.sort();
    families.dedup();
    families.iter().for_each(|family| put_bytes(out, 3, family));
}

/// Appends a segment as an `io.prometheus.write.v2.Request`. What is known of a metric family and
/// of none of its series has no place in it.
///
/// # Errors
/// What was carried as it is turns out not to be what it was taken for.
pub fn write_v2(decoded: &Decoded, decoder: &Decoder, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let mut symbols = Symbols::default();
    let (mut all, mut series, mut piece) = (Vec::new(), Vec::new(), Vec::new());
    for (number, content) in contents(decoded) {
        series.clear();
        piece.clear();
        for (name, value) in decoder.dictionary().label_symbols(number) {
            wire::put(&mut piece, symbols.known(name, decoder).into());
            wire::put(&mut piece, symbols.known(value, decoder).into());
        }
        put_bytes(&mut series, 1, &piece);
        let start = content.of(OpaqueKind::Start).last();
        let start = start.map(|bytes| Front(bytes).signed()).transpose()?.unwrap_or(0);
        for sample in content.samples {
            piece.clear();
            put_double(&mut piece, 1, sample.bits);
            put_number(&mut piece, 2, sample.time.cast_unsigned());
            put_number(&mut piece, 3, start.cast_unsigned());
            put_bytes(&mut series, 2, &piece);
        }
        content.of(OpaqueKind::Histogram).for_each(|bytes| put_bytes(&mut series, 3, bytes));
        for exemplar in content.of(OpaqueKind::Exemplar) {
            put_exemplar(exemplar, &mut symbols, &mut piece)?;
            put_bytes(&mut series, 4, &piece);
        }
        if let Some(metadata) = content.of(OpaqueKind::Metadata).last() {
            put_metadata(metadata, &mut symbols, &mut piece)?;
            put_bytes(&mut series, 5, &piece);
        }
        put_bytes(&mut all, 5, &series);
    }
    symbols.put(out);
    out.extend_from_slice(&all);
    Ok(())
}

fn put_exemplar(
    exemplar: &[u8],
    symbols: &mut Symbols,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.clear();
    let mut refs = Vec::new();
    let (mut bits, mut time) = (0, 0);
    let mut fields = Fields::of(exemplar);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Bytes(label)) => {
                let (mut name, mut value) = (0, 0);
                let mut fields = Fields::of(label);
                while let Some(field) = fields.next()? {
                    match field {
                        (1, Value::Bytes(bytes)) => name = symbols.text(bytes),
                        (2, Value::Bytes(bytes)) => value = symbols.text(bytes),
                        _ => {}
                    }
                }
                wire::put(&mut refs, name.into());
                wire::put(&mut refs, value.into());
            }
            (2, Value::Fixed(found)) => bits = found,
            (3, Value::Number(found)) => time = found,
            _ => {}
        }
    }
    put_bytes(out, 1, &refs);
    put_double(out, 2, bits);
    put_number(out, 3, time);
    Ok(())
}

fn put_metadata(
    metadata: &[u8],
    symbols: &mut Symbols,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    out.clear();
    let mut fields = Fields::of(metadata);
    while let Some(field) = fields.next()? {
        match field {
            (1, Value::Number(kind)) => put_number(out, 1, kind),
            (4, Value::Bytes(help)) => put_number(out, 3, symbols.text(help).into()),
            (5, Value::Bytes(unit)) => put_number(out, 4, symbols.text(unit).into()),
            _ => {}
        }
    }
    Ok(())
}

/// The symbols of one request.
#[derive(Default)]
struct Symbols {
    bytes: Vec<Vec<u8>>,
    by_number: HashMap<u32, u32, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>,
    by_text: BTreeMap<Vec<u8>, u32>,
}

impl Symbols {
    /// A symbol of the block's dictionary.
    fn known(&mut self, number: u32, decoder: &Decoder) -> u32 {
        if let Some(found) = self.by_number.get(&number) {
            return *found;
        }
        let text = decoder.dictionary().symbol(number).unwrap_or_default();
        let found = self.text(text);
        self.by_number.insert(number, found);
        found
    }

    /// A symbol by its text. The empty one is always the first.
    fn text(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(found) = self.by_text.get(text) {
            return *found;
        }
        self.bytes.push(text.to_vec());
        let found = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.by_text.insert(text.to_vec(), found);
        found
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, 4, &[]);
        for symbol in &self.bytes {
            put_bytes(out, 4, symbol);
        }
    }
}
