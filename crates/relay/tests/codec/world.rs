//! One shard: what went in, its segments, and what comes out.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_relay::codec::{CodecLimits, Decoded, Decoder, Encoder, Workbench};
use handoff_relay::{Batch, BlockId, OpaqueKind, Sample, Sharder, Shards};
use proptest::prelude::*;

pub const BLOCK: BlockId = BlockId([7; 16]);

/// Labels of a series.
pub type Name = Vec<(Vec<u8>, Vec<u8>)>;

/// What a batch or a segment says: of each series its samples, and what is carried as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub samples: BTreeMap<Name, Vec<Sample>>,
    pub opaque: BTreeMap<Name, Vec<(OpaqueKind, Vec<u8>)>>,
}

/// One series of a batch.
#[derive(Clone, Debug)]
pub struct Spoken {
    pub name: Name,
    pub samples: Vec<Sample>,
    pub histograms: Vec<Vec<u8>>,
}

pub fn bench() -> Workbench {
    Workbench::new().unwrap()
}

pub fn batch_of(spoken: &[Spoken]) -> Batch {
    let mut batch = Batch::default();
    for series in spoken {
        let mut draft = batch.begin();
        for (name, value) in &series.name {
            draft.label(name, value).unwrap();
        }
        for sample in &series.samples {
            draft.sample(*sample).unwrap();
        }
        for histogram in &series.histograms {
            draft.opaque(OpaqueKind::Histogram, histogram).unwrap();
        }
        draft.finish().unwrap();
    }
    batch
}

/// The oracle: what batches say together, without any codec.
pub fn said_by<'a>(batches: impl IntoIterator<Item = &'a Vec<Spoken>>) -> Said {
    let mut said = Said::default();
    for series in batches.into_iter().flatten() {
        if !series.samples.is_empty() {
            let samples = said.samples.entry(series.name.clone()).or_default();
            samples.extend_from_slice(&series.samples);
        }
        for histogram in &series.histograms {
            let opaque = said.opaque.entry(series.name.clone()).or_default();
            opaque.push((OpaqueKind::Histogram, histogram.clone()));
        }
    }
    said
}

pub fn said_in(decoded: &Decoded, decoder: &Decoder) -> Said {
    let name = |series: u32| -> Name {
        decoder.labels(series).map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
    };
    let mut said = Said::default();
    for (series, samples) in decoded.series() {
        let before = said.samples.insert(name(series), samples.to_vec());
        assert!(before.is_none(), "series {series} is there twice");
    }
    for (kind, series, bytes) in decoded.opaque() {
        let opaque = said.opaque.entry(series.map(name).unwrap_or_default()).or_default();
        opaque.push((kind, bytes.to_vec()));
    }
    said
}

pub fn add(encoder: &mut Encoder, batch: &Batch) {
    encoder.add(&Sharder::new(Shards::ONE).shard(batch)).unwrap();
}

/// Whether a group of batches makes a segment.
pub fn says_something(group: &[Vec<Spoken>]) -> bool {
    let mut all = group.iter().flatten();
    all.any(|series| !series.samples.is_empty() || !series.histograms.is_empty())
}

/// Segments of one shard, one for each group of batches.
pub fn encode(groups: &[Vec<Vec<Spoken>>], bench: &mut Workbench) -> Vec<Bytes> {
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let mut segments = Vec::new();
    for group in groups {
        for spoken in group {
            add(&mut encoder, &batch_of(spoken));
        }
        if let Some(segment) = encoder.encode(bench) {
            assert_eq!(segment.key.segment as usize, segments.len());
            segments.push(segment.bytes);
        } else {
            assert!(!says_something(group));
        }
    }
    segments
}

pub fn value() -> impl Strategy<Value = u64> {
    let special = [
        0x7ff0_0000_0000_0002,
        0,
        1 << 63,
        f64::NAN.to_bits(),
        0x7ff8_dead_beef_0001,
        u64::MAX,
        f64::INFINITY.to_bits(),
        f64::NEG_INFINITY.to_bits(),
        1,
    ];
    prop_oneof![
        2 => any::<u64>(),
        4 => (0..100_000_i32).prop_map(|number| f64::from(number).to_bits()),
        4 => (-10_000..10_000_i32).prop_map(|number| (f64::from(number) / 100.0).to_bits()),
        2 => prop::sample::select(special.to_vec()),
    ]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![
        8 => (0..1_000_i64).prop_map(|step| 1_700_000_000_000 + step * 15_000),
        2 => 1_700_000_000_000..1_700_000_900_000_i64,
        1 => any::<i64>(),
    ]
}

pub fn name() -> impl Strategy<Value = Name> {
    let label = |name: &'static str, values: std::ops::Range<u8>| {
        values.prop_map(move |value| (name.as_bytes().to_vec(), vec![b'a' + value; 3]))
    };
    let odd = prop::collection::vec(any::<u8>(), 0..6);
    prop_oneof![
        4 => (label("__name__", 0..4), label("instance", 0..3))
            .prop_map(|(name, instance)| vec![name, instance]),
        2 => label("__name__", 0..4).prop_map(|name| vec![name]),
        1 => odd.prop_map(|value| vec![(b"odd".to_vec(), value)]),
    ]
}

pub fn spoken() -> impl Strategy<Value = Spoken> {
    let samples = (time(), value()).prop_map(|(time, bits)| Sample { time, bits });
    let histogram = prop::collection::vec(any::<u8>(), 0..20);
    (name(), prop::collection::vec(samples, 0..5), prop::collection::vec(histogram, 0..2))
        .prop_map(|(name, samples, histograms)| Spoken { name, samples, histograms })
}

/// Segments, each of some batches, each of some series.
pub fn groups() -> impl Strategy<Value = Vec<Vec<Vec<Spoken>>>> {
    let batch = prop::collection::vec(spoken(), 0..6);
    prop::collection::vec(prop::collection::vec(batch, 1..3), 1..8)
}
