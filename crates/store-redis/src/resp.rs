//! What is said on the wire: RESP2, no more of it than is needed.
//!
//! ```text
//!  command   *2\r\n $4\r\nLLEN\r\n $5\r\nqueue\r\n          an array of bulk strings, always
//!  value     +OK\r\n   -ERR words\r\n   :7\r\n   $3\r\nabc\r\n   $-1\r\n   *2\r\n … \r\n   *-1\r\n
//! ```
//!
//! A value may come in any number of pieces, and many may come in one. [`Decoder`] takes whole values
//! off the front of a buffer and leaves the rest. Whatever a server announces is bounded before
//! anything is kept for it: the bytes of a value, its elements, how deep it goes.

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

/// What a server may send at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// `calls.redis_value_bytes_max`: the bytes of one whole value.
    pub value_bytes_max: usize,
    /// The elements of one array.
    pub elements_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { value_bytes_max: 64 << 20, elements_max: 1 << 20 }
    }
}

/// How deep arrays lie in one another at most. Ours are two deep.
const DEPTH_MAX: usize = 8;

/// The longest line: a simple string, an error or a number.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A short word, such as `OK`.
    Simple(Bytes),
    /// It refuses; the first word says how.
    Error(String),
    /// A number.
    Integer(i64),
    /// Bytes.
    Bulk(Bytes),
    /// Nothing.
    Null,
    /// Values, in order.
    Array(Vec<Value>),
}

/// Bytes that are not RESP2, or more than is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// A value begins with a byte that begins none.
    #[error("a value of the server begins with byte {0}")]
    Kind(u8),
    /// A number or a line break is missing where one must stand.
    #[error("a value of the server is broken off or garbled")]
    Garbled,
    /// More than is taken.
    #[error("a value of the server is larger than {0} allows")]
    TooLarge(&'static str),
}

/// Appends a command: its name and its arguments.
pub fn encode<'a>(parts: impl ExactSizeIterator<Item = &'a [u8]>, into: &mut Vec<u8>) {
    into.extend_from_slice(format!("*{}\r\n", parts.len()).as_bytes());
    for part in parts {
        into.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        into.extend_from_slice(part);
        into.extend_from_slice(b"\r\n");
    }
}

/// Takes values off a buffer.
#[derive(Debug)]
pub struct Decoder {
    bounds: Bounds,
    /// Below so many bytes the value at the front cannot be whole.
    wanted: usize,
}

impl Decoder {
    /// A decoder that takes no more than these.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, wanted: 0 }
    }

    /// The value at the front of the buffer, taken off it; none while it is not whole.
    ///
    /// # Errors
    /// [`Malformed`]: what follows has no meaning any more, and the connection is of no use.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<Value>, Malformed> {
        if buffer.len() < self.wanted {
            return Ok(None);
        }
        let mut measure = Measure { bytes: buffer, at: 0, bounds: self.bounds };
        match measure.value(0)? {
            Whole::Yes => {
                let length = measure.at;
                self.wanted = 0;
                let mut whole = buffer.split_to(length).freeze();
                Ok(Some(take(&mut whole)))
            }
            Whole::Lacks(wanted) => {
                self.wanted = wanted;
                Ok(None)
            }
        }
    }
}

/// Whether a value is there to its end.
enum Whole {
    Yes,
    /// At least so many bytes of the buffer are needed.
    Lacks(usize),
}

/// Walks over a value without keeping any of it.
struct Measure<'a> {
    bytes: &'a [u8],
    at: usize,
    bounds: Bounds,
}

impl Measure<'_> {
    fn value(&mut self, depth: usize) -> Result<Whole, Malformed> {
        if depth > DEPTH_MAX {
            return Err(Malformed::TooLarge("depth"));
        }
        if self.at > self.bounds.value_bytes_max {
            return Err(Malformed::TooLarge("calls.redis_value_bytes_max"));
        }
        let Some(kind) = self.bytes.get(self.at).copied() else {
            return Ok(Whole::Lacks(self.at.saturating_add(1)));
        };
        if !b"+-:$*".contains(&kind) {
            return Err(Malformed::Kind(kind));
        }
        let rest = self.bytes.get(self.at.saturating_add(1)..).unwrap_or_default();
        let Some((line, length)) = line(rest)? else {
            return Ok(Whole::Lacks(self.bytes.len().saturating_add(1)));
        };
        let number = number(line);
        self.at = self.at.saturating_add(1).saturating_add(length);
        match kind {
            b'+' | b'-' => Ok(Whole::Yes),
            b':' => number.map(|_| Whole::Yes).ok_or(Malformed::Garbled),
            b'$' => self.bulk(number.ok_or(Malformed::Garbled)?),
            _ => self.array(number.ok_or(Malformed::Garbled)?, depth),
        }
    }

    fn bulk(&mut self, length: i64) -> Result<Whole, Malformed> {
        if length == -1 {
            return Ok(Whole::Yes);
        }
        let length = usize::try_from(length).map_err(|_| Malformed::Garbled)?;
        let end = self.at.saturating_add(length);
        if end > self.bounds.value_bytes_max {
            return Err(Malformed::TooLarge("calls.redis_value_bytes_max"));
        }
        match self.bytes.get(end..end.saturating_add(2)) {
            Some(b"\r\n") => {
                self.at = end.saturating_add(2);
                Ok(Whole::Yes)
            }
            Some(_) => Err(Malformed::Garbled),
            None => Ok(Whole::Lacks(end.saturating_add(2))),
        }
    }

    fn array(&mut self, count: i64, depth: usize) -> Result<Whole, Malformed> {
        if count == -1 {
            return Ok(Whole::Yes);
        }
        let count = usize::try_from(count).map_err(|_| Malformed::Garbled)?;
        if count > self.bounds.elements_max {
            return Err(Malformed::TooLarge("the count of elements"));
        }
        for _ in 0..count {
            if let lacks @ Whole::Lacks(_) = self.value(depth.saturating_add(1))? {
                return Ok(lacks);
            }
        }
        Ok(Whole::Yes)
    }
}

/// The line at the front, and its length with the line break; none while it is not whole.
fn line(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    let searched = bytes.get(..LINE_BYTES_MAX.min(bytes.len())).unwrap_or(bytes);
    match searched.iter().position(|byte| *byte == b'\n') {
        Some(end) => match searched.get(..end).unwrap_or_default().split_last() {
            Some((b'\r', line)) => Ok(Some((line, end.saturating_add(1)))),
            _ => Err(Malformed::Garbled),
        },
        None if bytes.len() >= LINE_BYTES_MAX => Err(Malformed::TooLarge("the length of a line")),
        None => Ok(None),
    }
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// The value at the front of bytes that were measured.
fn take(bytes: &mut Bytes) -> Value {
    let kind = if bytes.has_remaining() { bytes.get_u8() } else { 0 };
    let length = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let mut line = bytes.split_to(length);
    bytes.advance(1.min(bytes.len()));
    line.truncate(line.len().saturating_sub(1));
    let number = number(&line).unwrap_or(-1);
    match (kind, usize::try_from(number)) {
        (b'+', _) => Value::Simple(line),
        (b'-', _) => Value::Error(String::from_utf8_lossy(&line).into_owned()),
        (b':', _) => Value::Integer(number),
        (b'$', Ok(length)) => {
            let bulk = bytes.split_to(length.min(bytes.len()));
            bytes.advance(2.min(bytes.len()));
            Value::Bulk(bulk)
        }
        (b'*', Ok(count)) => Value::Array((0..count).map(|_| take(bytes)).collect()),
        _ => Value::Null,
    }
}

impl Value {
    /// The bytes of a word or a bulk; none of anything else.
    #[must_use]
    pub const fn bytes(&self) -> Option<&Bytes> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The same as text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// The elements of an array; none of anything else.
    #[must_use]
    pub fn array(&self) -> &[Self] {
        match self {
            Self::Array(values) => values,
            _ => &[],
        }
    }
}
