//! Record batches, against Kafka's own words: what is made here is read by another decoder, what
//! another encoder makes is read here, and nothing that is not sound is taken for a batch.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests may panic"
)]

use bytes::{Bytes, BytesMut};
use handoff_streams::batch::{BadBatch, Builder, HEAD_BYTES, Record, head, records};
use handoff_streams::{Compression, Header};
use handoff_types::Wall;
use kafka_protocol::records as kafka;
use proptest::prelude::*;

const COMPRESSIONS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

const BYTES_MAX: usize = 1 << 24;

/// A record as it goes in.
#[derive(Clone, Debug, Default)]
struct Input {
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
    headers: Vec<(String, Vec<u8>)>,
}

fn input() -> impl Strategy<Value = Input> {
    let bytes = || {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            // Lengths around those where a varint gets longer, and what compresses well.
            (60_usize..70, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
            (8_180_usize..8_200, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
        ]
    };
    let header = ("[a-zé.]{0,12}", bytes());
    (prop::option::of(bytes()), bytes(), prop::collection::vec(header, 0..4))
        .prop_map(|(key, payload, headers)| Input { key, payload, headers })
}

fn compression() -> impl Strategy<Value = Compression> {
    prop::sample::select(COMPRESSIONS.as_slice())
}

fn build(base: u64, at: Wall, inputs: &[Input], compression: Compression) -> Bytes {
    let mut builder = Builder::new(base, at, 0);
    for input in inputs {
        let headers = input.headers.iter().map(|(name, value)| (name.as_bytes(), &value[..]));
        builder.add(input.key.as_deref(), &input.payload, headers);
    }
    assert_eq!(builder.count() as usize, inputs.len());
    builder.finish(compression)
}

fn expected(base: u64, at: Wall, inputs: &[Input]) -> Vec<Record> {
    let record = |(place, input): (usize, &Input)| Record {
        offset: base + place as u64,
        timestamp: Wall(at.0.div_euclid(1_000) * 1_000),
        key: input.key.clone().map(Bytes::from),
        payload: Some(Bytes::from(input.payload.clone())),
        headers: input.headers.iter().map(|(name, value)| header(name, value)).collect(),
    };
    inputs.iter().enumerate().map(record).collect()
}

fn header(name: &str, value: &[u8]) -> Header {
    Header { name: Bytes::copy_from_slice(name.as_bytes()), value: Bytes::copy_from_slice(value) }
}

fn three() -> Vec<Input> {
    let text = b"all work and no play makes a batch that compresses well ".repeat(8);
    vec![
        Input { key: Some(b"k".to_vec()), payload: text.clone(), headers: Vec::new() },
        Input { key: None, payload: Vec::new(), headers: vec![("a".into(), b"b".to_vec())] },
        Input { key: Some(Vec::new()), payload: text, headers: Vec::new() },
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_goes_in_comes_out(
        inputs in prop::collection::vec(input(), 1..20),
        base in 0_u64..1 << 62,
        micros in -5_000_i64..4_102_444_800_000_000,
        compression in compression(),
    ) {
        let batch = build(base, Wall(micros), &inputs, compression);
        let head = head(&batch).unwrap();
        prop_assert_eq!(head.base, base);
        prop_assert_eq!(head.bytes, batch.len());
        prop_assert_eq!(head.count as usize, inputs.len());
        prop_assert_eq!(head.first, Wall(micros.div_euclid(1_000) * 1_000));
        prop_assert_eq!(head.last, head.first);
        let plain = build(base, Wall(micros), &inputs, Compression::None).len();
        match head.compression {
            Compression::None => prop_assert_eq!(head.bytes, plain),
            used => {
                prop_assert_eq!(used, compression);
                prop_assert!(head.bytes < plain);
            }
        }
        prop_assert_eq!(records(&batch, BYTES_MAX), Ok(expected(base, Wall(micros), &inputs)));
    }

    #[test]
    fn another_decoder_reads_what_is_made_here(
        inputs in prop::collection::vec(input(), 1..20),
        base in 0_u64..1 << 62,
        micros in 0_i64..4_102_444_800_000_000,
        compression in compression(),
    ) {
        let mut batch = build(base, Wall(micros), &inputs, compression);
        let used = head(&batch).unwrap().compression;
        let set = kafka::RecordBatchDecoder::decode(&mut batch).unwrap();
        prop_assert!(batch.is_empty());
        prop_assert_eq!(set.version, 2);
        prop_assert_eq!(set.compression, kafkas(used));
        prop_assert_eq!(set.records.len(), inputs.len());
        for (place, (record, input)) in set.records.iter().zip(&inputs).enumerate() {
            prop_assert_eq!(record.offset, base as i64 + place as i64);
            prop_assert_eq!(record.timestamp, micros / 1_000);
            prop_assert_eq!(record.timestamp_type, kafka::TimestampType::LogAppend);
            prop_assert_eq!(record.partition_leader_epoch, 0);
            prop_assert_eq!(record.producer_id, kafka::NO_PRODUCER_ID);
            prop_assert_eq!(record.producer_epoch, kafka::NO_PRODUCER_EPOCH);
            prop_assert!(!record.transactional && !record.control && !record.delete_horizon);
            prop_assert_eq!(record.key.as_deref(), input.key.as_deref());
            prop_assert_eq!(record.value.as_deref(), Some(&input.payload[..]));
            // The other decoder has one value for a name, the last.
            let names: std::collections::BTreeMap<_, _> = input.headers.iter().cloned().collect();
            prop_assert_eq!(record.headers.len(), names.len());
            for (name, value) in &names {
                let found = record.headers.get(name.as_bytes()).unwrap();
                prop_assert_eq!(found.as_deref(), Some(&value[..]));
            }
        }
    }

    #[test]
    fn what_another_encoder_makes_is_read_here(
        inputs in prop::collection::vec(input(), 1..20),
        base in 0_u64..1 << 62,
        millis in prop::collection::vec(0_i64..4_102_444_800_000, 20),
        compression in compression(),
    ) {
        let record = |(place, input): (usize, &Input)| foreign(base, place, millis[place], input);
        let made: Vec<_> = inputs.iter().enumerate().map(record).collect();
        let batch = encoded(&made, compression);
        let head = head(&batch).unwrap();
        prop_assert_eq!(head.count as usize, inputs.len());
        prop_assert_eq!(head.compression, compression);
        let used = &millis[..inputs.len()];
        prop_assert_eq!(head.last, Wall(used.iter().max().unwrap() * 1_000));
        let read = records(&batch, BYTES_MAX).unwrap();
        prop_assert_eq!(read.len(), made.len());
        for (ours, theirs) in read.iter().zip(&made) {
            prop_assert_eq!(ours.offset as i64, theirs.offset);
            prop_assert_eq!(ours.timestamp, Wall(theirs.timestamp * 1_000));
            prop_assert_eq!(&ours.key, &theirs.key);
            prop_assert_eq!(&ours.payload, &theirs.value);
            let headers: Vec<_> = theirs
                .headers
                .iter()
                .map(|(name, value)| header(name, value.as_deref().unwrap_or_default()))
                .collect();
            prop_assert_eq!(&ours.headers, &headers);
        }
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_read_and_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300),
        compression in 0_u8..5,
        count in 0_u8..4,
    ) {
        let bare = Bytes::copy_from_slice(&bytes);
        drop(head(&bare).and_then(|_| records(&bare, BYTES_MAX)));
        // The same with a sound head before it: only then the records are looked at.
        if bytes.len() >= HEAD_BYTES {
            bytes[0] = 0;
            let len = bytes.len() as i32 - 12;
            bytes[8..12].copy_from_slice(&len.to_be_bytes());
            bytes[16] = 2;
            bytes[21..23].copy_from_slice(&[0, compression]);
            bytes[23..27].copy_from_slice(&[0, 0, 0, count.wrapping_sub(1)]);
            bytes[57..61].copy_from_slice(&[0, 0, 0, count]);
            let batch = resummed(bytes);
            prop_assert_eq!(head(&batch).is_ok(), count > 0);
            drop(records(&batch, BYTES_MAX));
        }
    }
}

#[test]
fn a_record_without_a_payload_is_read_as_null() {
    let mut record = foreign(7, 0, 1, &Input::default());
    record.value = None;
    let read = records(&encoded(&[record], Compression::None), BYTES_MAX).unwrap();
    assert_eq!(read[0].payload, None);
}

#[test]
fn records_of_a_batch_that_is_not_compressed_share_its_memory() {
    let batch = build(0, Wall(0), &three(), Compression::None);
    let within = batch.as_ptr_range();
    for record in records(&batch, 0).unwrap() {
        let payload = record.payload.unwrap();
        assert!(payload.is_empty() || within.contains(&payload.as_ptr()));
    }
}

#[test]
fn what_does_not_get_smaller_is_not_compressed() {
    let noise: Vec<u8> =
        (0..64_u32).flat_map(|n| crc32c::crc32c(&n.to_be_bytes()).to_be_bytes()).collect();
    let inputs = [Input { payload: noise, ..Input::default() }];
    let plain = build(0, Wall(0), &inputs, Compression::None);
    for compression in COMPRESSIONS {
        assert_eq!(build(0, Wall(0), &inputs, compression), plain, "{compression:?}");
    }
}

#[test]
fn a_batch_is_read_whatever_follows_it() {
    for compression in COMPRESSIONS {
        let first = build(10, Wall(5_000), &three(), compression);
        let second = build(13, Wall(6_000), &three(), compression);
        let both = Bytes::from([&first[..], &second[..]].concat());
        assert_eq!(head(&both).unwrap().bytes, first.len());
        assert_eq!(records(&both, BYTES_MAX), records(&first, BYTES_MAX));
        let behind = both.slice(first.len()..);
        assert_eq!(records(&behind, BYTES_MAX).unwrap()[0].offset, 13);
    }
}

#[test]
fn every_cut_is_refused() {
    for compression in COMPRESSIONS {
        let batch = build(10, Wall(5_000), &three(), compression);
        for len in 0..batch.len() {
            let cut = batch.slice(..len);
            assert!(head(&cut).is_err(), "{compression:?} cut to {len}");
            assert!(records(&cut, BYTES_MAX).is_err(), "{compression:?} cut to {len}");
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_unless_the_sum_leaves_it_out() {
    for compression in COMPRESSIONS {
        let batch = build(10, Wall(5_000), &three(), compression);
        let sound = records(&batch, BYTES_MAX).unwrap();
        for bit in 0..batch.len() * 8 {
            let mut bytes = batch.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let read = records(&Bytes::from(bytes), BYTES_MAX);
            match bit / 8 {
                // The base offset: other offsets, or none that there could be.
                0..8 => {
                    if let Ok(read) = read {
                        let base = read[0].offset;
                        assert_ne!(base, 10);
                        for (place, (read, sound)) in read.into_iter().zip(&sound).enumerate() {
                            assert_eq!(read.offset, base + place as u64);
                            assert_eq!(Record { offset: sound.offset, ..read }, *sound);
                        }
                    }
                }
                // The leader epoch.
                12..16 => assert_eq!(read.unwrap(), sound),
                byte => assert!(read.is_err(), "{compression:?}, byte {byte} of {}", batch.len()),
            }
        }
    }
}

#[test]
fn a_decompression_bomb_is_refused_before_it_is_in_memory() {
    let inputs = [Input { payload: vec![0; 4 << 20], ..Input::default() }];
    for compression in COMPRESSIONS {
        let batch = build(0, Wall(0), &inputs, compression);
        let plain = build(0, Wall(0), &inputs, Compression::None).len() - HEAD_BYTES;
        assert_eq!(records(&batch, plain).unwrap()[0].payload.as_ref().unwrap().len(), 4 << 20);
        if compression != Compression::None {
            assert!(batch.len() < plain / 10);
            let BadBatch(why) = records(&batch, plain - 1).unwrap_err();
            assert!(why.contains("more than"), "{compression:?}: {why}");
        }
    }
}

#[test]
fn a_length_that_snappy_only_claims_costs_no_memory() {
    // Raw Snappy that says it holds 4 GiB and holds nothing.
    let claim = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
    let BadBatch(why) = records(&with_records(&claim, 2, 1), usize::MAX).unwrap_err();
    assert!(why.contains("more than"), "{why}");
}

#[test]
fn snappy_is_read_with_and_without_the_framing_of_java() {
    let inputs = three();
    let plain = build(0, Wall(0), &inputs, Compression::None);
    let raw = snap::raw::Encoder::new().compress_vec(&plain[HEAD_BYTES..]).unwrap();
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for part in plain[HEAD_BYTES..].chunks(100) {
        let block = snap::raw::Encoder::new().compress_vec(part).unwrap();
        framed.extend_from_slice(&(block.len() as u32).to_be_bytes());
        framed.extend_from_slice(&block);
    }
    for stored in [raw, framed.clone()] {
        let batch = with_records(&stored, 2, 3);
        assert_eq!(records(&batch, BYTES_MAX), Ok(expected(0, Wall(0), &inputs)));
    }
    framed.push(0);
    assert!(records(&with_records(&framed, 2, 3), BYTES_MAX).is_err());
    let written = build(0, Wall(0), &inputs, Compression::Snappy);
    assert!(written[HEAD_BYTES..].starts_with(b"\x82SNAPPY\0"));
}

#[test]
fn counts_that_do_not_fit_what_is_there_are_refused() {
    let plain = build(0, Wall(0), &three(), Compression::None);
    let stored = &plain[HEAD_BYTES..];
    assert!(records(&with_records(stored, 0, 3), BYTES_MAX).is_ok());
    for count in [0, 2, 4, u32::MAX, i32::MAX as u32] {
        assert!(records(&with_records(stored, 0, count), BYTES_MAX).is_err(), "{count}");
    }
    let mut sparse = with_records(stored, 0, 3).to_vec();
    sparse[26] = 9;
    assert!(head(&resummed(sparse)).is_err());
}

#[test]
fn older_versions_and_unknown_compressions_are_refused() {
    let batch = build(0, Wall(0), &three(), Compression::None);
    for magic in [0, 1, 3] {
        let mut old = batch.to_vec();
        old[16] = magic;
        assert!(head(&resummed(old)).is_err());
    }
    for unknown in [5, 6, 7] {
        let mut other = batch.to_vec();
        other[22] = unknown;
        assert!(head(&resummed(other)).is_err());
    }
}

/// A batch with these bytes for its records.
fn with_records(stored: &[u8], attributes: u8, count: u32) -> Bytes {
    let mut bytes = build(0, Wall(0), &[Input::default()], Compression::None).to_vec();
    bytes.truncate(HEAD_BYTES);
    bytes.extend_from_slice(stored);
    let len = bytes.len() as i32 - 12;
    bytes[8..12].copy_from_slice(&len.to_be_bytes());
    bytes[22] = attributes;
    bytes[23..27].copy_from_slice(&count.wrapping_sub(1).to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    resummed(bytes)
}

fn resummed(mut bytes: Vec<u8>) -> Bytes {
    let sum = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&sum.to_be_bytes());
    Bytes::from(bytes)
}

fn foreign(base: u64, place: usize, millis: i64, input: &Input) -> kafka::Record {
    let headers = input
        .headers
        .iter()
        .map(|(name, value)| (name.clone().into(), Some(Bytes::from(value.clone()))));
    kafka::Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: kafka::NO_PARTITION_LEADER_EPOCH,
        producer_id: kafka::NO_PRODUCER_ID,
        producer_epoch: kafka::NO_PRODUCER_EPOCH,
        timestamp_type: kafka::TimestampType::Creation,
        offset: base as i64 + place as i64,
        sequence: place as i32,
        timestamp: millis,
        key: input.key.clone().map(Bytes::from),
        value: Some(Bytes::from(input.payload.clone())),
        headers: headers.collect(),
    }
}

fn encoded(records: &[kafka::Record], compression: Compression) -> Bytes {
    let mut out = BytesMut::new();
    let options = kafka::RecordEncodeOptions { version: 2, compression: kafkas(compression) };
    kafka::RecordBatchEncoder::encode(&mut out, records, &options).unwrap();
    out.freeze()
}

fn kafkas(compression: Compression) -> kafka::Compression {
    match compression {
        Compression::None => kafka::Compression::None,
        Compression::Gzip => kafka::Compression::Gzip,
        Compression::Snappy => kafka::Compression::Snappy,
        Compression::Lz4 => kafka::Compression::Lz4,
        Compression::Zstd => kafka::Compression::Zstd,
    }
}
