//! What an aggregate is found by.

use bytes::Bytes;

use crate::groups::{GroupId, GroupName};
use crate::{PartitionId, ProducerId, ScheduledId, TopicId, TopicName};

/// The key of an aggregate. Keys are ordered as their bytes are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What counts across topics: the next topic's number.
    Counters,
    /// A group.
    Group(GroupName),
    /// Which letters of a dead-letter partition a group had replayed.
    Replayed(GroupId, PartitionId),
    /// Who is in a group.
    Members(GroupId),
    /// Where a group is in a partition.
    Position(GroupId, PartitionId),
    /// Where a partition begins and ends.
    Partition(PartitionId),
    /// What the topic with a number is called, as long as it is there. Whoever sees a part of the
    /// state finds the topic of a message that waits, or of sequences, by it.
    Name(TopicId),
    /// A producer.
    Producer(ProducerId),
    /// A message that waits.
    Scheduled(ScheduledId),
    /// What is known of a producer's sequences, to one topic if it counts so.
    Sequences(ProducerId, Option<TopicId>),
    /// A topic.
    Topic(TopicName),
}

impl Key {
    /// The key's bytes, with numbers big-endian, so that they sort as the keys do:
    ///
    /// ```text
    /// c │                                counters
    /// g/│ name │                         a group
    /// l/│ group u64 │ topic u32 │ number u32 │   letters replayed
    /// m/│ group u64 │                    members of a group
    /// o/│ group u64 │ topic u32 │ number u32 │   where a group is
    /// p/│ topic u32 │ number u32 │       a partition
    /// q/│ topic u32 │                    a topic's name
    /// r/│ GUID u128 │                    a producer
    /// s/│ id u128 │                      a message that waits
    /// u/│ GUID u128 │ [topic u32 │]      sequences
    /// w/│ name │                         a topic
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Counters => Bytes::from_static(COUNTERS),
            Self::Group(name) => [GROUP, name.as_str().as_bytes()].concat().into(),
            Self::Replayed(group, id) => {
                [REPLAYED, &group.0.to_be_bytes(), &id.lane().to_be_bytes()].concat().into()
            }
            Self::Members(group) => [MEMBERS, &group.0.to_be_bytes()].concat().into(),
            Self::Position(group, id) => {
                [POSITION, &group.0.to_be_bytes(), &id.lane().to_be_bytes()].concat().into()
            }
            Self::Partition(id) => [PARTITION, &id.lane().to_be_bytes()].concat().into(),
            Self::Name(id) => [NAME, &id.0.to_be_bytes()].concat().into(),
            Self::Producer(id) => [PRODUCER, &id.0.to_be_bytes()].concat().into(),
            Self::Scheduled(id) => [SCHEDULED, &id.0.to_be_bytes()].concat().into(),
            Self::Sequences(id, None) => [SEQUENCES, &id.0.to_be_bytes()].concat().into(),
            Self::Sequences(id, Some(topic)) => {
                [SEQUENCES, &id.0.to_be_bytes(), &topic.0.to_be_bytes()].concat().into()
            }
            Self::Topic(name) => [TOPIC, name.as_str().as_bytes()].concat().into(),
        }
    }

    /// The key of these bytes; none if they are none.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes == COUNTERS {
            return Some(Self::Counters);
        }
        let (kind, rest) = bytes.split_at_checked(2)?;
        let lane =
            |bytes: &[u8]| Some(PartitionId::from_lane(u64::from_be_bytes(bytes.try_into().ok()?)));
        match kind {
            GROUP => Some(Self::Group(str::from_utf8(rest).ok()?.parse().ok()?)),
            REPLAYED | POSITION => {
                let (group, id) = rest.split_first_chunk()?;
                let (group, id) = (GroupId(u64::from_be_bytes(*group)), lane(id)?);
                let is_position = kind == POSITION;
                Some(if is_position {
                    Self::Position(group, id)
                } else {
                    Self::Replayed(group, id)
                })
            }
            MEMBERS => Some(Self::Members(GroupId(u64::from_be_bytes(rest.try_into().ok()?)))),
            PARTITION => lane(rest).map(Self::Partition),
            NAME => Some(Self::Name(TopicId(u32::from_be_bytes(rest.try_into().ok()?)))),
            PRODUCER => {
                Some(Self::Producer(ProducerId(u128::from_be_bytes(rest.try_into().ok()?))))
            }
            SCHEDULED => {
                Some(Self::Scheduled(ScheduledId(u128::from_be_bytes(rest.try_into().ok()?))))
            }
            SEQUENCES => {
                let (id, topic) = rest.split_first_chunk()?;
                let id = ProducerId(u128::from_be_bytes(*id));
                let topic = match topic.is_empty() {
                    true => None,
                    false => Some(TopicId(u32::from_be_bytes(topic.try_into().ok()?))),
                };
                Some(Self::Sequences(id, topic))
            }
            TOPIC => Some(Self::Topic(str::from_utf8(rest).ok()?.parse().ok()?)),
            _ => None,
        }
    }
}

const COUNTERS: &[u8] = b"c";
const GROUP: &[u8] = b"g/";
const REPLAYED: &[u8] = b"l/";
const MEMBERS: &[u8] = b"m/";
const POSITION: &[u8] = b"o/";
const PARTITION: &[u8] = b"p/";
const NAME: &[u8] = b"q/";
const PRODUCER: &[u8] = b"r/";
const SCHEDULED: &[u8] = b"s/";
const SEQUENCES: &[u8] = b"u/";
const TOPIC: &[u8] = b"w/";
