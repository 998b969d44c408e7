//! Changes become true.
//!
//! A change reads and writes the aggregate under its key and nothing else but what is derived from
//! aggregates: replay skips changes by key, and chunks of a checkpoint are true at different times.
//! Nothing here refuses: a change that does not fit what is there does what still makes sense.

use handoff_types::Wall;

use crate::{Change, Partition, PartitionId, State};

pub(crate) fn evolve(state: &mut State, change: &Change) {
    match change {
        Change::NextTopic(next) => state.set_next_topic(*next),
        Change::TopicCreated(topic) => state.set_topic(&topic.name, Some(topic.clone())),
        Change::TopicAltered(name, settings) => {
            state.alter_topic(name, |topic| topic.settings = *settings);
        }
        Change::TopicGrown(name, partitions) => {
            state.alter_topic(name, |topic| topic.partitions = topic.partitions.max(*partitions));
        }
        Change::TopicDeleted(name) => state.set_topic(name, None),
        Change::TopicNamed(id, name) => state.set_name(*id, Some(name.clone())),
        Change::TopicUnnamed(id) => state.set_name(*id, None),
        Change::PartitionOpened(id) => state.set_partition(*id, Some(Partition::default())),
        Change::PartitionClosed(id) => state.set_partition(*id, None),
        Change::Appended { partition, base, count, last, bytes, batch: _ } => {
            append(state, *partition, base.saturating_add(u64::from(*count)), *last, *bytes);
        }
        Change::Trimmed { partition, start, bytes } => trim(state, *partition, *start, *bytes),
        Change::ProducerSeen(id, producer) => state.set_producer(*id, Some(producer.clone())),
        Change::ProducerForgotten(id) => state.set_producer(*id, None),
        Change::Sequenced { producer, topic, stored, remembered_max, missing_max } => {
            let sequences = state.sequences_mut(*producer, *topic);
            for one in stored {
                sequences.store(*one, *remembered_max, *missing_max);
            }
        }
        Change::SequencesForgotten(producer, topic) => state.set_sequences(*producer, *topic, None),
        Change::Scheduled(scheduled) => state.set_scheduled(scheduled.id, Some(scheduled.clone())),
        Change::Unscheduled(id) => state.set_scheduled(*id, None),
        Change::Group(change) => state.evolve_group(change),
    }
}

fn append(state: &mut State, id: PartitionId, end: u64, last: Wall, bytes: u32) {
    let before = state.partition(id).copied().unwrap_or_default();
    let after = Partition {
        start: before.start,
        end: before.end.max(end),
        bytes: before.bytes.saturating_add(u64::from(bytes)),
        last: before.last.max(last),
    };
    state.set_partition(id, Some(after));
}

fn trim(state: &mut State, id: PartitionId, start: u64, bytes: u64) {
    if let Some(before) = state.partition(id).copied() {
        let start = start.clamp(before.start, before.end.max(before.start));
        state.set_partition(id, Some(Partition { start, bytes, ..before }));
    }
}
