//! Which messages a member gets.
//!
//! * What waits comes before what was not looked at, by offset.
//! * While a message is out or waits for its retry, what its order says waits behind it. Messages
//!   that are handed out together are in order themselves: whoever got them has to keep it.
//! * Nobody gets what lies too far from the first message that is not finished: one that nobody
//!   answers for must not let everything behind it be remembered.

use std::collections::{BTreeSet, HashSet};

use handoff_types::{Decision, Now, Steady};

use super::attending::{Attending, attend};
use super::change::GroupChange;
use super::command::{Fact, Found, GroupReply, HandedOut, OnCorrupt};
use super::membership::MemberId;
use super::position::{LeaseId, Position, Run, Step};
use super::ranges::{Keys, Mark, Range};
use super::settings::{Group, GroupName, GroupSettings, Order};
use crate::decide::Decided;
use crate::{Change, PartitionId, Refusal, State};

/// Offsets of a partition that a member may get next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which partition.
    pub partition: PartitionId,
    /// Messages that were looked at and wait no longer, ascending.
    pub waiting: Vec<Run>,
    /// Then those from here on.
    pub next: u64,
    /// So many of them at most.
    pub count: u64,
}

/// What a member may get, the partition whose turn it is first.
pub(crate) fn candidates(
    state: &State,
    name: &GroupName,
    member: MemberId,
    max_messages: usize,
    now: Now,
    turn: u64,
) -> Vec<Candidate> {
    let Some(group) = state.group(name) else { return Vec::new() };
    let member = state.members(group.id).and_then(|members| members.members.get(&member));
    let assigned = member.map(|member| &*member.assigned).unwrap_or_default();
    let most = u64::try_from(max_messages).unwrap_or(u64::MAX);
    let first = usize::try_from(turn.checked_rem(assigned.len() as u64).unwrap_or(0)).unwrap_or(0);
    let (behind, before) = assigned.split_at_checked(first).unwrap_or((assigned, &[]));
    let turns = before.iter().chain(behind);
    let candidate = |partition: &PartitionId| {
        let none = Position::default();
        let position = state.position(group.id, *partition).unwrap_or(&none);
        let (waiting, count) = offered(position, &group.settings, most, now.steady);
        let next = position.next;
        let some = count > 0 || !waiting.is_empty();
        some.then_some(Candidate { partition: *partition, waiting, next, count })
    };
    turns.filter_map(candidate).collect()
}

/// What of a position may be handed out: what waits, and how much of what was not looked at.
pub(crate) fn offered(
    position: &Position,
    settings: &GroupSettings,
    most: u64,
    now: Steady,
) -> (Vec<Run>, u64) {
    let mut gate = Gate::new(settings.order);
    let mut runs: Vec<Run> = Vec::new();
    let mut left = most;
    for (first, range) in position.ranges() {
        if left == 0 || gate.shut {
            break;
        }
        let ready = matches!(range.mark, Mark::Waiting { until, .. } if until <= now);
        if !ready {
            gate.pass(range);
            continue;
        }
        if range.keys.hashes().is_empty() {
            let last = range.last.min(first.saturating_add(left - 1));
            left -= last - first + 1;
            extend(&mut runs, (first, last));
            continue;
        }
        for (offset, key) in (first..=range.last).zip(range.keys.hashes()) {
            if left > 0 && gate.lets(*key) {
                left -= 1;
                extend(&mut runs, (offset, offset));
            } else {
                gate.hold(*key);
            }
        }
    }
    let fresh = if gate.shut { 0 } else { left.min(window(position, settings)) };
    (runs, fresh)
}

/// How many messages beyond those that were looked at may be. What is finished does not count,
/// wherever it lies: one message that takes long keeps nobody waiting but itself.
fn window(position: &Position, settings: &GroupSettings) -> u64 {
    u64::from(settings.in_flight_max).saturating_sub(position.open)
}

fn extend(runs: &mut Vec<Run>, (first, last): Run) {
    match runs.last_mut() {
        Some((_, end)) if end.checked_add(1) == Some(first) => *end = last,
        _ => runs.push((first, last)),
    }
}

/// What has to wait because of what lies before it.
struct Gate {
    order: Order,
    held: HashSet<u32>,
    /// Nothing passes any more.
    shut: bool,
}

impl Gate {
    fn new(order: Order) -> Self {
        Self { order, held: HashSet::new(), shut: false }
    }

    /// Whether one with this key may be handed out.
    fn lets(&self, key: u32) -> bool {
        !self.shut && (key == 0 || !self.held.contains(&key))
    }

    /// One with this key is not handed out now.
    fn hold(&mut self, key: u32) {
        match self.order {
            Order::Key if key != 0 => drop(self.held.insert(key)),
            Order::Key | Order::Free => {}
            Order::Partition => self.shut = true,
        }
    }

    /// Messages that are out, or wait, or are finished.
    fn pass(&mut self, range: &Range) {
        match (&range.mark, self.order) {
            (Mark::Done, _) | (_, Order::Free) => {}
            (_, Order::Partition) => self.shut = true,
            (_, Order::Key) => {
                self.held.extend(range.keys.hashes().iter().filter(|key| **key != 0));
            }
        }
    }
}

pub(crate) struct Ask<'a> {
    pub(crate) group: &'a GroupName,
    pub(crate) member: MemberId,
    pub(crate) max_messages: usize,
    pub(crate) max_bytes: usize,
    pub(crate) found: &'a [Found],
    pub(crate) on_corrupt: OnCorrupt,
}

pub(crate) fn poll(state: &State, ask: &Ask<'_>, now: Now) -> Result<Decided, Refusal> {
    let Attending { group, members, mut changes } = attend(state, ask.group, ask.member, now)?;
    let member = members.members.get(&ask.member);
    let mut budget = Budget { messages: ask.max_messages, bytes: ask.max_bytes, is_used: false };
    let mut batches = Vec::new();
    let mut learnt = false;
    let mut polled = BTreeSet::new();
    for found in ask.found {
        let own = member.is_some_and(|member| member.has(found.partition));
        // A partition that is named twice is looked at once.
        if !own || !polled.insert(found.partition) {
            continue;
        }
        let none = Position::default();
        let position = state.position(group.id, found.partition).unwrap_or(&none);
        let mut choice = Choice::new(group, position, found, ask.on_corrupt, now);
        choice.choose(&mut budget);
        let (steps, mut out, learnt_here) = choice.finish(ask.member);
        learnt |= learnt_here;
        batches.append(&mut out);
        if !steps.is_empty() {
            changes.push(Change::Group(GroupChange::Moved(group.id, found.partition, steps)));
        }
    }
    let again = batches.is_empty() && learnt;
    let reply = GroupReply::Polled { generation: members.generation, batches, again };
    Ok(Decision { reply: reply.into(), changes, actions: Vec::new() })
}

/// What may still be handed out.
struct Budget {
    messages: usize,
    bytes: usize,
    /// Something was.
    is_used: bool,
}

impl Budget {
    fn is_spent(&self) -> bool {
        self.messages == 0
    }

    /// Whether one of so many bytes fits. The first always does, however large.
    fn take(&mut self, bytes: u32) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if self.messages == 0 || (self.is_used && bytes > self.bytes) {
            self.messages = 0;
            return false;
        }
        self.messages -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.is_used = true;
        true
    }
}

/// Choosing from one partition.
struct Choice<'a> {
    group: &'a Group,
    position: &'a Position,
    found: &'a Found,
    now: Now,
    steps: Vec<Step>,
    /// Facts of messages that were looked at before, then of new ones.
    old: &'a [Fact],
    new: &'a [Fact],
    /// Where those begin.
    next: u64,
    gate: Gate,
    /// How often each was handed out, this time included.
    chosen: Vec<(u64, u32)>,
    passed: Vec<Run>,
    keys: Vec<u32>,
    /// How many behind them the disk lost.
    lost: u64,
    /// Lost by the disk, and to be passed.
    dead: Option<Run>,
    learnt: bool,
}

impl<'a> Choice<'a> {
    fn new(
        group: &'a Group,
        position: &'a Position,
        found: &'a Found,
        on_corrupt: OnCorrupt,
        now: Now,
    ) -> Self {
        let next = position.next.max(found.kept);
        let mut facts = found.facts.as_slice();
        let mut steps = Vec::new();
        let waits = |(_, range): (u64, &Range)| matches!(range.mark, Mark::Waiting { .. });
        let below = found.kept.saturating_sub(1);
        let is_lost = found.kept > position.next
            || (found.kept > position.start
                && position.ranges.over(position.start, below).any(waits));
        if is_lost {
            steps.push(Step::Lost { below: found.kept });
        }
        let damaged = found.damaged.filter(|(from, behind)| from < behind);
        let stop = damaged.filter(|_| on_corrupt == OnCorrupt::Stop);
        let mut learnt = is_lost;
        if let Some((from, _)) = stop {
            let sound = facts.partition_point(|fact| fact.offset < from);
            facts = facts.get(..sound).unwrap_or_default();
        }
        // What was damaged is not if it could be read.
        let is_whole = position.damaged.is_some_and(|(from, _)| {
            stop.is_none() && facts.last().is_some_and(|fact| fact.offset >= from)
        });
        if is_whole || (stop.is_some() && stop != position.damaged) {
            steps.push(Step::Damaged(stop));
            learnt |= stop.is_none();
        }
        let skip = damaged.filter(|_| on_corrupt == OnCorrupt::Skip);
        let kept = facts.partition_point(|fact| fact.offset < found.kept);
        facts = facts.get(kept..).unwrap_or_default();
        let looked_at = facts.partition_point(|fact| fact.offset < next);
        let (old, new) = facts.split_at_checked(looked_at).unwrap_or((facts, &[]));
        let gate = Gate::new(group.settings.order);
        let (chosen, passed, keys) = (Vec::new(), Vec::new(), Vec::new());
        let dead = skip.map(|(from, behind)| (from, behind - 1));
        Self {
            group,
            position,
            found,
            now,
            steps,
            old,
            new,
            next,
            gate,
            chosen,
            passed,
            keys,
            lost: 0,
            dead,
            learnt,
        }
    }

    fn choose(&mut self, budget: &mut Budget) {
        self.choose_old(budget);
        self.choose_new(budget);
    }

    fn choose_old(&mut self, budget: &mut Budget) {
        let mut facts = self.old;
        for (first, range) in self.position.ranges() {
            if budget.is_spent() {
                return;
            }
            // What is lost holds nobody up.
            if range.last < self.found.kept && !matches!(range.mark, Mark::Leased { .. }) {
                continue;
            }
            let Mark::Waiting { until, attempt, .. } = range.mark else {
                self.gate.pass(range);
                continue;
            };
            for offset in first.max(self.found.kept)..=range.last {
                let skip = facts.partition_point(|fact| fact.offset < offset);
                facts = facts.get(skip..).unwrap_or_default();
                let fact = facts.first().filter(|fact| fact.offset == offset);
                let lost = self.dead.is_some_and(|(from, to)| (from..=to).contains(&offset));
                let key = range.keys.get(offset - first);
                match fact {
                    _ if lost => {}
                    Some(fact) if self.is_unwanted(fact) => {
                        extend(&mut self.passed, (offset, offset))
                    }
                    Some(fact)
                        if until <= self.now.steady
                            && self.gate.lets(key)
                            && budget.take(fact.bytes) =>
                    {
                        self.chosen.push((offset, attempt.saturating_add(1)));
                    }
                    // A key of which nothing is known holds nobody up: the rest need not be gone through.
                    None if facts.is_empty() && range.keys.hashes().is_empty() => {
                        self.gate.pass(range);
                        break;
                    }
                    _ => self.gate.hold(key),
                }
            }
        }
    }

    fn choose_new(&mut self, budget: &mut Budget) {
        let mut room = window(self.position, &self.group.settings).saturating_add(self.lost_open());
        let mut next = self.next;
        let new = self.new;
        for fact in new {
            if self.is_lost(next) || fact.offset != next || self.gate.shut {
                break;
            }
            if self.is_unwanted(fact) {
                extend(&mut self.passed, (next, next));
            } else if room == 0 {
                break;
            } else if self.gate.lets(fact.key) {
                if !budget.take(fact.bytes) {
                    break;
                }
                self.chosen.push((next, 1));
                room -= 1;
            } else if budget.is_spent() {
                break;
            } else {
                self.gate.hold(fact.key);
                room -= 1;
            }
            self.keys.push(fact.key);
            next += 1;
        }
        // What the disk lost is passed when everything before it was.
        if self.is_lost(next)
            && let Some((_, last)) = self.dead
            && !self.gate.shut
        {
            self.lost = last - next + 1;
        }
    }

    /// Messages that waited and are not kept any more: they are as good as finished.
    fn lost_open(&self) -> u64 {
        let Some(last) = self.found.kept.checked_sub(1) else { return 0 };
        let waits = self.position.ranges.over(self.position.start, last);
        let waits = waits.filter(|(_, range)| matches!(range.mark, Mark::Waiting { .. }));
        waits.map(|(first, range)| range.last.min(last) - first + 1).sum()
    }

    fn is_lost(&self, offset: u64) -> bool {
        self.dead.is_some_and(|(from, to)| (from..=to).contains(&offset))
    }

    /// Whether nobody in the group is to get it.
    fn is_unwanted(&self, fact: &Fact) -> bool {
        let expired = fact.expires.is_some_and(|expires| expires <= self.now.wall);
        expired || fact.only_for.as_ref().is_some_and(|group| *group != self.group.name)
    }

    fn finish(mut self, member: MemberId) -> (Vec<Step>, Vec<HandedOut>, bool) {
        let count = self.keys.len() as u64;
        if count > 0 {
            self.steps.push(Step::Known { count, keys: Keys::of(std::mem::take(&mut self.keys)) });
        }
        if self.lost > 0 {
            self.steps.push(Step::Known { count: self.lost, keys: Keys::default() });
            let first = self.next + count;
            let run = (first, first + (self.lost - 1));
            self.steps.push(Step::Dead { run, letter: None });
        }
        if let Some((from, to)) = self.dead {
            for (first, range) in self.position.ranges.over(from, to) {
                if matches!(range.mark, Mark::Waiting { .. }) {
                    let run = (first.max(from).max(self.found.kept), range.last.min(to));
                    if run.0 <= run.1 {
                        self.steps.push(Step::Dead { run, letter: None });
                        self.learnt = true;
                    }
                }
            }
        }
        self.learnt |= count + self.lost > 0 || !self.passed.is_empty();
        self.steps.extend(self.passed.iter().copied().map(Step::Done));
        let lease = LeaseId(self.position.last_lease.saturating_add(1));
        let deadline = self.now.steady + self.group.settings.lease;
        let mut runs: Vec<Run> = Vec::new();
        let mut out: Vec<HandedOut> = Vec::new();
        for (offset, attempt) in &self.chosen {
            extend(&mut runs, (*offset, *offset));
            match out.last_mut() {
                Some(last) if last.attempt == *attempt && last.base + last.count == *offset => {
                    last.count += 1;
                }
                _ => out.push(HandedOut {
                    partition: self.found.partition,
                    base: *offset,
                    count: 1,
                    attempt: *attempt,
                    lease,
                    deadline,
                }),
            }
        }
        if !runs.is_empty() {
            self.steps.push(Step::Lease { lease, member, deadline, runs });
        }
        (self.steps, out, self.learnt)
    }
}
