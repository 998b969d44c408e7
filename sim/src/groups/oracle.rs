//! The judge of groups: knows the rules from their prose (the pages of `handoff_streams::groups`)
//! and only ever sees what was asked, the answers, what people can look at, and the time. Of the room
//! it uses the vocabulary, never a line of its logic.
//!
//! It keeps one thing for every message of every group: whether it is pending, out (to whom, under
//! which lease, until when), processed or dead. Where the rules leave the room a choice (ids, who
//! gets which partition, which messages a poll hands out), what is answered and what is to be seen
//! right behind must be one of the choices there are.

mod assignment;
mod attending;
mod commit;
mod log;
mod looks;
mod objections;
mod place;
mod poll;
mod produced;
mod sweep;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_streams::batch::{self, Record};
use handoff_streams::groups::{
    GroupCommand, GroupId, GroupName, GroupReply, GroupSettings, MemberId,
};
use handoff_streams::{Action, Command, PartitionId, ProducerId, Reply, TopicId, TopicName};
use handoff_types::{Span, Steady, Wall};

use self::log::Log;
use self::place::Place;
use super::asked::{Asked, Look, words};
use crate::streams::Violation;

/// More than a batch here can decompress to.
const BATCH_BYTES_MAX: usize = 1 << 24;

/// Judges what is answered to groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    topics: BTreeMap<TopicName, (TopicId, u32)>,
    /// Numbers of topics that are used up.
    numbers: BTreeSet<TopicId>,
    logs: BTreeMap<PartitionId, Log>,
    /// Where what a producer sent under a sequence is.
    sent: BTreeMap<(ProducerId, u64), (PartitionId, u64)>,
    groups: BTreeMap<GroupName, Group>,
    /// What keys hash to: the same every time, and each to something else.
    hashes: BTreeMap<Bytes, u32>,
    /// A group whose partitions are given out anew by what is judged.
    settles: Option<GroupName>,
}

/// A group.
#[derive(Clone, Debug)]
struct Group {
    id: GroupId,
    settings: GroupSettings,
    generation: u64,
    members: BTreeMap<MemberId, Member>,
    /// Everybody who ever was one.
    ever: BTreeSet<MemberId>,
    places: BTreeMap<PartitionId, Place>,
    replayed: BTreeSet<(PartitionId, u64)>,
    /// The topics that were read when partitions were last given out.
    given: BTreeMap<TopicName, (TopicId, u32)>,
    /// The largest window it ever had.
    window: u32,
    /// It had messages out of a topic that is gone. They die as nobody can tell.
    bereft: bool,
}

/// A member.
#[derive(Clone, Debug)]
struct Member {
    instance: Option<String>,
    topics: Vec<TopicName>,
    session: Span,
    heard: Steady,
    deadline: Steady,
    assigned: Vec<PartitionId>,
}

impl Group {
    /// The place in a partition, made if there was none.
    fn place(&mut self, partition: PartitionId) -> &mut Place {
        self.places.entry(partition).or_default()
    }

    fn reads<'a>(&'a self, member: &'a Member) -> &'a [TopicName] {
        if member.topics.is_empty() { &self.settings.topics } else { &member.topics }
    }

    fn is_assigned(&self, member: MemberId, partition: PartitionId) -> bool {
        let member = self.members.get(&member);
        member.is_some_and(|member| member.assigned.contains(&partition))
    }

    fn is_alive(&self, member: MemberId, now: Steady) -> bool {
        self.members.get(&member).is_some_and(|member| member.deadline > now)
    }

    fn hear(&mut self, member: MemberId, now: Steady) {
        if let Some(member) = self.members.get_mut(&member) {
            member.heard = member.heard.max(now);
        }
    }

    /// How long a message waits that was handed out so often.
    fn back_off(&self, attempt: u32) -> Span {
        let doubled = (1..attempt).fold(self.settings.backoff.0, |wait, _| wait.saturating_mul(2));
        Span(doubled).min(self.settings.backoff_max)
    }
}

impl Oracle {
    /// Judges an answer and what is to be seen behind it. Answers are judged in the order in which
    /// they were decided.
    pub(super) fn answered(&mut self, asked: &Asked) -> Result<(), Violation> {
        self.settles = None;
        let ends = self.ends();
        let topics: BTreeSet<TopicId> = self.topics.values().map(|(id, _)| *id).collect();
        self.judge(asked)?;
        self.expect_actions(asked, &ends, &topics)?;
        self.looks(&asked.look)
    }

    /// Judges what came back after a restart.
    pub(super) fn recovered(&mut self, lost: &[Asked], look: &Look) -> Result<usize, Violation> {
        self.settles = None;
        let mut attempt = self.clone();
        let mut first = None;
        for survived in 0..=lost.len() {
            attempt.settles = None;
            match attempt.clone().looks(look) {
                Ok(()) => {
                    *self = attempt;
                    self.looks(look)?;
                    return Ok(survived);
                }
                Err(violation) => drop(first.get_or_insert(violation)),
            }
            if let Some(next) = lost.get(survived) {
                attempt.answered(next)?;
            }
        }
        let closest = first.map(|violation| violation.to_string()).unwrap_or_default();
        Err(Violation::Recovery { lost: lost.len(), closest })
    }

    /// Partitions, the first offset that is kept of each, and the one behind the last that somebody
    /// was told of.
    pub(super) fn partitions(&self) -> impl Iterator<Item = (PartitionId, u64, u64)> {
        self.logs.iter().map(|(id, log)| (*id, log.start, log.end()))
    }

    /// A message as whoever reads it finds it.
    pub(super) fn record(&self, partition: PartitionId, offset: u64) -> Option<Record> {
        self.logs.get(&partition)?.record(offset)
    }

    /// Judges batches that were read from an offset on. Gives the messages from there on.
    pub(super) fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        batches: &[Bytes],
    ) -> Result<Vec<Record>, Violation> {
        let objects = |offset: u64, why: String| Violation::Message { partition, offset, why };
        let Some(log) = self.logs.get(&partition) else {
            return Err(objects(offset, "there is no such partition".to_owned()));
        };
        let mut found: Vec<Record> = Vec::new();
        for batch in batches {
            let records = batch::records(batch, BATCH_BYTES_MAX);
            let records = records.map_err(|bad| objects(offset, bad.to_string()))?;
            for record in records.into_iter().filter(|record| record.offset >= offset) {
                if let Some(why) = log.objection(&record) {
                    return Err(objects(record.offset, why));
                }
                if record.offset != offset + found.len() as u64 {
                    return Err(objects(record.offset, "it is out of its place".to_owned()));
                }
                found.push(record);
            }
        }
        Ok(found)
    }

    /// Topics and partitions a group has looked at, but where its dead letters go.
    pub(super) fn read_by(&self, group: &GroupName) -> Vec<TopicName> {
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let read = |id: TopicId| group.places.keys().any(|at| at.topic == id);
        let topics = self.topics.iter().filter(|(_, (id, _))| read(*id)).map(|(name, _)| name);
        topics.filter(|name| **name != group.settings.dead_letter).cloned().collect()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &GroupName> {
        self.groups.keys()
    }

    /// The first message of these topics that is neither processed nor dead.
    pub(super) fn unfinished(
        &self,
        group: &GroupName,
        topics: &[TopicName],
    ) -> Option<(PartitionId, u64)> {
        let group = self.groups.get(group)?;
        let topics: BTreeSet<TopicId> =
            topics.iter().filter_map(|name| self.topics.get(name)).map(|(id, _)| *id).collect();
        let none = Place::default();
        self.logs.iter().filter(|(id, _)| topics.contains(&id.topic)).find_map(|(id, log)| {
            let place = group.places.get(id).unwrap_or(&none);
            let open = (log.start..log.end()).find(|offset| !place.cell(*offset).is_finished());
            open.map(|offset| (*id, offset))
        })
    }

    fn judge(&mut self, asked: &Asked) -> Result<(), Violation> {
        if let Reply::Refused(refusal) = &asked.reply {
            let wrong = self.objections(asked);
            let why = super::asked::why(refusal);
            return match wrong.contains(why) {
                true => Ok(()),
                false => Err(no_answer(asked, format!("what is wrong with it is {wrong:?}"))),
            };
        }
        let wrong = self.strict_objections(asked);
        if !wrong.is_empty() {
            return Err(no_answer(asked, format!("what is wrong with it is {wrong:?}")));
        }
        match (&asked.command, &asked.reply) {
            (Command::CreateTopic { topic, .. }, Reply::Created(created)) => {
                let fresh = created.name == topic.name && created.partitions == topic.partitions;
                self.open(asked, &topic.name, created.id, topic.partitions, fresh)
            }
            (Command::GrowTopic { name, partitions, .. }, Reply::Altered(altered)) => {
                let Some((id, count)) = self.topics.get_mut(name) else {
                    return Err(no_answer(asked, "there is no such topic".to_owned()));
                };
                let before = std::mem::replace(count, *partitions);
                let topic = *id;
                let grown = (before..*partitions).map(|number| PartitionId { topic, number });
                self.logs.extend(grown.map(|id| (id, Log::default())));
                is_answer(asked, &altered.partitions, partitions)
            }
            (Command::DeleteTopic { name }, Reply::Deleted(_)) => {
                if let Some((topic, _)) = self.topics.remove(name) {
                    self.logs.retain(|id, _| id.topic != topic);
                    for group in self.groups.values_mut() {
                        let gone = |id: &PartitionId| id.topic == topic;
                        let mut left = group.places.iter().filter(|(id, _)| gone(id));
                        group.bereft |= left.any(|(_, place)| !place.out().is_empty());
                        group.places.retain(|id, _| !gone(id));
                        group.replayed.retain(|(id, _)| !gone(id));
                    }
                }
                Ok(())
            }
            (Command::Produce { produce, .. }, Reply::Produced { results, .. }) => {
                self.produced(asked, produce, results)
            }
            (Command::Trim { partition, below, .. }, Reply::Trimmed { start }) => {
                let Some(log) = self.logs.get_mut(partition) else {
                    return is_answer(asked, start, &0);
                };
                log.start = log.start.max((*below).min(log.end()));
                is_answer(asked, start, &log.start)
            }
            (Command::Tick { .. }, Reply::Ticked { delivered, .. }) => {
                is_answer(asked, delivered, &0)
            }
            (Command::CancelScheduled { .. }, _) => {
                Err(no_answer(asked, "no such message waits".to_owned()))
            }
            (Command::Group(command), Reply::Group(reply)) => {
                self.judge_group(asked, command, reply)
            }
            _ => Err(no_answer(asked, "that is no answer to it".to_owned())),
        }
    }

    fn judge_group(
        &mut self,
        asked: &Asked,
        command: &GroupCommand,
        reply: &GroupReply,
    ) -> Result<(), Violation> {
        use GroupCommand as C;
        match (command, reply) {
            (C::Create { name, settings, begin, .. }, GroupReply::Created(group)) => {
                is_answer(asked, &group.settings, settings)?;
                self.made(name, group.id, settings);
                self.opened(name, &settings.topics, begin);
                Ok(())
            }
            (C::Alter { name, settings, begin }, GroupReply::Altered(altered)) => {
                is_answer(asked, &altered.settings, settings)?;
                self.altered(name, settings, begin);
                Ok(())
            }
            (C::Delete { name }, GroupReply::Deleted(_)) => {
                self.groups.remove(name);
                Ok(())
            }
            (C::Join { join, .. }, GroupReply::Joined { .. }) => self.joined(asked, join, reply),
            (C::Leave { group, member }, GroupReply::Left) => {
                self.left(group, *member);
                Ok(())
            }
            (C::Heartbeat { group, member, generation }, GroupReply::Beat { .. }) => {
                self.beat(asked, group, (*member, *generation), reply)
            }
            (C::Poll { .. }, GroupReply::Polled { .. }) => self.polled(asked, command, reply),
            (C::Commit { .. }, GroupReply::Committed { .. } | GroupReply::Wants(_)) => {
                self.committed(asked, command, reply)
            }
            (C::Sweep { .. }, GroupReply::Swept { .. }) => self.swept(asked, command, reply),
            (C::Seek { group, to, preview }, GroupReply::Sought { partitions, preview: only }) => {
                is_answer(asked, only, preview)?;
                self.sought(asked, group, to, *preview, partitions)
            }
            (C::Replay { group, letters, .. }, GroupReply::Replayed(results)) => {
                self.replayed(asked, group, letters, results)
            }
            _ => Err(no_answer(asked, "that is no answer to it".to_owned())),
        }
    }

    /// A topic is there.
    fn open(
        &mut self,
        asked: &Asked,
        name: &TopicName,
        id: TopicId,
        partitions: u32,
        fits: bool,
    ) -> Result<(), Violation> {
        let fresh = id != TopicId(0) && self.numbers.insert(id);
        if !fits || !fresh {
            return Err(no_answer(
                asked,
                "that is not the topic, or its number is used".to_owned(),
            ));
        }
        let ids = (0..partitions).map(|number| PartitionId { topic: id, number });
        self.logs.extend(ids.map(|id| (id, Log::default())));
        self.topics.insert(name.clone(), (id, partitions));
        Ok(())
    }

    fn ends(&self) -> BTreeMap<PartitionId, u64> {
        self.logs.iter().map(|(id, log)| (*id, log.end())).collect()
    }

    /// Readers are told of what was stored, and storage of what goes, of nothing else.
    fn expect_actions(
        &self,
        asked: &Asked,
        before: &BTreeMap<PartitionId, u64>,
        topics: &BTreeSet<TopicId>,
    ) -> Result<(), Violation> {
        let differ = |what: String| {
            let (asked, actions) = (words(&asked.command), &asked.actions);
            Err(Violation::Actions(format!("{asked} leads to {actions:?}: {what}")))
        };
        let mut published: BTreeMap<PartitionId, (u64, Wall)> = BTreeMap::new();
        for action in &asked.actions {
            match action {
                Action::Published { partition, end, last } => {
                    let known = published.insert(*partition, (*end, *last));
                    if known.is_some_and(|(known, _)| known >= *end) {
                        return differ(format!("{partition} does not grow"));
                    }
                }
                Action::Drop { partition, below } => {
                    let start = self.logs.get(partition).map(|log| log.start);
                    if !matches!(asked.command, Command::Trim { .. }) || start != Some(*below) {
                        return differ(format!("{partition} is kept from {start:?} on"));
                    }
                }
                Action::Remove(partition) => {
                    if self.logs.contains_key(partition) {
                        return differ(format!("{partition} is there"));
                    }
                }
                Action::Made(id) => {
                    let made = self.topics.values().any(|(topic, _)| topic == id);
                    if !made || topics.contains(id) {
                        return differ(format!("{id} was not made"));
                    }
                }
            }
        }
        let grown =
            self.logs.iter().filter(|(id, log)| log.end() > before.get(id).copied().unwrap_or(0));
        let grown: BTreeMap<_, _> =
            grown.map(|(id, log)| (*id, (log.end(), Wall(log.last)))).collect();
        if grown == published { Ok(()) } else { differ(format!("what grew is {grown:?}")) }
    }
}

/// An answer that is none.
fn no_answer(asked: &Asked, why: String) -> Violation {
    Violation::Answer { asked: words(&asked.command), answer: format!("{:?}", asked.reply), why }
}

fn is_answer<T: PartialEq + std::fmt::Debug>(
    asked: &Asked,
    found: &T,
    expected: &T,
) -> Result<(), Violation> {
    match found == expected {
        true => Ok(()),
        false => Err(no_answer(asked, format!("it is {expected:?}"))),
    }
}
