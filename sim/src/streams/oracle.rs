//! The judge of the streams room: knows the rules from their prose (the pages of
//! `handoff_streams`) and only ever sees what was asked, the answers, what is to be seen, and the
//! time. Of the room it uses the vocabulary, never a line of its logic.
//!
//! It keeps every message that was ever stored, at the offset that was answered, and every sequence
//! that was ever stored. Where the rules leave the room a choice (ids, which of several equally
//! empty partitions, how much of what is due one tick delivers), what is to be seen right behind
//! must be one of the choices there are.
//!
//! After a restart the room must be as everything that was answered left it, and the first few of
//! what was not: how many, the oracle finds out by trying.

mod log;
mod looks;
mod objections;
mod produced;
mod sequence;
mod ticked;
mod violation;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use handoff_streams::{
    Action, Command, PartitionId, ProducerId, Registration, Reply, ScheduledId, Scope, Topic,
    TopicId, batch,
};
use handoff_types::{Now, Sight};

use self::log::Log;
use self::objections::{Objection, sees};
use self::sequence::Sequenced;
pub use self::violation::Violation;
use super::asked::{Asked, Look, words};

/// More than a batch here can decompress to.
const BATCH_BYTES_MAX: usize = 1 << 24;

/// How exactly it is known when a producer was last heard of: to the hour.
const USED_STEP: i64 = 3_600_000_000;

/// Judges what the streams room answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// By name.
    topics: BTreeMap<String, Topic>,
    /// Numbers of topics that are used up.
    numbers: BTreeSet<TopicId>,
    partitions: BTreeMap<PartitionId, Log>,
    producers: BTreeMap<ProducerId, Believed>,
    sequences: BTreeMap<(ProducerId, Option<TopicId>), Sequenced>,
    scheduled: BTreeMap<ScheduledId, Waiting>,
    /// Messages that still wait for topics that are gone, as last seen: how many and their bytes.
    orphans: (usize, usize),
    /// What is remembered of each producer.
    remembered_max: u32,
}

/// What is known of a producer.
#[derive(Clone, Debug, PartialEq)]
struct Believed {
    name: String,
    scope: Scope,
    /// The latest time it was heard of, on the operator's clock.
    heard: i64,
}

/// A message that waits.
#[derive(Clone, Debug, PartialEq)]
struct Waiting {
    topic: TopicId,
    due: i64,
    producer: Option<(ProducerId, u64)>,
    message: handoff_streams::Message,
}

impl Oracle {
    /// Judges an answer and what is to be seen behind it. Answers are judged in the order in which
    /// they were decided.
    pub(super) fn answered(&mut self, asked: &Asked) -> Result<(), Violation> {
        let wrong = self.objections(asked);
        match &asked.reply {
            Reply::Refused(refusal) => {
                let objection = Objection::of(refusal);
                if !wrong.contains(&objection) {
                    return Err(no_answer(asked, format!("what is wrong with it is {wrong:?}")));
                }
                expect_actions(asked, &[])?;
            }
            _ if !wrong.is_empty() => {
                return Err(no_answer(asked, format!("what is wrong with it is {wrong:?}")));
            }
            _ => self.done(asked)?,
        }
        self.looks(&asked.look)
    }

    /// Judges what came back after a restart.
    pub(super) fn recovered(&mut self, lost: &[Asked], look: &Look) -> Result<usize, Violation> {
        let mut attempt = self.clone();
        let mut first = None;
        for survived in 0..=lost.len() {
            match attempt.clone().looks(look) {
                Ok(()) => {
                    *self = attempt;
                    self.looks(look)?;
                    return Ok(survived);
                }
                Err(violation) => {
                    first.get_or_insert(violation);
                }
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
        self.partitions.iter().map(|(id, log)| (*id, log.start, log.end()))
    }

    /// Judges batches that were read from an offset on. Gives the offset behind them.
    pub(super) fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        batches: &[Bytes],
    ) -> Result<u64, Violation> {
        let objects = |offset: u64, why: String| Violation::Message { partition, offset, why };
        let Some(log) = self.partitions.get(&partition) else {
            return Err(objects(offset, "there is no such partition".to_owned()));
        };
        let mut next = None;
        for batch in batches {
            let at = next.unwrap_or(offset);
            let head = batch::head(batch).map_err(|bad| objects(at, bad.to_string()))?;
            let records = batch::records(batch, BATCH_BYTES_MAX);
            let records = records.map_err(|bad| objects(at, bad.to_string()))?;
            let end = head.base + u64::from(head.count);
            let joins = match next {
                None => (head.base..end).contains(&offset),
                Some(next) => head.base == next,
            };
            if !joins || head.bytes != batch.len() {
                return Err(objects(at, format!("a batch of {} to {end} stands there", head.base)));
            }
            for record in records {
                if let Some(why) = log.objection(&record) {
                    return Err(objects(record.offset, why));
                }
            }
            next = Some(end);
        }
        next.ok_or_else(|| objects(offset, "nothing stands there".to_owned()))
    }

    /// Judges how many bytes a partition has that was read as a whole.
    pub(super) fn measured(&self, partition: PartitionId, bytes: u64) -> Result<(), Violation> {
        match self.partitions.get(&partition) {
            Some(log) if !log.trimmed && log.bytes != bytes => Err(Violation::Look(format!(
                "{partition} has {bytes} bytes and the room counts {}",
                log.bytes
            ))),
            _ => Ok(()),
        }
    }

    fn done(&mut self, asked: &Asked) -> Result<(), Violation> {
        let now = asked.now;
        match (&asked.command, &asked.reply) {
            (Command::CreateTopic { topic, .. }, Reply::Created(created)) => {
                let fresh = created.id != TopicId(0) && self.numbers.insert(created.id);
                let expected = Topic {
                    id: created.id,
                    name: topic.name.clone(),
                    partitions: topic.partitions,
                    settings: topic.settings,
                    created: now.wall,
                };
                if !fresh || *created != expected {
                    return Err(no_answer(asked, format!("it is {expected:?}, its id new")));
                }
                expect_actions(asked, &[])?;
                self.open(created, 0);
                self.topics.insert(topic.name.to_string(), expected);
                Ok(())
            }
            (Command::AlterTopic { name, settings }, Reply::Altered(altered)) => {
                let topic = self.topic_mut(name.as_str(), asked)?;
                topic.settings = *settings;
                let expected = topic.clone();
                expect_actions(asked, &[])?;
                is_answer(asked, altered, &expected)
            }
            (Command::GrowTopic { name, partitions, .. }, Reply::Altered(altered)) => {
                let topic = self.topic_mut(name.as_str(), asked)?;
                let before = std::mem::replace(&mut topic.partitions, *partitions);
                let expected = topic.clone();
                self.open(&expected, before);
                expect_actions(asked, &[])?;
                is_answer(asked, altered, &expected)
            }
            (Command::DeleteTopic { name }, Reply::Deleted(deleted)) => {
                let topic = self.topic_mut(name.as_str(), asked)?.clone();
                is_answer(asked, deleted, &topic)?;
                let gone = |number| PartitionId { topic: topic.id, number };
                let removed: Vec<_> = (0..topic.partitions).map(gone).map(Action::Remove).collect();
                expect_actions(asked, &removed)?;
                self.topics.remove(name.as_str());
                self.partitions.retain(|id, _| id.topic != topic.id);
                self.scheduled.retain(|_, waiting| waiting.topic != topic.id);
                self.sequences.retain(|(_, of), _| *of != Some(topic.id));
                Ok(())
            }
            (Command::Produce { produce, bounds }, reply @ Reply::Produced { .. }) => {
                self.produced(asked, produce, bounds, reply)
            }
            (
                Command::RegisterProducer { registration, sight, .. },
                reply @ Reply::Registered { .. },
            ) => {
                expect_actions(asked, &[])?;
                self.registered(asked, registration, sight, reply)
            }
            (Command::CancelScheduled { id, .. }, Reply::Cancelled(cancelled)) => {
                expect_actions(asked, &[])?;
                self.scheduled.remove(id);
                is_answer(asked, cancelled, id)
            }
            (Command::Trim { partition, below, .. }, Reply::Trimmed { start }) => {
                let Some(log) = self.partitions.get_mut(partition) else {
                    expect_actions(asked, &[])?;
                    return is_answer(asked, start, &0);
                };
                let expected = log.start.max((*below).min(log.end()));
                log.trimmed |= expected > log.start;
                log.start = expected;
                expect_actions(asked, &[Action::Drop { partition: *partition, below: expected }])?;
                is_answer(asked, start, &expected)
            }
            (Command::Tick { limit, bytes_max, bounds }, Reply::Ticked { delivered, more }) => {
                self.ticked(asked, (*limit, *bytes_max), bounds, (*delivered, *more))
            }
            _ => Err(no_answer(asked, "that is no answer to it".to_owned())),
        }
    }

    /// New partitions of a topic, from this number on.
    fn open(&mut self, topic: &Topic, from: u32) {
        for number in from..topic.partitions {
            self.partitions.insert(PartitionId { topic: topic.id, number }, Log::default());
        }
    }

    fn topic_mut(&mut self, name: &str, asked: &Asked) -> Result<&mut Topic, Violation> {
        let none = || no_answer(asked, "there is no such topic".to_owned());
        self.topics.get_mut(name).ok_or_else(none)
    }

    fn topic_name(&self, id: TopicId) -> Option<&str> {
        self.topics.values().find(|topic| topic.id == id).map(|topic| topic.name.as_str())
    }

    fn registered(
        &mut self,
        asked: &Asked,
        registration: &Registration,
        sight: &Sight,
        reply: &Reply,
    ) -> Result<(), Violation> {
        let Reply::Registered { producer, scope, last, last_by_topic } = reply else {
            return Err(no_answer(asked, "that is no answer to it".to_owned()));
        };
        let known = self.producers.get(producer).cloned();
        let right = match registration.producer {
            Some(id) => id == *producer,
            None => known.is_none(),
        };
        if !right {
            return Err(no_answer(asked, "it is another producer".to_owned()));
        }
        let mut believed = self.hear(*producer, asked.now, registration.scope);
        if let Some(name) = &registration.name {
            believed.name.clone_from(name);
        }
        is_answer(asked, scope, &believed.scope)?;
        self.producers.insert(*producer, believed);
        let all = self.sequences.get(&(*producer, None)).and_then(Sequenced::last);
        is_answer(asked, last, &all)?;
        let mut by_topic: Vec<(String, u64)> = Vec::new();
        for ((of, topic), sequenced) in &self.sequences {
            let name = topic.and_then(|topic| self.topic_name(topic));
            if let (true, Some(name), Some(last)) = (of == producer, name, sequenced.last())
                && sees(sight, name)
            {
                by_topic.push((name.to_owned(), last));
            }
        }
        by_topic.sort();
        let found: Vec<_> =
            last_by_topic.iter().map(|(name, last)| (name.to_string(), *last)).collect();
        is_answer(asked, &found, &by_topic)
    }

    /// What is known of a producer once it was heard of now.
    fn hear(&self, id: ProducerId, now: Now, scope: Option<Scope>) -> Believed {
        let heard = now.wall.0;
        match self.producers.get(&id) {
            Some(known) => Believed { heard: known.heard.max(heard), ..known.clone() },
            None => Believed { name: String::new(), scope: scope.unwrap_or_default(), heard },
        }
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

fn expect_actions(asked: &Asked, expected: &[Action]) -> Result<(), Violation> {
    match asked.actions == expected {
        true => Ok(()),
        false => Err(Violation::Actions(format!(
            "{} leads to {:?}, not {expected:?}",
            words(&asked.command),
            asked.actions
        ))),
    }
}
