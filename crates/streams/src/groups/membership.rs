//! Who is in a group, and what each has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use handoff_types::{Span, Steady, Wall};

use super::settings::Group;
use crate::{PartitionId, State, TopicId, TopicName};

/// A member's id, drawn when it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u128);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is no member's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a member's id has 32 digits of 0-9 and a-f, as the answer to joining has it")]
pub struct BadMemberId;

impl FromStr for MemberId {
    type Err = BadMemberId;

    fn from_str(text: &str) -> Result<Self, BadMemberId> {
        let id: crate::ScheduledId = text.parse().map_err(|()| BadMemberId)?;
        Ok(Self(id.0))
    }
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// What it says it is, for people.
    pub client: String,
    /// A name that outlives it: whoever joins under it takes its place.
    pub instance: Option<String>,
    /// What it reads; none named: what the group reads. Sorted, each once.
    pub topics: Vec<TopicName>,
    /// For how long it may be silent.
    pub session: Span,
    /// When that is over.
    pub deadline: Steady,
    /// When it joined.
    pub since: Wall,
    /// The partitions it has, sorted.
    pub assigned: Vec<PartitionId>,
    /// Partitions it had and may still hold messages of, sorted.
    pub former: Vec<PartitionId>,
}

impl Member {
    /// What it reads.
    pub(crate) fn reads<'a>(&'a self, group: &'a Group) -> &'a [TopicName] {
        if self.topics.is_empty() { &group.settings.topics } else { &self.topics }
    }

    /// Whether a partition is its own.
    #[must_use]
    pub fn has(&self, partition: PartitionId) -> bool {
        self.assigned.binary_search(&partition).is_ok()
    }

    /// Every partition it may hold messages of.
    pub(crate) fn may_hold(&self) -> impl Iterator<Item = PartitionId> {
        self.assigned.iter().chain(&self.former).copied()
    }

    /// Gives it other partitions.
    pub(crate) fn assign(&mut self, assigned: Vec<PartitionId>) {
        let mut former: BTreeSet<PartitionId> = self.former.iter().copied().collect();
        former.extend(&self.assigned);
        former.retain(|id| assigned.binary_search(id).is_err());
        self.former = former.into_iter().collect();
        self.assigned = assigned;
    }
}

/// A topic as it was when partitions were given out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Given {
    /// Its name.
    pub name: TopicName,
    /// Its number.
    pub id: TopicId,
    /// How many partitions it had.
    pub partitions: u32,
}

/// The members of a group. There from the group's first moment to its last: whether a group is gone
/// is told by this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Members {
    /// Grows whenever partitions change hands.
    pub generation: u64,
    /// Who is in it.
    pub members: BTreeMap<MemberId, Member>,
    /// The topics whose partitions were given out, by name.
    pub given: Vec<Given>,
}

impl Members {
    /// When the first of them will have been silent for too long.
    pub(crate) fn first_deadline(&self) -> Option<Steady> {
        self.members.values().map(|member| member.deadline).min()
    }

    /// Whether one is a member and was not silent for too long.
    pub(crate) fn is_alive(&self, who: MemberId, now: Steady) -> bool {
        self.members.get(&who).is_some_and(|member| member.deadline > now)
    }

    /// Those that were silent for too long.
    pub(crate) fn silent(&self, now: Steady) -> impl Iterator<Item = MemberId> {
        self.members.iter().filter(move |(_, member)| member.deadline <= now).map(|(id, _)| *id)
    }

    /// The name of a topic whose partitions were given out. By this and not by the topic itself:
    /// whoever decides need not know all topics to know which one has a number.
    pub(crate) fn name_of(&self, topic: TopicId) -> Option<&TopicName> {
        self.given.iter().find(|given| given.id == topic).map(|given| &given.name)
    }

    /// Who has a partition.
    pub(crate) fn owner(&self, partition: PartitionId) -> Option<MemberId> {
        let mut members = self.members.iter();
        members.find(|(_, member)| member.has(partition)).map(|(id, _)| *id)
    }

    /// The topics that members read, as they are now, by name.
    pub(crate) fn topics_now(&self, state: &State, group: &Group) -> Vec<Given> {
        let names: BTreeSet<&TopicName> =
            self.members.values().flat_map(|member| member.reads(group)).collect();
        let topics = names.into_iter().filter_map(|name| state.topic(name));
        let given = |topic: &crate::Topic| Given {
            name: topic.name.clone(),
            id: topic.id,
            partitions: topic.partitions,
        };
        topics.map(given).collect()
    }

    /// Gives partitions out again if members or topics are others than they were.
    pub(crate) fn settle(&mut self, state: &State, group: &Group) {
        // What nobody reads any more is remembered until somebody reads something: whoever went may
        // have left messages that die.
        if !self.members.is_empty() {
            self.given = self.topics_now(state, group);
        }
        let plan = super::assignment::plan(self, group);
        let mut moved = false;
        for (id, assigned) in plan {
            if let Some(member) = self.members.get_mut(&id)
                && member.assigned != assigned
            {
                member.assign(assigned);
                moved = true;
            }
        }
        self.generation += u64::from(moved);
    }
}
