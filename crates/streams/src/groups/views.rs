//! What people see of groups.

use handoff_types::{Now, Sight, Span, Steady};

use super::command::Due;
use super::membership::{MemberId, Members};
use super::poll::{Candidate, candidates};
use super::position::{LeaseId, Position, Run};
use super::ranges::Mark;
use super::settings::{Group, GroupId, GroupName, Order};
use super::{Letters, manage};
use crate::{PartitionId, State, TopicName};

/// A member, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its id.
    pub member: MemberId,
    /// What it says it is.
    pub client: String,
    /// The name that outlives it.
    pub instance: Option<String>,
    /// When it joined.
    pub since: handoff_types::Wall,
    /// For how long it may still be silent.
    pub session_left: Span,
    /// What it has.
    pub assigned: Vec<PartitionId>,
}

/// Where a group is in a partition, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// The topic.
    pub topic: TopicName,
    /// The partition.
    pub partition: PartitionId,
    /// The first offset that is not finished.
    pub committed: u64,
    /// The first that was not looked at.
    pub next: u64,
    /// The offset of the next message.
    pub end: u64,
    /// Messages that are not finished.
    pub lag: u64,
    /// Of those, the ones that are out.
    pub processing: u64,
    /// Of those, the ones that were out and wait for their retry.
    pub waiting: u64,
    /// Messages that are dead.
    pub dead: u64,
    /// Messages that went before they were read.
    pub lost: u64,
    /// Ranges between `committed` and `next` of which the same is known.
    pub ranges: u64,
    /// Who has it.
    pub owner: Option<MemberId>,
    /// Why nothing is handed out now, though there is something.
    pub blocked_by: Option<String>,
}

/// A group, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupView {
    /// The group.
    pub group: Group,
    /// Grows whenever partitions change hands.
    pub generation: u64,
    /// Who is in it, by id.
    pub members: Vec<MemberView>,
    /// Where it is, by topic and number.
    pub partitions: Vec<PartitionView>,
    /// Messages that are not finished.
    pub lag: u64,
    /// Messages that are dead.
    pub dead: u64,
    /// Messages that went before they were read.
    pub lost: u64,
    /// Why nothing is handed out at all.
    pub blocked_by: Option<String>,
}

/// What all groups come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFigures {
    /// Members of all groups.
    pub members: usize,
    /// Leases that are out.
    pub leases: usize,
    /// Messages that ever died.
    pub dead: u64,
    /// The largest lag there is of a group in a partition.
    pub lag_max: u64,
}

/// What a message is for a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageStatus {
    /// It was not handed out, or came back.
    Pending {
        /// How often it was handed out.
        attempt: u32,
        /// For how long it still waits.
        wait: Span,
        /// What was said when it came back.
        error: Option<String>,
    },
    /// It is out.
    Processing {
        /// How often it was handed out, this time included.
        attempt: u32,
        /// To whom.
        member: MemberId,
        /// Under which lease.
        lease: LeaseId,
        /// For how long.
        left: Span,
    },
    /// It is finished.
    Processed,
    /// It is dead.
    Dead {
        /// Where its letter is; none if it was lost by the disk and there is none.
        letter: Option<(PartitionId, u64)>,
    },
}

impl State {
    /// A group by its name.
    #[must_use]
    pub fn group(&self, name: &GroupName) -> Option<&Group> {
        self.groups_known().group(name)
    }

    /// A group by its number.
    #[must_use]
    pub fn group_by_id(&self, id: GroupId) -> Option<&Group> {
        self.groups_known().group_by_id(id)
    }

    /// Groups in sight by name, those after a name.
    pub fn groups<'a>(
        &'a self,
        sight: &'a Sight,
        after: Option<&GroupName>,
    ) -> impl Iterator<Item = &'a Group> {
        let groups = self.groups_known().groups_after(after);
        groups.filter(|group| sight.sees(group.name.as_str()))
    }

    /// Who is in a group.
    #[must_use]
    pub fn members(&self, id: GroupId) -> Option<&Members> {
        self.groups_known().members(id)
    }

    /// Where a group is in a partition; none if it was never asked.
    #[must_use]
    pub fn position(&self, id: GroupId, partition: PartitionId) -> Option<&Position> {
        self.groups_known().position(id, partition)
    }

    /// The letters of a dead-letter partition that a group had replayed.
    #[must_use]
    pub fn letters(&self, id: GroupId, partition: PartitionId) -> Option<&Letters> {
        self.groups_known().letters(id, partition)
    }

    /// What a member may be handed next, the partition whose turn it is first: of each partition as
    /// much as it may be handed of all of them. Whoever asks reads it, in this order, until there is
    /// enough, and polls with what was found. `turn` is any number that grows from poll to poll, so
    /// that no partition starves behind another.
    #[must_use]
    pub fn candidates(
        &self,
        group: &GroupName,
        member: MemberId,
        max_messages: usize,
        now: Now,
        turn: u64,
    ) -> Vec<Candidate> {
        candidates(self, group, member, max_messages, now, turn)
    }

    /// When a member may be handed something that it may not be now, if nothing else happens: the
    /// end of the first back-off among its partitions.
    #[must_use]
    pub fn ready_at(&self, group: &GroupName, member: MemberId, now: Now) -> Option<Steady> {
        let group = self.group(group)?;
        let member = self.members(group.id)?.members.get(&member)?;
        let positions = member.assigned.iter().filter_map(|at| self.position(group.id, *at));
        let waits =
            positions.flat_map(Position::ranges).filter_map(|(_, range)| match range.mark {
                Mark::Waiting { until, .. } if until > now.steady => Some(until),
                _ => None,
            });
        waits.min()
    }

    /// Groups with members that were silent for too long, or leases that are over.
    pub fn groups_due(&self, now: Now) -> impl Iterator<Item = &GroupName> {
        self.groups_known().due(now.steady)
    }

    /// What is to be looked after in a group.
    #[must_use]
    pub fn due(&self, group: &GroupName, now: Now) -> Due {
        let known = self.groups_known();
        self.group(group).map(|group| known.due_of(group.id, now.steady)).unwrap_or_default()
    }

    /// What a message is for a group; none if there is no such group.
    #[must_use]
    pub fn message_status(
        &self,
        group: &GroupName,
        partition: PartitionId,
        offset: u64,
        now: Now,
    ) -> Option<MessageStatus> {
        let group = self.group(group)?;
        let fresh = MessageStatus::Pending { attempt: 0, wait: Span::ZERO, error: None };
        let Some(position) = self.position(group.id, partition) else { return Some(fresh) };
        if let Some((first, run)) = position.dead_at(offset) {
            let letter = run.letter.map(|(at, base)| (at, base.saturating_add(offset - first)));
            return Some(MessageStatus::Dead { letter });
        }
        Some(match position.ranges.at(offset).map(|(_, range)| &range.mark) {
            None if offset < position.start() => MessageStatus::Processed,
            None => fresh,
            Some(Mark::Done) => MessageStatus::Processed,
            Some(Mark::Waiting { until, attempt, error }) => MessageStatus::Pending {
                attempt: *attempt,
                wait: until.since(now.steady),
                error: error.as_deref().map(str::to_owned),
            },
            Some(Mark::Leased { lease: id, attempt }) => match position.lease(*id) {
                None => fresh,
                Some(lease) => MessageStatus::Processing {
                    attempt: *attempt,
                    member: lease.member,
                    lease: *id,
                    left: lease.deadline.since(now.steady),
                },
            },
        })
    }

    /// What all groups come to. It looks at every place there is.
    #[must_use]
    pub fn group_figures(&self) -> GroupFigures {
        let known = self.groups_known();
        let mut figures = GroupFigures::default();
        for group in known.groups_after(None) {
            let members = known.members(group.id);
            figures.members += members.map_or(0, |members| members.members.len());
            for (partition, position) in known.positions(group.id) {
                figures.leases += position.leases().count();
                figures.dead += position.dead_count();
                let kept = self.partition(partition).copied().unwrap_or_default();
                let lag = kept.end.saturating_sub(position.start().max(kept.start));
                figures.lag_max = figures.lag_max.max(lag);
            }
        }
        figures
    }

    /// A group, its members and where it is, if it is there and in sight. Topics out of sight are
    /// left out.
    #[must_use]
    pub fn group_view(&self, name: &GroupName, sight: &Sight, now: Now) -> Option<GroupView> {
        let group = self.group(name).filter(|_| sight.sees(name.as_str()))?;
        let members = self.members(group.id)?;
        let partitions: Vec<PartitionView> = self
            .partitions_read(group, members, sight)
            .filter_map(|partition| self.partition_view(group, members, partition, now))
            .collect();
        let sum = |count: fn(&PartitionView) -> u64| partitions.iter().map(count).sum();
        Some(GroupView {
            group: group.clone(),
            generation: members.generation,
            members: member_views(members, now),
            lag: sum(|one| one.lag),
            dead: sum(|one| one.dead),
            lost: sum(|one| one.lost),
            blocked_by: nobody_reads(members, &partitions),
            partitions,
        })
    }

    /// How many messages a group has still to finish, in topics that are in sight.
    #[must_use]
    pub fn group_lag(&self, group: &Group, sight: &Sight) -> u64 {
        let Some(members) = self.members(group.id) else { return 0 };
        let none = Position::default();
        let lag = |partition| {
            let position = self.position(group.id, partition).unwrap_or(&none);
            self.ahead(partition, position).1 + position.open()
        };
        self.partitions_read(group, members, sight).map(lag).fold(0, u64::saturating_add)
    }

    /// What members of a group read, or would.
    fn partitions_read<'a>(
        &'a self,
        group: &'a Group,
        members: &'a Members,
        sight: &'a Sight,
    ) -> impl Iterator<Item = PartitionId> {
        let mut topics: Vec<&TopicName> = group.settings.topics.iter().collect();
        topics.extend(members.members.values().flat_map(|member| member.reads(group)));
        topics.sort();
        topics.dedup();
        let topics = topics.into_iter().filter(|topic| sight.sees(topic.as_str()));
        topics.filter_map(|topic| self.topic(topic)).flat_map(manage::partitions)
    }

    /// The offset behind the last message of a partition, and how many were never looked at from a
    /// position.
    fn ahead(&self, partition: PartitionId, position: &Position) -> (u64, u64) {
        let kept = self.partition(partition).copied().unwrap_or_default();
        let end = kept.end.max(position.next());
        // What is not kept any more will not be read.
        (end, end - position.next().max(kept.start).min(end))
    }

    fn partition_view(
        &self,
        group: &Group,
        members: &Members,
        partition: PartitionId,
        now: Now,
    ) -> Option<PartitionView> {
        let topic = self.topic_by_id(partition.topic)?.name.clone();
        let none = Position::default();
        let position = self.position(group.id, partition).unwrap_or(&none);
        let counts = Counts::of(position);
        let (end, unseen) = self.ahead(partition, position);
        Some(PartitionView {
            topic,
            partition,
            committed: position.start(),
            next: position.next(),
            end,
            lag: unseen + position.open(),
            processing: counts.processing,
            waiting: counts.waiting,
            dead: position.dead_count(),
            lost: position.lost(),
            ranges: position.range_count() as u64,
            owner: members.owner(partition),
            blocked_by: blocked_by(group, members, position, &counts, unseen, now),
        })
    }
}

fn member_views(members: &Members, now: Now) -> Vec<MemberView> {
    let view = |(id, member): (&MemberId, &super::Member)| MemberView {
        member: *id,
        client: member.client.clone(),
        instance: member.instance.clone(),
        since: member.since,
        session_left: member.deadline.since(now.steady),
        assigned: member.assigned.clone(),
    };
    members.members.iter().map(view).collect()
}

/// How many messages between start and next are what.
#[derive(Default)]
struct Counts {
    processing: u64,
    waiting: u64,
    /// Looked at and never handed out.
    fresh: u64,
}

impl Counts {
    fn of(position: &Position) -> Self {
        let mut counts = Self::default();
        for (first, range) in position.ranges() {
            let count = range.last - first + 1;
            match range.mark {
                Mark::Leased { .. } => counts.processing += count,
                Mark::Waiting { attempt: 0, .. } => counts.fresh += count,
                Mark::Waiting { .. } => counts.waiting += count,
                Mark::Done => {}
            }
        }
        counts
    }
}

fn nobody_reads(members: &Members, partitions: &[PartitionView]) -> Option<String> {
    if members.members.is_empty() {
        return Some("nobody is in the group".to_owned());
    }
    let idle = members.members.values().filter(|member| member.assigned.is_empty()).count();
    let (there, parts) = (members.members.len(), partitions.len());
    (idle == there).then(|| format!("no partitions assigned: {there} members, {parts} partitions"))
}

/// Why nothing of a partition is handed out now; none if something would be, or there is nothing.
fn blocked_by(
    group: &Group,
    members: &Members,
    position: &Position,
    counts: &Counts,
    unseen: u64,
    now: Now,
) -> Option<String> {
    let Counts { processing, waiting, fresh } = counts;
    if unseen + processing + waiting + fresh == 0 {
        return None;
    }
    let ready = position.ranges().filter(
        |(_, range)| matches!(range.mark, Mark::Waiting { until, .. } if until <= now.steady),
    );
    let (offered, count) = super::poll::offered(position, &group.settings, 1, now.steady);
    let window = u64::from(group.settings.in_flight_max);
    let full = position.open() >= window;
    let is_free = !offered.is_empty() || (count > 0 && unseen > 0);
    let held = || {
        let left = position.leases().map(|(_, lease)| lease.deadline.since(now.steady)).max();
        let mut whose: Vec<MemberId> = position.leases().map(|(_, one)| one.member).collect();
        whose.sort_unstable();
        whose.dedup();
        let name = |id: &MemberId| match members.members.get(id) {
            Some(member) if !member.client.is_empty() => member.client.clone(),
            _ => id.to_string(),
        };
        let whose = whose.iter().take(3).map(name).collect::<Vec<_>>().join(", ");
        let secs = seconds(left.unwrap_or_default());
        let what = if *processing == 1 { "message is" } else { "messages are" };
        format!("{processing} {what} held by {whose}, {secs} left")
    };
    if let Some((from, behind)) = position.damaged() {
        let last: Run = (from, behind.saturating_sub(1));
        return Some(format!("partition damaged at {}–{}", last.0, last.1));
    }
    if is_free {
        return None;
    }
    if full {
        let first = match processing {
            0 => format!("{waiting} messages wait for their retry"),
            _ => held(),
        };
        return Some(format!("window full: {} in flight; {first}", position.open()));
    }
    let next = position.ranges().filter_map(|(_, range)| match range.mark {
        Mark::Waiting { until, attempt, .. } if attempt > 0 && until > now.steady => Some(until),
        _ => None,
    });
    match (next.min(), *processing) {
        (Some(until), 0) => {
            let secs = seconds(until.since(now.steady));
            let what = match waiting {
                1 => "message waits for its retry",
                _ => "messages wait for their retry",
            };
            Some(format!("{waiting} {what}, next in {secs}"))
        }
        (_, 0) => None,
        (_, _) if unseen == 0 && ready.count() == 0 => Some(held()),
        _ => {
            let order = match group.settings.order {
                Order::Key => "; what is behind has the same keys",
                Order::Partition => "; the rest of the partition waits for them",
                Order::Free => "",
            };
            Some(format!("{}{order}", held()))
        }
    }
}

fn seconds(span: Span) -> String {
    format!("{} s", span.0.div_ceil(1_000_000))
}
