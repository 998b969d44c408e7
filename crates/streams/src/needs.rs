//! What a command must see.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use handoff_types::{Now, Wall};

use crate::{
    Command, Key, Message, PartitionId, Produce, ScheduledId, Scope, State, Topic, TopicId, groups,
    partition_of_key,
};

pub(crate) fn needs(state: &State, command: &Command) -> Vec<Key> {
    match command {
        Command::CreateTopic { topic, .. } => vec![Key::Counters, Key::Topic(topic.name.clone())],
        Command::AlterTopic { name, .. } | Command::GrowTopic { name, .. } => {
            vec![Key::Topic(name.clone())]
        }
        Command::DeleteTopic { name } => {
            let mut keys = vec![Key::Topic(name.clone())];
            keys.extend(state.topic(name).map(|topic| Key::Name(topic.id)));
            keys.extend(state.topic(name).into_iter().flat_map(partitions));
            keys
        }
        Command::Produce { produce, .. } => of_produce(state, produce),
        Command::RegisterProducer { registration, .. } => {
            let Some(id) = registration.producer else { return Vec::new() };
            let mut keys = vec![Key::Producer(id)];
            match state.producer(id).map(|producer| producer.scope) {
                None | Some(Scope::Producer) => keys.push(Key::Sequences(id, None)),
                Some(Scope::Topic) => {
                    let topics = state.producer(id).into_iter().flat_map(|known| &known.topics);
                    for topic in topics {
                        keys.push(Key::Sequences(id, Some(*topic)));
                        keys.extend(named(state, *topic));
                    }
                }
            }
            keys
        }
        Command::CancelScheduled { id, .. } => {
            let topic = state.waiting(*id).map(|one| one.topic);
            let named = topic.into_iter().flat_map(|topic| named(state, topic));
            [Key::Scheduled(*id)].into_iter().chain(named).collect()
        }
        Command::Trim { partition, .. } => vec![Key::Partition(*partition)],
        // What is due is found among what is there; whoever has only a part of it looks first
        // ([`finds`]). Without a clock everything that waits may be due.
        Command::Tick { limit, .. } => of_tick(state, *limit),
        Command::Group(command) => groups::needs(state, command),
    }
}

/// Where to look for aggregates that a command is about and does not name: from a key to another,
/// the first so many.
pub(crate) fn finds(command: &Command, now: Now) -> Vec<(RangeInclusive<Key>, usize)> {
    match command {
        Command::Tick { limit, .. } => {
            let first = Key::Scheduled(ScheduledId(0));
            let last = ScheduledId(ScheduledId::first_at(now.wall).0 | u128::from(u64::MAX));
            vec![(first..=Key::Scheduled(last), limit.saturating_add(1))]
        }
        _ => Vec::new(),
    }
}

/// What tells a topic by its number: the name, and then the topic.
fn named(state: &State, topic: TopicId) -> impl Iterator<Item = Key> + use<> {
    let known = state.name(topic).map(|name| Key::Topic(name.clone()));
    [Key::Name(topic)].into_iter().chain(known)
}

pub(crate) fn of_produce(state: &State, produce: &Produce) -> Vec<Key> {
    let Produce { topic, producer, messages } = produce;
    let mut keys = vec![Key::Topic(topic.clone())];
    let topic = state.topic(topic);
    if let Some(topic) = topic {
        keys.extend(destinations(topic, messages));
    }
    if let Some((id, _)) = producer {
        keys.push(Key::Producer(*id));
        match (state.producer(*id).map(|producer| producer.scope), topic) {
            (Some(Scope::Topic), Some(topic)) => keys.push(Key::Sequences(*id, Some(topic.id))),
            (Some(Scope::Topic), None) => {}
            (Some(Scope::Producer) | None, _) => keys.push(Key::Sequences(*id, None)),
        }
    }
    keys
}

fn of_tick(state: &State, limit: usize) -> Vec<Key> {
    // One more than is done says whether there is more.
    let limit = limit.saturating_add(1);
    let mut keys = BTreeSet::new();
    let end = Wall(i64::MAX);
    for scheduled in state.due_by(end).take(limit) {
        keys.insert(Key::Scheduled(scheduled.id));
        keys.insert(first_partition(scheduled.topic));
        keys.extend(named(state, scheduled.topic));
        if let Some(topic) = state.topic_by_id(scheduled.topic) {
            keys.extend(destinations(topic, std::slice::from_ref(&scheduled.message)));
        }
    }
    // Whether a topic is gone is told by its first partition.
    for id in state.orphans_waiting().take(limit) {
        keys.insert(Key::Scheduled(id));
        keys.extend(state.waiting(id).map(|one| first_partition(one.topic)));
    }
    for (id, topic) in state.orphans_sequenced().take(limit) {
        keys.extend([Key::Sequences(id, Some(topic)), first_partition(topic)]);
    }
    // Whether a group is gone is told by its members.
    for (id, partition) in state.orphans_positioned().take(limit) {
        keys.extend([Key::Members(id), first_partition(partition.topic)]);
        let known = state.groups_known();
        keys.extend(known.removals(id, partition).map(|change| change.key()));
    }
    for id in state.forgotten_by(end).take(limit) {
        keys.extend([Key::Producer(id), Key::Sequences(id, None)]);
        for topic in state.producer(id).into_iter().flat_map(|known| &known.topics) {
            keys.extend([Key::Sequences(id, Some(*topic)), first_partition(*topic)]);
        }
    }
    keys.into_iter().collect()
}

/// The partitions these messages may go to. Without a key it may be any: which has the fewest bytes
/// is known only by looking at all.
fn destinations(topic: &Topic, messages: &[Message]) -> BTreeSet<Key> {
    let key = |number| Key::Partition(PartitionId { topic: topic.id, number });
    let free = |message: &Message| message.partition.is_none() && message.key.is_none();
    if messages.iter().any(free) {
        return partitions(topic).collect();
    }
    let number = |message: &Message| match (message.partition, &message.key) {
        (Some(number), _) => Some(number).filter(|number| *number < topic.partitions),
        (None, Some(bytes)) => Some(partition_of_key(bytes, topic.partitions)),
        (None, None) => None,
    };
    messages.iter().filter_map(number).map(key).collect()
}

fn partitions(topic: &Topic) -> impl Iterator<Item = Key> + use<> {
    let topic_id = topic.id;
    (0..topic.partitions).map(move |number| Key::Partition(PartitionId { topic: topic_id, number }))
}

fn first_partition(topic: TopicId) -> Key {
    Key::Partition(PartitionId { topic, number: 0 })
}
