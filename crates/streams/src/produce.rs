//! Deciding what becomes of messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_types::{Decision, Entropy, Now, Wall};

use crate::batch::Builder;
use crate::decide::Decided;
use crate::register::{heard, room_for_one};
use crate::sequences::{SEQUENCE_MAX, Trial, Verdict};
use crate::{
    Action, Bounds, Change, Compression, Durability, Header, Message, Partition, PartitionId,
    Place, Produce, Produced, ProducerId, Refusal, Remembered, Reply, Scheduled, ScheduledId,
    Scope, State, Status, Topic, TopicId, partition_of_key,
};

/// Names that begin so are the server's own.
const RESERVED: &[u8] = b"handoff.";

/// The header that says when a message is not wanted any more.
const EXPIRES: &[u8] = b"handoff.expires";

/// What a batch holds before it is compressed. Whoever reads one message of it holds all of it.
const BATCH_BYTES_MAX: usize = 8 << 20;

/// What a record takes besides key, payload and headers, about.
const RECORD_BYTES: usize = 64;

pub(crate) fn produce(
    state: &State,
    produce: &Produce,
    bounds: &Bounds,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    let Produce { topic, producer, messages } = produce;
    let topic = state.topic(topic).ok_or_else(|| Refusal::NoTopic(topic.clone()))?;
    check_all(topic, messages, bounds, now.wall)?;
    let mut changes = Vec::new();
    let mut sender = match producer {
        Some((id, first)) => {
            Some(Sender::new(state, topic, (*id, *first), messages.len(), bounds)?)
        }
        None => None,
    };
    if let Some((id, _)) = producer {
        let known = state.producer(*id);
        if known.is_none() {
            room_for_one(state, bounds)?;
        }
        let mut seen = heard(known, now.wall, bounds);
        if seen.scope == Scope::Topic && !seen.topics.contains(&topic.id) {
            seen.topics.insert(topic.id);
        }
        if known != Some(&seen) {
            changes.push(Change::ProducerSeen(*id, seen));
        }
    }
    let mut delivery = Delivery::new(state, topic, now.wall);
    let mut waiting = Waiting { state, bounds, entropy, scheduled: Vec::new(), bytes: 0 };
    let mut missing = Vec::new();
    let mut results = Vec::with_capacity(messages.len());
    for (number, message) in messages.iter().enumerate() {
        let judged = sender.as_mut().map(|sender| sender.judge(message)).transpose()?;
        let status = match judged {
            Some(Verdict::Duplicate(place)) => {
                results.push(Produced { status: Status::Duplicate, place });
                continue;
            }
            Some(Verdict::Store(status, gap)) => {
                missing.extend(gap);
                status
            }
            None => Status::Stored,
        };
        let due = message.deliver_at.filter(|due| *due > now.wall);
        let (status, place) = match due {
            Some(due) => {
                let sent = sender.as_ref().map(|sender| (sender.id, sender.current()));
                let id = waiting.add(topic.id, number, due, sent, message)?;
                (Status::Scheduled, Place::Scheduled(id))
            }
            None => {
                let (partition, offset) = delivery.add(message);
                (status, Place::At(partition, offset))
            }
        };
        if let Some(sender) = &mut sender {
            sender.stored(place);
        }
        results.push(Produced { status, place: Some(place) });
    }
    let mut actions = Vec::new();
    delivery.finish(&mut changes, &mut actions);
    changes.extend(waiting.scheduled.into_iter().map(|one| Change::Scheduled(Box::new(one))));
    changes.extend(sender.and_then(|sender| sender.finish(bounds)));
    let waits = topic.settings.durability == Durability::Fsync;
    Ok(Decision { reply: Reply::Produced { results, missing, waits }, changes, actions })
}

fn check_all(
    topic: &Topic,
    messages: &[Message],
    bounds: &Bounds,
    wall: Wall,
) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(Refusal::Empty);
    }
    if messages.len() > bounds.batch_messages_max {
        return Err(Refusal::Limit(format!(
            "there are {} messages in the request; streams.batch_messages_max allows {}",
            messages.len(),
            bounds.batch_messages_max
        )));
    }
    let mut messages = messages.iter().enumerate();
    messages.try_for_each(|(number, message)| check(topic, number, message, bounds, wall))
}

fn check(
    topic: &Topic,
    number: usize,
    message: &Message,
    bounds: &Bounds,
    wall: Wall,
) -> Result<(), Refusal> {
    let bad = |why: String| Err(Refusal::Message { number, why });
    if let Some(partition) = message.partition.filter(|number| *number >= topic.partitions) {
        let (topic, count) = (topic.name.clone(), topic.partitions);
        return Err(Refusal::NoPartition { topic, partition, count });
    }
    let (bytes, max) = (message.bytes(), bounds.message_bytes_max);
    if bytes > max {
        return bad(format!("it has {bytes} bytes; streams.message_bytes_max allows {max}"));
    }
    let (headers, max) = (message.headers.len(), bounds.headers_max);
    if headers > max {
        return bad(format!("it has {headers} headers; streams.headers_max allows {max}"));
    }
    for Header { name, .. } in &message.headers {
        if name.starts_with(RESERVED) {
            let name = String::from_utf8_lossy(name);
            return bad(format!(
                "header `{name}`: names that begin with handoff. are the server's"
            ));
        }
        if str::from_utf8(name).is_err() {
            return bad("the name of a header is not UTF-8".to_owned());
        }
    }
    let max = bounds.deliver_ahead_max;
    if message.deliver_at.is_some_and(|due| due.since(wall) > max) {
        return Err(Refusal::TooFarAhead { number, hours: max.0 / 3_600_000_000 });
    }
    Ok(())
}

/// A producer and the sequences of its request.
struct Sender<'a> {
    id: ProducerId,
    counted: Option<TopicId>,
    topic: &'a Topic,
    trial: Trial<'a>,
    next: u64,
    crc: u32,
    stored: Vec<Remembered>,
}

impl<'a> Sender<'a> {
    fn new(
        state: &'a State,
        topic: &'a Topic,
        (id, first): (ProducerId, u64),
        messages: usize,
        bounds: &Bounds,
    ) -> Result<Self, Refusal> {
        let behind = u64::try_from(messages).ok().and_then(|count| first.checked_add(count));
        if behind.is_none_or(|behind| behind > SEQUENCE_MAX + 1) {
            return Err(Refusal::SequenceRange);
        }
        let scope = state.producer(id).map_or(Scope::Producer, |producer| producer.scope);
        let counted = match scope {
            Scope::Producer => None,
            Scope::Topic => Some(topic.id),
        };
        let known = state.sequences(id, counted);
        let trial = Trial::new(known, bounds.remembered_max, bounds.missing_max);
        Ok(Self { id, counted, topic, trial, next: first, crc: 0, stored: Vec::new() })
    }

    fn judge(&mut self, message: &Message) -> Result<Verdict, Refusal> {
        self.crc = message.crc(&self.topic.name);
        let verdict = self.trial.judge(self.next, self.crc)?;
        self.next += 1;
        Ok(verdict)
    }

    /// The sequence judged last.
    fn current(&self) -> u64 {
        self.next.saturating_sub(1)
    }

    fn stored(&mut self, place: Place) {
        self.stored.push(Remembered { sequence: self.current(), crc: self.crc, place });
    }

    fn finish(self, bounds: &Bounds) -> Option<Change> {
        let Self { id: producer, counted: topic, stored, .. } = self;
        let Bounds { remembered_max, missing_max, .. } = *bounds;
        let change = Change::Sequenced { producer, topic, stored, remembered_max, missing_max };
        match &change {
            Change::Sequenced { stored, .. } if stored.is_empty() => None,
            _ => Some(change),
        }
    }
}

/// Messages of a request that are to be delivered later.
struct Waiting<'a> {
    state: &'a State,
    bounds: &'a Bounds,
    entropy: Entropy,
    scheduled: Vec<Scheduled>,
    bytes: usize,
}

impl Waiting<'_> {
    fn add(
        &mut self,
        topic: TopicId,
        number: usize,
        due: Wall,
        producer: Option<(ProducerId, u64)>,
        message: &Message,
    ) -> Result<ScheduledId, Refusal> {
        let counts = self.state.counts();
        let max = self.bounds.scheduled_max;
        if counts.scheduled.saturating_add(self.scheduled.len()) >= max {
            return Err(Refusal::Limit(format!(
                "streams.scheduled_max allows {max} messages that wait for their time"
            )));
        }
        self.bytes = self.bytes.saturating_add(message.bytes());
        let max = self.bounds.scheduled_bytes_max;
        if counts.scheduled_bytes.saturating_add(self.bytes) > max {
            return Err(Refusal::Limit(format!(
                "streams.scheduled_bytes_max allows {max} bytes of messages that wait"
            )));
        }
        let id = self.id(number, due);
        self.scheduled.push(Scheduled { id, topic, due, producer, message: message.apart() });
        Ok(id)
    }

    /// An id that no message has. Those of messages that are due earlier are lower, so that a store
    /// finds what is due by its key. The first draw is free but for one chance in 2^50.
    fn id(&self, number: usize, due: Wall) -> ScheduledId {
        let mut draw = u64::try_from(number).unwrap_or(u64::MAX) << 32;
        loop {
            let id =
                ScheduledId(ScheduledId::first_at(due).0 | u128::from(self.entropy.word(draw)));
            if self.state.waiting(id).is_none() {
                return id;
            }
            draw += 1;
        }
    }
}

/// Messages on their way to the partitions of one topic, in their order.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    state: &'a State,
    topic: &'a Topic,
    wall: Wall,
    /// Where those without a key go: chosen once.
    keyless: Option<u32>,
    lanes: BTreeMap<u32, Lane<'a>>,
}

#[derive(Debug)]
struct Lane<'a> {
    partition: Partition,
    messages: Vec<&'a Message>,
}

impl<'a> Delivery<'a> {
    pub(crate) fn new(state: &'a State, topic: &'a Topic, wall: Wall) -> Self {
        Self { state, topic, wall, keyless: None, lanes: BTreeMap::new() }
    }

    /// Gives a message its place.
    pub(crate) fn add(&mut self, message: &'a Message) -> (PartitionId, u64) {
        let number = self.number(message);
        let id = PartitionId { topic: self.topic.id, number };
        let lane = self.lanes.entry(number).or_insert_with(|| Lane {
            partition: self.state.partition(id).copied().unwrap_or_default(),
            messages: Vec::new(),
        });
        let offset = lane.partition.end.saturating_add(lane.messages.len() as u64);
        lane.messages.push(message);
        (id, offset)
    }

    fn number(&mut self, message: &Message) -> u32 {
        let named = message.partition.filter(|number| *number < self.topic.partitions);
        let keyed = || Some(partition_of_key(message.key.as_deref()?, self.topic.partitions));
        named.or_else(keyed).unwrap_or_else(|| {
            let emptiest = || self.state.emptiest(self.topic.id).unwrap_or(0);
            *self.keyless.get_or_insert_with(emptiest)
        })
    }

    /// Makes the batches.
    pub(crate) fn finish(self, changes: &mut Vec<Change>, actions: &mut Vec<Action>) {
        for (number, Lane { partition, messages }) in self.lanes {
            let id = PartitionId { topic: self.topic.id, number };
            // Kafka's timestamps are milliseconds; those of a partition never decrease.
            let timestamp = Wall(self.wall.0.saturating_sub(self.wall.0.rem_euclid(1000)));
            let timestamp = timestamp.max(partition.last);
            let mut end = partition.end;
            let mut rest = messages.as_slice();
            while !rest.is_empty() {
                let (bytes, count) = fitting(rest);
                let (now, behind) = rest.split_at(count);
                rest = behind;
                let batch = batch(now, end, timestamp, bytes, self.topic.settings.compression);
                let count = u32::try_from(now.len()).unwrap_or(u32::MAX);
                let base = end;
                end = end.saturating_add(u64::from(count));
                let bytes = u32::try_from(batch.len()).unwrap_or(u32::MAX);
                let appended =
                    Change::Appended { partition: id, base, count, last: timestamp, bytes, batch };
                changes.push(appended);
            }
            actions.push(Action::Published { partition: id, end, last: timestamp });
        }
    }
}

/// How many messages from the front fit into a batch, at least one, and their bytes.
fn fitting(messages: &[&Message]) -> (usize, usize) {
    let mut bytes = 0;
    let mut count = 0;
    for message in messages {
        let more = message.bytes().saturating_add(RECORD_BYTES);
        if count > 0 && bytes + more > BATCH_BYTES_MAX {
            break;
        }
        bytes += more;
        count += 1;
    }
    (bytes, count)
}

fn batch(
    messages: &[&Message],
    base: u64,
    timestamp: Wall,
    bytes: usize,
    compression: Compression,
) -> Bytes {
    let mut builder = Builder::new(base, timestamp, bytes);
    for message in messages {
        let key = message.key.as_deref();
        let headers = message.headers.iter().map(|header| (&*header.name, &*header.value));
        match message.ttl {
            None => builder.add(key, &message.payload, headers),
            Some(ttl) => {
                let expires = (timestamp + ttl).0.div_euclid(1000).to_string();
                let headers: Vec<(&[u8], &[u8])> =
                    headers.chain([(EXPIRES, expires.as_bytes())]).collect();
                builder.add(key, &message.payload, headers.into_iter());
            }
        }
    }
    builder.finish(compression)
}
