//! Messages as they come in.

use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use handoff_types::{Span, Wall};

use crate::{ProducerId, TopicId, TopicName};

/// A name and a value beside the payload. Names that begin with `handoff.` are the server's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// UTF-8.
    pub name: Bytes,
    /// Anything.
    pub value: Bytes,
}

/// A message to be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Message {
    /// Messages of one key keep their order.
    pub key: Option<Bytes>,
    /// What it is about.
    pub payload: Bytes,
    /// In the order they came.
    pub headers: Vec<Header>,
    /// The partition, if the sender chose it.
    pub partition: Option<u32>,
    /// Not before this.
    pub deliver_at: Option<Wall>,
    /// For how long after it got its offset anybody wants it. Stored as the header
    /// `handoff.expires`, milliseconds since 1970 in decimal.
    pub ttl: Option<Span>,
}

impl Message {
    /// Bytes of key, payload and headers together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.name.len() + header.value.len());
        self.key.as_ref().map_or(0, Bytes::len) + self.payload.len() + headers.sum::<usize>()
    }

    /// The same in memory of its own: one that waits for long must not keep the request it came in.
    pub(crate) fn apart(&self) -> Self {
        let apart = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        let headers = self.headers.iter();
        let headers =
            headers.map(|Header { name, value }| Header { name: apart(name), value: apart(value) });
        Self {
            key: self.key.as_ref().map(apart),
            payload: apart(&self.payload),
            headers: headers.collect(),
            ..*self
        }
    }

    /// CRC-32C of all that was sent, and of where to: two messages of a producer with the same
    /// sequence are one message if it is equal.
    #[must_use]
    pub fn crc(&self, topic: &TopicName) -> u32 {
        let mut crc = field(0, Some(topic.as_str().as_bytes()));
        crc = field(crc, self.key.as_deref());
        crc = field(crc, Some(&self.payload));
        crc = number(crc, Some(self.headers.len() as u64));
        for header in &self.headers {
            crc = field(field(crc, Some(&header.name)), Some(&header.value));
        }
        crc = number(crc, self.partition.map(u64::from));
        crc = number(crc, self.deliver_at.map(|at| at.0.cast_unsigned()));
        number(crc, self.ttl.map(|ttl| ttl.0))
    }
}

/// A field goes in with its length, so that no two messages give the same bytes.
fn field(crc: u32, bytes: Option<&[u8]>) -> u32 {
    let crc = number(crc, bytes.map(|bytes| bytes.len() as u64));
    crc32c::crc32c_append(crc, bytes.unwrap_or_default())
}

fn number(crc: u32, number: Option<u64>) -> u32 {
    let mut bytes = [0; 9];
    if let Some(number) = number {
        let (there, rest) = bytes.split_at_mut(1);
        there.fill(1);
        rest.copy_from_slice(&number.to_le_bytes());
    }
    crc32c::crc32c_append(crc, &bytes)
}

/// The id of a message that is to be delivered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScheduledId(pub u128);

impl ScheduledId {
    /// The lowest id a message has that is due then. Ids that were given before there were shared
    /// stores are not ordered.
    pub(crate) const fn first_at(due: Wall) -> Self {
        Self(((due.0 ^ i64::MIN).cast_unsigned() as u128) << 64)
    }
}

impl fmt::Display for ScheduledId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for ScheduledId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        if text.len() != 32
            || !text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
        {
            return Err(());
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| ())
    }
}

/// A message that waits for its time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scheduled {
    /// Its id.
    pub id: ScheduledId,
    /// Where it goes.
    pub topic: TopicId,
    /// When.
    pub due: Wall,
    /// Who sent it, and with which sequence.
    pub producer: Option<(ProducerId, u64)>,
    /// The message.
    pub message: Message,
}
