//! Numbers and lengths as bytes, and the front of bytes that are still to be read.
//!
//! Numbers are LEB128, seven bits a byte, low bits first; signed ones are zigzag first. Fixed ones
//! are little-endian. A length is compared with what is left before anything is allocated for it.

use thiserror::Error;

/// Bytes that are not what a writer of this format writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// Sign to the lowest bit, so that small numbers of either sign are short.
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The number that [`zigzag`] made this of.
pub(crate) const fn unzigzag(raw: u64) -> i64 {
    (raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()
}

/// Bytes that [`put`] writes.
pub(crate) const fn len_of(value: u64) -> usize {
    (64 - (value | 1).leading_zeros()).div_ceil(7) as usize
}

/// Writes a number.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_byte(value) | 0x80);
        value >>= 7;
    }
    out.push(low_byte(value));
}

/// Writes a signed number.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, zigzag(value));
}

/// Writes how many there are, or how long something is.
pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    put(out, len as u64);
}

/// Writes a length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The lowest eight bits.
#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are wanted")]
pub(crate) const fn low_byte(value: u64) -> u8 {
    value as u8
}

/// The lowest thirty-two bits.
#[expect(clippy::cast_possible_truncation, reason = "only the lowest bits are wanted")]
pub(crate) const fn low_half(value: u64) -> u32 {
    value as u32
}

/// What is left of some bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front<'a>(pub(crate) &'a [u8]);

impl<'a> Front<'a> {
    pub(crate) const fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses bytes behind what was read.
    pub(crate) const fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed("goes on behind its end")) }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.0.split_first().ok_or(Malformed("ends too early"))?;
        self.0 = rest;
        Ok(*byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.0.split_first_chunk().ok_or(Malformed("ends too early"))?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(Malformed("ends too early"))?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Bytes behind their length.
    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.count()?;
        self.bytes(len)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        match self.0.split_first() {
            Some((byte, rest)) if *byte < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Malformed> {
        let mut raw = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // Of the tenth byte only one bit is left to fill.
            if shift == 63 && bits > 1 {
                break;
            }
            raw |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(raw);
            }
        }
        Err(Malformed("a number is too long"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Malformed> {
        self.number().map(unzigzag)
    }

    pub(crate) fn small(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.number()?).map_err(|_| Malformed("a number is too large"))
    }

    /// How many things follow, each of at least one byte: never more than there are bytes.
    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        let count = self.number()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.0.len() => Ok(count),
            _ => Err(Malformed("claims more than it holds")),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Front, len_of, put, put_signed};

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn numbers_are_read_as_they_were_written_and_as_long_as_said(
            value in prop_oneof![any::<u64>(), 0..300_u64],
            signed in any::<i64>(),
        ) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert_eq!(bytes.len(), len_of(value));
            put_signed(&mut bytes, signed);
            let mut front = Front(&bytes);
            prop_assert_eq!(front.number(), Ok(value));
            prop_assert_eq!(front.signed(), Ok(signed));
            prop_assert!(front.is_empty());
        }
    }

    #[test]
    fn a_number_that_never_ends_is_refused() {
        assert!(Front(&[0x80; 11]).number().is_err());
        assert!(Front(&[0xff; 9]).number().is_err());
        let mut overflowing = [0xff; 10];
        overflowing[9] = 2;
        assert!(Front(&overflowing).number().is_err());
    }

    #[test]
    fn more_things_than_bytes_are_refused_before_room_is_made_for_them() {
        assert!(Front(&[3, 0, 0]).count().is_err());
        assert_eq!(Front(&[2, 0, 0]).count(), Ok(2));
        assert!(Front(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0]).sized().is_err());
    }
}
