//! What is asked of groups, with its answer, and all that people can look at right behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use handoff_streams::groups::{
    Group, GroupCommand, GroupName, GroupRefusal, GroupReply, MemberView, MessageStatus,
};
use handoff_streams::{
    Action, Command, Key, PartitionId, Refusal, Reply, State, TopicId, TopicName,
};
use handoff_types::{Now, Sight};

/// Something that was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// When it was decided.
    pub(super) now: Now,
    pub(super) command: Command,
    pub(super) reply: Reply,
    pub(super) actions: Vec<Action>,
    pub(super) look: Look,
}

/// What people see.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub(super) now: Now,
    /// Numbers and how many partitions.
    pub(super) topics: BTreeMap<TopicName, (TopicId, u32)>,
    /// The first offset that is kept, and the one behind the last.
    pub(super) logs: BTreeMap<PartitionId, (u64, u64)>,
    pub(super) groups: BTreeMap<GroupName, SeenGroup>,
    /// How much is left of groups and topics that are gone.
    pub(super) left: usize,
}

/// A group as people see it.
#[derive(Clone, Debug)]
pub(super) struct SeenGroup {
    pub(super) group: Group,
    pub(super) generation: u64,
    pub(super) members: Vec<MemberView>,
    /// Where it is in partitions that it has looked at.
    pub(super) places: BTreeMap<PartitionId, SeenPlace>,
}

/// Where a group is in a partition.
#[derive(Clone, Debug)]
pub(super) struct SeenPlace {
    pub(super) committed: u64,
    pub(super) next: u64,
    /// From offset 0 on, of every message there is or was.
    pub(super) statuses: Vec<MessageStatus>,
    pub(super) dead: u64,
    pub(super) lost: u64,
    /// What it takes of memory.
    pub(super) ranges: usize,
    pub(super) leases: usize,
}

impl Look {
    pub(super) fn at(state: &State, now: Now) -> Self {
        let topics = state.topics(&Sight::All, None);
        let topics: BTreeMap<_, _> =
            topics.map(|topic| (topic.name.clone(), (topic.id, topic.partitions))).collect();
        let logs: BTreeMap<_, _> =
            state.partitions().map(|(id, one)| (id, (one.start, one.end))).collect();
        let groups = state.groups(&Sight::All, None);
        let groups: BTreeMap<_, _> = groups
            .filter_map(|group| {
                let view = state.group_view(&group.name, &Sight::All, now)?;
                let places = logs.iter().filter_map(|(id, (_, end))| {
                    Some((*id, SeenPlace::at(state, group, *id, *end, now)?))
                });
                let seen = SeenGroup {
                    group: group.clone(),
                    generation: view.generation,
                    members: view.members,
                    places: places.collect(),
                };
                Some((group.name.clone(), seen))
            })
            .collect();
        let alive: BTreeSet<_> = groups.values().map(|seen| seen.group.id).collect();
        let left = state.keys_from(&Key::Counters).filter(|key| match key {
            Key::Members(id) => !alive.contains(id),
            Key::Position(id, at) | Key::Replayed(id, at) => {
                !alive.contains(id) || !logs.contains_key(at)
            }
            _ => false,
        });
        let left = left.count();
        Self { now, topics, logs, groups, left }
    }
}

impl SeenPlace {
    fn at(state: &State, group: &Group, id: PartitionId, end: u64, now: Now) -> Option<Self> {
        let position = state.position(group.id, id)?;
        let statuses = (0..end.max(position.next()))
            .filter_map(|offset| state.message_status(&group.name, id, offset, now));
        Some(Self {
            committed: position.start(),
            next: position.next(),
            statuses: statuses.collect(),
            dead: position.dead_count(),
            lost: position.lost(),
            ranges: position.range_count(),
            leases: position.leases().count(),
        })
    }
}

/// A name for the kind of a command.
pub(super) fn kind(command: &Command) -> &'static str {
    let Command::Group(command) = command else { return crate::streams::kind(command) };
    match command {
        GroupCommand::Create { .. } => "create group",
        GroupCommand::Alter { .. } => "alter group",
        GroupCommand::Delete { .. } => "delete group",
        GroupCommand::Join { .. } => "join",
        GroupCommand::Leave { .. } => "leave",
        GroupCommand::Heartbeat { .. } => "heartbeat",
        GroupCommand::Poll { .. } => "poll",
        GroupCommand::Commit { produce, .. } if !produce.is_empty() => "commit and produce",
        GroupCommand::Commit { .. } => "commit",
        GroupCommand::Sweep { .. } => "sweep",
        GroupCommand::Seek { .. } => "seek",
        GroupCommand::Replay { .. } => "replay",
    }
}

/// A name for a refusal.
pub(super) fn why(refusal: &Refusal) -> &'static str {
    let Refusal::Group(refusal) = refusal else { return crate::streams::why(refusal) };
    match refusal {
        GroupRefusal::NoGroup(_) => "no group",
        GroupRefusal::GroupExists(_) => "group exists",
        GroupRefusal::Settings(_) => "settings",
        GroupRefusal::NoTopics(_) => "no topics",
        GroupRefusal::MemberGone(_) => "member gone",
        GroupRefusal::Fenced { .. } => "fenced",
        GroupRefusal::Backwards { .. } => "backwards",
        GroupRefusal::Twice { .. } => "twice",
        _ => "another",
    }
}

/// A command in words, without bodies.
pub(super) fn words(command: &Command) -> String {
    let Command::Group(command) = command else { return crate::streams::words(command) };
    match command {
        GroupCommand::Join { join, .. } => format!(
            "{} joins {} for {:?} as {:?}, silent for {} ms",
            join.client,
            join.group,
            join.topics,
            join.instance,
            join.session.0 / 1_000
        ),
        GroupCommand::Poll { group, member, max_messages, max_bytes, found, .. } => {
            let found = found.iter().map(|one| {
                let offsets: Vec<u64> = one.facts.iter().map(|fact| fact.offset).collect();
                format!("{} from {}: {offsets:?}", one.partition, one.kept)
            });
            let found: Vec<String> = found.collect();
            let found = found.join(", ");
            format!("{member} of {group} polls {max_messages}, {max_bytes} bytes, of {found}")
        }
        GroupCommand::Commit { group, member, results, produce, bodies, .. } => {
            let results = results.iter().map(|one| {
                let (at, from, to, status) = (one.partition, one.from, one.to, one.status);
                let lease = one.lease.map(|lease| format!(" under {lease}")).unwrap_or_default();
                format!("{at} {from} to {to} {status:?}{lease}")
            });
            let results: Vec<String> = results.collect();
            let (results, sent, read) = (results.join(", "), produce.len(), bodies.len());
            format!("{member} of {group} commits {results}; {sent} requests, {read} bodies")
        }
        GroupCommand::Sweep { group, due, bodies, .. } => {
            format!("sweep {group}: {due:?}, {} bodies", bodies.len())
        }
        GroupCommand::Replay { group, letters, .. } => {
            let letters: Vec<_> = letters.iter().map(|one| (one.partition, one.offset)).collect();
            format!("replay {letters:?} of {group}")
        }
        other => format!("{other:?}"),
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", words(&self.command))?;
        match &self.reply {
            Reply::Group(GroupReply::Created(_) | GroupReply::Altered(_)) => f.write_str("done"),
            reply => write!(f, "{reply:?}"),
        }
    }
}
