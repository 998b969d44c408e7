//! What an aggregate is found by.

use bytes::Bytes;

use crate::{CallId, ChannelName, ClientId};

/// The key of an aggregate. Keys are ordered as their bytes are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The settings of a channel.
    Channel(ChannelName),
    /// A client. It is never stored.
    Client(ClientId),
    /// A call.
    Call(CallId),
    /// The fencing tokens.
    Fences,
}

impl Key {
    /// The first of all.
    pub const MIN_BYTES: &[u8] = &[];

    /// The key's bytes, with numbers big-endian, so that they sort as the keys do:
    ///
    /// ```text
    /// 1 │ name │       a channel
    /// 2 │ id 16 bytes  a client
    /// 3 │ id 16 bytes  a call
    /// 4               the fencing tokens
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let with = |kind: u8, rest: &[u8]| Bytes::from([&[kind], rest].concat());
        match self {
            Self::Channel(name) => with(1, name.as_str().as_bytes()),
            Self::Client(id) => with(2, &id.number().to_be_bytes()),
            Self::Call(id) => with(3, &id.number().to_be_bytes()),
            Self::Fences => with(4, &[]),
        }
    }

    /// The key of these bytes, if they are one.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let number = |bytes: &[u8]| Some(u128::from_be_bytes(bytes.try_into().ok()?));
        Some(match kind {
            1 => Self::Channel(std::str::from_utf8(rest).ok()?.parse().ok()?),
            2 => Self::Client(ClientId::from_number(number(rest)?)),
            3 => Self::Call(CallId::from_number(number(rest)?)),
            4 if rest.is_empty() => Self::Fences,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Key;
    use crate::{CallId, ClientId};

    #[test]
    fn keys_sort_as_their_bytes_do_and_read_back() {
        let keys = [
            Key::Channel("a".parse().unwrap()),
            Key::Channel("a.b".parse().unwrap()),
            Key::Channel("b".parse().unwrap()),
            Key::Client(ClientId::from_number(7)),
            Key::Call(CallId::from_number(255)),
            Key::Call(CallId::from_number(256)),
            Key::Fences,
        ];
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].to_bytes() < pair[1].to_bytes(), "{pair:?}");
        }
        for key in keys {
            assert_eq!(Key::from_bytes(&key.to_bytes()), Some(key));
        }
    }
}
