//! What the room has decided so far.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use handoff_types::{Sight, Wall};

use crate::groups::{Group, GroupChange, GroupId, Groups, Letters, Members, Position};
use crate::{
    Key, Partition, PartitionId, Producer, ProducerId, Scheduled, ScheduledId, Sequences, Topic,
    TopicId, TopicName,
};

/// One aggregate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The number of the next topic.
    Counters(TopicId),
    /// A topic's name.
    Name(TopicName),
    /// A topic.
    Topic(Topic),
    /// A partition.
    Partition(Partition),
    /// A producer.
    Producer(Producer),
    /// Sequences.
    Sequences(Sequences),
    /// A message that waits.
    Scheduled(Box<Scheduled>),
    /// A group.
    Group(Box<Group>),
    /// Who is in a group.
    Members(Box<Members>),
    /// Where a group is in a partition.
    Position(Box<Position>),
    /// Letters that a group had replayed.
    Replayed(Letters),
}

/// The aggregates, and what follows from them.
///
/// Everything below the line is a function of what is above it: two states with the same
/// aggregates are equal, whichever way they came about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The number of the next topic; 0 as long as there was none.
    next_topic: TopicId,
    topics: BTreeMap<TopicName, Topic>,
    /// Topics that were made before there were shared stores have none here.
    numbered: BTreeMap<TopicId, TopicName>,
    partitions: BTreeMap<PartitionId, Partition>,
    producers: BTreeMap<ProducerId, Producer>,
    sequences: BTreeMap<(ProducerId, Option<TopicId>), Sequences>,
    scheduled: BTreeMap<ScheduledId, Box<Scheduled>>,
    groups: Groups,
    /// What there is beside what is here, if this is a part of a state.
    elsewhere: Counts,
    // ── derived ──
    names: BTreeMap<TopicId, TopicName>,
    /// Partitions of each topic by their bytes.
    by_bytes: BTreeSet<(TopicId, u64, u32)>,
    due: BTreeSet<(Wall, ScheduledId)>,
    due_by_topic: BTreeSet<(TopicId, Wall, ScheduledId)>,
    sequenced: BTreeSet<(TopicId, ProducerId)>,
    /// Topics that are gone and of which something is left: messages that wait, or sequences.
    orphaned: BTreeSet<TopicId>,
    forget: BTreeSet<(Wall, ProducerId)>,
    scheduled_bytes: usize,
}

/// How evenly a topic is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Skew {
    /// Bytes of the fullest partition.
    pub most: u64,
    /// Bytes of the emptiest.
    pub least: u64,
    /// Bytes of the fullest over the mean; 1 if all are equal or empty.
    pub ratio: f64,
}

/// A topic with its partitions.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicView {
    /// The topic.
    pub topic: Topic,
    /// Its partitions, by number.
    pub partitions: Vec<Partition>,
    /// How evenly it is filled.
    pub skew: Skew,
}

impl State {
    /// A topic by its name.
    #[must_use]
    pub fn topic(&self, name: &TopicName) -> Option<&Topic> {
        self.topics.get(name)
    }

    /// A topic by its number.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Topic> {
        self.topics.get(self.name(id)?).filter(|topic| topic.id == id)
    }

    /// What the topic with a number is called, if it is there. Whoever sees a part of the state may
    /// know that and not yet the topic.
    #[must_use]
    pub fn name(&self, id: TopicId) -> Option<&TopicName> {
        self.names.get(&id).or_else(|| self.numbered.get(&id))
    }

    /// A topic and its partitions, if it is there and in sight.
    #[must_use]
    pub fn view(&self, name: &TopicName, sight: &Sight) -> Option<TopicView> {
        let topic = self.topic(name).filter(|_| sight.sees(name.as_str()))?.clone();
        let partitions: Vec<Partition> =
            self.partitions_of(topic.id).map(|(_, one)| *one).collect();
        let skew = Skew::of(&partitions);
        Some(TopicView { topic, partitions, skew })
    }

    /// Topics in sight by name, those after a name.
    pub fn topics<'a>(
        &'a self,
        sight: &'a Sight,
        after: Option<&TopicName>,
    ) -> impl Iterator<Item = &'a Topic> + use<'a> {
        let from = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.clone()));
        let topics = self.topics.range((from, Bound::Unbounded)).map(|(_, topic)| topic);
        topics.filter(|topic| sight.sees(topic.name.as_str()))
    }

    /// A partition.
    #[must_use]
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(&id)
    }

    /// Every partition there is, with its topic, by id.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        self.partitions.iter().map(|(id, partition)| (*id, partition))
    }

    /// The partitions of a topic, by number.
    pub fn partitions_of(&self, topic: TopicId) -> impl Iterator<Item = (u32, &Partition)> {
        let first = PartitionId { topic, number: 0 };
        let last = PartitionId { topic, number: u32::MAX };
        self.partitions.range(first..=last).map(|(id, partition)| (id.number, partition))
    }

    /// The partition of a topic with the fewest bytes, and of those the first.
    #[must_use]
    pub fn emptiest(&self, topic: TopicId) -> Option<u32> {
        let all = (topic, 0, 0)..=(topic, u64::MAX, u32::MAX);
        self.by_bytes.range(all).next().map(|(_, _, number)| *number)
    }

    /// A producer.
    #[must_use]
    pub fn producer(&self, id: ProducerId) -> Option<&Producer> {
        self.producers.get(&id)
    }

    /// Sequences of a producer.
    #[must_use]
    pub fn sequences(&self, id: ProducerId, topic: Option<TopicId>) -> Option<&Sequences> {
        self.sequences.get(&(id, topic))
    }

    /// Everything known of a producer's sequences, by topic.
    pub fn sequences_of(
        &self,
        id: ProducerId,
    ) -> impl Iterator<Item = (Option<TopicId>, &Sequences)> {
        let all = (id, None)..=(id, Some(TopicId(u32::MAX)));
        self.sequences.range(all).map(|((_, topic), sequences)| (*topic, sequences))
    }

    /// A message that waits. It may be one of a topic that is gone.
    #[must_use]
    pub fn waiting(&self, id: ScheduledId) -> Option<&Scheduled> {
        self.scheduled.get(&id).map(|scheduled| &**scheduled)
    }

    /// Messages that wait, of topics in sight or of one topic, by due time then id, those after a
    /// place.
    pub fn scheduled<'a>(
        &'a self,
        topic: Option<TopicId>,
        sight: &'a Sight,
        after: Option<(Wall, ScheduledId)>,
    ) -> impl Iterator<Item = &'a Scheduled> {
        let from = move |topic: TopicId| match after {
            Some((due, id)) => Bound::Excluded((topic, due, id)),
            None => Bound::Included((topic, Wall(i64::MIN), ScheduledId(0))),
        };
        let one = topic.into_iter().flat_map(move |topic| {
            let last = (topic, Wall(i64::MAX), ScheduledId(u128::MAX));
            self.due_by_topic.range((from(topic), Bound::Included(last))).map(|(_, _, id)| id)
        });
        let all = topic.is_none().then_some(()).into_iter().flat_map(move |()| {
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            self.due.range((from, Bound::Unbounded)).map(|(_, id)| id)
        });
        one.chain(all).filter_map(|id| self.waiting(*id)).filter(|scheduled| {
            self.name(scheduled.topic).is_some_and(|name| sight.sees(name.as_str()))
        })
    }

    /// How many topics, partitions, producers and waiting messages there are, and the bytes of the
    /// last.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let more = self.elsewhere;
        Counts {
            topics: self.topics.len() + more.topics,
            partitions: self.partitions.len() + more.partitions,
            producers: self.producers.len() + more.producers,
            scheduled: self.scheduled.len() + more.scheduled,
            scheduled_bytes: self.scheduled_bytes + more.scheduled_bytes,
            groups: self.groups.count() + more.groups,
        }
    }

    /// An aggregate, for stores.
    #[must_use]
    pub fn aggregate(&self, key: &Key) -> Option<Aggregate> {
        match key {
            Key::Counters => {
                (self.next_topic != TopicId(0)).then_some(Aggregate::Counters(self.next_topic))
            }
            Key::Name(id) => self.numbered.get(id).cloned().map(Aggregate::Name),
            Key::Partition(id) => self.partitions.get(id).copied().map(Aggregate::Partition),
            Key::Producer(id) => self.producers.get(id).cloned().map(Aggregate::Producer),
            Key::Scheduled(id) => self.scheduled.get(id).cloned().map(Aggregate::Scheduled),
            Key::Sequences(id, topic) => {
                self.sequences.get(&(*id, *topic)).cloned().map(Aggregate::Sequences)
            }
            Key::Topic(name) => self.topics.get(name).cloned().map(Aggregate::Topic),
            Key::Group(_) | Key::Replayed(..) | Key::Members(_) | Key::Position(..) => {
                self.groups.aggregate(key)
            }
        }
    }

    /// Puts an aggregate in its place, or takes it away: a cache is filled so. One of another kind
    /// than its key's takes away what was there.
    pub fn put(&mut self, key: &Key, aggregate: Option<Aggregate>) {
        match key {
            Key::Counters => {
                self.next_topic = match aggregate {
                    Some(Aggregate::Counters(next)) => next,
                    _ => TopicId(0),
                };
            }
            Key::Name(id) => {
                let name = match aggregate {
                    Some(Aggregate::Name(name)) => Some(name),
                    _ => None,
                };
                self.set_name(*id, name);
            }
            Key::Partition(id) => {
                let partition = match aggregate {
                    Some(Aggregate::Partition(partition)) => Some(partition),
                    _ => None,
                };
                self.set_partition(*id, partition);
            }
            Key::Producer(id) => {
                let producer = match aggregate {
                    Some(Aggregate::Producer(producer)) => Some(producer),
                    _ => None,
                };
                self.set_producer(*id, producer);
            }
            Key::Scheduled(id) => {
                let scheduled = match aggregate {
                    Some(Aggregate::Scheduled(scheduled)) if scheduled.id == *id => Some(scheduled),
                    _ => None,
                };
                self.set_scheduled(*id, scheduled);
            }
            Key::Sequences(id, topic) => {
                let sequences = match aggregate {
                    Some(Aggregate::Sequences(sequences)) => Some(sequences),
                    _ => None,
                };
                self.set_sequences(*id, *topic, sequences);
            }
            Key::Topic(name) => {
                let topic = match aggregate {
                    Some(Aggregate::Topic(topic)) if topic.name == *name => Some(topic),
                    _ => None,
                };
                self.set_topic(name, topic);
            }
            Key::Group(_) | Key::Replayed(..) | Key::Members(_) | Key::Position(..) => {
                if let Some(topic) = self.groups.put(key, aggregate) {
                    self.mind(topic);
                }
            }
        }
    }

    /// Keys of aggregates from a key on, ascending.
    pub fn keys_from<'a>(&'a self, from: &Key) -> impl Iterator<Item = Key> + use<'a> {
        let Begin { counters, name, partition, producer, scheduled, sequences, topic } =
            Begin::at(from);
        let counters = (counters && self.next_topic != TopicId(0)).then_some(Key::Counters);
        let names = name.into_iter().flat_map(|b| self.numbered.range((b, Bound::Unbounded)));
        let partitions =
            partition.into_iter().flat_map(|b| self.partitions.range((b, Bound::Unbounded)));
        let producers =
            producer.into_iter().flat_map(|b| self.producers.range((b, Bound::Unbounded)));
        let scheduled =
            scheduled.into_iter().flat_map(|b| self.scheduled.range((b, Bound::Unbounded)));
        let sequences =
            sequences.into_iter().flat_map(|b| self.sequences.range((b, Bound::Unbounded)));
        let topics = topic.into_iter().flat_map(|b| self.topics.range((b, Bound::Unbounded)));
        counters
            .into_iter()
            .chain(self.groups.keys_from(from))
            .chain(partitions.map(|(id, _)| Key::Partition(*id)))
            .chain(names.map(|(id, _)| Key::Name(*id)))
            .chain(producers.map(|(id, _)| Key::Producer(*id)))
            .chain(scheduled.map(|(id, _)| Key::Scheduled(*id)))
            .chain(sequences.map(|((id, topic), _)| Key::Sequences(*id, *topic)))
            .chain(topics.map(|(name, _)| Key::Topic(name.clone())))
    }
}

/// For the rules.
impl State {
    /// The number the next topic gets. 0 is no topic's.
    pub(crate) fn next_topic(&self) -> TopicId {
        self.next_topic.max(TopicId(1))
    }

    /// The message that is due first, at the latest by a time.
    pub(crate) fn due_by(&self, wall: Wall) -> impl Iterator<Item = &Scheduled> {
        let due = self.due.range(..=(wall, ScheduledId(u128::MAX)));
        due.filter_map(|(_, id)| self.waiting(*id))
    }

    /// When the first message is due.
    pub(crate) fn first_due(&self) -> Option<Wall> {
        self.due.first().map(|(due, _)| *due)
    }

    /// When the first producer is forgotten.
    pub(crate) fn first_forgotten(&self) -> Option<Wall> {
        self.forget.first().map(|(forget, _)| *forget)
    }

    /// Producers that are to be forgotten by a time.
    pub(crate) fn forgotten_by(&self, wall: Wall) -> impl Iterator<Item = ProducerId> {
        self.forget.range(..=(wall, ProducerId(u128::MAX))).map(|(_, id)| *id)
    }

    /// Whether a topic that once was there is not any more: its first partition comes and goes with
    /// it. The name does not tell, a broker may know the number and not yet the topic.
    pub(crate) fn is_gone(&self, topic: TopicId) -> bool {
        !self.partitions.contains_key(&PartitionId { topic, number: 0 })
    }

    pub(crate) fn has_orphans(&self) -> bool {
        !self.orphaned.is_empty() || self.groups.has_left()
    }

    /// Messages that wait for a topic that is gone.
    pub(crate) fn orphans_waiting(&self) -> impl Iterator<Item = ScheduledId> {
        self.orphaned
            .iter()
            .flat_map(|topic| self.due_by_topic.range(dues_of(*topic)))
            .map(|(_, _, id)| *id)
    }

    /// Sequences to a topic that is gone.
    pub(crate) fn orphans_sequenced(&self) -> impl Iterator<Item = (ProducerId, TopicId)> {
        self.orphaned
            .iter()
            .flat_map(|topic| self.sequenced.range(sequenced_to(*topic)))
            .map(|(topic, id)| (*id, *topic))
    }

    /// Where groups are in partitions of topics that are gone, or groups that are.
    pub(crate) fn orphans_positioned(&self) -> impl Iterator<Item = (GroupId, PartitionId)> {
        let topics = self.orphaned.iter().flat_map(|topic| self.groups.of_topic(*topic));
        topics.chain(self.groups.left())
    }

    pub(crate) fn groups_known(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn evolve_group(&mut self, change: &GroupChange) {
        if let Some(topic) = self.groups.evolve(change) {
            self.mind(topic);
        }
    }

    /// A part of it, which knows how much there is besides.
    pub(crate) fn part(&self, keys: impl IntoIterator<Item = Key>) -> Self {
        let mut part = Self::default();
        keys.into_iter().for_each(|key| part.put(&key, self.aggregate(&key)));
        let (all, here) = (self.counts(), part.counts());
        part.elsewhere = Counts {
            topics: all.topics - here.topics,
            partitions: all.partitions - here.partitions,
            producers: all.producers - here.producers,
            scheduled: all.scheduled - here.scheduled,
            scheduled_bytes: all.scheduled_bytes - here.scheduled_bytes,
            groups: all.groups - here.groups,
        };
        part
    }

    pub(crate) fn set_next_topic(&mut self, next: TopicId) {
        self.next_topic = next;
    }

    pub(crate) fn set_topic(&mut self, name: &TopicName, topic: Option<Topic>) {
        let id = topic.as_ref().map(|topic| topic.id);
        let before = match topic {
            Some(topic) => self.topics.insert(name.clone(), topic),
            None => self.topics.remove(name),
        };
        if let Some(before) = before {
            self.names.remove(&before.id);
        }
        if let Some(id) = id {
            self.names.insert(id, name.clone());
        }
    }

    pub(crate) fn set_name(&mut self, id: TopicId, name: Option<TopicName>) {
        match name {
            Some(name) => self.numbered.insert(id, name),
            None => self.numbered.remove(&id),
        };
    }

    pub(crate) fn alter_topic(&mut self, name: &TopicName, alter: impl FnOnce(&mut Topic)) {
        // Neither name nor number is altered, and nothing else is derived from.
        if let Some(topic) = self.topics.get_mut(name) {
            alter(topic);
        }
    }

    pub(crate) fn set_partition(&mut self, id: PartitionId, partition: Option<Partition>) {
        let bytes = partition.map(|partition| partition.bytes);
        let before = match partition {
            Some(partition) => self.partitions.insert(id, partition),
            None => self.partitions.remove(&id),
        };
        let before = before.map(|partition| partition.bytes);
        if before.is_some() != bytes.is_some() && id.number == 0 {
            self.mind(id.topic);
        }
        if before == bytes {
            return;
        }
        if let Some(bytes) = before {
            self.by_bytes.remove(&(id.topic, bytes, id.number));
        }
        if let Some(bytes) = bytes {
            self.by_bytes.insert((id.topic, bytes, id.number));
        }
    }

    pub(crate) fn set_producer(&mut self, id: ProducerId, producer: Option<Producer>) {
        let forget = producer.as_ref().map(|producer| producer.forget);
        let before = match producer {
            Some(producer) => self.producers.insert(id, producer),
            None => self.producers.remove(&id),
        };
        if let Some(before) = before {
            self.forget.remove(&(before.forget, id));
        }
        if let Some(forget) = forget {
            self.forget.insert((forget, id));
        }
    }

    pub(crate) fn set_sequences(
        &mut self,
        id: ProducerId,
        topic: Option<TopicId>,
        sequences: Option<Sequences>,
    ) {
        let there = sequences.is_some();
        match sequences {
            Some(sequences) => self.sequences.insert((id, topic), sequences),
            None => self.sequences.remove(&(id, topic)),
        };
        self.index_sequences(id, topic, there);
    }

    /// The sequences under a key, made if they are not there.
    pub(crate) fn sequences_mut(
        &mut self,
        id: ProducerId,
        topic: Option<TopicId>,
    ) -> &mut Sequences {
        if !self.sequences.contains_key(&(id, topic)) {
            self.index_sequences(id, topic, true);
        }
        self.sequences.entry((id, topic)).or_default()
    }

    fn index_sequences(&mut self, id: ProducerId, topic: Option<TopicId>, there: bool) {
        let Some(topic) = topic else { return };
        match there {
            true => self.sequenced.insert((topic, id)),
            false => self.sequenced.remove(&(topic, id)),
        };
        self.mind(topic);
    }

    pub(crate) fn set_scheduled(&mut self, id: ScheduledId, scheduled: Option<Box<Scheduled>>) {
        if let Some(before) = self.scheduled.remove(&id) {
            self.due.remove(&(before.due, id));
            self.due_by_topic.remove(&(before.topic, before.due, id));
            self.scheduled_bytes = self.scheduled_bytes.saturating_sub(before.message.bytes());
            self.mind(before.topic);
        }
        if let Some(scheduled) = scheduled {
            let topic = scheduled.topic;
            self.due.insert((scheduled.due, id));
            self.due_by_topic.insert((topic, scheduled.due, id));
            self.scheduled_bytes = self.scheduled_bytes.saturating_add(scheduled.message.bytes());
            self.scheduled.insert(id, scheduled);
            self.mind(topic);
        }
    }

    /// Finds out anew whether something is left of a topic that is gone.
    fn mind(&mut self, topic: TopicId) {
        let left = self.is_gone(topic)
            && (self.due_by_topic.range(dues_of(topic)).next().is_some()
                || self.sequenced.range(sequenced_to(topic)).next().is_some()
                || self.groups.knows_of(topic));
        match left {
            true => self.orphaned.insert(topic),
            false => self.orphaned.remove(&topic),
        };
    }
}

fn dues_of(topic: TopicId) -> RangeInclusive<(TopicId, Wall, ScheduledId)> {
    (topic, Wall(i64::MIN), ScheduledId(0))..=(topic, Wall(i64::MAX), ScheduledId(u128::MAX))
}

fn sequenced_to(topic: TopicId) -> RangeInclusive<(TopicId, ProducerId)> {
    (topic, ProducerId(0))..=(topic, ProducerId(u128::MAX))
}

impl Skew {
    fn of(partitions: &[Partition]) -> Self {
        let bytes = || partitions.iter().map(|partition| partition.bytes);
        let (most, least) = (bytes().max().unwrap_or(0), bytes().min().unwrap_or(0));
        let sum: u128 = bytes().map(u128::from).sum();
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = match sum {
            0 => 1.0,
            sum => most as f64 * partitions.len() as f64 / sum as f64,
        };
        Self { most, least, ratio }
    }
}

/// Where each kind of keys begins that are not below a key; none: all of the kind are.
#[derive(Default)]
struct Begin {
    counters: bool,
    name: Option<Bound<TopicId>>,
    partition: Option<Bound<PartitionId>>,
    producer: Option<Bound<ProducerId>>,
    scheduled: Option<Bound<ScheduledId>>,
    sequences: Option<Bound<(ProducerId, Option<TopicId>)>>,
    topic: Option<Bound<TopicName>>,
}

impl Begin {
    fn at(key: &Key) -> Self {
        let all = Self {
            counters: true,
            name: Some(Bound::Unbounded),
            partition: Some(Bound::Unbounded),
            producer: Some(Bound::Unbounded),
            scheduled: Some(Bound::Unbounded),
            sequences: Some(Bound::Unbounded),
            topic: Some(Bound::Unbounded),
        };
        match key {
            Key::Counters => all,
            Key::Group(_) | Key::Replayed(..) | Key::Members(_) | Key::Position(..) => {
                Self { counters: false, ..all }
            }
            Key::Partition(id) => {
                Self { counters: false, partition: Some(Bound::Included(*id)), ..all }
            }
            Key::Name(id) => {
                Self { counters: false, partition: None, name: Some(Bound::Included(*id)), ..all }
            }
            Key::Producer(id) => Self {
                counters: false,
                name: None,
                partition: None,
                producer: Some(Bound::Included(*id)),
                ..all
            },
            Key::Scheduled(id) => Self {
                scheduled: Some(Bound::Included(*id)),
                sequences: all.sequences,
                topic: all.topic,
                ..Self::default()
            },
            Key::Sequences(id, topic) => Self {
                sequences: Some(Bound::Included((*id, *topic))),
                topic: all.topic,
                ..Self::default()
            },
            Key::Topic(name) => {
                Self { topic: Some(Bound::Included(name.clone())), ..Self::default() }
            }
        }
    }
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Topics.
    pub topics: usize,
    /// Partitions of all of them.
    pub partitions: usize,
    /// Producers.
    pub producers: usize,
    /// Messages that wait.
    pub scheduled: usize,
    /// Bytes of those.
    pub scheduled_bytes: usize,
    /// Groups.
    pub groups: usize,
}
