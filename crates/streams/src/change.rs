//! What becomes true.

use bytes::Bytes;
use handoff_types::Wall;

use crate::groups::GroupChange;
use crate::{
    Key, PartitionId, Producer, ProducerId, Remembered, Scheduled, ScheduledId, Topic, TopicId,
    TopicName, TopicSettings,
};

/// A change of one aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The number of the next topic.
    NextTopic(TopicId),
    /// A topic is there.
    TopicCreated(Topic),
    /// A topic has other settings.
    TopicAltered(TopicName, TopicSettings),
    /// A topic has more partitions.
    TopicGrown(TopicName, u32),
    /// A topic is gone.
    TopicDeleted(TopicName),
    /// A topic's number has a name: the topic's, as long as it is there.
    TopicNamed(TopicId, TopicName),
    /// A number is nobody's any more, and never will be.
    TopicUnnamed(TopicId),
    /// A partition is there, empty.
    PartitionOpened(PartitionId),
    /// A partition is gone.
    PartitionClosed(PartitionId),
    /// A batch stands at the end of a partition.
    Appended {
        /// The partition.
        partition: PartitionId,
        /// The first offset.
        base: u64,
        /// How many messages.
        count: u32,
        /// The timestamp of the last of them.
        last: Wall,
        /// Bytes of the batch.
        bytes: u32,
        /// The batch. It is not part of the change's bytes and not of the state: it travels beside
        /// them as bulk data, and is empty in a change that was read back.
        batch: Bytes,
    },
    /// The first messages of a partition are not kept any more.
    Trimmed {
        /// The partition.
        partition: PartitionId,
        /// The first offset that is.
        start: u64,
        /// Bytes that are still kept, about.
        bytes: u64,
    },
    /// A producer is there, or was heard of again.
    ProducerSeen(ProducerId, Producer),
    /// A producer was not heard of for long and is forgotten.
    ProducerForgotten(ProducerId),
    /// Sequences of a producer are stored, in this order. What follows for gaps follows from the
    /// rules of [`Sequences`](crate::Sequences).
    Sequenced {
        /// The producer.
        producer: ProducerId,
        /// The topic, if it counts per topic.
        topic: Option<TopicId>,
        /// What is stored now.
        stored: Vec<Remembered>,
        /// How many places are remembered at most.
        remembered_max: u32,
        /// How many missing ranges are remembered at most.
        missing_max: u32,
    },
    /// What was known of a producer's sequences is forgotten.
    SequencesForgotten(ProducerId, Option<TopicId>),
    /// A message waits for its time.
    Scheduled(Box<Scheduled>),
    /// A message does not wait any more: it was delivered, cancelled, or its topic is gone.
    Unscheduled(ScheduledId),
    /// Something of a group.
    Group(GroupChange),
}

impl Change {
    /// Whether nothing is under its key once it is true.
    #[must_use]
    pub const fn ends(&self) -> bool {
        match self {
            Self::TopicDeleted(_)
            | Self::TopicUnnamed(_)
            | Self::PartitionClosed(_)
            | Self::ProducerForgotten(_)
            | Self::SequencesForgotten(..)
            | Self::Unscheduled(_) => true,
            Self::NextTopic(_)
            | Self::TopicCreated(_)
            | Self::TopicAltered(..)
            | Self::TopicGrown(..)
            | Self::TopicNamed(..)
            | Self::PartitionOpened(_)
            | Self::Appended { .. }
            | Self::Trimmed { .. }
            | Self::ProducerSeen(..)
            | Self::Sequenced { .. }
            | Self::Scheduled(_) => false,
            Self::Group(change) => change.ends(),
        }
    }

    /// The one aggregate the change touches.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Self::NextTopic(_) => Key::Counters,
            Self::TopicCreated(topic) => Key::Topic(topic.name.clone()),
            Self::TopicAltered(name, _) | Self::TopicGrown(name, _) | Self::TopicDeleted(name) => {
                Key::Topic(name.clone())
            }
            Self::TopicNamed(id, _) | Self::TopicUnnamed(id) => Key::Name(*id),
            Self::PartitionOpened(partition)
            | Self::PartitionClosed(partition)
            | Self::Appended { partition, .. }
            | Self::Trimmed { partition, .. } => Key::Partition(*partition),
            Self::ProducerSeen(id, _) | Self::ProducerForgotten(id) => Key::Producer(*id),
            Self::Sequenced { producer, topic, .. } | Self::SequencesForgotten(producer, topic) => {
                Key::Sequences(*producer, *topic)
            }
            Self::Scheduled(scheduled) => Key::Scheduled(scheduled.id),
            Self::Unscheduled(id) => Key::Scheduled(*id),
            Self::Group(change) => change.key(),
        }
    }
}
