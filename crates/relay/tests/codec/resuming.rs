//! An encoder that goes on where a decoder stands says nothing twice and nothing wrong.

use handoff_relay::codec::{CodecLimits, Decoded, Decoder, Encoder};
use proptest::prelude::*;

use crate::world::{BLOCK, Spoken, add, batch_of, bench, groups, said_by, said_in, says_something};

fn with_samples(spoken: &[Spoken]) -> Vec<Spoken> {
    spoken.iter().filter(|one| !one.samples.is_empty()).cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_encoder_made_of_a_key_frame_goes_on_as_the_first_one_would_have(
        before in groups(),
        after in groups(),
    ) {
        let mut bench = bench();
        let limits = CodecLimits::default();
        let mut encoder = Encoder::new(BLOCK, 0, limits);
        let mut decoder = Decoder::new(BLOCK, 0, limits);
        let mut decoded = Decoded::default();
        for (at, group) in before.iter().chain(&after).enumerate() {
            if at == before.len() {
                let frame = encoder.key_frame(&mut bench);
                let known = Decoder::from_key_frame(&frame, limits, &mut bench).unwrap();
                encoder = Encoder::resumed(0, known).unwrap();
                prop_assert_eq!(encoder.key_frame(&mut bench), frame);
            }
            for spoken in group {
                add(&mut encoder, &batch_of(spoken));
            }
            let series = encoder.series_len();
            for spoken in group {
                add(&mut encoder, &batch_of(&with_samples(spoken)));
            }
            prop_assert_eq!(encoder.series_len(), series, "what is known is found again");
            let Some(segment) = encoder.encode(&mut bench) else {
                prop_assert!(!says_something(group));
                continue;
            };
            decoder.take(&segment.bytes, None, &mut bench, &mut decoded).unwrap();
            let again: Vec<_> = group.iter().map(|spoken| with_samples(spoken)).collect();
            prop_assert_eq!(said_in(&decoded, &decoder), said_by(group.iter().chain(&again)));
        }
    }
}
