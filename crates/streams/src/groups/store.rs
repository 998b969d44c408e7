//! The aggregates of groups, and what follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};

use handoff_types::Steady;

use super::change::GroupChange;
use super::command::Due;
use super::dead::Letters;
use super::membership::{Member, MemberId, Members};
use super::position::Position;
use super::settings::{Group, GroupId, GroupName};
use crate::{Aggregate, Key, PartitionId, TopicId};

/// What is known of all groups. Everything below the line is a function of what is above it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    groups: BTreeMap<GroupName, Group>,
    members: BTreeMap<GroupId, Members>,
    positions: BTreeMap<(GroupId, PartitionId), Position>,
    replayed: BTreeMap<(GroupId, PartitionId), Letters>,
    // ── derived ──
    names: BTreeMap<GroupId, GroupName>,
    /// When a member will have been silent for too long, or a lease of a partition is over: the
    /// first of each.
    deadlines: BTreeSet<(Steady, GroupId, Option<PartitionId>)>,
    by_topic: BTreeSet<(TopicId, GroupId, u32)>,
    /// Groups that are gone and of which something is left.
    gone: BTreeSet<GroupId>,
}

impl Groups {
    pub(crate) fn group(&self, name: &GroupName) -> Option<&Group> {
        self.groups.get(name)
    }

    pub(crate) fn group_by_id(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(self.names.get(&id)?)
    }

    pub(crate) fn groups_after(&self, after: Option<&GroupName>) -> impl Iterator<Item = &Group> {
        let from = after.map_or(Bound::Unbounded, |name| Bound::Excluded(name.clone()));
        self.groups.range((from, Bound::Unbounded)).map(|(_, group)| group)
    }

    pub(crate) fn count(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn members(&self, id: GroupId) -> Option<&Members> {
        self.members.get(&id)
    }

    pub(crate) fn position(&self, id: GroupId, partition: PartitionId) -> Option<&Position> {
        self.positions.get(&(id, partition))
    }

    pub(crate) fn positions(&self, id: GroupId) -> impl Iterator<Item = (PartitionId, &Position)> {
        self.positions.range(all_of(id)).map(|((_, partition), one)| (*partition, one))
    }

    pub(crate) fn letters(&self, id: GroupId, partition: PartitionId) -> Option<&Letters> {
        self.replayed.get(&(id, partition))
    }

    /// When the first member will have been silent for too long, or the first lease is over.
    pub(crate) fn first_deadline(&self) -> Option<Steady> {
        self.deadlines.first().map(|(deadline, _, _)| *deadline)
    }

    /// Groups with something to be looked after.
    pub(crate) fn due(&self, now: Steady) -> impl Iterator<Item = &GroupName> {
        let last = (now, GroupId(u64::MAX), Some(LAST));
        let due: BTreeSet<GroupId> = self.deadlines.range(..=last).map(|(_, id, _)| *id).collect();
        due.into_iter().filter_map(|id| self.names.get(&id))
    }

    /// What is to be looked after in a group.
    pub(crate) fn due_of(&self, id: GroupId, now: Steady) -> Due {
        let members = self.members.get(&id);
        let members = members.into_iter().flat_map(|members| members.silent(now)).collect();
        let over = |one: &Position| one.first_deadline().is_some_and(|deadline| deadline <= now);
        let partitions = self.positions(id).filter(|(_, one)| over(one));
        Due { members, partitions: partitions.map(|(partition, _)| partition).collect() }
    }

    /// Whether something of a topic's is known.
    pub(crate) fn knows_of(&self, topic: TopicId) -> bool {
        self.of_topic(topic).next().is_some()
    }

    /// What is known of a topic's partitions.
    pub(crate) fn of_topic(&self, topic: TopicId) -> impl Iterator<Item = (GroupId, PartitionId)> {
        let all = (topic, GroupId(0), 0)..=(topic, GroupId(u64::MAX), u32::MAX);
        let places = self.by_topic.range(all);
        places.map(|(topic, id, number)| (*id, PartitionId { topic: *topic, number: *number }))
    }

    /// What is left of groups that are gone.
    pub(crate) fn left(&self) -> impl Iterator<Item = (GroupId, PartitionId)> {
        self.gone.iter().flat_map(|id| {
            let positions = self.positions.range(all_of(*id)).map(|(key, _)| *key);
            let places: BTreeSet<_> =
                positions.chain(self.replayed.range(all_of(*id)).map(|(key, _)| *key)).collect();
            places
        })
    }

    pub(crate) fn has_left(&self) -> bool {
        !self.gone.is_empty()
    }

    /// What has to go with a place.
    pub(crate) fn removals(
        &self,
        id: GroupId,
        partition: PartitionId,
    ) -> impl Iterator<Item = GroupChange> {
        let position = self.positions.contains_key(&(id, partition));
        let position = position.then_some(GroupChange::PositionGone(id, partition));
        let replayed = self.replayed.contains_key(&(id, partition));
        let replayed = replayed.then_some(GroupChange::ReplayedGone(id, partition));
        position.into_iter().chain(replayed)
    }
}

/// For stores.
impl Groups {
    pub(crate) fn aggregate(&self, key: &Key) -> Option<Aggregate> {
        match key {
            Key::Group(name) => self.groups.get(name).cloned().map(Box::new).map(Aggregate::Group),
            Key::Members(id) => self.members.get(id).cloned().map(Box::new).map(Aggregate::Members),
            Key::Position(id, partition) => {
                let position = self.positions.get(&(*id, *partition)).cloned();
                position.map(Box::new).map(Aggregate::Position)
            }
            Key::Replayed(id, partition) => {
                self.replayed.get(&(*id, *partition)).cloned().map(Aggregate::Replayed)
            }
            _ => None,
        }
    }

    /// Puts an aggregate in its place; gives the topic of which something is known now that was
    /// not, or the other way round.
    pub(crate) fn put(&mut self, key: &Key, aggregate: Option<Aggregate>) -> Option<TopicId> {
        match key {
            Key::Group(name) => {
                let group = match aggregate {
                    Some(Aggregate::Group(group)) if group.name == *name => Some(*group),
                    _ => None,
                };
                self.set_group(name, group);
                None
            }
            Key::Members(id) => {
                let members = match aggregate {
                    Some(Aggregate::Members(members)) => Some(*members),
                    _ => None,
                };
                self.set_members(*id, members);
                None
            }
            Key::Position(id, partition) => {
                let position = match aggregate {
                    Some(Aggregate::Position(position)) => Some(*position),
                    _ => None,
                };
                self.set_position(*id, *partition, position);
                Some(partition.topic)
            }
            Key::Replayed(id, partition) => {
                let letters = match aggregate {
                    Some(Aggregate::Replayed(letters)) => Some(letters),
                    _ => None,
                };
                self.set_replayed(*id, *partition, letters);
                Some(partition.topic)
            }
            _ => None,
        }
    }

    /// Keys from one on, ascending. All of them lie between counters and partitions.
    pub(crate) fn keys_from<'a>(&'a self, from: &Key) -> impl Iterator<Item = Key> + use<'a> {
        let above = from.clone();
        let first = match from {
            Key::Group(name) => Bound::Included(name.clone()),
            _ => Bound::Unbounded,
        };
        let members = match from {
            Key::Members(id) => *id,
            _ => GroupId(0),
        };
        let beginning = (GroupId(0), PartitionId::default());
        let position = match from {
            Key::Position(id, partition) => (*id, *partition),
            _ => beginning,
        };
        let replayed = match from {
            Key::Replayed(id, partition) => (*id, *partition),
            _ => beginning,
        };
        let groups = self.groups.range((first, Bound::Unbounded));
        groups
            .map(|(name, _)| Key::Group(name.clone()))
            .chain(self.replayed.range(replayed..).map(|((id, at), _)| Key::Replayed(*id, *at)))
            .chain(self.members.range(members..).map(|(id, _)| Key::Members(*id)))
            .chain(self.positions.range(position..).map(|((id, at), _)| Key::Position(*id, *at)))
            .skip_while(move |key| *key < above)
    }
}

/// Changes become true.
impl Groups {
    /// Gives the topic of which something may be known now that was not, or the other way round.
    pub(crate) fn evolve(&mut self, change: &GroupChange) -> Option<TopicId> {
        match change {
            GroupChange::Made(group) => self.set_group(&group.name, Some((**group).clone())),
            GroupChange::Altered(name, settings) => {
                if let Some(group) = self.groups.get_mut(name) {
                    group.settings = (**settings).clone();
                }
            }
            GroupChange::Deleted(name) => self.set_group(name, None),
            GroupChange::Members(id, members) => self.set_members(*id, Some((**members).clone())),
            GroupChange::MembersGone(id) => self.set_members(*id, None),
            GroupChange::Seen(id, member, deadline) => {
                self.alter_member(*id, *member, |member| member.deadline = *deadline);
            }
            GroupChange::Moved(id, partition, steps) => {
                let key = (*id, *partition);
                let mut position = self.positions.remove(&key).unwrap_or_default();
                let before = position.first_deadline();
                steps.iter().for_each(|step| position.evolve(step));
                self.place(key, before, Some(position));
                return Some(partition.topic);
            }
            GroupChange::PositionGone(id, partition) => {
                self.set_position(*id, *partition, None);
                return Some(partition.topic);
            }
            GroupChange::Replayed(id, partition, runs) => {
                let mut letters = self.replayed.remove(&(*id, *partition)).unwrap_or_default();
                runs.iter().for_each(|run| letters.add(*run));
                self.set_replayed(*id, *partition, Some(letters));
                return Some(partition.topic);
            }
            GroupChange::ReplayedGone(id, partition) => {
                self.set_replayed(*id, *partition, None);
                return Some(partition.topic);
            }
        }
        None
    }

    fn set_group(&mut self, name: &GroupName, group: Option<Group>) {
        let id = group.as_ref().map(|group| group.id);
        let before = match group {
            Some(group) => self.groups.insert(name.clone(), group),
            None => self.groups.remove(name),
        };
        if let Some(before) = before {
            self.names.remove(&before.id);
        }
        if let Some(id) = id {
            self.names.insert(id, name.clone());
        }
    }

    fn set_members(&mut self, id: GroupId, members: Option<Members>) {
        let deadline = members.as_ref().and_then(Members::first_deadline);
        let before = match members {
            Some(members) => self.members.insert(id, members),
            None => self.members.remove(&id),
        };
        let before = before.as_ref().and_then(Members::first_deadline);
        self.remind((id, None), before, deadline);
        self.mind(id);
    }

    fn alter_member(&mut self, id: GroupId, who: MemberId, alter: impl FnOnce(&mut Member)) {
        let Some(members) = self.members.get_mut(&id) else { return };
        let before = members.first_deadline();
        if let Some(member) = members.members.get_mut(&who) {
            alter(member);
        }
        let after = members.first_deadline();
        self.remind((id, None), before, after);
    }

    fn set_position(&mut self, id: GroupId, partition: PartitionId, position: Option<Position>) {
        let before = self.positions.remove(&(id, partition));
        let before = before.as_ref().and_then(Position::first_deadline);
        self.place((id, partition), before, position);
    }

    fn place(
        &mut self,
        key: (GroupId, PartitionId),
        before: Option<Steady>,
        position: Option<Position>,
    ) {
        let after = position.as_ref().and_then(Position::first_deadline);
        self.remind((key.0, Some(key.1)), before, after);
        if let Some(position) = position {
            self.positions.insert(key, position);
        }
        self.index(key);
    }

    fn set_replayed(&mut self, id: GroupId, partition: PartitionId, letters: Option<Letters>) {
        match letters {
            Some(letters) => drop(self.replayed.insert((id, partition), letters)),
            None => drop(self.replayed.remove(&(id, partition))),
        }
        self.index((id, partition));
    }

    fn remind(
        &mut self,
        (id, partition): (GroupId, Option<PartitionId>),
        before: Option<Steady>,
        after: Option<Steady>,
    ) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.deadlines.remove(&(before, id, partition));
        }
        if let Some(after) = after {
            self.deadlines.insert((after, id, partition));
        }
    }

    fn index(&mut self, (id, partition): (GroupId, PartitionId)) {
        let there = self.positions.contains_key(&(id, partition))
            || self.replayed.contains_key(&(id, partition));
        let place = (partition.topic, id, partition.number);
        match there {
            true => self.by_topic.insert(place),
            false => self.by_topic.remove(&place),
        };
        self.mind(id);
    }

    /// Finds out anew whether something is left of a group that is gone.
    fn mind(&mut self, id: GroupId) {
        let left = !self.members.contains_key(&id)
            && (self.positions.range(all_of(id)).next().is_some()
                || self.replayed.range(all_of(id)).next().is_some());
        match left {
            true => self.gone.insert(id),
            false => self.gone.remove(&id),
        };
    }
}

const LAST: PartitionId = PartitionId { topic: TopicId(u32::MAX), number: u32::MAX };

fn all_of(id: GroupId) -> RangeInclusive<(GroupId, PartitionId)> {
    (id, PartitionId::default())..=(id, LAST)
}
