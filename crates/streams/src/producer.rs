//! Who produced what.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use handoff_types::Wall;

use crate::{PartitionId, ScheduledId, TopicId};

/// A producer's GUID, written as a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerId(pub u128);

impl fmt::Display for ProducerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            id >> 96,
            id >> 80 & 0xffff,
            id >> 64 & 0xffff,
            id >> 48 & 0xffff,
            id & 0xffff_ffff_ffff
        )
    }
}

/// A text that is no GUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a producer is a GUID, as in 6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab")]
pub struct BadProducerId;

impl FromStr for ProducerId {
    type Err = BadProducerId;

    fn from_str(text: &str) -> Result<Self, BadProducerId> {
        let dashes = [8, 13, 18, 23];
        let shaped = text.len() == 36
            && text.bytes().enumerate().all(|(at, byte)| match dashes.contains(&at) {
                true => byte == b'-',
                false => byte.is_ascii_hexdigit(),
            });
        if !shaped {
            return Err(BadProducerId);
        }
        u128::from_str_radix(&text.replace('-', ""), 16).map(Self).map_err(|_| BadProducerId)
    }
}

/// What a producer's sequences count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All its messages.
    #[default]
    Producer,
    /// Its messages to each topic.
    Topic,
}

/// A producer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Producer {
    /// For people; may be empty.
    pub name: String,
    /// What its sequences count.
    pub scope: Scope,
    /// When it was last heard of, to the hour.
    pub used: Wall,
    /// When it is forgotten, if it is not heard of again.
    pub forget: Wall,
    /// The topics it has sequences to, if they count per topic, those that are gone too: whoever sees
    /// a part of the state finds its sequences by them. Written since there are shared stores.
    pub topics: BTreeSet<TopicId>,
}

impl Producer {
    /// The longest name, in bytes.
    pub const NAME_BYTES_MAX: usize = 256;
}

/// A message that is known to be stored, by its sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Remembered {
    /// Its sequence.
    pub sequence: u64,
    /// CRC-32C of what was sent, to tell a repetition from another message.
    pub crc: u32,
    /// Where it is.
    pub place: Place,
}

/// Where a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// To an offset of a partition.
    At(PartitionId, u64),
    /// It waits for its time, or waited.
    Scheduled(ScheduledId),
}
