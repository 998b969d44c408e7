//! Protobuf, as much of it as remote write needs.

use crate::wire::{self, Front, Malformed};

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
    Small,
}

/// The fields of a message, one by one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) Front<'a>);

impl<'a> Fields<'a> {
    pub(super) const fn of(message: &'a [u8]) -> Self {
        Self(Front(message))
    }

    /// The next field. None at the end of the message.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.0.small()?;
        let value = match tag & 7 {
            0 => Value::Number(self.0.number()?),
            1 => Value::Fixed(self.0.u64()?),
            2 => Value::Bytes(self.0.sized()?),
            5 => {
                self.0.u32()?;
                Value::Small
            }
            _ => return Err(Malformed("has a field of a wire type that is not known")),
        };
        match tag >> 3 {
            0 => Err(Malformed("has a field without a number")),
            number => Ok(Some((number, value))),
        }
    }
}

/// The numbers of a repeated field, packed into one piece or not.
pub(super) fn each_number(value: Value<'_>, mut each: impl FnMut(u32)) -> Result<(), Malformed> {
    match value {
        Value::Number(number) => {
            each(u32::try_from(number).map_err(|_| Malformed("a number is too large"))?);
            Ok(())
        }
        Value::Bytes(packed) => {
            let mut front = Front(packed);
            while !front.is_empty() {
                each(front.small()?);
            }
            Ok(())
        }
        _ => Err(Malformed("has a field of another type")),
    }
}

pub(super) fn put_number(out: &mut Vec<u8>, field: u32, number: u64) {
    if number != 0 {
        wire::put(out, u64::from(field) << 3);
        wire::put(out, number);
    }
}

pub(super) fn put_double(out: &mut Vec<u8>, field: u32, bits: u64) {
    // A negative zero is not the default.
    if bits != 0 {
        wire::put(out, u64::from(field) << 3 | 1);
        out.extend_from_slice(&bits.to_le_bytes());
    }
}

pub(super) fn put_bytes(out: &mut Vec<u8>, field: u32, bytes: &[u8]) {
    wire::put(out, u64::from(field) << 3 | 2);
    wire::put_bytes(out, bytes);
}
