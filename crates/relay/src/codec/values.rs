//! Values: one control byte a sample, and the bytes it calls for.
//!
//! ```text
//! control  0          the value before, bit for bit
//!          1          the marker of a series that has ended; nothing is remembered of it
//!          2          the scaled value that was expected
//!          3 … 10     1 … 8 bytes: what it is beyond that, signed
//!         11 … 20     the series has 0 … 9 decimals from here on; a length byte, so many bytes:
//!                     its scaled value, signed
//!         21 … 56     1 … 8 bytes of the exclusive or with the bits before, at one of the places
//!                     they can have in eight; from here on the series has no decimals
//! ```
//!
//! A scaled value is the value times ten to the decimals of its series, as an integer. It is used
//! only where dividing again gives the same bits. What is expected is the last one and the drift,
//! a smoothed mean of what came on top each time: a counter moves evenly, a gauge about nothing.

use super::track::{NO_SCALE, SCALE_MAX, STALE, Track, exact, unscaled};
use crate::wire::{Front, Malformed, low_byte, unzigzag, zigzag};

const SAME: u8 = 0;
const ENDED: u8 = 1;
const EXPECTED: u8 = 2;
const BEYOND: u8 = 3;
const BEYOND_LAST: u8 = BEYOND + 7;
const SCALE: u8 = BEYOND_LAST + 1;
const SCALE_LAST: u8 = SCALE + SCALE_MAX;
const XOR: u8 = SCALE_LAST + 1;
const XOR_LAST: u8 = XOR + 35;

/// How many bytes of an exclusive or are kept, and how many zero bytes are below them.
const SHAPES: [(u8, u8); 36] = shapes();

/// Where the shapes of each length begin.
const SHAPES_OF: [u8; 9] = [0, 0, 8, 15, 21, 26, 30, 33, 35];

const fn shapes() -> [(u8, u8); 36] {
    let mut shapes = [(0, 0); 36];
    let (mut at, mut len) = (0, 1);
    while len <= 8 {
        let mut below = 0;
        while below <= 8 - len {
            #[expect(clippy::indexing_slicing, reason = "decided when it is compiled")]
            {
                shapes[at] = (len, below);
            }
            at += 1;
            below += 1;
        }
        len += 1;
    }
    shapes
}

/// Writes a value and remembers it.
#[inline]
pub(super) fn put_value(
    track: &mut Track,
    bits: u64,
    controls: &mut Vec<u8>,
    values: &mut Vec<u8>,
) {
    if bits == track.bits {
        track.saw_same();
        return controls.push(SAME);
    }
    if bits == STALE {
        return controls.push(ENDED);
    }
    if track.scale != NO_SCALE
        && let Some(number) = exact(bits, track.scale)
    {
        let (expected, last) = track.expected_scaled();
        let beyond = zigzag(number.wrapping_sub(expected));
        track.saw_scaled(bits, number, last);
        let len = byte_len(beyond);
        controls.push(EXPECTED + len);
        return put_word(values, beyond, len);
    }
    if let Some((scale, number)) = track.find_scale(bits) {
        track.saw_scale(bits, scale);
        let number = zigzag(number);
        let len = byte_len(number);
        controls.push(SCALE + scale);
        values.push(len);
        return put_word(values, number, len);
    }
    let xor = bits ^ track.bits;
    let below = low_byte((xor.trailing_zeros() / 8).into());
    let len = byte_len(xor) - below;
    let first = SHAPES_OF.get(usize::from(len)).copied().unwrap_or(0);
    track.saw_bits(bits);
    controls.push(XOR + first + below);
    put_word(values, xor >> (8 * u32::from(below)), len);
}

/// Reads a value by its control byte and remembers it.
#[inline]
pub(super) fn take_value(
    track: &mut Track,
    control: u8,
    values: &mut Front<'_>,
) -> Result<u64, Malformed> {
    match control {
        SAME => {
            track.saw_same();
            Ok(track.bits)
        }
        ENDED => Ok(STALE),
        EXPECTED..=BEYOND_LAST => {
            if track.scale == NO_SCALE {
                return Err(Malformed("has a scaled value of a series without decimals"));
            }
            let beyond = unzigzag(take_word(values, control - EXPECTED)?);
            let (expected, last) = track.expected_scaled();
            let number = expected.wrapping_add(beyond);
            let bits = unscaled(number, track.scale);
            track.saw_scaled(bits, number, last);
            Ok(bits)
        }
        SCALE..=SCALE_LAST => {
            let len = values.byte()?;
            let scale = control - SCALE;
            let bits = unscaled(unzigzag(take_word(values, len)?), scale);
            track.saw_scale(bits, scale);
            Ok(bits)
        }
        XOR..=XOR_LAST => {
            let shape = SHAPES.get(usize::from(control - XOR)).copied();
            let (len, below) = shape.unwrap_or_default();
            let bits = track.bits ^ take_word(values, len)? << (8 * u32::from(below));
            track.saw_bits(bits);
            Ok(bits)
        }
        _ => Err(Malformed("has a control byte that means nothing")),
    }
}

/// How many bytes are needed for a word.
#[inline]
fn byte_len(word: u64) -> u8 {
    low_byte((8 - word.leading_zeros() / 8).into())
}

/// Writes the lowest bytes of a word.
#[inline]
fn put_word(out: &mut Vec<u8>, word: u64, len: u8) {
    out.extend_from_slice(word.to_le_bytes().get(..usize::from(len)).unwrap_or_default());
}

/// Reads a word of so many bytes.
#[inline]
fn take_word(front: &mut Front<'_>, len: u8) -> Result<u64, Malformed> {
    if let Some((word, _)) = front.0.split_first_chunk::<8>()
        && len <= 8
    {
        let word = u64::from_le_bytes(*word);
        front.0 = front.0.get(usize::from(len)..).unwrap_or_default();
        let unused = 64 - 8 * u32::from(len);
        return Ok(if unused == 64 { 0 } else { word << unused >> unused });
    }
    let mut word = [0; 8];
    let bytes = front.bytes(usize::from(len))?;
    let place = word.get_mut(..bytes.len()).ok_or(Malformed("has a word of more than 8 bytes"))?;
    place.copy_from_slice(bytes);
    Ok(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SHAPES, SHAPES_OF, STALE, XOR_LAST, put_value, take_value};
    use crate::codec::track::Track;
    use crate::wire::Front;

    #[test]
    fn every_length_finds_its_shapes() {
        for (at, (len, below)) in SHAPES.into_iter().enumerate() {
            assert_eq!(usize::from(SHAPES_OF[usize::from(len)] + below), at);
        }
    }

    fn value() -> impl Strategy<Value = u64> {
        let special = [STALE, 0, 1 << 63, f64::NAN.to_bits(), u64::MAX, f64::INFINITY.to_bits(), 1];
        prop_oneof![
            any::<u64>(),
            any::<i32>().prop_map(|number| f64::from(number).to_bits()),
            any::<i64>().prop_map(|number| (number as f64).to_bits()),
            (-10_000..10_000_i32).prop_map(|number| (f64::from(number) / 100.0).to_bits()),
            (0..3_000_000_i32).prop_map(|number| (f64::from(number) / 1e7).to_bits()),
            (0..8_u32, any::<u8>()).prop_map(|(at, byte)| u64::from(byte) << (8 * at)),
            prop::sample::select(special.to_vec()),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn every_value_comes_back_bit_for_bit(values in prop::collection::vec(value(), 1..60)) {
            let (mut writer, mut reader) = (Track::default(), Track::default());
            let (mut controls, mut bytes) = (Vec::new(), Vec::new());
            for bits in &values {
                put_value(&mut writer, *bits, &mut controls, &mut bytes);
            }
            let mut front = Front(&bytes);
            for (bits, control) in values.iter().zip(&controls) {
                prop_assert_eq!(take_value(&mut reader, *control, &mut front), Ok(*bits));
            }
            prop_assert!(front.is_empty());
            prop_assert_eq!(writer, reader);
        }
    }

    #[test]
    fn a_control_byte_without_meaning_and_a_missing_byte_are_refused() {
        let mut track = Track::default();
        for control in XOR_LAST + 1..=u8::MAX {
            assert!(take_value(&mut track, control, &mut Front(&[0; 20])).is_err());
        }
        assert!(take_value(&mut track, 3, &mut Front(&[0; 20])).is_err(), "has no decimals");
        assert!(
            take_value(&mut track, 11, &mut Front(&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])).is_err()
        );
        assert!(take_value(&mut track, 56, &mut Front(&[0; 7])).is_err());
    }
}
