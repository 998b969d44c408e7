//! A consumer: what it holds, and what it does with it.

use handoff_streams::groups::{
    CommitOutcome, Committed, GroupBounds, GroupCommand, GroupName, GroupRefusal, GroupReply,
    HandedOut, Join, LeaseId, MemberId, OnCorrupt, Spot, Verdict, VerdictStatus,
};
use handoff_streams::{Command, PartitionId, Produce, Refusal, Reply};
use handoff_types::Span;

use super::{BOUNDS, GROUPS, TOPICS, group_named, named};
use crate::dice::Dice;

/// How much a consumer remembers of what it held as somebody else.
const GHOSTS: usize = 8;

/// Somebody who reads.
#[derive(Debug)]
pub(super) struct Consumer {
    name: String,
    /// Those of the other group, too.
    reads_letters: bool,
    group: GroupName,
    instance: Option<String>,
    session: Span,
    member: Option<MemberId>,
    generation: u64,
    /// It does nothing for so many turns.
    asleep: u64,
    held: Vec<HandedOut>,
    /// What it held as a member that is gone, or does not hold any more.
    ghosts: Vec<(MemberId, HandedOut)>,
}

impl Consumer {
    pub(super) fn new(n: u64, reads_letters: bool, dice: &mut Dice) -> Self {
        // Most of them meet in one group.
        let group = if n > 0 && dice.one_in(3) { GROUPS[1] } else { GROUPS[0] };
        Self {
            name: format!("c{n}"),
            reads_letters,
            group: group_named(group),
            instance: dice.one_in(3).then(|| format!("static-{n}")),
            session: Span::from_millis(2_000 + dice.below(60_000)),
            member: None,
            generation: 0,
            asleep: 0,
            held: Vec::new(),
            ghosts: Vec::new(),
        }
    }

    /// What it asks for next; nothing while it sleeps.
    pub(super) fn asks(
        &mut self,
        produce: Vec<Produce>,
        begin: Vec<Spot>,
        dice: &mut Dice,
    ) -> Option<Command> {
        if self.asleep > 0 {
            self.asleep -= 1;
            return None;
        }
        let group = self.group.clone();
        let Some(member) = self.member else { return Some(self.joins(begin, dice)) };
        let command = match dice.below(100) {
            0..2 => {
                // As if it had begun anew without saying so.
                return Some(self.joins(begin, dice));
            }
            2..4 => GroupCommand::Leave { group, member },
            4..7 => {
                self.asleep = 1 + dice.below(30);
                return None;
            }
            7..14 => GroupCommand::Heartbeat { group, member, generation: self.generation },
            14..19 => return self.haunts(dice),
            19..65 if !self.held.is_empty() => {
                let results = self.results(dice);
                let produce = if results.is_empty() { Vec::new() } else { produce };
                commits(group, member, results, produce)
            }
            _ => {
                let max_messages = 1 + usize::try_from(dice.below(8)).unwrap_or(0);
                let max_bytes = if dice.one_in(5) { 60 } else { 1 << 20 };
                let (found, on_corrupt) = (Vec::new(), OnCorrupt::Stop);
                GroupCommand::Poll { group, member, max_messages, max_bytes, found, on_corrupt }
            }
        };
        Some(Command::Group(command))
    }

    fn joins(&mut self, begin: Vec<Spot>, dice: &mut Dice) -> Command {
        let topics = match dice.below(6) {
            0..2 => vec![named(TOPICS[0])],
            2 => TOPICS.iter().take(2).map(|topic| named(topic)).collect(),
            3 if self.reads_letters && dice.one_in(4) => vec![named("work.dead")],
            _ => Vec::new(),
        };
        self.haunt();
        let join = Join {
            group: self.group.clone(),
            topics,
            client: self.name.clone(),
            instance: self.instance.clone(),
            session: self.session,
            begin,
        };
        Command::Group(GroupCommand::Join { join, limits: GroupBounds::default() })
    }

    /// Parts of what it holds, in any order.
    fn results(&mut self, dice: &mut Dice) -> Vec<Verdict> {
        let mut results: Vec<Verdict> = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let Some(held) = dice.pick(&self.held).copied() else { break };
            let (from, to) = match dice.one_in(3) {
                true => (held.base, held.base + held.count - 1),
                false => {
                    let from = held.base + dice.below(held.count);
                    (from, from + dice.below(held.base + held.count - from))
                }
            };
            let verdict = verdict(held.partition, (from, to), Some(held.lease), dice);
            let apart = |one: &Verdict| {
                one.partition != verdict.partition || one.to < verdict.from || verdict.to < one.from
            };
            // Two results for one message are refused: rarely.
            if results.iter().all(apart) || dice.one_in(30) {
                results.push(verdict);
            }
        }
        results
    }

    /// It answers for something it held once, or never.
    fn haunts(&mut self, dice: &mut Dice) -> Option<Command> {
        let ghosts: Vec<(MemberId, HandedOut)> = self.ghosts.clone();
        let (member, held) = dice.pick(&ghosts).copied()?;
        let from = held.base + dice.below(held.count);
        let to = from + dice.below(3);
        let verdict = verdict(held.partition, (from, to), Some(held.lease), dice);
        Some(Command::Group(commits(self.group.clone(), member, vec![verdict], Vec::new())))
    }

    /// What it holds is what it held.
    fn haunt(&mut self) {
        if let Some(member) = self.member.take() {
            self.ghosts.extend(self.held.drain(..).map(|held| (member, held)));
        }
        self.held.clear();
        let many = self.ghosts.len().saturating_sub(GHOSTS);
        self.ghosts.drain(..many);
    }

    pub(super) fn heard(&mut self, command: &GroupCommand, reply: &Reply) {
        match (command, reply) {
            (
                GroupCommand::Join { join, .. },
                Reply::Group(GroupReply::Joined { member, generation, .. }),
            ) if join.client == self.name => {
                self.haunt();
                (self.member, self.generation) = (Some(*member), *generation);
            }
            (
                GroupCommand::Leave { member, .. }
                | GroupCommand::Heartbeat { member, .. }
                | GroupCommand::Poll { member, .. }
                | GroupCommand::Commit { member, .. },
                reply,
            ) if self.member == Some(*member) => self.heard_own(command, reply),
            _ => {}
        }
    }

    fn heard_own(&mut self, command: &GroupCommand, reply: &Reply) {
        match reply {
            Reply::Group(GroupReply::Left)
            | Reply::Refused(Refusal::Group(
                GroupRefusal::MemberGone(_) | GroupRefusal::NoGroup(_),
            )) => self.haunt(),
            Reply::Group(GroupReply::Beat { generation, .. }) => self.generation = *generation,
            Reply::Group(GroupReply::Polled { batches, generation, .. }) => {
                self.generation = *generation;
                self.held.extend(batches);
            }
            Reply::Group(GroupReply::Committed { results, .. }) => {
                let GroupCommand::Commit { results: said, .. } = command else { return };
                results.iter().for_each(|result| self.answered(said, result));
            }
            _ => {}
        }
    }

    /// What was answered for is not held any more.
    fn answered(&mut self, said: &[Verdict], result: &Committed) {
        let Committed { partition, from, to, outcome } = *result;
        let extended = said.iter().any(|one| {
            let covers = one.from <= from && to <= one.to && one.partition == partition;
            covers && one.status == VerdictStatus::Extend
        });
        if extended && outcome != CommitOutcome::Fenced {
            return;
        }
        let mut left = Vec::new();
        for held in self.held.drain(..) {
            let last = held.base + held.count - 1;
            if held.partition != partition || last < from || to < held.base {
                left.push(held);
                continue;
            }
            self.ghosts.extend(self.member.map(|member| (member, held)));
            if held.base < from {
                left.push(HandedOut { count: from - held.base, ..held });
            }
            if last > to {
                left.push(HandedOut { base: to + 1, count: last - to, ..held });
            }
        }
        self.held = left;
        let many = self.ghosts.len().saturating_sub(GHOSTS);
        self.ghosts.drain(..many);
    }
}

fn commits(
    group: GroupName,
    member: MemberId,
    results: Vec<Verdict>,
    produce: Vec<Produce>,
) -> GroupCommand {
    GroupCommand::Commit { group, member, results, produce, bodies: Vec::new(), bounds: BOUNDS }
}

fn verdict(
    partition: PartitionId,
    (from, to): (u64, u64),
    lease: Option<LeaseId>,
    dice: &mut Dice,
) -> Verdict {
    let status = match dice.below(20) {
        0..12 => VerdictStatus::Ok,
        12..14 => VerdictStatus::Failed,
        14..18 => VerdictStatus::Retry,
        _ => VerdictStatus::Extend,
    };
    let (from, to) = if dice.one_in(60) { (to + 1, from) } else { (from, to) };
    let error = (status != VerdictStatus::Ok && dice.one_in(2)).then(|| "no such thing".to_owned());
    let lease = lease.filter(|_| dice.one_in(2));
    let delay = dice.one_in(4).then(|| Span::from_millis(dice.below(20_000)));
    Verdict { partition, from, to, status, error, lease, delay }
}
