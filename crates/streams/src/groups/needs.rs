//! What a command of groups must see.
//!
//! The end of a partition is not among it: a poll is told by what was read how far it goes, and it
//! only goes further. Else whoever reads would be in the way of whoever writes.

use std::collections::BTreeSet;

use super::command::GroupCommand;
use super::membership::{Member, MemberId};
use super::settings::{Group, GroupName, sorted};
use super::{manage, replay};
use crate::{Key, PartitionId, State, TopicName};

pub(crate) fn needs(state: &State, command: &GroupCommand) -> Vec<Key> {
    let name = command.group();
    let mut keys: BTreeSet<Key> = BTreeSet::from([Key::Group(name.clone())]);
    let group = state.group(name);
    if let Some(group) = group {
        keys.insert(Key::Members(group.id));
    }
    match (command, group) {
        (GroupCommand::Create { settings, .. }, None) => {
            keys.extend(settings.topics.iter().cloned().map(Key::Topic));
        }
        (GroupCommand::Alter { settings, .. }, Some(group)) => {
            let altered = Group { settings: settings.clone(), ..group.clone() };
            keys.extend(reading(state, &altered));
            keys.extend(settings.topics.iter().cloned().map(Key::Topic));
            keys.extend(positions(state, group, &sorted(settings.topics.clone())));
        }
        (GroupCommand::Join { join, .. }, group) => {
            let named = || sorted(join.topics.clone());
            keys.extend(join.topics.iter().cloned().map(Key::Topic));
            if let Some(group) = group {
                keys.extend(reading(state, group));
                let topics = if join.topics.is_empty() {
                    keys.extend(group.settings.topics.iter().cloned().map(Key::Topic));
                    group.settings.topics.clone()
                } else {
                    named()
                };
                keys.extend(positions(state, group, &topics));
                let members = state.members(group.id).into_iter().flat_map(|all| &all.members);
                let same =
                    |member: &&Member| join.instance.is_some() && member.instance == join.instance;
                let replaced = members.map(|(_, member)| member).filter(same);
                keys.extend(replaced.flat_map(|member| held(group, member)));
            }
        }
        (GroupCommand::Leave { member, .. }, Some(group)) => {
            keys.extend(reading(state, group));
            let members = state.members(group.id);
            let member = members.and_then(|members| members.members.get(member));
            keys.extend(member.into_iter().flat_map(|member| held(group, member)));
        }
        (GroupCommand::Heartbeat { .. }, Some(group)) => keys.extend(reading(state, group)),
        (GroupCommand::Poll { found, .. }, Some(group)) => {
            keys.extend(reading(state, group));
            keys.extend(found.iter().map(|found| Key::Position(group.id, found.partition)));
        }
        (GroupCommand::Commit { .. }, Some(group)) => {
            if let Some(ask) = super::commit_ask(command) {
                keys.extend(super::commit::needs(state, group, &ask));
            }
        }
        (GroupCommand::Sweep { .. }, Some(group)) => {
            if let Some(ask) = super::sweep_ask(command) {
                keys.extend(super::sweep::needs(state, group, &ask));
            }
        }
        (GroupCommand::Seek { to, .. }, Some(group)) => {
            keys.extend(to.iter().map(|(partition, _)| Key::Position(group.id, *partition)));
        }
        (GroupCommand::Replay { letters, .. }, Some(group)) => {
            keys.extend(replay::needs(state, group, letters));
        }
        (GroupCommand::Create { .. } | GroupCommand::Delete { .. }, Some(_)) | (_, None) => {}
    }
    keys.into_iter().collect()
}

/// What [`State::candidates`](crate::State::candidates) looks at.
pub(crate) fn of_candidates(state: &State, name: &GroupName, member: MemberId) -> Vec<Key> {
    let mut keys = vec![Key::Group(name.clone())];
    if let Some(group) = state.group(name) {
        keys.push(Key::Members(group.id));
        let members = state.members(group.id);
        let member = members.and_then(|members| members.members.get(&member));
        let assigned = member.map(|member| &*member.assigned).unwrap_or_default();
        keys.extend(assigned.iter().map(|partition| Key::Position(group.id, *partition)));
    }
    keys
}

/// What looking at a group looks at: its settings, its members, and all its topics and where it is
/// in them.
pub(crate) fn of_view(state: &State, name: &GroupName) -> Vec<Key> {
    let mut keys = vec![Key::Group(name.clone())];
    let Some(group) = state.group(name) else { return keys };
    keys.push(Key::Members(group.id));
    let mut topics: BTreeSet<TopicName> = group.settings.topics.iter().cloned().collect();
    let members = state.members(group.id).into_iter().flat_map(|members| &members.members);
    topics.extend(members.flat_map(|(_, member)| member.reads(group)).cloned());
    for name in topics {
        let partitions = state.topic(&name).into_iter().flat_map(manage::partitions);
        keys.extend(partitions.flat_map(|at| [Key::Partition(at), Key::Position(group.id, at)]));
        keys.push(Key::Topic(name));
    }
    keys
}

/// The topics that decide who gets which partition.
fn reading(state: &State, group: &Group) -> BTreeSet<Key> {
    let members = state.members(group.id).into_iter().flat_map(|members| &members.members);
    members.flat_map(|(_, member)| member.reads(group)).cloned().map(Key::Topic).collect()
}

fn positions(state: &State, group: &Group, topics: &[TopicName]) -> BTreeSet<Key> {
    let topics = topics.iter().filter_map(|name| state.topic(name));
    let partitions = topics.flat_map(manage::partitions);
    partitions.map(|partition| Key::Position(group.id, partition)).collect()
}

fn held(group: &Group, member: &Member) -> impl Iterator<Item = Key> + use<> {
    let id = group.id;
    let partitions: Vec<PartitionId> = member.may_hold().collect();
    partitions.into_iter().map(move |partition| Key::Position(id, partition))
}
