//! Zigzag varints: seven bits a byte, lowest first, sign in the lowest bit.

use super::BadBatch;

/// Bytes that [`put`] writes.
pub(super) const fn len(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Writes a number.
pub(super) fn put(out: &mut Vec<u8>, value: i64) {
    let mut rest = zigzag(value);
    while rest >= 0x80 {
        out.push(low(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low(rest));
}

/// Reads a number from the front of `bytes`.
pub(super) fn take(bytes: &mut &[u8]) -> Result<i64, BadBatch> {
    let mut raw = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) =
            bytes.split_first().ok_or_else(|| BadBatch::new("ends within a number"))?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // Of the tenth byte only one bit is left to fill.
        if shift == 63 && bits > 1 {
            break;
        }
        raw |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed());
        }
    }
    Err(BadBatch::new("a number is too long"))
}

const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

#[expect(clippy::cast_possible_truncation, reason = "only the lowest seven bits are wanted")]
const fn low(value: u64) -> u8 {
    value as u8 & 0x7f
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{len, put, take};

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written_and_as_long_as_said(
            value in prop_oneof![any::<i64>(), -300_i64..300, any::<i32>().prop_map(i64::from)],
        ) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(bytes.len(), len(value));
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Ok(value));
            prop_assert!(rest.is_empty());
        }
    }

    #[test]
    fn the_ends_of_the_range_are_read() {
        for value in [i64::MIN, i64::MAX, 0, -1] {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            assert_eq!(take(&mut bytes.as_slice()), Ok(value));
        }
    }

    #[test]
    fn a_number_that_never_ends_is_refused() {
        assert!(take(&mut [0x80_u8; 11].as_slice()).is_err());
        assert!(take(&mut [0xff_u8; 9].as_slice()).is_err());
        let mut overflowing = [0xff_u8; 10];
        overflowing[9] = 0x02;
        assert!(take(&mut overflowing.as_slice()).is_err());
    }
}
