//! MessagePack in and out.
//!
//! # Constraints
//! * Texts and bytes are given as slices of what was read: nothing is copied, nothing is allocated
//!   for a length that only claims to be there.
//! * Every announced length is compared with what is left before anything is done with it: an
//!   element takes at least one byte.
//! * Values are nested at most [`DEPTH_MAX`] deep.
//! * Nothing of this crate is named here: `fuzz/` takes this file as it is, and the server with all
//!   that it stands on need not be built for it.

use bytes::Bytes;
use rmp::Marker;
use serde_json::{Map, Number, Value};

/// How deep values may be nested.
const DEPTH_MAX: usize = 32;

/// What is wrong with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is no MessagePack.
    Malformed(String),
    /// It is, and not what was expected.
    Invalid(String),
}

pub(super) fn invalid<T>(words: impl Into<String>) -> Result<T, Bad> {
    Err(Bad::Invalid(words.into()))
}

/// A value's head. What a text or bytes say comes with it; what stands in an array or a map is read
/// next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Nil,
    Bool(bool),
    Unsigned(u64),
    /// Below zero.
    Signed(i64),
    Float(f64),
    Text(Bytes),
    Octets(Bytes),
    Array(usize),
    Map(usize),
}

impl Token {
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "a boolean",
            Self::Unsigned(_) | Self::Signed(_) => "a number",
            Self::Float(_) => "a float",
            Self::Text(_) => "a text",
            Self::Octets(_) => "bytes",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
        }
    }
}

/// Reads one body.
#[derive(Debug)]
pub(super) struct Unpack {
    rest: Bytes,
    whole: usize,
}

impl Unpack {
    pub(super) fn new(body: Bytes) -> Self {
        let whole = body.len();
        Self { rest: body, whole }
    }

    /// The next value's head.
    pub(super) fn next(&mut self) -> Result<Token, Bad> {
        let [byte] = self.array()?;
        Ok(match Marker::from_u8(byte) {
            Marker::Null => Token::Nil,
            Marker::True => Token::Bool(true),
            Marker::False => Token::Bool(false),
            Marker::FixPos(n) => Token::Unsigned(n.into()),
            Marker::U8 => Token::Unsigned(u8::from_be_bytes(self.array()?).into()),
            Marker::U16 => Token::Unsigned(u16::from_be_bytes(self.array()?).into()),
            Marker::U32 => Token::Unsigned(u32::from_be_bytes(self.array()?).into()),
            Marker::U64 => Token::Unsigned(u64::from_be_bytes(self.array()?)),
            Marker::FixNeg(n) => signed(n.into()),
            Marker::I8 => signed(i8::from_be_bytes(self.array()?).into()),
            Marker::I16 => signed(i16::from_be_bytes(self.array()?).into()),
            Marker::I32 => signed(i32::from_be_bytes(self.array()?).into()),
            Marker::I64 => signed(i64::from_be_bytes(self.array()?)),
            Marker::F32 => Token::Float(f32::from_be_bytes(self.array()?).into()),
            Marker::F64 => Token::Float(f64::from_be_bytes(self.array()?)),
            Marker::FixStr(n) => self.text(n.into())?,
            Marker::Str8 => {
                let length = self.length::<1>()?;
                self.text(length)?
            }
            Marker::Str16 => {
                let length = self.length::<2>()?;
                self.text(length)?
            }
            Marker::Str32 => {
                let length = self.length::<4>()?;
                self.text(length)?
            }
            Marker::Bin8 => {
                let length = self.length::<1>()?;
                Token::Octets(self.take(length)?)
            }
            Marker::Bin16 => {
                let length = self.length::<2>()?;
                Token::Octets(self.take(length)?)
            }
            Marker::Bin32 => {
                let length = self.length::<4>()?;
                Token::Octets(self.take(length)?)
            }
            Marker::FixArray(n) => Token::Array(self.elements(n.into(), 1)?),
            Marker::Array16 => {
                let length = self.length::<2>()?;
                Token::Array(self.elements(length, 1)?)
            }
            Marker::Array32 => {
                let length = self.length::<4>()?;
                Token::Array(self.elements(length, 1)?)
            }
            Marker::FixMap(n) => Token::Map(self.elements(n.into(), 2)?),
            Marker::Map16 => {
                let length = self.length::<2>()?;
                Token::Map(self.elements(length, 2)?)
            }
            Marker::Map32 => {
                let length = self.length::<4>()?;
                Token::Map(self.elements(length, 2)?)
            }
            Marker::Reserved => return self.malformed("0xc1 stands for nothing"),
            _ => return self.malformed("extension types are not read"),
        })
    }

    /// Nothing must be left.
    pub(super) fn end(&self) -> Result<(), Bad> {
        if self.rest.is_empty() { Ok(()) } else { self.malformed("something stands behind it") }
    }

    /// A field's name.
    pub(super) fn name(&mut self) -> Result<Bytes, Bad> {
        match self.next()? {
            Token::Text(name) => Ok(name),
            other => invalid(format!("a field's name is a text, not {}", other.word())),
        }
    }

    /// A whole value, as JSON has it. Bytes have no place in it.
    fn value(&mut self, depth: usize) -> Result<Value, Bad> {
        if depth > DEPTH_MAX {
            return self.malformed("values are nested too deep");
        }
        Ok(match self.next()? {
            Token::Nil => Value::Null,
            Token::Bool(value) => Value::Bool(value),
            Token::Unsigned(n) => n.into(),
            Token::Signed(n) => n.into(),
            Token::Float(f) => Number::from_f64(f).map_or(Value::Null, Value::Number),
            Token::Text(text) => String::from_utf8_lossy(&text).into_owned().into(),
            Token::Octets(_) => return invalid("bytes stand where a text is expected"),
            Token::Array(count) => {
                let values = (0..count).map(|_| self.value(depth + 1));
                Value::Array(values.collect::<Result<_, _>>()?)
            }
            Token::Map(count) => {
                let mut map = Map::new();
                for _ in 0..count {
                    let name = self.name()?;
                    let name = String::from_utf8_lossy(&name).into_owned();
                    let value = self.value(depth + 1)?;
                    if map.contains_key(&name) {
                        return invalid(format!("duplicate field `{name}`"));
                    }
                    map.insert(name, value);
                }
                Value::Object(map)
            }
        })
    }

    fn malformed<T>(&self, words: &str) -> Result<T, Bad> {
        Err(Bad::Malformed(format!("{words} at byte {}", self.whole - self.rest.len())))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        match self.rest.first_chunk::<N>() {
            Some(bytes) => {
                let bytes = *bytes;
                drop(self.rest.split_to(N));
                Ok(bytes)
            }
            None => self.malformed("it ends too early"),
        }
    }

    fn length<const N: usize>(&mut self) -> Result<usize, Bad> {
        let bytes: [u8; N] = self.array()?;
        Ok(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn take(&mut self, length: usize) -> Result<Bytes, Bad> {
        if length > self.rest.len() {
            return self.malformed("it ends too early");
        }
        Ok(self.rest.split_to(length))
    }

    fn text(&mut self, length: usize) -> Result<Token, Bad> {
        let text = self.take(length)?;
        match std::str::from_utf8(&text) {
            Ok(_) => Ok(Token::Text(text)),
            Err(_) => self.malformed("a text is not UTF-8"),
        }
    }

    fn elements(&self, count: usize, bytes_each: usize) -> Result<usize, Bad> {
        if count.saturating_mul(bytes_each) > self.rest.len() {
            return self.malformed("it ends too early");
        }
        Ok(count)
    }
}

fn signed(n: i64) -> Token {
    u64::try_from(n).map_or(Token::Signed(n), Token::Unsigned)
}

/// A body as JSON has it: for what is small and seldom.
pub(super) fn to_json(body: Bytes) -> Result<Value, Bad> {
    let mut unpack = Unpack::new(body);
    let value = unpack.value(0)?;
    unpack.end()?;
    Ok(value)
}

/// Appends what JSON has.
pub(super) fn from_json(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => put(rmp::encode::write_nil(out)),
        Value::Bool(value) => put(rmp::encode::write_bool(out, *value)),
        Value::Number(n) => match (n.as_u64(), n.as_i64(), n.as_f64()) {
            (Some(n), ..) => unsigned(n, out),
            (_, Some(n), _) => put(rmp::encode::write_sint(out, n)),
            (.., f) => put(rmp::encode::write_f64(out, f.unwrap_or_default())),
        },
        Value::String(said) => text(said, out),
        Value::Array(values) => {
            array(values.len(), out);
            values.iter().for_each(|value| from_json(value, out));
        }
        Value::Object(fields) => {
            map(fields.len(), out);
            for (name, value) in fields {
                text(name, out);
                from_json(value, out);
            }
        }
    }
}

pub(super) fn text(said: &str, out: &mut Vec<u8>) {
    put(rmp::encode::write_str(out, said));
}

pub(super) fn octets(bytes: &[u8], out: &mut Vec<u8>) {
    put(rmp::encode::write_bin(out, bytes));
}

pub(super) fn unsigned(n: u64, out: &mut Vec<u8>) {
    put(rmp::encode::write_uint(out, n));
}

pub(super) fn array(count: usize, out: &mut Vec<u8>) {
    put(rmp::encode::write_array_len(out, u32::try_from(count).unwrap_or(u32::MAX)));
}

pub(super) fn map(count: usize, out: &mut Vec<u8>) {
    put(rmp::encode::write_map_len(out, u32::try_from(count).unwrap_or(u32::MAX)));
}

pub(super) fn boolean(value: bool, out: &mut Vec<u8>) {
    put(rmp::encode::write_bool(out, value));
}

/// A vector takes everything.
fn put<T, E: std::fmt::Debug>(written: Result<T, E>) {
    debug_assert!(written.is_ok(), "{:?}", written.err());
}

#[cfg(test)]
mod tests {
    use super::{Bad, DEPTH_MAX, Token, Unpack, from_json, to_json};
    use bytes::Bytes;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn packed(value: &Value) -> Bytes {
        let mut out = Vec::new();
        from_json(value, &mut out);
        out.into()
    }

    #[test]
    fn values_read_back_as_they_were_written() {
        let long = "x".repeat(70_000);
        for value in [
            json!(null),
            json!([true, false, 0, 127, 128, 65_536, u64::MAX, -1, -33, i64::MIN, 1.5]),
            json!({"a": {"b": [{}, []]}, "text": "мир", "long": long}),
            Value::Array(vec![json!(1); 70_000]),
        ] {
            assert_eq!(to_json(packed(&value)), Ok(value));
        }
    }

    #[test]
    fn texts_and_bytes_share_the_memory_of_the_body() {
        let mut body = Vec::new();
        super::octets(&[7; 300], &mut body);
        let body = Bytes::from(body);
        let Ok(Token::Octets(found)) = Unpack::new(body.clone()).next() else { panic!("bytes") };
        assert_eq!(found.as_ptr(), body.get(3..).unwrap().as_ptr());
    }

    #[test]
    fn what_is_cut_or_claims_too_much_is_refused_with_its_place() {
        let whole = packed(&json!({"version": 1, "messages": [{"payload": "x"}, 300, -5, 1.5]}));
        for cut in 0..whole.len() {
            assert!(to_json(whole.slice(..cut)).is_err(), "cut at {cut}");
        }
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 0xc0][..],
            &[0xdf, 0x00, 0x00, 0x00, 0x02, 0xa1, b'x', 0xc0],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xdb, 0x7f, 0xff, 0xff, 0xff, b'x'],
            &[0xc1],
            &[0xd4, 0, 0],
            &[0xa1, 0xff],
            &[0xc0, 0xc0],
            &[],
        ] {
            let bad = to_json(Bytes::copy_from_slice(bytes)).unwrap_err();
            let Bad::Malformed(words) = bad else { panic!("{bytes:x?}: {bad:?}") };
            assert!(words.contains("at byte"), "{words}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        let nested = |depth: usize| {
            let mut bytes = vec![0x91; depth];
            bytes.push(0xc0);
            to_json(bytes.into())
        };
        assert!(nested(DEPTH_MAX).is_ok());
        assert!(nested(DEPTH_MAX + 1).is_err());
        assert!(nested(1 << 20).is_err());
    }

    proptest! {
        #[test]
        fn whatever_comes_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..300)) {
            drop(to_json(body.into()));
        }
    }
}
