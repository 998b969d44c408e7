//! All that is wrong with what is asked. Any of it is a reason to refuse.

use std::collections::BTreeSet;

use handoff_streams::{Bounds, Command, Place, Produce, Refusal, Scope, TopicId};
use handoff_types::{Now, Sight};

use super::sequence::{Course, Sent, Sequenced};
use super::{Asked, Oracle};

/// The highest sequence there is: 2^63 − 1.
const SEQUENCE_MAX: u64 = (1 << 63) - 1;

/// The longest name of a producer.
const PRODUCER_NAME_MAX: usize = 256;

/// Something that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Objection {
    NoTopic,
    Exists,
    Partitions,
    NoPartition,
    Limit,
    Message,
    Empty,
    /// The sequence, and where its message is: an offset, or what waits.
    Reused(u64),
    /// The sequence, and from where on something is known.
    TooOld(u64, u64),
    Range,
    Scope,
    NoScheduled,
    TooFar,
    Name,
}

impl Objection {
    pub(super) fn of(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::NoTopic(_) => Self::NoTopic,
            Refusal::TopicExists(_) => Self::Exists,
            Refusal::Partitions(_) => Self::Partitions,
            Refusal::NoPartition { .. } => Self::NoPartition,
            Refusal::Limit(_) => Self::Limit,
            Refusal::Message { .. } => Self::Message,
            Refusal::Empty => Self::Empty,
            Refusal::SequenceReused { sequence, .. } => Self::Reused(*sequence),
            Refusal::SequenceTooOld { sequence, floor } => Self::TooOld(*sequence, *floor),
            Refusal::SequenceRange => Self::Range,
            Refusal::ScopeFixed(_) => Self::Scope,
            Refusal::NoScheduled(_) => Self::NoScheduled,
            Refusal::TooFarAhead { .. } => Self::TooFar,
            _ => Self::Name,
        }
    }
}

/// Whether a topic's name is in sight: patterns here are a name, or a beginning and a star.
pub(super) fn sees(sight: &Sight, name: &str) -> bool {
    match sight {
        Sight::All => true,
        Sight::Names(patterns) => patterns.iter().any(|pattern| {
            let text = pattern.as_str();
            match text.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == text,
            }
        }),
    }
}

impl Oracle {
    pub(super) fn objections(&self, asked: &Asked) -> BTreeSet<Objection> {
        let mut wrong = BTreeSet::new();
        let mut object = |holds: bool, objection: Objection| {
            if holds {
                wrong.insert(objection);
            }
        };
        let partitions = self.partitions.len();
        let many = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        match &asked.command {
            Command::CreateTopic { topic, bounds } => {
                object(self.topics.contains_key(topic.name.as_str()), Objection::Exists);
                object(topic.partitions == 0, Objection::Partitions);
                object(self.topics.len() >= bounds.topics_max, Objection::Limit);
                let total = partitions + many(topic.partitions);
                object(total > bounds.partitions_max, Objection::Limit);
            }
            Command::AlterTopic { name, .. } | Command::DeleteTopic { name } => {
                object(!self.topics.contains_key(name.as_str()), Objection::NoTopic);
            }
            Command::GrowTopic { name, partitions: count, bounds } => {
                match self.topics.get(name.as_str()) {
                    None => object(true, Objection::NoTopic),
                    Some(topic) => {
                        object(*count < topic.partitions, Objection::Partitions);
                        let more = many(count.saturating_sub(topic.partitions));
                        let full = partitions + more > bounds.partitions_max;
                        object(more > 0 && full, Objection::Limit);
                    }
                }
            }
            Command::Produce { produce, bounds } => {
                wrong = self.objections_to_messages(produce, bounds, asked.now);
            }
            Command::RegisterProducer { registration, bounds, .. } => {
                let known = registration.producer.and_then(|id| self.producers.get(&id));
                let name = registration.name.as_deref().unwrap_or_default();
                object(name.len() > PRODUCER_NAME_MAX, Objection::Name);
                let full = self.producers.len() >= bounds.producers_max;
                object(known.is_none() && full, Objection::Limit);
                let other = |known: &super::Believed| {
                    registration.scope.is_some_and(|scope| scope != known.scope)
                };
                object(known.is_some_and(other), Objection::Scope);
            }
            Command::CancelScheduled { id, sight } => {
                let topic = self.scheduled.get(id).and_then(|one| self.topic_name(one.topic));
                object(!topic.is_some_and(|name| sees(sight, name)), Objection::NoScheduled);
            }
            Command::Trim { .. } | Command::Tick { .. } | Command::Group(_) => {}
        }
        wrong
    }

    fn objections_to_messages(
        &self,
        produce: &Produce,
        bounds: &Bounds,
        now: Now,
    ) -> BTreeSet<Objection> {
        let Some(topic) = self.topics.get(produce.topic.as_str()) else {
            return BTreeSet::from([Objection::NoTopic]);
        };
        let mut wrong = BTreeSet::new();
        let mut object = |holds: bool, objection: Objection| {
            if holds {
                wrong.insert(objection);
            }
        };
        object(produce.messages.is_empty(), Objection::Empty);
        object(produce.messages.len() > bounds.batch_messages_max, Objection::Limit);
        let ahead = i64::try_from(bounds.deliver_ahead_max.0).unwrap_or(i64::MAX);
        for message in &produce.messages {
            let beyond = message.partition.is_some_and(|number| number >= topic.partitions);
            object(beyond, Objection::NoPartition);
            let large = bytes_of(message) > bounds.message_bytes_max;
            let names = || message.headers.iter().map(|header| &header.name);
            let own = names().any(|name| name.starts_with(b"handoff."));
            let bad = large
                || own
                || message.headers.len() > bounds.headers_max
                || names().any(|name| std::str::from_utf8(name).is_err());
            object(bad, Objection::Message);
            let far = message.deliver_at.is_some_and(|at| at.0 - now.wall.0 > ahead);
            object(far, Objection::TooFar);
        }
        if let Some((id, first)) = produce.producer {
            let count = produce.messages.len() as u64;
            let range = first.checked_add(count).is_none_or(|end| end > SEQUENCE_MAX + 1);
            let full = self.producers.len() >= bounds.producers_max;
            object(range && count > 0, Objection::Range);
            object(!self.producers.contains_key(&id) && full, Objection::Limit);
            if range {
                return wrong;
            }
        }
        let mut waits = (self.scheduled.len() + self.orphans.0, self.orphans.1);
        waits.1 += self.scheduled.values().map(|one| bytes_of(&one.message)).sum::<usize>();
        let mut sequenced = self.sequenced(produce, topic.id);
        for (number, message) in produce.messages.iter().enumerate() {
            if let (Some(sequenced), Some((_, first))) = (&mut sequenced, produce.producer) {
                let sequence = first + number as u64;
                let content = (produce.topic.as_str(), message);
                match sequenced.course(sequence, content, bounds.remembered_max) {
                    Course::Reused(_) => object(true, Objection::Reused(sequence)),
                    Course::TooOld(floor) => object(true, Objection::TooOld(sequence, floor)),
                    Course::Duplicate(_) => continue,
                    Course::Next | Course::Gap(..) | Course::Late => {
                        let topic = produce.topic.to_string();
                        let message = message.clone();
                        // The place matters to nobody here.
                        let place = Place::Scheduled(handoff_streams::ScheduledId(0));
                        let sent = Sent { topic, message, place };
                        sequenced.store(sequence, sent, bounds.missing_max);
                    }
                }
            }
            if message.deliver_at.is_some_and(|at| at > now.wall) {
                waits.0 += 1;
                waits.1 += bytes_of(message);
                let full = waits.0 > bounds.scheduled_max || waits.1 > bounds.scheduled_bytes_max;
                object(full, Objection::Limit);
            }
        }
        wrong
    }

    /// What is known of the sequences of a request.
    pub(super) fn sequenced(&self, produce: &Produce, topic: TopicId) -> Option<Sequenced> {
        let (id, _) = produce.producer?;
        let known = self.sequences.get(&(id, self.counted(produce, topic)));
        Some(known.cloned().unwrap_or_default())
    }

    /// What a producer's sequences count.
    pub(super) fn counted(&self, produce: &Produce, topic: TopicId) -> Option<TopicId> {
        let scope = produce.producer.and_then(|(id, _)| self.producers.get(&id));
        match scope.map(|known| known.scope) {
            Some(Scope::Topic) => Some(topic),
            _ => None,
        }
    }
}

/// Bytes of key, payload and headers together.
pub(super) fn bytes_of(message: &handoff_streams::Message) -> usize {
    let key = message.key.as_ref().map_or(0, |key| key.len());
    let headers = message.headers.iter().map(|header| header.name.len() + header.value.len());
    key + message.payload.len() + headers.sum::<usize>()
}
