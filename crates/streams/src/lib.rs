//! The streams room: topics, their partitions, who produced what, and what is due later.
//!
//! # Rules
//! * A request is stored as a whole or not at all. Offsets of a partition are dense.
//! * A message with a key goes where murmur2 of its key says, so messages of one key keep their
//!   order; one without a key goes to the partition with the fewest bytes, all of one request to
//!   the same; a partition that is named wins.
//! * `duplicate` is never said of a message that is not stored. What a producer's sequence means is
//!   in [`Sequences`].
//! * Timestamps of a partition never decrease.
//! * A message that is to be delivered later is durable at once and has neither partition nor
//!   offset until it is due.
//!
//! What is stored is a Kafka record batch ([`batch`]), made here, with offsets and times in it. It
//! travels beside the change that announces it: the state knows that it is there, not what it says.
//!
//! Who reads them is in [`groups`].
//!
//! [`Streams`] is the machine, [`State`] what it has decided so far. An aggregate has a [`Key`]; a
//! change touches one aggregate. [`port`] is what the room needs of a store, whatever it is.

pub mod batch;
mod broker;
mod change;
mod codec;
mod command;
#[cfg(feature = "conformance")]
pub mod conformance;
mod decide;
mod evolve;
#[cfg(feature = "conformance")]
pub mod faulty;
pub mod groups;
mod key;
#[cfg(feature = "conformance")]
pub mod memory;
mod message;
mod needs;
mod partition;
mod partitioner;
pub mod port;
mod produce;
mod producer;
mod register;
mod schedule;
mod sequences;
mod state;
mod topic;
mod topics;

pub use broker::{Broker, Records, Rules};
pub use change::Change;
pub use codec::{Undecodable, decode_aggregate, decode_change, encode_aggregate, encode_change};
pub use command::{
    Action, Bounds, Command, Produce, Produced, Refusal, Registration, Reply, Status, TopicSpec,
};
pub use decide::Streams;
pub use key::Key;
pub use message::{Header, Message, Scheduled, ScheduledId};
pub use partition::{Partition, PartitionId};
pub use partitioner::partition_of_key;
pub use producer::{BadProducerId, Place, Producer, ProducerId, Remembered, Scope};
pub use sequences::Sequences;
pub use state::{Aggregate, Counts, Skew, State, TopicView};
pub use topic::{BadTopicName, Compression, Durability, Topic, TopicId, TopicName, TopicSettings};
