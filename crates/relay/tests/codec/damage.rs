//! Damage is always found and never decoded.

use handoff_relay::codec::{CodecLimits, Decoded, Decoder, HEAD_BYTES};
use proptest::prelude::*;

use crate::world::{BLOCK, Spoken, add, bench, encode, groups, said_in};

fn sound() -> Vec<Vec<Vec<Spoken>>> {
    use handoff_relay::Sample;
    let series = |name: &str, value: f64| Spoken {
        name: vec![(b"__name__".to_vec(), name.as_bytes().to_vec())],
        samples: vec![Sample::new(1_000, value), Sample::new(2_000, value + 1.5)],
        histograms: vec![b"histogram".to_vec()],
    };
    (0..3).map(|n| vec![vec![series("up", f64::from(n)), series("down", 0.25)]]).collect()
}

#[test]
fn every_flipped_bit_and_every_cut_is_found_and_the_decoder_goes_on() {
    let mut bench = bench();
    let segments = encode(&sound(), &mut bench);
    let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
    let mut decoded = Decoded::default();
    let mut hurt = 0;
    for segment in &segments {
        for bit in 0..segment.len() * 8 {
            let mut flipped = segment.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let taken = decoder.take(&flipped, None, &mut bench, &mut decoded);
            assert!(taken.is_err(), "bit {bit} of {segment:?}");
            assert!(decoded.samples().is_empty());
            hurt += 1;
        }
        for len in 0..segment.len() {
            let taken = decoder.take(&segment[..len], None, &mut bench, &mut decoded);
            assert!(taken.is_err(), "cut at {len} of {segment:?}");
        }
        let mut longer = segment.to_vec();
        longer.push(0);
        assert!(decoder.take(&longer, None, &mut bench, &mut decoded).is_err());
        decoder.take(segment, None, &mut bench, &mut decoded).unwrap();
    }
    assert!(hurt > 1_000, "only {hurt} bits");
}

#[test]
fn every_flipped_bit_and_every_cut_of_a_key_frame_is_found() {
    let mut bench = bench();
    let limits = CodecLimits::default();
    let mut encoder = handoff_relay::codec::Encoder::new(BLOCK, 0, limits);
    add(&mut encoder, &crate::corpus::counters(1, 4, 0));
    encoder.encode(&mut bench).unwrap();
    let frame = encoder.key_frame(&mut bench);
    for bit in 0..frame.len() * 8 {
        let mut flipped = frame.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Decoder::from_key_frame(&flipped, limits, &mut bench).is_err(), "bit {bit}");
    }
    for len in 0..frame.len() {
        assert!(Decoder::from_key_frame(&frame[..len], limits, &mut bench).is_err(), "cut {len}");
    }
    assert!(Decoder::from_key_frame(&frame, limits, &mut bench).is_ok());
}

/// The bytes of a segment that is not packed, with another inside and a right checksum.
fn forged(segment: &[u8], inside: &[u8]) -> Vec<u8> {
    let mut bytes = segment[..HEAD_BYTES].to_vec();
    bytes[2] = 0;
    bytes[11..15].copy_from_slice(&u32::try_from(inside.len()).unwrap().to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..15]), inside);
    bytes[15..].copy_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(inside);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_peer_that_lies_behind_a_right_checksum_is_refused_or_decoded_within_the_limits(
        groups in groups(),
        hurt in any::<prop::sample::Index>(),
        with in any::<u8>(),
    ) {
        let mut bench = bench();
        let segments = encode(&groups, &mut bench);
        prop_assume!(!segments.is_empty());
        let limits = CodecLimits { samples_max: 200, series_max: 100, ..CodecLimits::default() };
        let mut decoded = Decoded::default();
        let plain = unpacked(&segments[0]);
        let mut inside = plain.clone();
        let at = hurt.index(inside.len());
        inside[at] = with;
        let mut decoder = Decoder::new(BLOCK, 0, limits);
        let taken =
            decoder.take(&forged(&segments[0], &inside), None, &mut bench, &mut decoded);
        if taken.is_ok() {
            prop_assert!(decoded.samples().len() <= 200);
        } else {
            prop_assert!(decoded.samples().is_empty());
            prop_assert_eq!(decoder.next_segment(), None, "only a key frame helps");
            let again = decoder.take(&segments[0], None, &mut bench, &mut decoded);
            prop_assert!(again.is_err());
        }
        let mut decoder = Decoder::new(BLOCK, 0, limits);
        decoder.take(&forged(&segments[0], &plain), None, &mut bench, &mut decoded).unwrap();
        said_in(&decoded, &decoder);
    }

    #[test]
    fn any_bytes_at_all_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bench = bench();
        let limits = CodecLimits::default();
        let mut decoded = Decoded::default();
        let mut decoder = Decoder::new(BLOCK, 0, limits);
        prop_assert!(decoder.take(&bytes, None, &mut bench, &mut decoded).is_err());
        prop_assert!(Decoder::from_key_frame(&bytes, limits, &mut bench).is_err());
    }
}

fn unpacked(segment: &[u8]) -> Vec<u8> {
    match segment[2] {
        0 => segment[HEAD_BYTES..].to_vec(),
        _ => zstd::bulk::decompress(&segment[HEAD_BYTES..], 1 << 20).unwrap(),
    }
}
