//! Who gets which partition.
//!
//! * A partition has one owner at most, and one if anybody reads its topic.
//! * Whoever has a partition keeps it unless somebody who reads the topic has at least two fewer.
//! * So nothing moves that does not have to: of n partitions and m members about n/m when one comes
//!   or goes, and members that read the same differ by one at most.

use std::collections::{BTreeMap, BTreeSet};

use super::membership::{MemberId, Members};
use super::settings::Group;
use crate::{PartitionId, TopicId};

/// The partitions of every member, sorted. Looks at who reads what, what there is to read and who
/// has what, at nothing else.
pub(crate) fn plan(members: &Members, group: &Group) -> BTreeMap<MemberId, Vec<PartitionId>> {
    let mut table = Table::new(members, group);
    table.keep(members);
    table.fill();
    table.balance();
    table.shares.into_iter().map(|(id, share)| (id, share.into_iter().collect())).collect()
}

struct Table {
    shares: BTreeMap<MemberId, BTreeSet<PartitionId>>,
    readers: BTreeMap<TopicId, BTreeSet<MemberId>>,
    free: BTreeSet<PartitionId>,
    by_load: BTreeSet<(usize, MemberId)>,
    /// Of each topic; topics it has none of are not in it.
    counts: BTreeMap<(MemberId, TopicId), usize>,
}

impl Table {
    fn new(members: &Members, group: &Group) -> Self {
        let mut readers: BTreeMap<TopicId, BTreeSet<MemberId>> = BTreeMap::new();
        let mut free = BTreeSet::new();
        for given in &members.given {
            let reads = |id: &MemberId| {
                let member = members.members.get(id);
                member.is_some_and(|member| member.reads(group).contains(&given.name))
            };
            let who: BTreeSet<MemberId> = members.members.keys().copied().filter(reads).collect();
            if !who.is_empty() {
                readers.insert(given.id, who);
                let ids = (0..given.partitions).map(|number| (given.id, number));
                free.extend(ids.map(|(topic, number)| PartitionId { topic, number }));
            }
        }
        let shares: BTreeMap<_, _> =
            members.members.keys().map(|id| (*id, BTreeSet::new())).collect();
        let by_load = shares.keys().map(|id| (0, *id)).collect();
        Self { shares, readers, free, by_load, counts: BTreeMap::new() }
    }

    fn reads(&self, member: MemberId, topic: TopicId) -> bool {
        self.readers.get(&topic).is_some_and(|who| who.contains(&member))
    }

    fn keep(&mut self, members: &Members) {
        for (id, member) in &members.members {
            for partition in &member.assigned {
                if self.reads(*id, partition.topic) && self.free.remove(partition) {
                    self.give(*id, *partition);
                }
            }
        }
    }

    /// What nobody has goes to those who have least.
    fn fill(&mut self) {
        for partition in std::mem::take(&mut self.free) {
            let mut poor = self.by_load.iter().map(|(_, id)| *id);
            let taker = poor.find(|id| self.reads(*id, partition.topic));
            if let Some(taker) = taker {
                self.give(taker, partition);
            }
        }
    }

    /// From those who have most to those who have least, as long as it makes a difference.
    fn balance(&mut self) {
        while let Some((from, to, partition)) = self.next_move() {
            self.take(from, partition);
            self.give(to, partition);
        }
    }

    fn next_move(&self) -> Option<(MemberId, MemberId, PartitionId)> {
        let least = self.by_load.first()?.0;
        for (most, from) in self.by_load.iter().rev() {
            if *most < least + 2 {
                return None;
            }
            for (fewer, to) in self.by_load.iter().take_while(|(fewer, _)| fewer + 2 <= *most) {
                debug_assert!(fewer < most);
                if let Some(partition) = self.movable(*from, *to) {
                    return Some((*from, *to, partition));
                }
            }
        }
        None
    }

    /// A partition one may give the other: of the topic of which it has most more than the other.
    fn movable(&self, from: MemberId, to: MemberId) -> Option<PartitionId> {
        let its = (from, TopicId(0))..=(from, TopicId(u32::MAX));
        let topics = self.counts.range(its).map(|((_, topic), count)| (*topic, *count));
        let readable = topics.filter(|(topic, _)| self.reads(to, *topic));
        let theirs = |topic| self.counts.get(&(to, topic)).copied().unwrap_or(0);
        // Shifted, so that one who has more of it than the giver counts too.
        let lead = |(topic, count): &(TopicId, usize)| count + usize::MAX / 2 - theirs(*topic);
        let (topic, _) = readable.max_by_key(lead)?;
        let last = PartitionId { topic, number: u32::MAX };
        self.shares.get(&from)?.range(..=last).next_back().copied()
    }

    fn give(&mut self, member: MemberId, partition: PartitionId) {
        *self.counts.entry((member, partition.topic)).or_default() += 1;
        self.change(member, |share| share.insert(partition));
    }

    fn take(&mut self, member: MemberId, partition: PartitionId) {
        let key = (member, partition.topic);
        let left = self.counts.get(&key).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => drop(self.counts.remove(&key)),
            left => drop(self.counts.insert(key, left)),
        }
        self.change(member, |share| share.remove(&partition));
    }

    fn change(
        &mut self,
        member: MemberId,
        change: impl FnOnce(&mut BTreeSet<PartitionId>) -> bool,
    ) {
        let share = self.shares.entry(member).or_default();
        self.by_load.remove(&(share.len(), member));
        let changed = change(share);
        debug_assert!(changed, "a partition is given once and taken once");
        self.by_load.insert((share.len(), member));
    }
}
