//! What calls, clients, channels and keys are called.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// A text that is no name of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{shown:?} is no {what}: {rule}")]
pub struct BadName {
    /// The text, or its beginning.
    pub shown: String,
    /// What it should have been.
    pub what: &'static str,
    /// What such a name is.
    pub rule: &'static str,
}

impl BadName {
    fn new(text: &str, what: &'static str, rule: &'static str) -> Self {
        let shown = text.get(..text.floor_char_boundary(64)).unwrap_or_default().to_owned();
        Self { shown, what, rule }
    }
}

/// The most characters of the text of an id, and the fewest.
pub const ID_LENGTH: usize = 36;

const ID_RULE: &str = "36 characters of a UUID, 8-4-4-4-12, in lower case";

/// Where the hyphens of a UUID stand.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// What a byte is as a hexadecimal digit in lower case; 255 if it is none.
const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        _ => u8::MAX,
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn parse_id(text: &str, what: &'static str) -> Result<u128, BadName> {
    let bad = || BadName::new(text, what, ID_RULE);
    let text: &[u8; ID_LENGTH] = text.as_bytes().try_into().map_err(|_| bad())?;
    let (mut number, mut all) = (0_u128, 0_u8);
    let mut begin = 0;
    for end in HYPHENS.into_iter().chain([ID_LENGTH]) {
        let mut part = 0_u64;
        for byte in text.get(begin..end).unwrap_or_default() {
            let digit = digit(*byte);
            all |= digit;
            part = part << 4 | u64::from(digit & 0xf);
        }
        number = number << (4 * (end - begin)) | u128::from(part);
        begin = end + 1;
    }
    let parted = HYPHENS.iter().all(|at| text.get(*at) == Some(&b'-'));
    // What is no digit has a bit above those of digits.
    if parted && all < 16 { Ok(number) } else { Err(bad()) }
}

/// Where the digits of each byte stand.
const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The text of an id.
fn id_text(id: u128) -> [u8; ID_LENGTH] {
    let mut text = [b'-'; ID_LENGTH];
    let hex = |digit: u8| HEX.get(usize::from(digit & 0xf)).copied().unwrap_or(b'-');
    for (byte, at) in id.to_be_bytes().into_iter().zip(PLACES) {
        if let Some([high, low]) = text.get_mut(at..at + 2) {
            (*high, *low) = (hex(byte >> 4), hex(byte));
        }
    }
    text
}

fn show_id<T>(id: u128, show: impl FnOnce(&str) -> T) -> T {
    let text = id_text(id);
    show(std::str::from_utf8(&text).unwrap_or_default())
}

/// 122 bits of chance as a UUID of version 4.
const fn version_4(chance: u128) -> u128 {
    let blank = chance & !(0xf << 76) & !(0b11 << 62);
    blank | 4 << 76 | 0b10 << 62
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u128);

        impl $name {
            /// The first in order.
            pub const MIN: Self = Self(0);

            /// One of version 4, made of chance.
            #[must_use]
            pub const fn of_chance(chance: u128) -> Self {
                Self(version_4(chance))
            }

            /// The number that its hexadecimal digits are.
            #[must_use]
            pub const fn number(self) -> u128 {
                self.0
            }

            /// The one of a number.
            #[must_use]
            pub const fn from_number(number: u128) -> Self {
                Self(number)
            }

            /// Its text.
            #[must_use]
            pub fn text(self) -> [u8; ID_LENGTH] {
                id_text(self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                parse_id(text, $what).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show_id(self.0, |text| f.write_str(text))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                show_id(self.0, |text| serializer.serialize_str(text))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parsed::<Self>(std::marker::PhantomData))
            }
        }
    };
}

id!(
    /// What its caller calls a call: a UUID. Sent again under the same id, it is the same call.
    CallId,
    "call id"
);
id!(
    /// What a client calls itself: a UUID that it keeps for as long as its process lives, through
    /// every connection it loses.
    ClientId,
    "client id"
);

/// Reads a name from the text of a wire.
struct Parsed<T>(std::marker::PhantomData<T>);

impl<T: FromStr<Err = BadName>> serde::de::Visitor<'_> for Parsed<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident($inner:ty), $max:literal, $what:literal, $rule:literal, $allowed:expr) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($inner);

        impl $name {
            /// The most characters one has.
            pub const LENGTH_MAX: usize = $max;

            /// As people write it.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                let allowed: fn(u8) -> bool = $allowed;
                let fits = (1..=Self::LENGTH_MAX).contains(&text.len());
                match fits && text.bytes().all(allowed) {
                    true => Ok(Self(text.into())),
                    false => Err(BadName::new(text, $what, $rule)),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Parsed::<Self>(std::marker::PhantomData))
            }
        }
    };
}

name!(
    /// Where calls of one kind go: 1 to 128 of `A-Z a-z 0-9 . _ : -`. A copy is the same text in
    /// memory.
    ChannelName(Arc<str>),
    128,
    "channel",
    "1 to 128 of A-Z, a-z, 0-9, '.', '_', ':' and '-'",
    |byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)
);
name!(
    /// What makes two calls of a channel the same one: 1 to 255 visible ASCII characters.
    IdempotencyKey(Arc<str>),
    255,
    "idempotency key",
    "1 to 255 visible ASCII characters",
    |byte| byte.is_ascii_graphic()
);
name!(
    /// Where a call stands in somebody's trace, a W3C `traceparent`: 1 to 128 of `0-9 a-f -`.
    TraceParent(Box<str>),
    128,
    "traceparent",
    "1 to 128 of 0-9, a-f and '-'",
    |byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-'
);

#[cfg(test)]
mod tests {
    use super::{CallId, ChannelName, ClientId, IdempotencyKey};

    #[test]
    fn an_id_reads_back_as_it_was_written() {
        for text in ["c64e9eb3-0295-4506-8d69-86e56b8ecf6f", "00000000-0000-0000-0000-000000000001"]
        {
            assert_eq!(text.parse::<CallId>().unwrap().to_string(), text);
        }
        let made = ClientId::of_chance(u128::MAX).to_string();
        assert_eq!(made, "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(made.parse::<ClientId>().unwrap(), ClientId::of_chance(u128::MAX));
    }

    #[test]
    fn what_is_no_uuid_is_no_id() {
        let upper = "C64E9EB3-0295-4506-8D69-86E56B8ECF6F";
        let moved = "c64e9eb30-295-4506-8d69-86e56b8ecf6f";
        for text in [
            "",
            "1",
            upper,
            moved,
            "c64e9eb3-0295-4506-8d69-86e56b8ecf6",
            "é64e9eb3-0295-4506-8d69-86e56b8ecf6",
        ] {
            assert!(text.parse::<CallId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn what_could_mean_something_else_in_a_path_or_a_header_is_no_name() {
        for text in ["", "a/b", "a b", "a\n", "ä", "a?b", "a#b", "%2e"] {
            assert!(text.parse::<ChannelName>().is_err(), "{text:?}");
        }
        assert!("a".repeat(129).parse::<ChannelName>().is_err());
        assert!("orders.new:eu_1-2".parse::<ChannelName>().is_ok());
        assert!("a b".parse::<IdempotencyKey>().is_err());
        assert!("order/4711?".parse::<IdempotencyKey>().is_ok());
    }
}
