//! A decoder may begin at any key frame, and nowhere else.

use handoff_relay::BlockId;
use handoff_relay::codec::{CodecLimits, DecodeError, Decoded, Decoder, Encoder, Trailing};
use proptest::prelude::*;

use crate::world::{BLOCK, add, batch_of, bench, encode, groups, said_in};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decoding_continues_from_any_key_frame_of_either_side(groups in groups()) {
        let mut bench = bench();
        let limits = CodecLimits::default();
        let mut encoder = Encoder::new(BLOCK, 0, limits);
        let mut first = Decoder::new(BLOCK, 0, limits);
        let mut decoded = Decoded::default();
        let (mut segments, mut frames, mut said) = (Vec::new(), Vec::new(), Vec::new());
        for group in &groups {
            for spoken in group {
                add(&mut encoder, &batch_of(spoken));
            }
            // What waits already is not in a key frame: it comes with the next segment.
            frames.push(encoder.key_frame(&mut bench));
            let Some(segment) = encoder.encode(&mut bench) else {
                frames.pop();
                continue;
            };
            first.take(&segment.bytes, None, &mut bench, &mut decoded).unwrap();
            said.push(said_in(&decoded, &first));
            segments.push(segment.bytes);
        }
        let mut trailing = Trailing::new(BLOCK, 0);
        for (at, frame) in frames.iter().enumerate() {
            let trailed = trailing.key_frame(&encoder, &mut bench);
            prop_assert_eq!(&trailed, frame, "the trailing decoder makes the same one");
            let mut decoder = Decoder::from_key_frame(frame, limits, &mut bench).unwrap();
            for (segment, said) in segments.iter().zip(&said).skip(at) {
                decoder.take(segment, None, &mut bench, &mut decoded).unwrap();
                prop_assert_eq!(&said_in(&decoded, &decoder), said);
            }
            trailing.skip(&segments[at], &encoder, &mut bench).unwrap();
        }
        let mut caught_up = Trailing::new(BLOCK, 0);
        caught_up.catch_up(&encoder);
        prop_assert_eq!(
            caught_up.key_frame(&encoder, &mut bench),
            trailing.key_frame(&encoder, &mut bench)
        );
    }

    #[test]
    fn a_segment_is_taken_only_behind_the_one_it_follows(groups in groups()) {
        let mut bench = bench();
        let segments = encode(&groups, &mut bench);
        let mut decoded = Decoded::default();
        for (number, segment) in (0_u32..).zip(&segments) {
            let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
            let taken = decoder.take(segment, None, &mut bench, &mut decoded);
            if number > 0 {
                let needed = DecodeError::NeedKeyFrame { expected: 0, found: number };
                prop_assert_eq!(taken, Err(needed));
                prop_assert!(decoded.samples().is_empty());
            }
        }
    }
}

#[test]
fn a_segment_of_another_block_or_shard_is_not_taken() {
    let mut bench = bench();
    let mut decoded = Decoded::default();
    let limits = CodecLimits::default();
    for (block, shard) in [(BlockId([8; 16]), 0), (BLOCK, 1)] {
        let mut encoder = Encoder::new(BLOCK, 0, limits);
        let spoken = crate::corpus::counters(1, 3, 0);
        add(&mut encoder, &spoken);
        let segment = encoder.encode(&mut bench).unwrap();
        let mut decoder = Decoder::new(block, shard, limits);
        let needed = DecodeError::NeedKeyFrame { expected: 0, found: 0 };
        let taken = decoder.take(&segment.bytes, None, &mut bench, &mut decoded);
        assert_eq!(taken, Err(needed));
    }
}
