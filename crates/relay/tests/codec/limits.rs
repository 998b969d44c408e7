//! Everything has a bound, and what is beyond it is refused before anything changes.

use handoff_relay::codec::{AddError, CodecLimits, Decoded, Decoder, Encoder, HEAD_BYTES};
use handoff_relay::{Sharder, Shards};

use crate::corpus::counters;
use crate::world::{BLOCK, add, bench};

fn tight() -> CodecLimits {
    CodecLimits { series_max: 10, samples_max: 20, ..CodecLimits::default() }
}

fn refused(encoder: &mut Encoder, series: usize, from: usize) -> Option<AddError> {
    let batch = counters(series, 1, from);
    encoder.add(&Sharder::new(Shards::ONE).shard(&batch)).err()
}

#[test]
fn a_full_segment_a_full_block_and_a_batch_for_no_segment_are_told_apart() {
    let mut bench = bench();
    let mut encoder = Encoder::new(BLOCK, 0, tight());
    assert_eq!(refused(&mut encoder, 11, 0), Some(AddError::TooLarge));
    for _ in 0..4 {
        assert_eq!(refused(&mut encoder, 5, 0), None);
    }
    assert_eq!(refused(&mut encoder, 5, 0), Some(AddError::SegmentFull));
    assert_eq!(encoder.waiting_samples(), 20);
    encoder.encode(&mut bench).unwrap();
    assert_eq!(refused(&mut encoder, 5, 0), None);
    assert_eq!(refused(&mut encoder, 6, 5), Some(AddError::BlockFull));
    assert_eq!(encoder.series_len(), 5);
    let batch = counters(1, 21, 0);
    let added = encoder.add(&Sharder::new(Shards::ONE).shard(&batch));
    assert_eq!(added, Err(AddError::TooLarge));
}

#[test]
fn a_decoder_with_lower_limits_refuses_more_series_or_samples() {
    let mut bench = bench();
    let mut decoded = Decoded::default();
    for (series, each) in [(11, 1), (1, 21)] {
        let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
        add(&mut encoder, &counters(series, each, 0));
        let segment = encoder.encode(&mut bench).unwrap();
        let mut decoder = Decoder::new(BLOCK, 0, tight());
        assert!(decoder.take(&segment.bytes, None, &mut bench, &mut decoded).is_err());
        let frame = encoder.key_frame(&mut bench);
        let made = Decoder::from_key_frame(&frame, tight(), &mut bench);
        assert_eq!(made.is_err(), series > 10);
    }
}

#[test]
fn a_size_inside_beyond_the_limit_is_refused_before_room_is_made_for_it() {
    let mut bench = bench();
    let mut decoded = Decoded::default();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    add(&mut encoder, &counters(10, 1, 0));
    let segment = encoder.encode(&mut bench).unwrap();
    let mut bytes = segment.bytes.to_vec();
    bytes[11..15].copy_from_slice(&u32::MAX.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..15]), &bytes[HEAD_BYTES..]);
    bytes[15..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
    let mut decoder = Decoder::new(BLOCK, 0, CodecLimits::default());
    let taken = decoder.take(&bytes, None, &mut bench, &mut decoded);
    assert_eq!(
        taken.map_err(|error| error.to_string()),
        Err("the segment is damaged: it is larger inside than allowed".to_owned())
    );
}
