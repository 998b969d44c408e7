//! Groups come and go, and so do their members.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::groups::{
    Assigned, GroupId, GroupName, GroupReply, GroupSettings, Join, MemberId, Sought, Spot,
};
use handoff_streams::{PartitionId, TopicName};

use super::place::{Is, Place, Why};
use super::{Asked, Group, Member, Oracle, Violation, is_answer, no_answer};

impl Oracle {
    pub(super) fn made(&mut self, name: &GroupName, id: GroupId, settings: &GroupSettings) {
        let group = Group {
            id,
            settings: settings.clone(),
            generation: 0,
            members: BTreeMap::new(),
            ever: BTreeSet::new(),
            places: BTreeMap::new(),
            replayed: BTreeSet::new(),
            given: BTreeMap::new(),
            window: settings.in_flight_max,
            bereft: false,
        };
        self.groups.insert(name.clone(), group);
    }

    /// A group begins in partitions of topics it has not read yet.
    pub(super) fn opened(&mut self, name: &GroupName, topics: &[TopicName], begin: &[Spot]) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let read = topics.iter().filter_map(|topic| self.topics.get(topic));
        for (topic, partitions) in read {
            for number in 0..*partitions {
                let id = PartitionId { topic: *topic, number };
                let at = begin.iter().find(|(named, _)| *named == id).map_or(0, |(_, at)| *at);
                group.places.entry(id).or_insert_with(|| Place::at(at));
            }
        }
    }

    pub(super) fn altered(&mut self, name: &GroupName, settings: &GroupSettings, begin: &[Spot]) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let others = group.settings.topics != settings.topics;
        group.window = group.window.max(settings.in_flight_max);
        group.settings = settings.clone();
        if others {
            self.opened(name, &settings.topics, begin);
            self.settle(name);
        }
    }

    /// The topics somebody in a group reads, as they are.
    fn read_now(&self, group: &Group) -> BTreeMap<TopicName, (handoff_streams::TopicId, u32)> {
        let names = group.members.values().flat_map(|member| group.reads(member));
        names.filter_map(|name| Some((name.clone(), *self.topics.get(name)?))).collect()
    }

    /// Partitions are given out anew.
    pub(super) fn settle(&mut self, name: &GroupName) {
        let given = self.groups.get(name).map(|group| self.read_now(group));
        if let (Some(group), Some(given)) = (self.groups.get_mut(name), given) {
            group.given = given;
            self.settles = Some(name.clone());
        }
    }

    /// A member was heard of. Partitions are given out anew if topics are others than they were.
    pub(super) fn attended(&mut self, name: &GroupName, member: MemberId, asked: &Asked) {
        let Some(group) = self.groups.get_mut(name) else { return };
        group.hear(member, asked.now.steady);
        let Some(group) = self.groups.get(name) else { return };
        if self.read_now(group) != group.given {
            self.settle(name);
        }
    }

    pub(super) fn joined(
        &mut self,
        asked: &Asked,
        join: &Join,
        reply: &GroupReply,
    ) -> Result<(), Violation> {
        let GroupReply::Joined { created, member, generation, session, assignment } = reply else {
            return Err(no_answer(asked, "that is no answer to it".to_owned()));
        };
        let name = &join.group;
        is_answer(asked, created, &!self.groups.contains_key(name))?;
        is_answer(asked, session, &join.session)?;
        let Some(seen) = asked.look.groups.get(name) else {
            return Err(Violation::Look(format!("{name} was joined and is not there")));
        };
        let mut topics = join.topics.clone();
        topics.sort();
        topics.dedup();
        if *created {
            let usual = GroupSettings::of(name, topics.clone());
            self.made(name, seen.group.id, &usual);
        }
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        if !group.ever.insert(*member) {
            return Err(no_answer(asked, "the member's id is another's".to_owned()));
        }
        let same = |one: &Member| join.instance.is_some() && one.instance == join.instance;
        let replaced = group.members.iter().find(|(_, one)| same(one)).map(|(id, _)| *id);
        let replaced = replaced.and_then(|id| Some((id, group.members.remove(&id)?)));
        if let Some((old, _)) = &replaced {
            group.places.values_mut().for_each(|place| place.give_back(*old, Why::Anew));
        }
        let now = asked.now.steady;
        let joined = Member {
            instance: join.instance.clone(),
            topics: topics.clone(),
            session: join.session,
            heard: now,
            deadline: now + join.session,
            assigned: replaced.map(|(_, old)| old.assigned).unwrap_or_default(),
        };
        let read = group.reads(&joined).to_vec();
        group.members.insert(*member, joined);
        self.opened(name, &read, &join.begin);
        self.settle(name);
        is_answer(asked, generation, &seen.generation)?;
        let view = seen.members.iter().find(|one| one.member == *member);
        let assigned = view.map(|one| one.assigned.clone()).unwrap_or_default();
        let committed = |partition: &PartitionId| Assigned {
            partition: *partition,
            committed: seen.places.get(partition).map_or(0, |place| place.committed),
        };
        is_answer(asked, assignment, &assigned.iter().map(committed).collect())
    }

    pub(super) fn left(&mut self, name: &GroupName, member: MemberId) {
        if let Some(group) = self.groups.get_mut(name) {
            group.members.remove(&member);
            group.places.values_mut().for_each(|place| place.give_back(member, Why::Left));
        }
        self.settle(name);
    }

    pub(super) fn beat(
        &mut self,
        asked: &Asked,
        name: &GroupName,
        (member, known): (MemberId, u64),
        reply: &GroupReply,
    ) -> Result<(), Violation> {
        self.attended(name, member, asked);
        let Some(seen) = asked.look.groups.get(name) else {
            return Err(Violation::Look(format!("{name} is not there")));
        };
        let view = seen.members.iter().find(|one| one.member == member);
        let assignment = view.map(|one| one.assigned.clone()).unwrap_or_default();
        let (generation, changed) = (seen.generation, seen.generation != known);
        is_answer(asked, reply, &GroupReply::Beat { generation, assignment, changed })
    }

    /// A group is sent elsewhere: leases are void, and it is said what comes again and what does not.
    pub(super) fn sought(
        &mut self,
        asked: &Asked,
        name: &GroupName,
        to: &[Spot],
        preview: bool,
        answers: &[Sought],
    ) -> Result<(), Violation> {
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        is_answer(asked, &answers.len(), &to.len())?;
        for ((partition, to), answer) in to.iter().zip(answers) {
            if !self.logs.contains_key(partition) {
                continue;
            }
            let none = Place::default();
            let place = group.places.get(partition).unwrap_or(&none);
            let (from, to, next) = (place.committed(), *to, place.next);
            let cells = (0..next.max(to)).map(|offset| (offset, place.cell(offset)));
            let (mut again, mut skipped, mut voided) = (0, 0, 0);
            for (offset, cell) in cells {
                voided += u64::from(matches!(cell.is, Is::Out { .. }));
                match (offset < to, cell.is_finished()) {
                    (true, false) => skipped += 1,
                    (false, true) => again += 1,
                    _ => {}
                }
            }
            let partition = *partition;
            let expected = Sought { partition, from, to, again, skipped, voided };
            is_answer(asked, answer, &expected)?;
            if !preview && (from != to || next != to) {
                group.place(partition).begin(to);
            }
        }
        Ok(())
    }
}
