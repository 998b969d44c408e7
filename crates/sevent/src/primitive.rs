//! The types messages are made of.
//!
//! ```text
//! Byte       1 octet
//! VarInt     i32, its 32 bits as unsigned LEB128: 7 bits an octet, low bits first, 1 to 5 octets
//! VarString  VarInt octets, then UTF-8
//! String     UTF-8 up to the end of its container
//! VarList<T> VarInt items, then the items
//! Double     IEEE 754, 8 octets, big-endian
//! Duration   a Double, in seconds
//! Time       i64, 8 octets, big-endian, Unix seconds
//! ```
//!
//! Decided here:
//! * A VarInt may be longer than it need be (`80 00` is 0), as LEB128 decoders have it, and never
//!   longer than 5 octets. What is written here is always the shortest.
//! * Lengths and counts are VarInts read as unsigned: "negative" ones are larger than anything
//!   there is, and fail as such. A count is compared with the octets that are left, each item
//!   taking at least one, before anything is allocated for it.
//! * Strings are not looked into beyond UTF-8; a NUL is a character.
//! * A Double may be anything, NaN included, and keeps its bits.

use bytes::BufMut;
use thiserror::Error;

/// Octets of the longest VarInt.
pub const VARINT_BYTES_MAX: usize = 5;

/// Room that is made for the items of a list before any of them was read.
const ITEMS_AHEAD: usize = 1024;

/// Why octets are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unreadable {
    /// The container ends inside a value.
    #[error("needs {wanted} octets, has {left}")]
    Short {
        /// What the value takes.
        wanted: usize,
        /// What there is.
        left: usize,
    },
    /// A fifth octet that has bits beyond the 32nd, or goes on.
    #[error("a VarInt of more than 32 bits")]
    VarIntTooLong,
    /// A list that says it has more items than there are octets.
    #[error("a list of {count} items in {left} octets")]
    Count {
        /// What the list says.
        count: u32,
        /// What there is.
        left: usize,
    },
    /// A string that is not UTF-8.
    #[error("not UTF-8")]
    NotUtf8,
    /// Something comes after the last value.
    #[error("{left} octets too many")]
    TooMany {
        /// How much.
        left: usize,
    },
}

/// Takes values off the front of some octets. After an error what is left is not defined.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads these octets.
    #[must_use]
    pub const fn new(octets: &'a [u8]) -> Self {
        Self { rest: octets }
    }

    /// What has not been read.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` octets.
    ///
    /// # Errors
    /// [`Unreadable::Short`]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Unreadable> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return Err(Unreadable::Short { wanted: count, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let Some((taken, rest)) = self.rest.split_first_chunk() else {
            return Err(Unreadable::Short { wanted: N, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*taken)
    }

    /// One octet.
    ///
    /// # Errors
    /// [`Unreadable::Short`]
    pub fn byte(&mut self) -> Result<u8, Unreadable> {
        let [octet] = self.array()?;
        Ok(octet)
    }

    /// A VarInt.
    ///
    /// # Errors
    /// [`Unreadable::Short`], [`Unreadable::VarIntTooLong`]
    pub fn varint(&mut self) -> Result<i32, Unreadable> {
        // Two's complement: the same 32 bits.
        self.varint_unsigned().map(|bits| bits as i32)
    }

    /// A VarInt that is a length or a count.
    ///
    /// # Errors
    /// [`Unreadable::Short`], [`Unreadable::VarIntTooLong`]
    pub fn varint_unsigned(&mut self) -> Result<u32, Unreadable> {
        let Some((value, octets)) = peek_varint(self.rest)? else {
            let left = self.rest.len();
            return Err(Unreadable::Short { wanted: left.saturating_add(1), left });
        };
        self.take(octets)?;
        Ok(value)
    }

    /// A VarString.
    ///
    /// # Errors
    /// [`Unreadable::Short`], [`Unreadable::VarIntTooLong`], [`Unreadable::NotUtf8`]
    pub fn var_string(&mut self) -> Result<&'a str, Unreadable> {
        let octets = self.varint_unsigned()?;
        let octets = usize::try_from(octets).unwrap_or(usize::MAX);
        utf8(self.take(octets)?)
    }

    /// A String: all that is left.
    ///
    /// # Errors
    /// [`Unreadable::NotUtf8`]
    pub fn string(&mut self) -> Result<&'a str, Unreadable> {
        utf8(std::mem::take(&mut self.rest))
    }

    /// A Double.
    ///
    /// # Errors
    /// [`Unreadable::Short`]
    pub fn double(&mut self) -> Result<f64, Unreadable> {
        self.array().map(f64::from_be_bytes)
    }

    /// A Time.
    ///
    /// # Errors
    /// [`Unreadable::Short`]
    pub fn time(&mut self) -> Result<i64, Unreadable> {
        self.array().map(i64::from_be_bytes)
    }

    /// A list of VarInts, appended to `into`.
    ///
    /// # Errors
    /// [`Unreadable::Count`] and those of [`Reader::varint`].
    pub fn varints(&mut self, into: &mut Vec<i32>) -> Result<(), Unreadable> {
        self.list(into, Self::varint)
    }

    /// A list of VarStrings, appended to `into`.
    ///
    /// # Errors
    /// [`Unreadable::Count`] and those of [`Reader::var_string`].
    pub fn var_strings(&mut self, into: &mut Vec<String>) -> Result<(), Unreadable> {
        self.list(into, |reader| reader.var_string().map(str::to_owned))
    }

    fn list<T>(
        &mut self,
        into: &mut Vec<T>,
        mut item: impl FnMut(&mut Self) -> Result<T, Unreadable>,
    ) -> Result<(), Unreadable> {
        let said = self.varint_unsigned()?;
        let left = self.rest.len();
        let Some(count) = usize::try_from(said).ok().filter(|count| *count <= left) else {
            return Err(Unreadable::Count { count: said, left });
        };
        into.reserve(count.min(ITEMS_AHEAD));
        for _ in 0..count {
            into.push(item(self)?);
        }
        Ok(())
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// [`Unreadable::TooMany`]
    pub const fn end(&self) -> Result<(), Unreadable> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Unreadable::TooMany { left }),
        }
    }
}

fn utf8(octets: &[u8]) -> Result<&str, Unreadable> {
    std::str::from_utf8(octets).map_err(|_| Unreadable::NotUtf8)
}

/// A VarInt at the front of `octets` and how many of them it takes; None if it goes on behind them.
///
/// # Errors
/// [`Unreadable::VarIntTooLong`]
pub fn peek_varint(octets: &[u8]) -> Result<Option<(u32, usize)>, Unreadable> {
    let mut value = 0;
    for (index, octet) in octets.iter().copied().enumerate().take(VARINT_BYTES_MAX) {
        let is_last_possible = index + 1 == VARINT_BYTES_MAX;
        if is_last_possible && octet > 0x0F {
            return Err(Unreadable::VarIntTooLong);
        }
        value |= u32::from(octet & 0x7F) << (7 * index);
        if octet & 0x80 == 0 {
            return Ok(Some((value, index + 1)));
        }
    }
    Ok(None)
}

/// How many octets a VarInt takes.
#[must_use]
pub const fn varint_len(value: i32) -> usize {
    varint_unsigned_len(value as u32)
}

/// How many octets a length or a count takes.
#[must_use]
pub const fn varint_unsigned_len(value: u32) -> usize {
    // Without a branch: a million ids are measured many at a time.
    1 + (value >= 1 << 7) as usize
        + (value >= 1 << 14) as usize
        + (value >= 1 << 21) as usize
        + (value >= 1 << 28) as usize
}

/// Writes a VarInt.
pub fn put_varint(value: i32, out: &mut impl BufMut) {
    put_varint_unsigned(value as u32, out);
}

/// Writes a VarInt that is a length or a count.
pub fn put_varint_unsigned(value: u32, out: &mut impl BufMut) {
    let (octets, len) = varint_octets(value);
    out.put_slice(octets.split_at(len).0);
}

/// The octets of a VarInt and how many of them count.
fn varint_octets(mut value: u32) -> ([u8; VARINT_BYTES_MAX], usize) {
    let mut octets = [0; VARINT_BYTES_MAX];
    let mut len = 0;
    for octet in &mut octets {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        len += 1;
        if value == 0 {
            *octet = low & 0x7F;
            break;
        }
        *octet = low | 0x80;
    }
    (octets, len)
}

/// Writes the length of something, or how many there are.
///
/// # Panics
/// If it is 4 GiB or more: no message can hold it.
pub fn put_len(len: usize, out: &mut impl BufMut) {
    put_varint_unsigned(wire_len(len), out);
}

/// How many octets [`put_len`] writes.
///
/// # Panics
/// As [`put_len`].
#[must_use]
pub fn len_len(len: usize) -> usize {
    varint_unsigned_len(wire_len(len))
}

fn wire_len(len: usize) -> u32 {
    u32::try_from(len).expect("a message and all it holds is shorter than 4 GiB")
}

/// Writes a VarString.
///
/// # Panics
/// As [`put_len`].
pub fn put_var_string(value: &str, out: &mut impl BufMut) {
    put_len(value.len(), out);
    out.put_slice(value.as_bytes());
}

/// How many octets a VarString takes.
///
/// # Panics
/// As [`put_len`].
#[must_use]
pub fn var_string_len(value: &str) -> usize {
    len_len(value.len()) + value.len()
}

/// Writes a Double.
pub fn put_double(value: f64, out: &mut impl BufMut) {
    out.put_f64(value);
}

/// Writes a Time.
pub fn put_time(value: i64, out: &mut impl BufMut) {
    out.put_i64(value);
}
