//! What goes through a segment comes out as the body it was.

use handoff_relay::codec::{CodecLimits, Decoded, Decoder, Encoder, Workbench};
use handoff_relay::remote_write::{Protocol, RemoteWriteLimits, read, write_v1, write_v2};
use handoff_relay::{Batch, BlockId, OpaqueKind, Sample, Sharder, Shards};

use crate::independent::{bytes, double, label, number};

const BLOCK: BlockId = BlockId([3; 16]);

/// A batch with something of everything.
fn everything() -> Batch {
    let mut batch = Batch::default();
    for (name, value) in [("up", 1.0), ("down", f64::NAN)] {
        let mut draft = batch.begin();
        draft.label(b"__name__", name.as_bytes()).unwrap();
        draft.label(b"job", b"node").unwrap();
        draft.sample(Sample::new(1_000, value)).unwrap();
        draft.sample(Sample::new(2_000, -0.0)).unwrap();
        draft.opaque(OpaqueKind::Start, &[20]).unwrap();
        draft.opaque(OpaqueKind::Histogram, &number(15, 7)).unwrap();
        let exemplar = [bytes(1, &label("trace", "abc")), double(2, 0.5), number(3, 11)].concat();
        draft.opaque(OpaqueKind::Exemplar, &exemplar).unwrap();
        let metadata = [number(1, 1), bytes(4, b"help"), bytes(5, b"")].concat();
        draft.opaque(OpaqueKind::Metadata, &metadata).unwrap();
        draft.finish().unwrap();
    }
    batch
}

fn through(batch: &Batch) -> (Decoded, Decoder) {
    let mut bench = Workbench::new().unwrap();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    encoder.add(&Sharder::new(Shards::ONE).shard(batch)).unwrap();
    let segment = encoder.encode(&mut bench).unwrap();
    let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoded = Decoded::default();
    decoder.take(&segment.bytes, None, &mut bench, &mut decoded).unwrap();
    (decoded, decoder)
}

type Found = (Vec<(Vec<u8>, Vec<u8>)>, Vec<Sample>, Vec<(OpaqueKind, Vec<u8>)>);

fn found(batch: &Batch, without: &[OpaqueKind]) -> Vec<Found> {
    let mut all: Vec<Found> = Vec::new();
    for at in 0..batch.series_len() {
        let series = batch.series(at).unwrap();
        let labels = series.labels().iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        let mut opaque: Vec<_> = series
            .opaque()
            .filter(|(kind, _)| !without.contains(kind))
            .map(|(kind, bytes)| (kind, bytes.to_vec()))
            .collect();
        opaque.sort_by_key(|(kind, _)| format!("{kind:?}"));
        opaque.dedup();
        all.push((labels, series.samples().to_vec(), opaque));
    }
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

#[test]
fn a_body_of_2_0_says_all_that_a_segment_said() {
    let batch = everything();
    let (decoded, decoder) = through(&batch);
    let mut body = Vec::new();
    write_v2(&decoded, &decoder, &mut body).unwrap();
    let mut again = Batch::default();
    let written = read(Protocol::V2, &body, &RemoteWriteLimits::default(), &mut again).unwrap();
    assert_eq!((written.samples, written.histograms, written.exemplars), (4, 2, 2));
    assert_eq!(written.refused, 0);
    assert_eq!(found(&again, &[]), found(&batch, &[]));
}

#[test]
fn a_body_of_1_0_says_all_that_has_a_place_in_it() {
    let batch = everything();
    let (decoded, decoder) = through(&batch);
    let mut body = Vec::new();
    write_v1(&decoded, &decoder, &mut body);
    let mut again = Batch::default();
    let written = read(Protocol::V1, &body, &RemoteWriteLimits::default(), &mut again).unwrap();
    assert_eq!((written.samples, written.histograms, written.exemplars), (4, 2, 2));
    let placeless = [OpaqueKind::Start, OpaqueKind::Metadata];
    assert_eq!(found(&again, &[]), found(&batch, &placeless));
    let families: Vec<_> = again.families().map(<[u8]>::to_vec).collect();
    assert_eq!(families.len(), 2);
    assert!(families.iter().any(|family| family.ends_with(&bytes(2, b"up"))));
}
