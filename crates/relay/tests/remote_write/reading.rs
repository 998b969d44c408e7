//! What is taken of a body, and what is said of the rest.

use handoff_relay::remote_write::{Protocol, ReadError, RemoteWriteLimits, Written, read};
use handoff_relay::{Batch, BatchLimits, OpaqueKind, Sample};
use proptest::prelude::*;

use crate::independent::{bytes, double, label, number, packed, request_v1, sample, series_v1};

fn take(protocol: Protocol, body: &[u8]) -> (Batch, Result<Written, ReadError>) {
    let mut batch = Batch::default();
    let written = read(protocol, body, &RemoteWriteLimits::default(), &mut batch);
    (batch, written)
}

fn labels(batch: &Batch, at: usize) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let labels = batch.series(at).unwrap().labels();
    labels.iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn pairs(labels: &[(&str, &str)]) -> Vec<(String, String)> {
    labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn a_request_of_1_0_is_taken_whole() {
    let mut first = series_v1(&[("__name__", "up"), ("job", "a")], &[(1.0, 10), (-0.0, -20)]);
    first.extend(bytes(3, b"exemplar"));
    first.extend(bytes(4, b"histogram"));
    let mut body = request_v1(&[first, series_v1(&[("__name__", "down")], &[(0.0, 0)])]);
    body.extend(bytes(3, b"metadata"));
    body.extend(bytes(99, b"of a later version"));
    let (batch, written) = take(Protocol::V1, &body);
    let written = written.unwrap();
    assert_eq!((written.samples, written.histograms, written.exemplars), (3, 1, 1));
    assert_eq!(written.refused, 0);
    assert_eq!(labels(&batch, 0), pairs(&[("__name__", "up"), ("job", "a")]));
    let series = batch.series(0).unwrap();
    assert_eq!(series.samples(), [Sample::new(10, 1.0), Sample::new(-20, -0.0)]);
    let opaque: Vec<_> = series.opaque().collect();
    assert_eq!(
        opaque,
        [(OpaqueKind::Exemplar, &b"exemplar"[..]), (OpaqueKind::Histogram, b"histogram")]
    );
    assert_eq!(batch.series(1).unwrap().samples(), [Sample::new(0, 0.0)]);
    assert_eq!(batch.families().collect::<Vec<_>>(), [b"metadata"]);
}

/// Symbols: 0 "", 1 "__name__", 2 "up", 3 "job", 4 "a", 5 "help text", 6 "seconds", 7 "trace".
fn symbols() -> Vec<u8> {
    let all = ["", "__name__", "up", "job", "a", "help text", "seconds", "trace"];
    all.iter().flat_map(|symbol| bytes(4, symbol.as_bytes())).collect()
}

fn series_v2() -> Vec<u8> {
    let exemplar = [packed(1, &[7, 2]), double(2, 0.5), number(3, 11)].concat();
    let metadata = [number(1, 1), number(3, 5), number(4, 6)].concat();
    let started = [sample(2.0, 12), number(3, 5)].concat();
    [
        packed(1, &[1, 2, 3, 4]),
        bytes(2, &started),
        bytes(3, b"histogram"),
        bytes(4, &exemplar),
        bytes(5, &metadata),
    ]
    .concat()
}

#[test]
fn a_request_of_2_0_is_taken_whole_wherever_its_symbols_are() {
    for body in
        [[symbols(), bytes(5, &series_v2())].concat(), [bytes(5, &series_v2()), symbols()].concat()]
    {
        let (batch, written) = take(Protocol::V2, &body);
        let written = written.unwrap();
        assert_eq!(
            written.headers(),
            [
                ("X-Prometheus-Remote-Write-Samples-Written", 1),
                ("X-Prometheus-Remote-Write-Histograms-Written", 1),
                ("X-Prometheus-Remote-Write-Exemplars-Written", 1),
            ]
        );
        assert_eq!(labels(&batch, 0), pairs(&[("__name__", "up"), ("job", "a")]));
        let series = batch.series(0).unwrap();
        assert_eq!(series.samples(), [Sample::new(12, 2.0)]);
        let opaque: Vec<_> = series.opaque().collect();
        let exemplar = [bytes(1, &label("trace", "up")), double(2, 0.5), number(3, 11)].concat();
        let metadata = [number(1, 1), bytes(4, b"help text"), bytes(5, b"seconds")].concat();
        assert_eq!(
            opaque,
            [
                (OpaqueKind::Start, &[10][..]),
                (OpaqueKind::Histogram, b"histogram"),
                (OpaqueKind::Exemplar, &exemplar),
                (OpaqueKind::Metadata, &metadata),
            ]
        );
    }
}

#[test]
fn one_bad_series_does_not_drop_the_others() {
    let good = series_v1(&[("__name__", "up")], &[(1.0, 1)]);
    let long = "x".repeat(70_000);
    for (words, bad) in [
        ("has no labels", series_v1(&[], &[(1.0, 1)])),
        ("has a label twice", series_v1(&[("a", "1"), ("a", "2")], &[(1.0, 1)])),
        ("has a label name of no or too great length", series_v1(&[("", "1")], &[(1.0, 1)])),
        ("has a label value that is too long", series_v1(&[("a", &long)], &[(1.0, 1)])),
        ("has a label that is not UTF-8", bytes(1, &[bytes(1, b"a"), bytes(2, b"\xff")].concat())),
    ] {
        let body = request_v1(&[good.clone(), bad, good.clone()]);
        let (batch, written) = take(Protocol::V1, &body);
        let written = written.unwrap();
        assert_eq!((written.samples, written.refused), (2, 1), "{words}");
        assert_eq!(written.first_refusal, Some(words));
        assert_eq!(batch.series_len(), 2);
    }
    for (words, refs) in [
        ("has a label name without a value", vec![1, 2, 3]),
        ("names a symbol that does not exist", vec![1, 99]),
    ] {
        let bad = packed(1, &refs);
        let body = [symbols(), bytes(5, &bad), bytes(5, &series_v2())].concat();
        let written = take(Protocol::V2, &body).1.unwrap();
        assert_eq!((written.samples, written.refused), (1, 1), "{words}");
        assert_eq!(written.first_refusal, Some(words));
    }
}

#[test]
fn labels_out_of_order_are_put_into_order_and_empty_ones_are_none() {
    let body = request_v1(&[series_v1(&[("b", "2"), ("c", ""), ("a", "é")], &[(1.0, 1)])]);
    let (batch, written) = take(Protocol::V1, &body);
    assert_eq!(written.unwrap().refused, 0);
    assert_eq!(labels(&batch, 0), pairs(&[("a", "é"), ("b", "2")]));
}

#[test]
fn a_request_larger_than_a_batch_is_refused_whole() {
    let series = series_v1(&[("__name__", "up")], &[(1.0, 1)]);
    let body = request_v1(&vec![series; 100]);
    let mut batch = Batch::new(BatchLimits { bytes_max: 1_000, ..BatchLimits::default() });
    let taken = read(Protocol::V1, &body, &RemoteWriteLimits::default(), &mut batch);
    assert_eq!(taken, Err(ReadError::TooLarge));
    assert!(batch.bytes_len() <= 1_000);
    let limits = RemoteWriteLimits { symbols_max: 3, ..RemoteWriteLimits::default() };
    let mut batch = Batch::default();
    assert_eq!(read(Protocol::V2, &symbols(), &limits, &mut batch), Err(ReadError::TooLarge));
}

#[test]
fn a_body_cut_anywhere_is_refused_or_a_shorter_request_and_never_a_panic() {
    let v1 = request_v1(&[series_v1(&[("__name__", "up"), ("job", "a")], &[(1.0, 10)])]);
    let v2 = [symbols(), bytes(5, &series_v2())].concat();
    for (protocol, body) in [(Protocol::V1, v1), (Protocol::V2, v2)] {
        let mut refused = 0;
        for len in 0..body.len() {
            refused += usize::from(take(protocol, &body[..len]).1.is_err());
        }
        assert!(refused > body.len() / 2);
    }
    assert!(take(Protocol::V2, &bytes(4, b"not empty")).1.is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_at_all_are_read_or_refused_within_the_limits(
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        for protocol in [Protocol::V1, Protocol::V2] {
            let (batch, _) = take(protocol, &body);
            prop_assert!(batch.bytes_len() <= BatchLimits::default().bytes_max);
        }
    }
}
