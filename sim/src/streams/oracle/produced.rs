//! What must become of messages.

use std::collections::BTreeMap;

use handoff_streams::{
    Action, Bounds, Durability, Message, PartitionId, Place, Produce, Produced, Reply, Status,
    Topic,
};
use handoff_types::Wall;

use super::sequence::{Course, Sent};
use super::{Asked, Oracle, Violation, Waiting, expect_actions, is_answer, no_answer};

impl Oracle {
    /// Judges what was answered to a request and takes it down.
    pub(super) fn produced(
        &mut self,
        asked: &Asked,
        produce: &Produce,
        bounds: &Bounds,
        reply: &Reply,
    ) -> Result<(), Violation> {
        let Reply::Produced { results, missing, waits } = reply else {
            return Err(no_answer(asked, "that is no answer to it".to_owned()));
        };
        self.remembered_max = bounds.remembered_max;
        let topic = self.topic_mut(produce.topic.as_str(), asked)?.clone();
        is_answer(asked, waits, &(topic.settings.durability == Durability::Fsync))?;
        is_answer(asked, &results.len(), &produce.messages.len())?;
        let counted = self.counted(produce, topic.id);
        let mut sequenced = self.sequenced(produce, topic.id);
        let mut gaps = Vec::new();
        let mut arrivals = Arrivals::default();
        for (number, (message, result)) in produce.messages.iter().zip(results).enumerate() {
            let sequence = produce.producer.map(|(_, first)| first + number as u64);
            let content = (produce.topic.as_str(), message);
            let course = match (&sequenced, sequence) {
                (Some(sequenced), Some(sequence)) => {
                    sequenced.course(sequence, content, bounds.remembered_max)
                }
                _ => Course::Next,
            };
            let status = match course {
                Course::Duplicate(place) => {
                    let expected = Produced { status: Status::Duplicate, place };
                    is_answer(asked, result, &expected)?;
                    continue;
                }
                Course::Next => Status::Stored,
                Course::Gap(from, to) => {
                    gaps.push(from..=to);
                    Status::StoredAfterGap
                }
                Course::Late => Status::StoredLate,
                Course::Reused(_) | Course::TooOld(_) => {
                    return Err(no_answer(asked, format!("message {number} is {course:?}")));
                }
            };
            let later = message.deliver_at.filter(|at| *at > asked.now.wall);
            let status = if later.is_some() { Status::Scheduled } else { status };
            is_answer(asked, &result.status, &status)?;
            let place = match (later, result.place) {
                (Some(due), Some(Place::Scheduled(id))) if !self.scheduled.contains_key(&id) => {
                    let producer = produce.producer.map(|(id, first)| (id, first + number as u64));
                    let (topic, due) = (topic.id, due.0);
                    let waiting = Waiting { topic, due, producer, message: message.clone() };
                    self.scheduled.insert(id, waiting);
                    Place::Scheduled(id)
                }
                (None, Some(Place::At(partition, offset))) => {
                    let fits = self.arrive(&topic, message, partition, &mut arrivals)
                        && arrivals.offset(self, partition) == offset;
                    if !fits {
                        let why = format!("message {number} does not belong there");
                        return Err(no_answer(asked, why));
                    }
                    arrivals.take(partition, message);
                    Place::At(partition, offset)
                }
                _ => return Err(no_answer(asked, format!("message {number} is nowhere"))),
            };
            if let (Some(sequenced), Some(sequence)) = (&mut sequenced, sequence) {
                let (topic, message) = (produce.topic.to_string(), message.clone());
                sequenced.store(sequence, Sent { topic, message, place }, bounds.missing_max);
            }
        }
        is_answer(asked, missing, &gaps)?;
        self.settle_in(asked, arrivals)?;
        if let Some((id, _)) = produce.producer {
            let believed = self.hear(id, asked.now, None);
            self.producers.insert(id, believed);
            if let Some(sequenced) = sequenced.filter(|sequenced| sequenced.last().is_some()) {
                self.sequences.insert((id, counted), sequenced);
            }
        }
        Ok(())
    }

    /// Whether a message may go to a partition. Those without a key all go to one of the emptiest.
    pub(super) fn arrive(
        &self,
        topic: &Topic,
        message: &Message,
        partition: PartitionId,
        arrivals: &mut Arrivals,
    ) -> bool {
        let PartitionId { topic: of, number } = partition;
        let belongs = match (message.partition, &message.key) {
            (Some(named), _) => number == named,
            (None, Some(key)) => number == of_key(key, topic.partitions),
            (None, None) => {
                let chosen = *arrivals.keyless.entry(of).or_insert(number);
                number == chosen && self.is_emptiest(partition)
            }
        };
        of == topic.id && belongs
    }

    /// Whether no partition of the topic has fewer bytes.
    pub(super) fn is_emptiest(&self, partition: PartitionId) -> bool {
        let first = PartitionId { topic: partition.topic, number: 0 };
        let last = PartitionId { topic: partition.topic, number: u32::MAX };
        let least = self.partitions.range(first..=last).map(|(_, log)| log.bytes).min();
        self.partitions.get(&partition).is_some_and(|log| Some(log.bytes) == least)
    }

    /// Messages stand in their partitions, and readers may see them.
    pub(super) fn settle_in(&mut self, asked: &Asked, arrivals: Arrivals) -> Result<(), Violation> {
        let mut published = Vec::new();
        for (partition, messages) in arrivals.by_partition {
            let Some(log) = self.partitions.get_mut(&partition) else { continue };
            // All that one command puts into a partition is of one time.
            let wall = log.timestamp(asked.now.wall.0);
            messages.iter().for_each(|message| log.append(message, wall));
            let (end, last) = (log.end(), Wall(log.last));
            published.push(Action::Published { partition, end, last });
            let seen = super::looks::partition(&asked.look, partition);
            if let Some(seen) = seen {
                if seen.bytes <= log.bytes {
                    let why = format!("{partition} got messages and not larger");
                    return Err(Violation::Look(why));
                }
                log.bytes = seen.bytes;
            }
        }
        expect_actions(asked, &published)
    }
}

/// Messages on their way.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    by_partition: BTreeMap<PartitionId, Vec<Message>>,
    /// Where those without a key go, by topic.
    keyless: BTreeMap<handoff_streams::TopicId, u32>,
}

impl Arrivals {
    /// The offset the next message to a partition gets.
    fn offset(&self, oracle: &Oracle, partition: PartitionId) -> u64 {
        let end = oracle.partitions.get(&partition).map_or(0, super::log::Log::end);
        end + self.by_partition.get(&partition).map_or(0, |messages| messages.len() as u64)
    }

    pub(super) fn take(&mut self, partition: PartitionId, message: &Message) {
        self.by_partition.entry(partition).or_default().push(message.clone());
    }

    pub(super) fn count(&self, partition: PartitionId) -> u64 {
        self.by_partition.get(&partition).map_or(0, |messages| messages.len() as u64)
    }
}

/// Kafka's default partitioner: the hash of `org.apache.kafka.common.utils.Utils.murmur2`, here
/// as it is written there, byte by byte.
pub(super) fn of_key(key: &[u8], partitions: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut h = 0x9747_b28c_u32 ^ u32::try_from(key.len()).unwrap_or(0);
    let byte = |at: usize| u32::from(key.get(at).copied().unwrap_or(0));
    let whole = key.len() / 4;
    for word in 0..whole {
        let at = word * 4;
        let mut k = byte(at) + (byte(at + 1) << 8) + (byte(at + 2) << 16) + (byte(at + 3) << 24);
        k = k.wrapping_mul(M);
        k ^= k >> 24;
        k = k.wrapping_mul(M);
        h = h.wrapping_mul(M);
        h ^= k;
    }
    let rest = whole * 4;
    let left = key.len() % 4;
    if left == 3 {
        h ^= byte(rest + 2) << 16;
    }
    if left >= 2 {
        h ^= byte(rest + 1) << 8;
    }
    if left >= 1 {
        h ^= byte(rest);
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^= h >> 15;
    (h & 0x7fff_ffff) % partitions.max(1)
}
