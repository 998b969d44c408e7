//! The bytes that changes and snapshots are made of.
//!
//! ```text
//! number   LEB128, seven bits a byte, low bits first, shortest form only
//! signed   zigzag, then as a number
//! name     length u8, its characters
//! crc      u32, little-endian
//! ```
//!
//! Whatever is not exactly what the encoder writes is refused: of two encodings of one thing one
//! would escape the hashes that compare states.

use super::Name;

/// Bytes that no encoder of this room has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// They end too early.
    #[error("the bytes end inside {0}")]
    Truncated(&'static str),
    /// They were written by a newer version, or are not ours at all.
    #[error("version {0} is unknown here")]
    Version(u8),
    /// There is no such kind of change.
    #[error("there is no change of kind {0}")]
    Kind(u8),
    /// A number is not in its shortest form or has more than 64 bits.
    #[error("a number is not written as numbers are")]
    Number,
    /// A name is none.
    #[error("a name is not written as names are")]
    Name,
    /// A flag is neither 0 nor 1.
    #[error("a flag is {0}")]
    Flag(u8),
    /// Each part is well written, together they make no sense.
    #[error("{0}")]
    Nonsense(&'static str),
}

pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = number.to_le_bytes()[0] & 0x7f;
        number >>= 7;
        if number == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

pub(super) fn put_signed(out: &mut Vec<u8>, number: i64) {
    put_number(out, (number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
}

pub(super) fn put_name(out: &mut Vec<u8>, name: Name) {
    let bytes = name.as_bytes();
    out.extend(u8::try_from(bytes.len()));
    out.extend_from_slice(bytes);
}

pub(super) fn put_crc(out: &mut Vec<u8>, crc: u32) {
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Takes one thing after the other from the front of some bytes.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been taken.
    pub(super) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn byte(&mut self, what: &'static str) -> Result<u8, Malformed> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed::Truncated(what))?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte("a flag")? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Malformed::Flag(other)),
        }
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte("a number")?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            let overlong = byte == 0 && shift > 0;
            if overlong || shifted >> shift != bits {
                return Err(Malformed::Number);
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed::Number)
    }

    pub(super) fn signed(&mut self) -> Result<i64, Malformed> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    pub(super) fn name(&mut self) -> Result<Name, Malformed> {
        let length = usize::from(self.byte("a name")?);
        if length > Name::BYTES_MAX {
            return Err(Malformed::Name);
        }
        let (name, rest) =
            self.rest.split_at_checked(length).ok_or(Malformed::Truncated("a name"))?;
        self.rest = rest;
        Name::from_bytes(name).map_err(|_| Malformed::Name)
    }

    pub(super) fn crc(&mut self) -> Result<u32, Malformed> {
        let (crc, rest) = self.rest.split_first_chunk().ok_or(Malformed::Truncated("a crc"))?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*crc))
    }
}

#[cfg(test)]
mod tests {
    use super::{Malformed, Reader, put_number, put_signed};

    #[test]
    fn numbers_of_every_size_come_back() {
        for number in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.number(), Ok(number));
            assert!(reader.rest().is_empty());
        }
    }

    #[test]
    fn signed_numbers_come_back_and_small_ones_take_one_byte() {
        for number in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, number);
            assert_eq!(Reader::new(&bytes).signed(), Ok(number));
            assert!(bytes.len() == 1 || !(-64..64).contains(&number));
        }
    }

    #[test]
    fn a_number_has_only_its_shortest_form() {
        for bytes in [&[0x80, 0x00][..], &[0xff; 10], &[0x80; 11]] {
            assert_eq!(Reader::new(bytes).number(), Err(Malformed::Number), "{bytes:x?}");
        }
        assert_eq!(Reader::new(&[0x80]).number(), Err(Malformed::Truncated("a number")));
    }
}
