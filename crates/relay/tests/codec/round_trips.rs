//! Whatever goes in comes out.

use handoff_relay::codec::{CodecLimits, Decoded, Decoder, Encoder, Taken};
use handoff_relay::{Batch, OpaqueKind, Sample};
use proptest::prelude::*;

use crate::world::{BLOCK, add, batch_of, bench, encode, groups, said_by, said_in, says_something};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_of_batches_comes_back_bit_for_bit(groups in groups()) {
        let mut bench = bench();
        let segments = encode(&groups, &mut bench);
        let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
        let mut decoded = Decoded::default();
        let spoken = groups.iter().filter(|group| says_something(group));
        for (group, segment) in spoken.zip(&segments) {
            let taken = decoder.take(segment, None, &mut bench, &mut decoded).unwrap();
            prop_assert_eq!(taken, Taken::Given);
            prop_assert_eq!(said_in(&decoded, &decoder), said_by(group));
        }
        prop_assert_eq!(decoder.next_segment(), Some(u32::try_from(segments.len()).unwrap()));
    }

    #[test]
    fn a_replay_of_any_suffix_gives_out_nothing_that_is_not_above_the_mark(
        groups in groups(),
        mark in prop::option::of(0..8_u32),
        again in any::<prop::sample::Index>(),
    ) {
        let mut bench = bench();
        let segments = encode(&groups, &mut bench);
        prop_assume!(!segments.is_empty());
        let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
        let mut decoded = Decoded::default();
        let marked = |number: usize| mark.is_some_and(|mark| number <= mark as usize);
        for (number, segment) in segments.iter().enumerate() {
            let taken = decoder.take(segment, mark, &mut bench, &mut decoded).unwrap();
            prop_assert_eq!(taken == Taken::Silent, marked(number));
            prop_assert_eq!(taken == Taken::Given, !marked(number));
            prop_assert!(!marked(number) || decoded.samples().is_empty());
        }
        let last = u32::try_from(segments.len() - 1).unwrap();
        for segment in &segments[again.index(segments.len())..] {
            let taken = decoder.take(segment, Some(last), &mut bench, &mut decoded).unwrap();
            prop_assert_eq!(taken, Taken::Known);
            prop_assert!(decoded.samples().is_empty() && decoded.opaque().next().is_none());
        }
    }
}

#[test]
fn a_million_samples_of_every_kind_come_back_bit_for_bit() {
    let mut bench = bench();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoded = Decoded::default();
    let mut dice = 1_u64;
    let mut roll = || {
        dice = handoff_types::entropy::mix(dice);
        dice
    };
    let (mut all, mut sent) = (0, Vec::new());
    for round in 0..100_i64 {
        let mut batch = Batch::default();
        sent.clear();
        for series in 0..1_000_u32 {
            let mut samples = Vec::new();
            for nth in 0..10_i64 {
                let dice = roll();
                let bits = match series % 6 {
                    0 => dice,
                    1 => f64::from(u32::try_from(dice >> 40).unwrap()).to_bits(),
                    2 => (f64::from(u32::try_from(dice >> 50).unwrap()) / 100.0).to_bits(),
                    3 => 0x7ff0_0000_0000_0000 | dice >> 40,
                    4 => [0, 1 << 63, 0x7ff0_0000_0000_0002][usize::try_from(dice % 3).unwrap()],
                    _ => f64::from(series).to_bits(),
                };
                let jitter = i64::try_from(dice % 7).unwrap() - 3;
                samples.push(Sample { time: (round * 10 + nth) * 15_000 + jitter, bits });
            }
            let value = series.to_string();
            batch.push([(&b"series"[..], value.as_bytes())], &samples).unwrap();
            sent.extend_from_slice(&samples);
        }
        add(&mut encoder, &batch);
        let segment = encoder.encode(&mut bench).unwrap();
        decoder.take(&segment.bytes, None, &mut bench, &mut decoded).unwrap();
        assert_eq!(decoded.samples(), sent, "round {round}");
        all += decoded.samples().len();
    }
    assert_eq!(all, 1_000_000);
}

#[test]
fn what_is_known_of_a_series_is_sent_when_it_changes() {
    let mut bench = bench();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoded = Decoded::default();
    let mut heard = Vec::new();
    for help in ["a", "a", "b", "b", "a"] {
        let mut batch = Batch::default();
        let mut draft = batch.begin();
        draft.label(b"__name__", b"up").unwrap();
        draft.sample(Sample::new(1, 1.0)).unwrap();
        draft.opaque(OpaqueKind::Metadata, help.as_bytes()).unwrap();
        draft.finish().unwrap();
        add(&mut encoder, &batch);
        let segment = encoder.encode(&mut bench).unwrap();
        decoder.take(&segment.bytes, None, &mut bench, &mut decoded).unwrap();
        heard.push(decoded.opaque().map(|(_, _, bytes)| bytes.to_vec()).next());
    }
    let heard: Vec<_> = heard.iter().map(Option::as_deref).collect();
    assert_eq!(heard, [Some(&b"a"[..]), None, Some(b"b"), None, Some(b"a")]);
}

#[test]
fn nothing_makes_no_segment() {
    let mut bench = bench();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    add(&mut encoder, &batch_of(&[]));
    assert_eq!(encoder.encode(&mut bench), None);
    assert_eq!(encoder.last_encoded(), None);
}
