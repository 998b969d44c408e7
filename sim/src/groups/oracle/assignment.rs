//! Who may have which partition.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::groups::{GroupName, MemberId};
use handoff_streams::{PartitionId, TopicId, TopicName};

use super::{Group, Oracle, Violation};
use crate::groups::asked::SeenGroup;

type Shares = BTreeMap<MemberId, BTreeSet<PartitionId>>;

impl Oracle {
    /// Judges who has what and takes it down.
    pub(super) fn sees_shares(
        &mut self,
        name: &GroupName,
        seen: &SeenGroup,
    ) -> Result<(), Violation> {
        let settles = self.settles.as_ref() == Some(name);
        let Some(group) = self.groups.get(name) else { return Ok(()) };
        let before: Shares = share(group.members.iter().map(|(id, one)| (*id, &one.assigned)));
        let after: Shares = share(seen.members.iter().map(|one| (one.member, &one.assigned)));
        let wrong = |why: String| Err(Violation::Look(format!("in group {name} {why}")));
        let mut owners: BTreeMap<PartitionId, MemberId> = BTreeMap::new();
        for (id, share) in &after {
            for partition in share {
                if let Some(other) = owners.insert(*partition, *id) {
                    return wrong(format!("{other} and {id} both have {partition}"));
                }
            }
        }
        if before != after && !settles {
            return wrong(format!("partitions move from {before:?} to {after:?} for no reason"));
        }
        let moved = before != after;
        let (old, new) = (group.generation, seen.generation);
        if new < old || (moved && new == old) || (!settles && new != old) {
            return wrong(format!("generation {old} is followed by {new}, moved: {moved}"));
        }
        if settles && let Some(why) = self.unjust(group, &before, &after, &owners) {
            return wrong(why);
        }
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        group.generation = seen.generation;
        for (id, member) in &mut group.members {
            let share = after.get(id).into_iter().flatten().copied();
            member.assigned = share.collect();
        }
        Ok(())
    }

    /// What is wrong with partitions that were given out anew.
    fn unjust(
        &self,
        group: &Group,
        before: &Shares,
        after: &Shares,
        owners: &BTreeMap<PartitionId, MemberId>,
    ) -> Option<String> {
        let mut readers: BTreeMap<TopicId, Vec<MemberId>> = BTreeMap::new();
        let mut tastes: BTreeSet<&[TopicName]> = BTreeSet::new();
        for (id, member) in &group.members {
            let reads = group.reads(member);
            tastes.insert(reads);
            let topics = reads.iter().filter_map(|name| self.topics.get(name));
            topics.for_each(|(topic, _)| readers.entry(*topic).or_default().push(*id));
        }
        let read = self.logs.keys().filter(|id| readers.contains_key(&id.topic));
        let read: BTreeSet<PartitionId> = read.copied().collect();
        if let Some(free) = read.iter().find(|id| !owners.contains_key(id)) {
            return Some(format!("nobody has {free}"));
        }
        let size = |id: &MemberId| after.get(id).map_or(0, BTreeSet::len);
        for (partition, owner) in owners {
            let who = readers.get(&partition.topic).cloned().unwrap_or_default();
            if !who.contains(owner) {
                return Some(format!("{owner} has {partition} and does not read it"));
            }
            if let Some(poor) = who.iter().find(|other| size(other) + 2 <= size(owner)) {
                let (many, few) = (size(owner), size(poor));
                return Some(format!("{owner} has {many} partitions and {poor} has {few}"));
            }
        }
        // Where all read the same, nobody gives one away to get another.
        for (id, had) in before.iter().filter(|_| tastes.len() == 1) {
            let has = after.get(id).cloned().unwrap_or_default();
            let gave = had.difference(&has).find(|partition| read.contains(partition));
            let got = has.difference(had).next();
            if let (true, Some(gave), Some(got)) = (after.contains_key(id), gave, got) {
                return Some(format!("{id} gave {gave} away and got {got}"));
            }
        }
        None
    }
}

fn share<'a>(members: impl Iterator<Item = (MemberId, &'a Vec<PartitionId>)>) -> Shares {
    members.map(|(id, assigned)| (id, assigned.iter().copied().collect())).collect()
}
