//! Members come, stay and go.

use std::borrow::Cow;

use handoff_types::{Decision, Entropy, Now, Span};

use super::change::GroupChange;
use super::command::{Assigned, GroupBounds, GroupRefusal, GroupReply, Join};
use super::manage::{find, made, opened};
use super::membership::{Member, MemberId, Members};
use super::settings::{Group, GroupName, GroupSettings, READS_LETTERS, sorted};
use super::sweep::give_back;
use crate::decide::Decided;
use crate::{Change, Refusal, State, TopicName};

/// The longest text a member says of itself.
const TEXT_BYTES_MAX: usize = 256;

/// The shortest silence that means anything.
const SESSION_MIN: Span = Span::from_millis(100);

/// Topics one member may name.
const TOPICS_MAX: usize = 1_000;

pub(crate) fn join(
    state: &State,
    join: &Join,
    limits: &GroupBounds,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    check(join, limits)?;
    let topics = sorted(join.topics.clone());
    let known = find(state, &join.group).ok();
    let (group, mut members) = match known {
        Some((group, members)) => (group.clone(), members.clone()),
        None if topics.is_empty() => {
            return Err(GroupRefusal::NoGroup(join.group.clone()).into());
        }
        None => {
            let settings = GroupSettings::of(&join.group, topics.clone());
            (made(state, &join.group, &settings, limits, now, entropy)?, Members::default())
        }
    };
    let reads = reads(state, &group, &topics)?;
    let mut changes: Vec<Change> = Vec::new();
    if known.is_none() {
        changes.push(GroupChange::Made(Box::new(group.clone())).into());
    }
    // Whoever joins under a name that is taken is the same one, begun anew.
    let named = |member: &Member| join.instance.is_some() && member.instance == join.instance;
    let replaced = members.members.iter().find(|(_, member)| named(member)).map(|(id, _)| *id);
    let replaced = replaced.and_then(|id| Some((id, members.members.remove(&id)?)));
    if members.members.len() >= limits.members_max {
        let max = limits.members_max;
        return Err(Refusal::Limit(format!("streams.members_max allows {max} members of a group")));
    }
    let mut draws = (0..).map(|n| id(entropy, n));
    let member = draws.find(|id| !members.members.contains_key(id)).unwrap_or(MemberId(0));
    let joined = Member {
        client: join.client.clone(),
        instance: join.instance.clone(),
        topics,
        session: join.session,
        deadline: now.steady + join.session,
        since: now.wall,
        assigned: replaced.as_ref().map(|(_, old)| old.assigned.clone()).unwrap_or_default(),
        former: Vec::new(),
    };
    members.members.insert(member, joined);
    members.settle(state, &group);
    let (generation, session) = (members.generation, join.session);
    let mut begun = opened(state, &group, &reads, &join.begin)?;
    let assignment = assignment(state, &group, &members, member, join);
    changes.push(GroupChange::Members(group.id, Box::new(members)).into());
    changes.append(&mut begun);
    if let Some((old, was)) = replaced {
        changes.extend(give_back(state, &group, old, &was, "its consumer began anew"));
    }
    let created = known.is_none();
    let reply = GroupReply::Joined { created, member, generation, session, assignment };
    Ok(Decision { reply: reply.into(), changes, actions: Vec::new() })
}

fn check(join: &Join, limits: &GroupBounds) -> Result<(), Refusal> {
    let wrong = |text: &str| text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control);
    if wrong(&join.client) {
        return Err(GroupRefusal::Text("client", TEXT_BYTES_MAX).into());
    }
    if join.instance.as_deref().is_some_and(|name| name.is_empty() || wrong(name)) {
        return Err(GroupRefusal::Text("instance", TEXT_BYTES_MAX).into());
    }
    let (least, most) = (SESSION_MIN.0 / 1_000, limits.session_max.0 / 1_000);
    if !(SESSION_MIN..=limits.session_max).contains(&join.session) {
        let why = format!("sessionTimeoutMs is from {least} to {most} (streams.session_secs_max)");
        return Err(GroupRefusal::Settings(why).into());
    }
    if join.topics.len() > TOPICS_MAX {
        return Err(Refusal::Limit(format!("a member names at most {TOPICS_MAX} topics")));
    }
    Ok(())
}

/// What a member reads that names these topics, or none.
fn reads(state: &State, group: &Group, named: &[TopicName]) -> Result<Vec<TopicName>, Refusal> {
    if named.contains(&group.settings.dead_letter) {
        return Err(GroupRefusal::Settings(READS_LETTERS.to_owned()).into());
    }
    if let Some(missing) = named.iter().find(|name| state.topic(name).is_none()) {
        return Err(Refusal::NoTopic(missing.clone()));
    }
    if !named.is_empty() {
        return Ok(named.to_vec());
    }
    // A topic of the group's that was deleted keeps nobody from reading the others.
    let there = group.settings.topics.iter().filter(|name| state.topic(name).is_some());
    let there: Vec<TopicName> = there.cloned().collect();
    match (there.is_empty(), group.settings.topics.first()) {
        (true, None) => Err(GroupRefusal::NoTopics(group.name.clone()).into()),
        (true, Some(missing)) => Err(Refusal::NoTopic(missing.clone())),
        (false, _) => Ok(there),
    }
}

fn id(entropy: Entropy, draw: u64) -> MemberId {
    let words = u128::from(entropy.word(2 * draw)) << 64 | u128::from(entropy.word(2 * draw + 1));
    MemberId(words)
}

/// What a member has, and how far the group is in it.
fn assignment(
    state: &State,
    group: &Group,
    members: &Members,
    member: MemberId,
    join: &Join,
) -> Vec<Assigned> {
    let assigned = members.members.get(&member).map(|member| &*member.assigned);
    let committed = |partition| match state.position(group.id, partition) {
        Some(position) => position.start(),
        None => {
            let named = join.begin.iter().find(|(named, _)| *named == partition);
            named.map_or(0, |(_, at)| *at)
        }
    };
    let one = |partition: &crate::PartitionId| Assigned {
        partition: *partition,
        committed: committed(*partition),
    };
    assigned.unwrap_or_default().iter().map(one).collect()
}

pub(crate) fn leave(state: &State, name: &GroupName, who: MemberId) -> Result<Decided, Refusal> {
    let (group, members) = find(state, name)?;
    let mut members = members.clone();
    let Some(member) = members.members.remove(&who) else {
        return Err(GroupRefusal::MemberGone(who).into());
    };
    members.settle(state, group);
    let mut changes = vec![GroupChange::Members(group.id, Box::new(members)).into()];
    changes.extend(give_back(state, group, who, &member, "its consumer left"));
    Ok(Decision { reply: GroupReply::Left.into(), changes, actions: Vec::new() })
}

pub(crate) fn heartbeat(
    state: &State,
    name: &GroupName,
    who: MemberId,
    known: u64,
    now: Now,
) -> Result<Decided, Refusal> {
    let Attending { members, changes, .. } = attend(state, name, who, now)?;
    let generation = members.generation;
    let assignment = members.members.get(&who).map(|member| member.assigned.clone());
    let assignment = assignment.unwrap_or_default();
    let reply = GroupReply::Beat { generation, assignment, changed: generation != known };
    Ok(Decision { reply: reply.into(), changes, actions: Vec::new() })
}

/// A member that was heard of now.
pub(crate) struct Attending<'a> {
    pub(crate) group: &'a Group,
    pub(crate) members: Cow<'a, Members>,
    pub(crate) changes: Vec<Change>,
}

/// Notes that a member is alive, and gives partitions out again if there are others than there were.
pub(crate) fn attend<'a>(
    state: &'a State,
    name: &GroupName,
    who: MemberId,
    now: Now,
) -> Result<Attending<'a>, Refusal> {
    let (group, members) = find(state, name)?;
    let member = members.members.get(&who).filter(|member| member.deadline > now.steady);
    let member = member.ok_or(GroupRefusal::MemberGone(who))?;
    if members.topics_now(state, group) == members.given {
        let changes = seen(group, who, member, now).map(Change::Group).into_iter().collect();
        return Ok(Attending { group, members: Cow::Borrowed(members), changes });
    }
    let mut members = members.clone();
    members.settle(state, group);
    if let Some(member) = members.members.get_mut(&who) {
        member.deadline = now.steady + member.session;
    }
    let changes = vec![GroupChange::Members(group.id, Box::new(members.clone())).into()];
    Ok(Attending { group, members: Cow::Owned(members), changes })
}

/// That a member was heard of, if it is worth a record: not before a third of its session is over.
pub(crate) fn seen(group: &Group, who: MemberId, member: &Member, now: Now) -> Option<GroupChange> {
    let left = member.deadline.since(now.steady);
    let worth = left.0 < member.session.0 - member.session.0 / 3;
    worth.then(|| GroupChange::Seen(group.id, who, now.steady + member.session))
}
