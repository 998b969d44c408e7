//! What time does: members that were silent for too long go, and what was not answered in time comes
//! back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handoff_types::{Decision, Now, Steady};

use super::change::GroupChange;
use super::command::{Body, Due, GroupReply, Reads};
use super::funeral::{self, Bodies, Dying};
use super::manage::find;
use super::membership::{Member, MemberId, Members};
use super::position::{Lease, LeaseId, Position, Run, Step};
use super::ranges::Mark;
use super::settings::{Group, GroupName, GroupSettings};
use crate::decide::Decided;
use crate::{Bounds, Change, Key, PartitionId, Refusal, State};

/// Messages that die in one sweep at most.
const DEATHS_MAX: u64 = 1_000;

/// Why a message comes back that nobody answered for.
const SILENT: &str = "its consumer was not heard of for longer than its session timeout";
const OVER: &str = "it was not answered before its lease was over";

/// Everything a member holds comes back, to be handed out at once.
pub(crate) fn give_back(
    state: &State,
    group: &Group,
    who: MemberId,
    member: &Member,
    why: &str,
) -> Vec<Change> {
    let mut changes = Vec::new();
    let why: Arc<str> = Arc::from(why);
    for partition in member.may_hold() {
        let Some(position) = state.position(group.id, partition) else { continue };
        let mut steps = Vec::new();
        for (run, _, lease, attempt) in out(position) {
            if lease.member == who {
                let (until, error) = (Steady(0), Some(Arc::clone(&why)));
                steps.push(Step::Wait { run, until, attempt, error });
            }
        }
        if !steps.is_empty() {
            changes.push(GroupChange::Moved(group.id, partition, steps).into());
        }
    }
    changes
}

/// What is out.
fn out(position: &Position) -> impl Iterator<Item = (Run, LeaseId, &Lease, u32)> {
    position.ranges().filter_map(|(first, range)| {
        let Mark::Leased { lease, attempt } = range.mark else { return None };
        Some(((first, range.last), lease, position.lease(lease)?, attempt))
    })
}

/// What comes back of a position.
struct Back<'a> {
    steps: Vec<Step>,
    returned: u64,
    /// Messages that die, if they were read.
    dying: Vec<(Run, u32, &'a str)>,
    /// Leases that are over though their deadlines are not.
    void: BTreeSet<LeaseId>,
}

fn come_back(
    position: &Position,
    members: &Members,
    settings: &GroupSettings,
    now: Steady,
) -> Back<'static> {
    let (steps, dying, void) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut back = Back { steps, returned: 0, dying, void };
    for (run, id, lease, attempt) in out(position) {
        let silent = !members.members.contains_key(&lease.member);
        if !silent && lease.deadline > now {
            continue;
        }
        let (why, until) = match silent {
            true => (SILENT, Steady(0)),
            false => (OVER, now + settings.wait(attempt)),
        };
        if attempt >= settings.max_attempts {
            back.dying.push((run, attempt, why));
            if lease.deadline > now {
                back.void.insert(id);
            }
            continue;
        }
        back.returned += run.1 - run.0 + 1;
        back.steps.push(Step::Wait { run, until, attempt, error: Some(Arc::from(why)) });
    }
    back
}

pub(crate) struct Ask<'a> {
    pub(crate) group: &'a GroupName,
    pub(crate) due: &'a Due,
    pub(crate) bodies: &'a [Body],
    pub(crate) bounds: &'a Bounds,
}

pub(crate) fn sweep(state: &State, ask: &Ask<'_>, now: Now) -> Result<Decided, Refusal> {
    let (group, members) = find(state, ask.group)?;
    let before = members;
    let (members, gone) = without_silent(members, ask.due, now.steady);
    let bodies = Bodies::of(ask.bodies);
    let mut all: BTreeMap<PartitionId, Vec<Step>> = BTreeMap::new();
    let mut dying: Vec<Dying<'_>> = Vec::new();
    let (mut returned, mut more) = (0, false);
    for partition in looked_at(ask.due, &gone) {
        let Some(position) = state.position(group.id, partition) else { continue };
        let mut back = come_back(position, &members, &group.settings, now.steady);
        returned += back.returned;
        for (run, attempt, error) in back.dying {
            for offset in run.0..=run.1 {
                match bodies.get(partition, offset) {
                    Some(record) => {
                        dying.push(Dying { partition, offset, attempt, error, record });
                    }
                    None => more = true,
                }
            }
        }
        // Whoever held them is gone: the next sweep finds them all the same.
        let void = |lease| Step::Extend { lease, deadline: now.steady };
        back.steps.extend(back.void.into_iter().map(void));
        all.insert(partition, back.steps);
    }
    let (mut changes, mut actions) = (Vec::new(), Vec::new());
    if !gone.is_empty() {
        let mut members = members;
        members.settle(state, group);
        changes.push(GroupChange::Members(group.id, Box::new(members)).into());
    }
    let mut known = scratch(state, group, &dying);
    let dead = funeral::bury(
        &mut known,
        (group, before),
        &dying,
        ask.bounds,
        now,
        &mut changes,
        &mut actions,
    );
    let count = match dead {
        Ok(dead) => {
            for (partition, steps) in dead {
                all.entry(partition).or_default().extend(steps.into_iter().flat_map(unanswered));
            }
            dying.len() as u64
        }
        // There is no place for their letters, so they do not die: they are tried once more.
        Err(_) => {
            let until = now.steady + group.settings.backoff_max;
            for Dying { partition, offset, attempt, error, .. } in &dying {
                let (run, error) = ((*offset, *offset), Some(Arc::from(*error)));
                let wait = Step::Wait { run, until, attempt: *attempt, error };
                all.entry(*partition).or_default().push(wait);
            }
            0
        }
    };
    let moved = all.into_iter().filter(|(_, steps)| !steps.is_empty());
    changes.extend(moved.map(|(at, steps)| Change::Group(GroupChange::Moved(group.id, at, steps))));
    let gone = gone.into_iter().map(|(id, _)| id).collect();
    let reply = GroupReply::Swept { gone, returned, dead: count, more };
    Ok(Decision { reply: reply.into(), changes, actions })
}

/// A death that nobody answered for. The message comes back first, so that whoever held it did not
/// finish it: what it says of it later is too late, and is told so.
fn unanswered(step: Step) -> impl Iterator<Item = Step> {
    let back = match step {
        Step::Dead { run, .. } => {
            Some(Step::Wait { run, until: Steady(0), attempt: 0, error: None })
        }
        _ => None,
    };
    back.into_iter().chain([step])
}

/// The members without those that were silent for too long, and those.
fn without_silent(members: &Members, due: &Due, now: Steady) -> (Members, Vec<(MemberId, Member)>) {
    let mut members = members.clone();
    let silent: Vec<MemberId> =
        members.silent(now).filter(|member| due.members.contains(member)).collect();
    let gone = silent.into_iter().filter_map(|id| Some((id, members.members.remove(&id)?)));
    let gone = gone.collect();
    (members, gone)
}

/// Partitions that have to be looked at.
fn looked_at(due: &Due, gone: &[(MemberId, Member)]) -> BTreeSet<PartitionId> {
    let held = gone.iter().flat_map(|(_, member)| member.may_hold());
    due.partitions.iter().copied().chain(held).collect()
}

fn scratch(state: &State, group: &Group, dying: &[Dying<'_>]) -> State {
    let partitions: BTreeSet<PartitionId> = dying.iter().map(|one| one.partition).collect();
    state.part(funeral::needs(state, group, &partitions))
}

/// The messages that have to be read before a sweep is decided, a bounded part of them.
pub(crate) fn reads(state: &State, ask: &Ask<'_>, now: Now) -> Reads {
    let Ok((group, members)) = find(state, ask.group) else { return Vec::new() };
    let (members, gone) = without_silent(members, ask.due, now.steady);
    let bodies = Bodies::of(ask.bodies);
    let mut reads = Vec::new();
    let mut left = DEATHS_MAX;
    for partition in looked_at(ask.due, &gone) {
        let Some(position) = state.position(group.id, partition) else { continue };
        let back = come_back(position, &members, &group.settings, now.steady);
        for ((first, last), _, _) in back.dying {
            for offset in first..=last {
                if left == 0 {
                    return reads;
                }
                if bodies.get(partition, offset).is_none() {
                    left -= 1;
                    funeral::read(&mut reads, partition, (offset, offset));
                }
            }
        }
    }
    reads
}

/// What a sweep looks at beside the group and its members.
pub(crate) fn needs(state: &State, group: &Group, ask: &Ask<'_>) -> Vec<Key> {
    let mut partitions: BTreeSet<PartitionId> = ask.due.partitions.iter().copied().collect();
    let mut keys = Vec::new();
    if let Some(members) = state.members(group.id) {
        let silent = ask.due.members.iter().filter_map(|id| members.members.get(id));
        partitions.extend(silent.flat_map(Member::may_hold));
        if !ask.due.members.is_empty() {
            let topics = members.members.values().flat_map(|member| member.reads(group));
            keys.extend(topics.map(|name| Key::Topic(name.clone())));
        }
    }
    let bodies: BTreeSet<PartitionId> = ask.bodies.iter().map(|body| body.partition).collect();
    keys.extend(funeral::needs(state, group, &bodies));
    keys.extend(partitions.into_iter().map(|partition| Key::Position(group.id, partition)));
    keys
}
