//! What is asked of the room, and what it answers.

use std::ops::RangeInclusive;

use handoff_types::{Sight, Span, Wall};
use thiserror::Error;

use crate::groups::{GroupCommand, GroupRefusal, GroupReply};
use crate::{
    Message, PartitionId, Place, ProducerId, ScheduledId, Scope, Topic, TopicId, TopicName,
    TopicSettings,
};

/// What may be asked for. From the configuration, with the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// `streams.message_bytes_max`: key, payload and headers of one message together.
    pub message_bytes_max: usize,
    /// `streams.headers_max`: headers of one message.
    pub headers_max: usize,
    /// `streams.batch_messages_max`: messages of one request.
    pub batch_messages_max: usize,
    /// `streams.topics_max`
    pub topics_max: usize,
    /// `streams.partitions_max`: of all topics together.
    pub partitions_max: usize,
    /// `streams.producers_max`
    pub producers_max: usize,
    /// `streams.producer_remembered`: places remembered of each.
    pub remembered_max: u32,
    /// Missing ranges remembered of each: 64.
    pub missing_max: u32,
    /// `streams.producer_idle_hours`: then it is forgotten.
    pub producer_idle: Span,
    /// `streams.scheduled_max`: messages that wait.
    pub scheduled_max: usize,
    /// `streams.scheduled_bytes_max`: their bytes.
    pub scheduled_bytes_max: usize,
    /// `streams.deliver_ahead_hours_max`
    pub deliver_ahead_max: Span,
}

/// A topic to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    /// Its name.
    pub name: TopicName,
    /// How many partitions; at least one.
    pub partitions: u32,
    /// The rest.
    pub settings: TopicSettings,
}

/// Messages to be stored, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Produce {
    /// Where.
    pub topic: TopicName,
    /// Who, and the sequence of the first message; the others follow one by one.
    pub producer: Option<(ProducerId, u64)>,
    /// What; at least one.
    pub messages: Vec<Message>,
}

/// A producer that says who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Its GUID, if it has one already.
    pub producer: Option<ProducerId>,
    /// For people.
    pub name: Option<String>,
    /// What its sequences count. None: as before, and [`Scope::Producer`] for a new one.
    pub scope: Option<Scope>,
}

/// What is asked. `sight` is whose names the asker may use; what is out of it is as if it were not
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A new topic.
    CreateTopic {
        /// The topic.
        topic: TopicSpec,
        /// What is allowed.
        bounds: Bounds,
    },
    /// Other settings, all of them: whoever changes one reads the others first.
    AlterTopic {
        /// Which.
        name: TopicName,
        /// The new settings.
        settings: TopicSettings,
    },
    /// More partitions.
    GrowTopic {
        /// Which.
        name: TopicName,
        /// How many then.
        partitions: u32,
        /// What is allowed.
        bounds: Bounds,
    },
    /// A topic and all it holds go.
    DeleteTopic {
        /// Which.
        name: TopicName,
    },
    /// Messages.
    Produce {
        /// What is to be stored.
        produce: Produce,
        /// What is allowed.
        bounds: Bounds,
    },
    /// A producer says who it is.
    RegisterProducer {
        /// What it says.
        registration: Registration,
        /// Whose names it may hear of.
        sight: Sight,
        /// What is allowed.
        bounds: Bounds,
    },
    /// A message that waits is not wanted any more.
    CancelScheduled {
        /// Which.
        id: ScheduledId,
        /// Whose topics.
        sight: Sight,
    },
    /// Messages of a partition below an offset may go. The shell found out from its segments that
    /// they are past their time, or over the size.
    Trim {
        /// Which.
        partition: PartitionId,
        /// The first offset that stays.
        below: u64,
        /// Bytes that stay, about.
        bytes: u64,
    },
    /// Time has passed: what is due is delivered, who was idle is forgotten.
    Tick {
        /// How many messages and producers at most.
        limit: usize,
        /// Bytes of messages at most, give or take one.
        bytes_max: usize,
        /// What is allowed.
        bounds: Bounds,
    },
    /// Something of a group.
    Group(GroupCommand),
}

/// What became of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It is stored.
    Stored,
    /// It was stored already; nothing was stored now.
    Duplicate,
    /// It is stored, and some before it never came.
    StoredAfterGap,
    /// It is stored; it had been missing.
    StoredLate,
    /// It waits for its time.
    Scheduled,
}

/// What became of one message, and where it is. A duplicate's place may be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Produced {
    /// What became of it.
    pub status: Status,
    /// Where it is.
    pub place: Option<Place>,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The topic is there.
    Created(Topic),
    /// The topic is as asked now.
    Altered(Topic),
    /// The topic is gone.
    Deleted(Topic),
    /// What became of each message.
    Produced {
        /// One for each, in order.
        results: Vec<Produced>,
        /// Sequences that are missing because of gaps seen in this request.
        missing: Vec<RangeInclusive<u64>>,
        /// Whether the producer wants to wait until it is on disk: the topic's `durability`.
        waits: bool,
    },
    /// The producer is known.
    Registered {
        /// Its GUID.
        producer: ProducerId,
        /// What its sequences count.
        scope: Scope,
        /// The last sequence stored, over all topics; for [`Scope::Producer`].
        last: Option<u64>,
        /// The same per topic in sight; for [`Scope::Topic`].
        last_by_topic: Vec<(TopicName, u64)>,
    },
    /// It does not wait any more.
    Cancelled(ScheduledId),
    /// The first messages are gone; those of a partition that is gone too, all of them.
    Trimmed {
        /// The first offset that is kept.
        start: u64,
    },
    /// What was due was done.
    Ticked {
        /// Messages delivered.
        delivered: usize,
        /// Whether more is due.
        more: bool,
    },
    /// Something of a group.
    Group(GroupReply),
    /// It cannot be done, and nothing changed.
    Refused(Refusal),
}

/// Why nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// No topic of this name, or not in sight.
    #[error("there is no topic `{0}`; make it with `handoff topic create {0}`")]
    NoTopic(TopicName),
    /// The name is taken, by a topic that is not the same.
    #[error("there is a topic `{0}` already")]
    TopicExists(TopicName),
    /// Fewer partitions than there are, or none, or too many.
    #[error("{0}")]
    Partitions(String),
    /// No such partition.
    #[error("topic `{topic}` has partitions 0 to {}, there is no {partition}", count.saturating_sub(1))]
    NoPartition {
        /// The topic.
        topic: TopicName,
        /// Which was named.
        partition: u32,
        /// How many there are.
        count: u32,
    },
    /// A limit of the configuration, with its key.
    #[error("{0}")]
    Limit(String),
    /// A message that cannot be stored as it is, which one and why.
    #[error("message {number}: {why}")]
    Message {
        /// Its place in the request, from 0.
        number: usize,
        /// What is wrong.
        why: String,
    },
    /// A request without messages.
    #[error("there are no messages in it")]
    Empty,
    /// A sequence that was used for another message.
    #[error(
        "sequence {sequence} was stored already with other content; a producer gives each message a sequence of its own"
    )]
    SequenceReused {
        /// The sequence.
        sequence: u64,
        /// Where that message is.
        place: Place,
    },
    /// A sequence of which nothing is known any more.
    #[error(
        "sequence {sequence} is older than what is remembered of the producer (from {floor} on); whether it was stored is not known, so it was not stored now"
    )]
    SequenceTooOld {
        /// The sequence.
        sequence: u64,
        /// From where on something is known.
        floor: u64,
    },
    /// Sequences do not go beyond 2^63 − 1.
    #[error("a sequence is a number from 0 to 9223372036854775807")]
    SequenceRange,
    /// A producer that counts otherwise.
    #[error("the producer's sequences count {0}; register another producer to count otherwise")]
    ScopeFixed(&'static str),
    /// A producer's name that is too long, or has control characters.
    #[error("a producer's name has at most {0} bytes and no control characters")]
    ProducerName(usize),
    /// No such message waits, or its topic is not in sight.
    #[error("no message with id {0} waits")]
    NoScheduled(ScheduledId),
    /// Not before this time can be asked for.
    #[error(
        "message {number} is to be delivered at a time too far away; streams.deliver_ahead_hours_max allows {hours} hours"
    )]
    TooFarAhead {
        /// Its place in the request, from 0.
        number: usize,
        /// The limit.
        hours: u64,
    },
    /// Why not of a group.
    #[error(transparent)]
    Group(GroupRefusal),
}

/// What the shell does once the changes are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Readers may see the partition up to this offset.
    Published {
        /// The partition.
        partition: PartitionId,
        /// The offset behind the last message.
        end: u64,
        /// When the last was stored.
        last: Wall,
    },
    /// What is stored of the partition below this offset can be removed.
    Drop {
        /// The partition.
        partition: PartitionId,
        /// The first offset that stays.
        below: u64,
    },
    /// A topic is there that nobody asked for by name: one for dead letters. It comes before what is
    /// published in it.
    Made(TopicId),
    /// Everything of the partition can be removed.
    Remove(PartitionId),
}
