//! Messages die: a letter for each, and its verdict, in one decision.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::{Now, Span};

use super::command::{Body, Reads};
use super::dead::Death;
use super::membership::Members;
use super::position::{Run, Step};
use super::settings::Group;
use crate::batch::Record;
use crate::produce::Delivery;
use crate::{
    Action, Bounds, Change, Compression, Durability, Key, Message, PartitionId, Refusal, State,
    TopicSettings, TopicSpec, topics,
};

/// What letters are kept like if nobody made their topic.
const SETTINGS: TopicSettings = TopicSettings {
    retention: None::<Span>,
    retention_bytes: None,
    durability: Durability::Fsync,
    compression: Compression::None,
};

/// Messages that were read, by where they are.
pub(crate) struct Bodies<'a>(BTreeMap<(PartitionId, u64), Option<&'a Record>>);

impl<'a> Bodies<'a> {
    pub(crate) fn of(bodies: &'a [Body]) -> Self {
        let one = |body: &'a Body| ((body.partition, body.offset), body.record.as_ref());
        Self(bodies.iter().map(one).collect())
    }

    /// What was read of a message; none if nobody read it.
    pub(crate) fn get(&self, partition: PartitionId, offset: u64) -> Option<Option<&'a Record>> {
        self.0.get(&(partition, offset)).copied()
    }
}

/// A message that dies.
#[derive(Clone, Debug)]
pub(crate) struct Dying<'a> {
    pub(crate) partition: PartitionId,
    pub(crate) offset: u64,
    pub(crate) attempt: u32,
    pub(crate) error: &'a str,
    pub(crate) record: Option<&'a Record>,
}

/// Buries them: their letters go to the end of the group's dead-letter topic, which is made if it is
/// not there. `known` is what the decision knows so far; what becomes true here is true there too.
pub(crate) fn bury(
    known: &mut State,
    (group, members): (&Group, &Members),
    dying: &[Dying<'_>],
    bounds: &Bounds,
    now: Now,
    changes: &mut Vec<Change>,
    actions: &mut Vec<Action>,
) -> Result<BTreeMap<PartitionId, Vec<Step>>, Refusal> {
    let mut steps: BTreeMap<PartitionId, Vec<Step>> = BTreeMap::new();
    if dying.is_empty() {
        return Ok(steps);
    }
    let name = &group.settings.dead_letter;
    let mut made = Vec::new();
    if known.topic(name).is_none() {
        let spec = TopicSpec { name: name.clone(), partitions: 1, settings: SETTINGS };
        made = topics::create(known, &spec, bounds, now)?.changes;
        made.iter().for_each(|change| crate::evolve::evolve(known, change));
    }
    let Some(topic) = known.topic(name) else { return Err(Refusal::NoTopic(name.clone())) };
    let letter = |one: &Dying<'_>| {
        let id = one.partition.topic;
        let death = Death {
            // A topic that is gone is known by those who read it; one that nobody reads any more,
            // by its name.
            topic: known.name(id).or_else(|| members.name_of(id)),
            partition: one.partition,
            offset: one.offset,
            attempt: one.attempt,
            error: one.error,
            record: one.record,
        };
        death.letter(&group.name, topic.partitions)
    };
    let letters: Vec<Message> = dying.iter().map(letter).collect();
    if !made.is_empty() {
        actions.push(Action::Made(topic.id));
    }
    let mut delivery = Delivery::new(known, topic, now.wall);
    for (one, letter) in dying.iter().zip(&letters) {
        let place = delivery.add(letter);
        let steps = steps.entry(one.partition).or_default();
        match steps.last_mut() {
            Some(Step::Dead { run: (first, last), letter: Some((at, base)) })
                if last.checked_add(1) == Some(one.offset)
                    && (*at, *base + (*last - *first) + 1) == place =>
            {
                *last = one.offset;
            }
            _ => steps.push(Step::Dead { run: (one.offset, one.offset), letter: Some(place) }),
        }
    }
    let mut stored = Vec::new();
    delivery.finish(&mut stored, actions);
    stored.iter().for_each(|change| crate::evolve::evolve(known, change));
    changes.append(&mut made);
    changes.append(&mut stored);
    Ok(steps)
}

/// The keys that burying messages of these partitions needs.
pub(crate) fn needs(state: &State, group: &Group, partitions: &BTreeSet<PartitionId>) -> Vec<Key> {
    if partitions.is_empty() {
        return Vec::new();
    }
    let name = &group.settings.dead_letter;
    let mut keys = vec![Key::Topic(name.clone())];
    keys.extend(partitions.iter().map(|partition| Key::Name(partition.topic)));
    match state.topic(name) {
        None => keys.push(Key::Counters),
        Some(topic) => keys.extend(partitions.iter().map(|partition| {
            let number = partition.number.checked_rem(topic.partitions).unwrap_or(0);
            Key::Partition(PartitionId { topic: topic.id, number })
        })),
    }
    keys
}

/// Notes offsets to be read.
pub(crate) fn read(reads: &mut Reads, partition: PartitionId, (first, last): Run) {
    match reads.last_mut() {
        Some((of, range)) if *of == partition && range.end().checked_add(1) == Some(first) => {
            *range = *range.start()..=last;
        }
        _ => reads.push((partition, first..=last)),
    }
}
