//! What must be once everybody did their work: every message of every group processed or dead.

use handoff_streams::groups::{
    Body, Fact, Found, GroupBounds, GroupCommand, GroupName, GroupReply, Join, MemberId, OnCorrupt,
    Verdict, VerdictStatus,
};
use handoff_streams::{Command, Reply, State, Streams, TopicName};
use handoff_types::{Entropy, Now, Span};

use super::Rules;
use super::asked::{Asked, Look};
use super::oracle::Oracle;
use super::workload::{BOUNDS, Workload, sweep};
use crate::driver::{Fault, ensure};

/// More rounds than anybody needs: sessions, leases and back-offs are over by then.
const ROUNDS: usize = 40;

/// Time between two of them.
const PAUSE: Span = Span::from_secs(10);

const SESSION: Span = Span::from_secs(3_600);

/// A room whose work is done to the end.
struct Drain<'a> {
    oracle: &'a mut Oracle,
    state: State,
    now: Now,
    draws: u128,
}

/// Lets somebody join every group and do all there is to do, on a copy of the room.
pub(super) fn drain<M: Rules>(oracle: &mut Oracle, state: &State, now: Now) -> Result<(), Fault> {
    let mut drain = Drain { oracle, state: state.clone(), now, draws: 1 << 100 };
    let groups: Vec<GroupName> = drain.oracle.groups().cloned().collect();
    for group in groups {
        drain.group::<M>(&group)?;
    }
    drain.ask::<M>(Workload::tick())?;
    let left = Look::at(&drain.state, drain.now).left;
    ensure(left == 0, || format!("{left} things are left of groups and topics that are gone"))
}

impl Drain<'_> {
    fn ask<M: Rules>(&mut self, command: Command) -> Result<Reply, Fault> {
        self.draws += 1;
        let decided = M::decide(&self.state, &command, self.now, Entropy(self.draws));
        decided.changes.iter().for_each(|change| M::evolve(&mut self.state, change));
        let (look, reply) = (Look::at(&self.state, self.now), decided.reply.clone());
        let (now, actions) = (self.now, decided.actions);
        let asked = Asked { now, command, reply: decided.reply, actions, look };
        self.oracle.answered(&asked)?;
        Ok(reply)
    }

    fn group<M: Rules>(&mut self, name: &GroupName) -> Result<(), Fault> {
        let topics = self.oracle.read_by(name);
        if topics.is_empty() {
            return Ok(());
        }
        let join = Join {
            group: name.clone(),
            topics: topics.clone(),
            client: "the last".to_owned(),
            instance: None,
            session: SESSION,
            begin: Vec::new(),
        };
        let limits = GroupBounds::default();
        let joined = self.ask::<M>(Command::Group(GroupCommand::Join { join, limits }))?;
        let Reply::Group(GroupReply::Joined { member, .. }) = joined else {
            return Err(Fault::Invariant(format!("nobody can join {name}: {joined:?}")));
        };
        for _ in 0..ROUNDS {
            self.sweep::<M>(name)?;
            self.work::<M>(name, member)?;
            if self.oracle.unfinished(name, &topics).is_none() {
                return self.leave::<M>(name, member);
            }
            self.now.steady = self.now.steady + PAUSE;
            self.now.wall.0 += 10_000_000;
        }
        self.stuck(name, &topics)
    }

    fn stuck(&self, name: &GroupName, topics: &[TopicName]) -> Result<(), Fault> {
        let open = self.oracle.unfinished(name, topics);
        let view = self.state.group_view(name, &handoff_types::Sight::All, self.now);
        let why = format!("{open:?} is never finished for {name}: {view:?}");
        ensure(open.is_none(), || why)
    }

    fn leave<M: Rules>(&mut self, name: &GroupName, member: MemberId) -> Result<(), Fault> {
        let leave = GroupCommand::Leave { group: name.clone(), member };
        self.ask::<M>(Command::Group(leave)).map(drop)
    }

    fn sweep<M: Rules>(&mut self, name: &GroupName) -> Result<(), Fault> {
        let due = self.state.due(name, self.now);
        if due.is_empty() {
            return Ok(());
        }
        let mut command = sweep(name.clone(), due);
        let reads = Streams::reads(&self.state, &command, self.now);
        if let Command::Group(GroupCommand::Sweep { bodies, .. }) = &mut command {
            for (partition, offsets) in reads {
                bodies.extend(offsets.map(|offset| Body {
                    partition,
                    offset,
                    record: self.oracle.record(partition, offset),
                }));
            }
        }
        self.ask::<M>(command).map(drop)
    }

    /// Polls and commits until there is nothing to be had.
    fn work<M: Rules>(&mut self, name: &GroupName, member: MemberId) -> Result<(), Fault> {
        for turn in 0..ROUNDS as u64 {
            let candidates = self.state.candidates(name, member, 40, self.now, turn);
            let mut found = Vec::new();
            for candidate in candidates {
                let partition = candidate.partition;
                let fresh = candidate.next..candidate.next + candidate.count;
                let waiting = candidate.waiting.iter().flat_map(|(first, last)| *first..=*last);
                let records = waiting.chain(fresh);
                let records = records.filter_map(|offset| self.oracle.record(partition, offset));
                let facts = records.map(|record| Fact::of(&record)).collect();
                let kept = self.oracle.partitions().find(|(id, ..)| *id == partition);
                let kept = kept.map_or(0, |(_, start, _)| start);
                found.push(Found { partition, kept, facts, damaged: None });
            }
            let poll = GroupCommand::Poll {
                group: name.clone(),
                member,
                max_messages: 40,
                max_bytes: 1 << 24,
                found,
                on_corrupt: OnCorrupt::Stop,
            };
            let polled = self.ask::<M>(Command::Group(poll))?;
            let Reply::Group(GroupReply::Polled { batches, again, .. }) = polled else {
                return Err(Fault::Invariant(format!("{member} cannot poll: {polled:?}")));
            };
            if batches.is_empty() && !again {
                return Ok(());
            }
            let ok = |one: &handoff_streams::groups::HandedOut| Verdict {
                partition: one.partition,
                from: one.base,
                to: one.base + one.count - 1,
                status: VerdictStatus::Ok,
                error: None,
                lease: Some(one.lease),
                delay: None,
            };
            let commit = GroupCommand::Commit {
                group: name.clone(),
                member,
                results: batches.iter().map(ok).collect(),
                produce: Vec::new(),
                bodies: Vec::new(),
                bounds: BOUNDS,
            };
            self.ask::<M>(Command::Group(commit))?;
        }
        Ok(())
    }
}
