//! What an aggregate is found by.

use bytes::Bytes;

use crate::{PartitionId, ProducerId, ScheduledId, TopicId, TopicName};

/// The key of an aggregate. Keys are ordered as their bytes are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What counts across topics: the next topic's number.
    Counters,
    /// Where a partition begins and ends.
    Partition(PartitionId),
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
    /// p/│ topic u32 │ number u32 │       a partition
    /// r/│ GUID u128 │                    a producer
    /// s/│ id u128 │                      a message that waits
    /// u/│ GUID u128 │ [topic u32 │]      sequences
    /// w/│ name │                         a topic
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        match self {
            Self::Counters => Bytes::from_static(COUNTERS),
            Self::Partition(id) => [PARTITION, &id.lane().to_be_bytes()].concat().into(),
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
        match kind {
            PARTITION => {
                let lane = u64::from_be_bytes(rest.try_into().ok()?);
                Some(Self::Partition(PartitionId::from_lane(lane)))
            }
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
const PARTITION: &[u8] = b"p/";
const PRODUCER: &[u8] = b"r/";
const SCHEDULED: &[u8] = b"s/";
const SEQUENCES: &[u8] = b"u/";
const TOPIC: &[u8] = b"w/";
