//! Groups come, change and go.

use handoff_types::{Decision, Entropy, Now};

use super::change::GroupChange;
use super::command::{GroupBounds, GroupRefusal, GroupReply, Spot};
use super::membership::Members;
use super::position::Step;
use super::settings::{Group, GroupId, GroupName, GroupSettings, READS_LETTERS, sorted};
use crate::decide::{Decided, answer};
use crate::{Change, PartitionId, Refusal, State, Topic, TopicName};

pub(crate) fn create(
    state: &State,
    name: &GroupName,
    settings: &GroupSettings,
    begin: &[Spot],
    limits: &GroupBounds,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    if state.group(name).is_some() {
        return Err(GroupRefusal::GroupExists(name.clone()).into());
    }
    let group = made(state, name, settings, limits, now, entropy)?;
    let mut changes = vec![
        GroupChange::Made(Box::new(group.clone())).into(),
        GroupChange::Members(group.id, Box::default()).into(),
    ];
    changes.extend(opened(state, &group, &group.settings.topics, begin)?);
    Ok(Decision { reply: GroupReply::Created(group).into(), changes, actions: Vec::new() })
}

pub(crate) fn alter(
    state: &State,
    name: &GroupName,
    settings: &GroupSettings,
    begin: &[Spot],
) -> Result<Decided, Refusal> {
    let (group, members) = find(state, name)?;
    let settings = tidy(settings)?;
    // Nor does a member that names its topics itself.
    if members.members.values().any(|member| member.topics.contains(&settings.dead_letter)) {
        return Err(GroupRefusal::Settings(READS_LETTERS.to_owned()).into());
    }
    let altered = Group { settings: settings.clone(), ..group.clone() };
    if altered == *group {
        return Ok(answer(GroupReply::Altered(altered).into()));
    }
    let mut changes: Vec<Change> =
        vec![GroupChange::Altered(name.clone(), Box::new(settings)).into()];
    if altered.settings.topics != group.settings.topics {
        let mut settled = members.clone();
        settled.settle(state, &altered);
        if settled != *members {
            changes.push(GroupChange::Members(group.id, Box::new(settled)).into());
        }
        changes.extend(opened(state, &altered, &altered.settings.topics, begin)?);
    }
    Ok(Decision { reply: GroupReply::Altered(altered).into(), changes, actions: Vec::new() })
}

/// Where the group is goes with the next ticks: there may be more of it than one commit should take.
/// Nobody sees it meanwhile, the group's number being gone.
pub(crate) fn delete(state: &State, name: &GroupName) -> Result<Decided, Refusal> {
    let (group, _) = find(state, name)?;
    let changes =
        vec![GroupChange::Deleted(name.clone()).into(), GroupChange::MembersGone(group.id).into()];
    let reply = GroupReply::Deleted(group.clone()).into();
    Ok(Decision { reply, changes, actions: Vec::new() })
}

/// A group and who is in it.
pub(crate) fn find<'a>(
    state: &'a State,
    name: &GroupName,
) -> Result<(&'a Group, &'a Members), GroupRefusal> {
    let none = || GroupRefusal::NoGroup(name.clone());
    let group = state.group(name).ok_or_else(none)?;
    Ok((group, state.members(group.id).ok_or_else(none)?))
}

pub(crate) fn made(
    state: &State,
    name: &GroupName,
    settings: &GroupSettings,
    limits: &GroupBounds,
    now: Now,
    entropy: Entropy,
) -> Result<Group, Refusal> {
    let settings = tidy(settings)?;
    let max = limits.groups_max;
    if state.counts().groups >= max {
        return Err(Refusal::Limit(format!("streams.groups_max allows {max} groups")));
    }
    // The first draw is free but for one chance in 2^60.
    let mut draws = (0..).map(|n| GroupId(entropy.word(GROUP_DRAW + n)));
    let id = draws.find(|id| state.members(*id).is_none()).unwrap_or_default();
    Ok(Group { id, name: name.clone(), settings, created: now.wall })
}

/// What else is drawn in the same decision is drawn from elsewhere.
const GROUP_DRAW: u64 = 1 << 40;

fn tidy(settings: &GroupSettings) -> Result<GroupSettings, GroupRefusal> {
    let settings = GroupSettings { topics: sorted(settings.topics.clone()), ..settings.clone() };
    match settings.wrong() {
        Some(wrong) => Err(GroupRefusal::Settings(wrong.to_owned())),
        None => Ok(settings),
    }
}

/// Where a group begins in partitions of topics it has not read yet.
pub(crate) fn opened(
    state: &State,
    group: &Group,
    topics: &[TopicName],
    begin: &[Spot],
) -> Result<Vec<Change>, Refusal> {
    let mut changes = Vec::new();
    for name in topics {
        let topic = state.topic(name).ok_or_else(|| Refusal::NoTopic(name.clone()))?;
        for partition in partitions(topic) {
            if state.position(group.id, partition).is_some() {
                continue;
            }
            let named = begin.iter().find(|(named, _)| *named == partition);
            let at = named.map_or(0, |(_, at)| *at);
            let steps = vec![Step::Begin { at }];
            changes.push(GroupChange::Moved(group.id, partition, steps).into());
        }
    }
    Ok(changes)
}

pub(crate) fn partitions(topic: &Topic) -> impl Iterator<Item = PartitionId> + use<> {
    let id = topic.id;
    (0..topic.partitions).map(move |number| PartitionId { topic: id, number })
}
