//! Groups as bytes, beside what [`crate::codec`] says of the rest.
//!
//! ```text
//! change      │ kind u8 │ …
//!             32 group made          │ group
//!             33 group altered       │ name │ settings
//!             34 group deleted       │ name
//!             35 members             │ group id u64 │ members
//!             36 members gone        │ group id u64
//!             37 member seen         │ group id u64 │ member u128 │ deadline
//!             38 moved               │ group id u64 │ partition id │ steps │ step × steps
//!             39 position gone       │ group id u64 │ partition id
//!             40 replayed            │ group id u64 │ partition id │ runs
//!             41 replayed gone       │ group id u64 │ partition id
//! aggregate   │ kind u8 │ …
//!             32 group               │ group
//!             33 members             │ group id u64 │ members
//!             34 position            │ group id u64 │ partition id │ position
//!             35 replayed            │ group id u64 │ partition id │ runs, ascending
//!
//! group       │ id u64 │ name │ settings │ created signed
//! settings    │ topics │ name × topics │ start u8: 0 earliest, 1 latest
//!             │ order u8: 0 key, 1 partition, 2 free │ max attempts │ dead letter name │ lease
//!             │ back-off │ back-off max │ in flight max
//! members     │ generation │ members │ member × members │ topics │ (name │ id │ partitions) × topics
//! member      │ id u128 │ client │ instance? │ topics │ name × topics │ session │ deadline
//!             │ since signed │ assigned │ partition id × assigned │ former │ partition id × former
//! step        │ 0 │ at                                           begin
//!             │ 1 │ count │ keys                                 known
//!             │ 2 │ lease │ member u128 │ deadline │ runs        lease
//!             │ 3 │ run                                          done
//!             │ 4 │ run │ (partition id │ offset)?               dead
//!             │ 5 │ run │ until │ attempt │ error?               wait
//!             │ 6 │ lease │ deadline                             extend
//!             │ 7 │ below                                        lost
//!             │ 8 │ run?                                         damaged
//! position    │ start │ ranges │ range × ranges │ leases │ lease × leases │ last lease
//!             │ finished │ (lease │ member u128 │ runs) × finished
//!             │ dead │ (run │ (partition id │ offset)?) × dead │ dead count │ lost │ run?
//! range       │ count │ 0 │ until │ attempt │ error? │ keys      waiting
//!             │ count │ 1 │ lease │ attempt │ keys               leased
//!             │ count │ 2                                        done
//! lease       │ number │ member u128 │ deadline │ runs
//! keys        │ 0  or  │ 1 │ u32 × count                         none has one, or each its hash
//! runs        │ runs │ run × runs
//! run         │ first │ last − first
//! ```
//!
//! How many messages of a lease are not answered is not written: the ranges tell.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use handoff_types::{Span, Steady, Wall};

use super::change::GroupChange;
use super::dead::Letters;
use super::membership::{Given, Member, MemberId, Members};
use super::position::{DeadRun, Lease, LeaseId, Position, Run, Step};
use super::ranges::{Keys, Mark};
use super::settings::{Group, GroupId, GroupName, GroupSettings, Order, Start};
use crate::codec::{Front, Out, Undecodable, bad, short};
use crate::{Aggregate, Key, PartitionId, TopicName};

pub(crate) fn encode_change(change: &GroupChange, out: &mut Out<'_>) {
    match change {
        GroupChange::Made(group) => {
            out.byte(32);
            out.group(group);
        }
        GroupChange::Altered(name, settings) => {
            out.byte(33);
            out.bytes(name.as_str().as_bytes());
            out.group_settings(settings);
        }
        GroupChange::Deleted(name) => {
            out.byte(34);
            out.bytes(name.as_str().as_bytes());
        }
        GroupChange::Members(id, members) => {
            out.byte(35);
            out.group_id(*id);
            out.members(members);
        }
        GroupChange::MembersGone(id) => {
            out.byte(36);
            out.group_id(*id);
        }
        GroupChange::Seen(id, member, deadline) => {
            out.byte(37);
            out.group_id(*id);
            out.wide(member.0);
            out.number(deadline.0);
        }
        GroupChange::Moved(id, partition, steps) => {
            out.byte(38);
            out.group_id(*id);
            out.partition_id(*partition);
            out.number(steps.len() as u64);
            steps.iter().for_each(|step| out.step(step));
        }
        GroupChange::PositionGone(id, partition) => {
            out.byte(39);
            out.group_id(*id);
            out.partition_id(*partition);
        }
        GroupChange::Replayed(id, partition, runs) => {
            out.byte(40);
            out.group_id(*id);
            out.partition_id(*partition);
            out.runs(runs);
        }
        GroupChange::ReplayedGone(id, partition) => {
            out.byte(41);
            out.group_id(*id);
            out.partition_id(*partition);
        }
    }
}

/// The change of a kind that is one of groups; none if it is not.
pub(crate) fn decode_change(
    kind: u8,
    front: &mut Front<'_>,
) -> Result<Option<GroupChange>, Undecodable> {
    Ok(Some(match kind {
        32 => GroupChange::Made(Box::new(front.group()?)),
        33 => GroupChange::Altered(front.group_name()?, Box::new(front.group_settings()?)),
        34 => GroupChange::Deleted(front.group_name()?),
        35 => GroupChange::Members(front.group_id()?, Box::new(front.members()?)),
        36 => GroupChange::MembersGone(front.group_id()?),
        37 => GroupChange::Seen(front.group_id()?, front.member_id()?, front.steady()?),
        38 => {
            let (id, partition) = (front.group_id()?, front.partition_id()?);
            let count = front.count(2)?;
            let steps = (0..count).map(|_| front.step()).collect::<Result<_, _>>()?;
            GroupChange::Moved(id, partition, steps)
        }
        39 => GroupChange::PositionGone(front.group_id()?, front.partition_id()?),
        40 => GroupChange::Replayed(front.group_id()?, front.partition_id()?, front.runs()?),
        41 => GroupChange::ReplayedGone(front.group_id()?, front.partition_id()?),
        _ => return Ok(None),
    }))
}

/// Whether it was one of groups.
pub(crate) fn encode_aggregate(key: &Key, aggregate: &Aggregate, out: &mut Out<'_>) -> bool {
    match (key, aggregate) {
        (Key::Group(_), Aggregate::Group(group)) => {
            out.byte(32);
            out.group(group);
        }
        (Key::Members(id), Aggregate::Members(members)) => {
            out.byte(33);
            out.group_id(*id);
            out.members(members);
        }
        (Key::Position(id, partition), Aggregate::Position(position)) => {
            out.byte(34);
            out.group_id(*id);
            out.partition_id(*partition);
            out.position(position);
        }
        (Key::Replayed(id, partition), Aggregate::Replayed(letters)) => {
            out.byte(35);
            out.group_id(*id);
            out.partition_id(*partition);
            out.runs(&letters.runs().collect::<Vec<_>>());
        }
        _ => return false,
    }
    true
}

/// The aggregate of a kind that is one of groups; none if it is not.
pub(crate) fn decode_aggregate(
    kind: u8,
    front: &mut Front<'_>,
) -> Result<Option<(Key, Aggregate)>, Undecodable> {
    Ok(Some(match kind {
        32 => {
            let group = Box::new(front.group()?);
            (Key::Group(group.name.clone()), Aggregate::Group(group))
        }
        33 => (Key::Members(front.group_id()?), Aggregate::Members(Box::new(front.members()?))),
        34 => {
            let key = Key::Position(front.group_id()?, front.partition_id()?);
            (key, Aggregate::Position(Box::new(front.position()?)))
        }
        35 => {
            let key = Key::Replayed(front.group_id()?, front.partition_id()?);
            let mut letters = Letters::default();
            let runs = front.runs()?;
            runs.iter().for_each(|run| letters.add(*run));
            if !letters.runs().eq(runs.iter().copied()) {
                return bad("runs of letters are not written as they are");
            }
            (key, Aggregate::Replayed(letters))
        }
        _ => return Ok(None),
    }))
}

impl Out<'_> {
    fn group_id(&mut self, id: GroupId) {
        self.raw(&id.0.to_le_bytes());
    }

    fn group(&mut self, group: &Group) {
        let Group { id, name, settings, created } = group;
        self.group_id(*id);
        self.bytes(name.as_str().as_bytes());
        self.group_settings(settings);
        self.signed(created.0);
    }

    fn names(&mut self, names: &[TopicName]) {
        self.number(names.len() as u64);
        names.iter().for_each(|name| self.bytes(name.as_str().as_bytes()));
    }

    fn group_settings(&mut self, settings: &GroupSettings) {
        let GroupSettings {
            topics,
            start,
            order,
            max_attempts,
            dead_letter,
            lease,
            backoff,
            backoff_max,
            in_flight_max,
        } = settings;
        self.names(topics);
        self.byte(match start {
            Start::Earliest => 0,
            Start::Latest => 1,
        });
        self.byte(match order {
            Order::Key => 0,
            Order::Partition => 1,
            Order::Free => 2,
        });
        self.number((*max_attempts).into());
        self.bytes(dead_letter.as_str().as_bytes());
        [lease, backoff, backoff_max].into_iter().for_each(|span| self.number(span.0));
        self.number((*in_flight_max).into());
    }

    fn members(&mut self, members: &Members) {
        let Members { generation, members, given } = members;
        self.number(*generation);
        self.number(members.len() as u64);
        for (id, member) in members {
            let Member { client, instance, topics, session, deadline, since, assigned, former } =
                member;
            self.wide(id.0);
            self.bytes(client.as_bytes());
            self.option(instance.as_deref(), |out, name| out.bytes(name.as_bytes()));
            self.names(topics);
            self.number(session.0);
            self.number(deadline.0);
            self.signed(since.0);
            for partitions in [assigned, former] {
                self.number(partitions.len() as u64);
                partitions.iter().for_each(|partition| self.partition_id(*partition));
            }
        }
        self.number(given.len() as u64);
        for Given { name, id, partitions } in given {
            self.bytes(name.as_str().as_bytes());
            self.number(id.0.into());
            self.number((*partitions).into());
        }
    }

    fn run(&mut self, (first, last): Run) {
        self.number(first);
        self.number(last.wrapping_sub(first));
    }

    fn runs(&mut self, runs: &[Run]) {
        self.number(runs.len() as u64);
        runs.iter().for_each(|run| self.run(*run));
    }

    fn keys(&mut self, keys: &Keys) {
        self.byte((!keys.hashes().is_empty()).into());
        keys.hashes().iter().for_each(|hash| self.raw(&hash.to_le_bytes()));
    }

    fn letter(&mut self, letter: Option<(PartitionId, u64)>) {
        self.option(letter, |out, (partition, offset)| {
            out.partition_id(partition);
            out.number(offset);
        });
    }

    fn error(&mut self, error: Option<&str>) {
        self.option(error, |out, error| out.bytes(error.as_bytes()));
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Begin { at } => {
                self.byte(0);
                self.number(*at);
            }
            Step::Known { count, keys } => {
                self.byte(1);
                self.number(*count);
                self.keys(keys);
            }
            Step::Lease { lease, member, deadline, runs } => {
                self.byte(2);
                self.number(lease.0);
                self.wide(member.0);
                self.number(deadline.0);
                self.runs(runs);
            }
            Step::Done(run) => {
                self.byte(3);
                self.run(*run);
            }
            Step::Dead { run, letter } => {
                self.byte(4);
                self.run(*run);
                self.letter(*letter);
            }
            Step::Wait { run, until, attempt, error } => {
                self.byte(5);
                self.run(*run);
                self.number(until.0);
                self.number((*attempt).into());
                self.error(error.as_deref());
            }
            Step::Extend { lease, deadline } => {
                self.byte(6);
                self.number(lease.0);
                self.number(deadline.0);
            }
            Step::Lost { below } => {
                self.byte(7);
                self.number(*below);
            }
            Step::Damaged(damaged) => {
                self.byte(8);
                self.option(*damaged, Self::run);
            }
        }
    }

    fn position(&mut self, position: &Position) {
        self.number(position.start);
        self.number(position.ranges.len() as u64);
        for (first, range) in position.ranges.iter() {
            self.number(range.last - first + 1);
            match &range.mark {
                Mark::Waiting { until, attempt, error } => {
                    self.byte(0);
                    self.number(until.0);
                    self.number((*attempt).into());
                    self.error(error.as_deref());
                    self.keys(&range.keys);
                }
                Mark::Leased { lease, attempt } => {
                    self.byte(1);
                    self.number(lease.0);
                    self.number((*attempt).into());
                    self.keys(&range.keys);
                }
                Mark::Done => self.byte(2),
            }
        }
        self.number(position.leases.len() as u64);
        for (id, lease) in &position.leases {
            self.number(id.0);
            self.wide(lease.member.0);
            self.number(lease.deadline.0);
            self.runs(&lease.runs);
        }
        self.number(position.last_lease);
        self.number(position.finished.len() as u64);
        for (id, member, runs) in &position.finished {
            self.number(id.0);
            self.wide(member.0);
            self.runs(runs);
        }
        self.number(position.dead.len() as u64);
        for (first, run) in &position.dead {
            self.run((*first, run.last));
            self.letter(run.letter);
        }
        self.number(position.dead_count);
        self.number(position.lost);
        self.option(position.damaged, Self::run);
    }
}

impl Front<'_> {
    fn group_id(&mut self) -> Result<GroupId, Undecodable> {
        self.array().map(u64::from_le_bytes).map(GroupId)
    }

    fn member_id(&mut self) -> Result<MemberId, Undecodable> {
        self.wide().map(MemberId)
    }

    fn steady(&mut self) -> Result<Steady, Undecodable> {
        self.number().map(Steady)
    }

    fn group_name(&mut self) -> Result<GroupName, Undecodable> {
        let text = self.text()?;
        text.parse().map_err(|bad: super::BadGroupName| Undecodable(bad.to_string()))
    }

    fn group(&mut self) -> Result<Group, Undecodable> {
        Ok(Group {
            id: self.group_id()?,
            name: self.group_name()?,
            settings: self.group_settings()?,
            created: Wall(self.signed()?),
        })
    }

    fn names(&mut self) -> Result<Vec<TopicName>, Undecodable> {
        let count = self.count(2)?;
        (0..count).map(|_| self.name()).collect()
    }

    fn group_settings(&mut self) -> Result<GroupSettings, Undecodable> {
        let topics = self.names()?;
        let start = match self.byte()? {
            0 => Start::Earliest,
            1 => Start::Latest,
            _ => return bad("a group begins at one of two ends"),
        };
        let order = match self.byte()? {
            0 => Order::Key,
            1 => Order::Partition,
            2 => Order::Free,
            _ => return bad("there are three kinds of order"),
        };
        Ok(GroupSettings {
            topics,
            start,
            order,
            max_attempts: self.small()?,
            dead_letter: self.name()?,
            lease: self.number().map(Span)?,
            backoff: self.number().map(Span)?,
            backoff_max: self.number().map(Span)?,
            in_flight_max: self.small()?,
        })
    }

    fn partitions(&mut self) -> Result<Vec<PartitionId>, Undecodable> {
        let count = self.count(2)?;
        (0..count).map(|_| self.partition_id()).collect()
    }

    fn members(&mut self) -> Result<Members, Undecodable> {
        let generation = self.number()?;
        let mut members = BTreeMap::new();
        for _ in 0..self.count(MEMBER_BYTES_MIN)? {
            let id = self.member_id()?;
            if members.last_key_value().is_some_and(|(last, _)| *last >= id) {
                return bad("members are not in their order");
            }
            let member = Member {
                client: self.text()?.to_owned(),
                instance: self.option(|front| front.text().map(str::to_owned))?,
                topics: self.names()?,
                session: self.number().map(Span)?,
                deadline: self.steady()?,
                since: Wall(self.signed()?),
                assigned: self.partitions()?,
                former: self.partitions()?,
            };
            members.insert(id, member);
        }
        let count = self.count(4)?;
        let mut given = Vec::with_capacity(count);
        for _ in 0..count {
            let (name, id, partitions) = (self.name()?, self.topic_id()?, self.small()?);
            given.push(Given { name, id, partitions });
        }
        Ok(Members { generation, members, given })
    }

    fn run(&mut self) -> Result<Run, Undecodable> {
        let (first, more) = (self.number()?, self.number()?);
        match first.checked_add(more) {
            Some(last) => Ok((first, last)),
            None => bad("a run goes beyond what there is"),
        }
    }

    fn runs(&mut self) -> Result<Vec<Run>, Undecodable> {
        let count = self.count(2)?;
        (0..count).map(|_| self.run()).collect()
    }

    fn keys(&mut self, count: u64) -> Result<Keys, Undecodable> {
        match self.byte()? {
            0 => return Ok(Keys::default()),
            1 => {}
            _ => return bad("it does not say whether something is there"),
        }
        let count = usize::try_from(count).map_err(|_| short())?;
        let hashes = (0..count.min(self.left() / 4 + 1)).map(|_| self.array());
        let hashes = hashes.map(|bytes| bytes.map(u32::from_le_bytes));
        let hashes: Vec<u32> = hashes.collect::<Result<_, _>>()?;
        if hashes.iter().all(|hash| *hash == 0) {
            return bad("keys of messages that have none");
        }
        Ok(Keys::of(hashes))
    }

    fn letter(&mut self) -> Result<Option<(PartitionId, u64)>, Undecodable> {
        self.option(|front| Ok((front.partition_id()?, front.number()?)))
    }

    fn error(&mut self) -> Result<Option<Arc<str>>, Undecodable> {
        self.option(|front| front.text().map(Arc::from))
    }

    fn lease_id(&mut self) -> Result<LeaseId, Undecodable> {
        self.number().map(LeaseId)
    }

    fn step(&mut self) -> Result<Step, Undecodable> {
        Ok(match self.byte()? {
            0 => Step::Begin { at: self.number()? },
            1 => {
                let count = self.number()?;
                Step::Known { count, keys: self.keys(count)? }
            }
            2 => Step::Lease {
                lease: self.lease_id()?,
                member: self.member_id()?,
                deadline: self.steady()?,
                runs: self.runs()?,
            },
            3 => Step::Done(self.run()?),
            4 => Step::Dead { run: self.run()?, letter: self.letter()? },
            5 => Step::Wait {
                run: self.run()?,
                until: self.steady()?,
                attempt: self.small()?,
                error: self.error()?,
            },
            6 => Step::Extend { lease: self.lease_id()?, deadline: self.steady()? },
            7 => Step::Lost { below: self.number()? },
            8 => Step::Damaged(self.option(Self::run)?),
            _ => return bad("there are nine kinds of steps"),
        })
    }

    fn position(&mut self) -> Result<Position, Undecodable> {
        let start = self.number()?;
        let count = self.count(2)?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let count = self.number()?;
            let (mark, keys) = match self.byte()? {
                0 => {
                    let (until, attempt) = (self.steady()?, self.small()?);
                    (Mark::Waiting { until, attempt, error: self.error()? }, self.keys(count)?)
                }
                1 => {
                    let (lease, attempt) = (self.lease_id()?, self.small()?);
                    (Mark::Leased { lease, attempt }, self.keys(count)?)
                }
                2 => (Mark::Done, Keys::default()),
                _ => return bad("a message is one of three things"),
            };
            ranges.push((count, mark, keys));
        }
        let mut leases: Vec<(LeaseId, Lease)> = Vec::new();
        for _ in 0..self.count(LEASE_BYTES_MIN)? {
            let id = self.lease_id()?;
            if leases.last().is_some_and(|(last, _)| *last >= id) {
                return bad("leases are not in their order");
            }
            let (member, deadline) = (self.member_id()?, self.steady()?);
            leases.push((id, Lease { member, deadline, runs: self.runs()?, left: 0 }));
        }
        let last_lease = self.number()?;
        let mut finished = VecDeque::new();
        for _ in 0..self.count(LEASE_BYTES_MIN - 1)? {
            finished.push_back((self.lease_id()?, self.member_id()?, self.runs()?));
        }
        let mut dead: BTreeMap<u64, DeadRun> = BTreeMap::new();
        for _ in 0..self.count(3)? {
            let (first, last) = self.run()?;
            if dead.last_key_value().is_some_and(|(_, before)| before.last >= first) {
                return bad("dead messages are not in their order");
            }
            dead.insert(first, DeadRun { last, letter: self.letter()? });
        }
        let (dead_count, lost) = (self.number()?, self.number()?);
        let damaged = self.option(Self::run)?;
        let rest = Position {
            last_lease,
            finished,
            dead,
            dead_count,
            lost,
            damaged,
            ..Position::default()
        };
        match Position::from_parts(start, ranges, leases, rest) {
            Some(position) => Ok(position),
            None => bad("what is known of messages does not fit together"),
        }
    }
}

/// The smallest member: id, seven lengths and options, session, deadline, since.
const MEMBER_BYTES_MIN: usize = 24;

/// The smallest lease: number, member, deadline, runs.
const LEASE_BYTES_MIN: usize = 19;
