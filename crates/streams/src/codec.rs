//! Changes and aggregates as bytes, for every store.
//!
//! ```text
//! change      │ kind u8 │ …
//!              1 next topic           │ id
//!              2 topic created        │ topic
//!              3 topic altered        │ name │ settings
//!              4 topic grown          │ name │ partitions
//!              5 topic deleted        │ name
//!              6 partition opened     │ partition id
//!              7 partition closed     │ partition id
//!              8 appended             │ partition id │ base │ count │ last signed │ bytes
//!              9 trimmed              │ partition id │ start │ bytes
//!             10 producer seen        │ GUID │ producer
//!             11 producer forgotten   │ GUID
//!             12 sequenced            │ GUID │ topic? │ remembered max │ missing max │ stored
//!             13 sequences forgotten  │ GUID │ topic?
//!             14 scheduled            │ scheduled
//!             15 unscheduled          │ id u128
//!             16 topic named          │ id │ name
//!             17 topic unnamed        │ id
//!             18 producer seen        │ GUID │ producer │ topics
//!             32 to 41 groups         │ see there
//! aggregate   │ kind u8 │ …
//!              1 counters             │ next topic
//!              2 topic                │ topic
//!              3 partition            │ partition id │ start │ end │ bytes │ last signed
//!              4 producer             │ GUID │ producer
//!              5 sequences            │ GUID │ topic? │ sequences
//!              6 scheduled            │ scheduled
//!              7 topic's name         │ id │ name
//!              8 producer             │ GUID │ producer │ topics
//!             32 to 35 groups         │ see there
//!
//! topic        │ id │ name │ partitions │ settings │ created signed
//! settings     │ retention? │ retention bytes? │ durability u8: 0 fsync, 1 os
//!              │ compression u8: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd
//! partition id │ topic │ number
//! producer     │ name │ scope u8: 0 producer, 1 topic │ used signed │ forget signed
//! topics       │ how many, at least 1 │ id │ id − the one before − 1 │ …
//! sequences    │ 0 │  or  │ 1 │ floor │ last − floor │ ranges │ range × ranges │ stored
//! range        │ start − what precedes it − 1 │ end − start      floor or the last range's end + 1
//! stored       │ runs │ run × runs
//! run          │ first sequence │ count │ place of the first │ CRC-32C u32 × count
//! place        │ 0 │ partition id │ offset │  or  │ 1 │ id u128 │
//! scheduled    │ id u128 │ topic │ due signed │ 0 or 1 │ [GUID │ sequence │] message
//! message      │ key? │ payload │ headers │ (name │ value) × headers │ partition? │ deliver at? signed │ ttl?
//! ```
//!
//! Numbers are LEB128, seven bits a byte, low bits first, shortest form only; signed ones are zigzag
//! first. GUIDs, ids and sums are little-endian. A name or a byte string is its length and its
//! bytes; what has a `?` is 0, or 1 and itself. Times are microseconds.
//!
//! Sequences that follow one another, at offsets that do, are one run, so that what is known of a
//! message takes little more than its sum. A kind never gets another meaning: whatever is to be said
//! in another way gets a new one.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use handoff_types::{Span, Wall};
use thiserror::Error;

use crate::{
    Aggregate, Change, Compression, Durability, Header, Key, Message, Partition, PartitionId,
    Place, Producer, ProducerId, Remembered, Scheduled, ScheduledId, Scope, Sequences, Topic,
    TopicId, TopicName, TopicSettings, groups,
};

/// Bytes that are not what this version writes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Undecodable(pub String);

/// Appends a change's bytes. They tell where they end. A batch is not among them.
pub fn encode_change(change: &Change, out: &mut Vec<u8>) {
    let mut out = Out(out);
    match change {
        Change::NextTopic(id) => {
            out.byte(1);
            out.number(id.0.into());
        }
        Change::TopicCreated(topic) => {
            out.byte(2);
            out.topic(topic);
        }
        Change::TopicAltered(name, settings) => {
            out.byte(3);
            out.bytes(name.as_str().as_bytes());
            out.settings(settings);
        }
        Change::TopicGrown(name, partitions) => {
            out.byte(4);
            out.bytes(name.as_str().as_bytes());
            out.number((*partitions).into());
        }
        Change::TopicDeleted(name) => {
            out.byte(5);
            out.bytes(name.as_str().as_bytes());
        }
        Change::PartitionOpened(id) => {
            out.byte(6);
            out.partition_id(*id);
        }
        Change::PartitionClosed(id) => {
            out.byte(7);
            out.partition_id(*id);
        }
        Change::Appended { partition, base, count, last, bytes, batch: _ } => {
            out.byte(8);
            out.partition_id(*partition);
            out.number(*base);
            out.number((*count).into());
            out.signed(last.0);
            out.number((*bytes).into());
        }
        Change::Trimmed { partition, start, bytes } => {
            out.byte(9);
            out.partition_id(*partition);
            out.number(*start);
            out.number(*bytes);
        }
        Change::ProducerSeen(id, producer) => {
            out.byte(if producer.topics.is_empty() { 10 } else { 18 });
            out.wide(id.0);
            out.producer(producer);
        }
        Change::ProducerForgotten(id) => {
            out.byte(11);
            out.wide(id.0);
        }
        Change::Sequenced { producer, topic, stored, remembered_max, missing_max } => {
            out.byte(12);
            out.wide(producer.0);
            out.option(topic.as_ref(), |out, topic| out.number(topic.0.into()));
            out.number((*remembered_max).into());
            out.number((*missing_max).into());
            out.stored(stored.iter());
        }
        Change::SequencesForgotten(producer, topic) => {
            out.byte(13);
            out.wide(producer.0);
            out.option(topic.as_ref(), |out, topic| out.number(topic.0.into()));
        }
        Change::Scheduled(scheduled) => {
            out.byte(14);
            out.scheduled(scheduled);
        }
        Change::Unscheduled(id) => {
            out.byte(15);
            out.wide(id.0);
        }
        Change::TopicNamed(id, name) => {
            out.byte(16);
            out.number(id.0.into());
            out.bytes(name.as_str().as_bytes());
        }
        Change::TopicUnnamed(id) => {
            out.byte(17);
            out.number(id.0.into());
        }
        Change::Group(change) => groups::codec::encode_change(change, &mut out),
    }
}

/// Reads the change at the front of `bytes` and gives what stands behind it.
///
/// # Errors
/// [`Undecodable`] for anything [`encode_change`] does not write.
pub fn decode_change(bytes: &[u8]) -> Result<(Change, &[u8]), Undecodable> {
    let mut front = Front(bytes);
    let change = match front.byte()? {
        1 => Change::NextTopic(front.topic_id()?),
        2 => Change::TopicCreated(front.topic()?),
        3 => Change::TopicAltered(front.name()?, front.settings()?),
        4 => Change::TopicGrown(front.name()?, front.small()?),
        5 => Change::TopicDeleted(front.name()?),
        6 => Change::PartitionOpened(front.partition_id()?),
        7 => Change::PartitionClosed(front.partition_id()?),
        8 => Change::Appended {
            partition: front.partition_id()?,
            base: front.number()?,
            count: front.small()?,
            last: front.wall()?,
            bytes: front.small()?,
            batch: Bytes::new(),
        },
        9 => Change::Trimmed {
            partition: front.partition_id()?,
            start: front.number()?,
            bytes: front.number()?,
        },
        10 => Change::ProducerSeen(front.guid()?, front.producer(false)?),
        11 => Change::ProducerForgotten(front.guid()?),
        12 => Change::Sequenced {
            producer: front.guid()?,
            topic: front.option(Front::topic_id)?,
            remembered_max: front.small()?,
            missing_max: front.small()?,
            stored: front.stored()?,
        },
        13 => Change::SequencesForgotten(front.guid()?, front.option(Front::topic_id)?),
        14 => Change::Scheduled(Box::new(front.scheduled()?)),
        15 => Change::Unscheduled(front.scheduled_id()?),
        16 => Change::TopicNamed(front.topic_id()?, front.name()?),
        17 => Change::TopicUnnamed(front.topic_id()?),
        18 => Change::ProducerSeen(front.guid()?, front.producer(true)?),
        kind => match groups::codec::decode_change(kind, &mut front)? {
            Some(change) => Change::Group(change),
            None => return Err(Undecodable(format!("{kind} is no kind of change"))),
        },
    };
    Ok((change, front.0))
}

/// Appends an aggregate's bytes with its key. They tell where they end. An aggregate under a key of
/// another kind is none and has no bytes.
pub fn encode_aggregate(key: &Key, aggregate: &Aggregate, out: &mut Vec<u8>) {
    let mut out = Out(out);
    match (key, aggregate) {
        (Key::Counters, Aggregate::Counters(next)) => {
            out.byte(1);
            out.number(next.0.into());
        }
        (Key::Topic(_), Aggregate::Topic(topic)) => {
            out.byte(2);
            out.topic(topic);
        }
        (Key::Partition(id), Aggregate::Partition(partition)) => {
            let Partition { start, end, bytes, last } = *partition;
            out.byte(3);
            out.partition_id(*id);
            out.number(start);
            out.number(end);
            out.number(bytes);
            out.signed(last.0);
        }
        (Key::Producer(id), Aggregate::Producer(producer)) => {
            out.byte(if producer.topics.is_empty() { 4 } else { 8 });
            out.wide(id.0);
            out.producer(producer);
        }
        (Key::Sequences(id, topic), Aggregate::Sequences(sequences)) => {
            out.byte(5);
            out.wide(id.0);
            out.option(topic.as_ref(), |out, topic| out.number(topic.0.into()));
            out.sequences(sequences);
        }
        (Key::Scheduled(_), Aggregate::Scheduled(scheduled)) => {
            out.byte(6);
            out.scheduled(scheduled);
        }
        (Key::Name(id), Aggregate::Name(name)) => {
            out.byte(7);
            out.number(id.0.into());
            out.bytes(name.as_str().as_bytes());
        }
        _ => {
            let known = groups::codec::encode_aggregate(key, aggregate, &mut out);
            debug_assert!(known, "an aggregate is kept under a key of its kind");
        }
    }
}

/// Reads the aggregate at the front of `bytes`, with its key, and gives what stands behind it.
///
/// # Errors
/// [`Undecodable`] for anything [`encode_aggregate`] does not write.
pub fn decode_aggregate(bytes: &[u8]) -> Result<(Key, Aggregate, &[u8]), Undecodable> {
    let mut front = Front(bytes);
    let (key, aggregate) = match front.byte()? {
        1 => (Key::Counters, Aggregate::Counters(front.topic_id()?)),
        2 => {
            let topic = front.topic()?;
            (Key::Topic(topic.name.clone()), Aggregate::Topic(topic))
        }
        3 => {
            let id = front.partition_id()?;
            let partition = Partition {
                start: front.number()?,
                end: front.number()?,
                bytes: front.number()?,
                last: front.wall()?,
            };
            if partition.start > partition.end {
                return bad("a partition ends before it begins");
            }
            (Key::Partition(id), Aggregate::Partition(partition))
        }
        4 => (Key::Producer(front.guid()?), Aggregate::Producer(front.producer(false)?)),
        5 => {
            let key = Key::Sequences(front.guid()?, front.option(Front::topic_id)?);
            (key, Aggregate::Sequences(front.sequences()?))
        }
        6 => {
            let scheduled = Box::new(front.scheduled()?);
            (Key::Scheduled(scheduled.id), Aggregate::Scheduled(scheduled))
        }
        7 => (Key::Name(front.topic_id()?), Aggregate::Name(front.name()?)),
        8 => (Key::Producer(front.guid()?), Aggregate::Producer(front.producer(true)?)),
        kind => match groups::codec::decode_aggregate(kind, &mut front)? {
            Some(found) => found,
            None => return Err(Undecodable(format!("{kind} is no kind of aggregate"))),
        },
    };
    Ok((key, aggregate, front.0))
}

/// Puts one thing behind the other.
pub(crate) struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    pub(crate) fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub(crate) fn number(&mut self, mut number: u64) {
        loop {
            let low = number.to_le_bytes()[0] & 0x7f;
            number >>= 7;
            if number == 0 {
                return self.byte(low);
            }
            self.byte(low | 0x80);
        }
    }

    pub(crate) fn signed(&mut self, number: i64) {
        self.number((number.cast_unsigned() << 1) ^ (number >> 63).cast_unsigned());
    }

    pub(crate) fn wide(&mut self, number: u128) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn option<T>(&mut self, some: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.byte(some.is_some().into());
        if let Some(some) = some {
            put(self, some);
        }
    }

    pub(crate) fn partition_id(&mut self, id: PartitionId) {
        self.number(id.topic.0.into());
        self.number(id.number.into());
    }

    fn topic(&mut self, topic: &Topic) {
        let Topic { id, name, partitions, settings, created } = topic;
        self.number(id.0.into());
        self.bytes(name.as_str().as_bytes());
        self.number((*partitions).into());
        self.settings(settings);
        self.signed(created.0);
    }

    fn settings(&mut self, settings: &TopicSettings) {
        let TopicSettings { retention, retention_bytes, durability, compression } = *settings;
        self.option(retention, |out, span| out.number(span.0));
        self.option(retention_bytes, Self::number);
        self.byte(match durability {
            Durability::Fsync => 0,
            Durability::Os => 1,
        });
        self.byte(match compression {
            Compression::None => 0,
            Compression::Gzip => 1,
            Compression::Snappy => 2,
            Compression::Lz4 => 3,
            Compression::Zstd => 4,
        });
    }

    fn producer(&mut self, producer: &Producer) {
        let Producer { name, scope, used, forget, topics } = producer;
        self.bytes(name.as_bytes());
        self.byte(match scope {
            Scope::Producer => 0,
            Scope::Topic => 1,
        });
        self.signed(used.0);
        self.signed(forget.0);
        if !topics.is_empty() {
            self.number(topics.len() as u64);
        }
        let mut least = 0;
        for TopicId(id) in topics {
            self.number(u64::from(*id) - least);
            least = u64::from(*id) + 1;
        }
    }

    fn sequences(&mut self, sequences: &Sequences) {
        let Sequences { floor, last, missing, remembered } = sequences;
        self.option(*floor, |out, floor| {
            out.number(floor);
            out.number(last.wrapping_sub(floor));
            out.number(missing.len() as u64);
            let mut before = floor;
            for range in missing {
                out.number(range.start().wrapping_sub(before).wrapping_sub(1));
                out.number(range.end().wrapping_sub(*range.start()));
                before = range.end().wrapping_add(1);
            }
            out.stored(remembered.iter());
        });
    }

    fn stored<'a>(&mut self, stored: impl Iterator<Item = &'a Remembered> + Clone) {
        let mut runs = 0;
        let mut before: Option<&Remembered> = None;
        for one in stored.clone() {
            runs += u64::from(!before.is_some_and(|before| follows(before, one)));
            before = Some(one);
        }
        self.number(runs);
        let mut rest = stored.peekable();
        while let Some(first) = rest.next() {
            let mut sums = vec![first.crc];
            let mut last = first;
            while let Some(next) = rest.next_if(|next| follows(last, next)) {
                sums.push(next.crc);
                last = next;
            }
            self.number(first.sequence);
            self.number(sums.len() as u64);
            self.place(first.place);
            sums.iter().for_each(|crc| self.0.extend_from_slice(&crc.to_le_bytes()));
        }
    }

    fn place(&mut self, place: Place) {
        match place {
            Place::At(partition, offset) => {
                self.byte(0);
                self.partition_id(partition);
                self.number(offset);
            }
            Place::Scheduled(id) => {
                self.byte(1);
                self.wide(id.0);
            }
        }
    }

    fn scheduled(&mut self, scheduled: &Scheduled) {
        let Scheduled { id, topic, due, producer, message } = scheduled;
        self.wide(id.0);
        self.number(topic.0.into());
        self.signed(due.0);
        self.option(*producer, |out, (id, sequence)| {
            out.wide(id.0);
            out.number(sequence);
        });
        let Message { key, payload, headers, partition, deliver_at, ttl } = message;
        self.option(key.as_deref(), Self::bytes);
        self.bytes(payload);
        self.number(headers.len() as u64);
        for Header { name, value } in headers {
            self.bytes(name);
            self.bytes(value);
        }
        self.option(*partition, |out, number| out.number(number.into()));
        self.option(*deliver_at, |out, at| out.signed(at.0));
        self.option(*ttl, |out, ttl| out.number(ttl.0));
    }
}

/// Whether a message stands right behind another, by sequence and by offset.
fn follows(before: &Remembered, one: &Remembered) -> bool {
    let (Place::At(was, offset), Place::At(is, next)) = (before.place, one.place) else {
        return false;
    };
    was == is
        && offset.checked_add(1) == Some(next)
        && before.sequence.checked_add(1) == Some(one.sequence)
}

/// Takes one thing after the other from the front of some bytes.
pub(crate) struct Front<'a>(&'a [u8]);

impl<'a> Front<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Undecodable> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(short)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Undecodable> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Undecodable> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            let shifted = bits << shift;
            let overlong = byte == 0 && shift > 0;
            if overlong || shifted >> shift != bits {
                break;
            }
            number |= shifted;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        bad("a number is not written as numbers are")
    }

    pub(crate) fn small(&mut self) -> Result<u32, Undecodable> {
        let number = self.number()?;
        u32::try_from(number).or_else(|_| bad("a number is too large"))
    }

    pub(crate) fn signed(&mut self) -> Result<i64, Undecodable> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    fn wall(&mut self) -> Result<Wall, Undecodable> {
        self.signed().map(Wall)
    }

    pub(crate) fn wide(&mut self) -> Result<u128, Undecodable> {
        self.array().map(u128::from_le_bytes)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Undecodable> {
        let length = usize::try_from(self.number()?).map_err(|_| short())?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(short)?;
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Undecodable> {
        str::from_utf8(self.bytes()?).or_else(|_| bad("a text is not UTF-8"))
    }

    pub(crate) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Result<T, Undecodable>,
    ) -> Result<Option<T>, Undecodable> {
        match self.byte()? {
            0 => Ok(None),
            1 => get(self).map(Some),
            _ => bad("it does not say whether something is there"),
        }
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    /// How many follow that take at least `bytes` each: never more than there can be.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<usize, Undecodable> {
        let count = usize::try_from(self.number()?).map_err(|_| short())?;
        if count > self.0.len() / bytes { Err(short()) } else { Ok(count) }
    }

    pub(crate) fn name(&mut self) -> Result<TopicName, Undecodable> {
        self.text()?.parse().map_err(|bad: crate::BadTopicName| Undecodable(bad.to_string()))
    }

    pub(crate) fn topic_id(&mut self) -> Result<TopicId, Undecodable> {
        self.small().map(TopicId)
    }

    pub(crate) fn partition_id(&mut self) -> Result<PartitionId, Undecodable> {
        Ok(PartitionId { topic: self.topic_id()?, number: self.small()? })
    }

    fn guid(&mut self) -> Result<ProducerId, Undecodable> {
        self.wide().map(ProducerId)
    }

    fn scheduled_id(&mut self) -> Result<ScheduledId, Undecodable> {
        self.wide().map(ScheduledId)
    }

    fn topic(&mut self) -> Result<Topic, Undecodable> {
        Ok(Topic {
            id: self.topic_id()?,
            name: self.name()?,
            partitions: self.small()?,
            settings: self.settings()?,
            created: self.wall()?,
        })
    }

    fn settings(&mut self) -> Result<TopicSettings, Undecodable> {
        let retention = self.option(Self::number)?.map(Span);
        let retention_bytes = self.option(Self::number)?;
        let durability = match self.byte()? {
            0 => Durability::Fsync,
            1 => Durability::Os,
            _ => return bad("there are two kinds of durability"),
        };
        let compression = match self.byte()? {
            0 => Compression::None,
            1 => Compression::Gzip,
            2 => Compression::Snappy,
            3 => Compression::Lz4,
            4 => Compression::Zstd,
            _ => return bad("there are five kinds of compression"),
        };
        Ok(TopicSettings { retention, retention_bytes, durability, compression })
    }

    fn producer(&mut self, topics: bool) -> Result<Producer, Undecodable> {
        let name = self.text()?.to_owned();
        let scope = match self.byte()? {
            0 => Scope::Producer,
            1 => Scope::Topic,
            _ => return bad("sequences count one of two things"),
        };
        let (used, forget) = (self.wall()?, self.wall()?);
        let topics = if topics { self.topics()? } else { BTreeSet::new() };
        Ok(Producer { name, scope, used, forget, topics })
    }

    fn topics(&mut self) -> Result<BTreeSet<TopicId>, Undecodable> {
        let count = self.count(1)?;
        if count == 0 {
            return bad("topics that are named are at least one");
        }
        let mut topics = BTreeSet::new();
        let mut least = 0u64;
        for _ in 0..count {
            let id = self.number()?.checked_add(least).and_then(|id| u32::try_from(id).ok());
            let id = id.ok_or_else(|| Undecodable("a topic's number is too large".to_owned()))?;
            topics.insert(TopicId(id));
            least = u64::from(id) + 1;
        }
        Ok(topics)
    }

    fn sequences(&mut self) -> Result<Sequences, Undecodable> {
        let Some(floor) = self.option(Self::number)? else { return Ok(Sequences::default()) };
        let beyond = || Undecodable("a sequence is beyond what there is".to_owned());
        let last = floor.checked_add(self.number()?).ok_or_else(beyond)?;
        let count = self.count(2)?;
        let mut missing = Vec::with_capacity(count);
        let mut before = floor;
        for _ in 0..count {
            let start = before.checked_add(self.number()?).and_then(|start| start.checked_add(1));
            let start = start.ok_or_else(beyond)?;
            let end = start.checked_add(self.number()?).ok_or_else(beyond)?;
            if end >= last {
                return bad("the last sequence is missing");
            }
            missing.push(start..=end);
            before = end + 1;
        }
        let remembered = VecDeque::from(self.stored()?);
        Ok(Sequences { floor: Some(floor), last, missing, remembered })
    }

    fn stored(&mut self) -> Result<Vec<Remembered>, Undecodable> {
        let runs = self.count(RUN_BYTES_MIN)?;
        let mut stored: Vec<Remembered> = Vec::new();
        for _ in 0..runs {
            let mut sequence = self.number()?;
            let count = self.number()?;
            let mut place = self.place()?;
            if count == 0 || count > self.0.len() as u64 / 4 {
                return Err(short());
            }
            for at in 0..count {
                let crc = u32::from_le_bytes(self.array()?);
                let one = Remembered { sequence, crc, place };
                let continues = stored.last().is_some_and(|before| follows(before, &one));
                if continues != (at > 0) {
                    return bad("a run is not written as runs are");
                }
                stored.push(one);
                sequence = sequence.wrapping_add(1);
                if let Place::At(_, offset) = &mut place {
                    *offset = offset.wrapping_add(1);
                }
            }
        }
        Ok(stored)
    }

    fn place(&mut self) -> Result<Place, Undecodable> {
        match self.byte()? {
            0 => Ok(Place::At(self.partition_id()?, self.number()?)),
            1 => self.scheduled_id().map(Place::Scheduled),
            _ => bad("a message is at one of two places"),
        }
    }

    fn scheduled(&mut self) -> Result<Scheduled, Undecodable> {
        let id = self.scheduled_id()?;
        let topic = self.topic_id()?;
        let due = self.wall()?;
        let producer = self.option(|front| Ok((front.guid()?, front.number()?)))?;
        let key = self.option(Self::bytes)?.map(Bytes::copy_from_slice);
        let payload = Bytes::copy_from_slice(self.bytes()?);
        let count = self.count(2)?;
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let name = Bytes::copy_from_slice(self.bytes()?);
            headers.push(Header { name, value: Bytes::copy_from_slice(self.bytes()?) });
        }
        let partition = self.option(Self::small)?;
        let deliver_at = self.option(Self::wall)?;
        let ttl = self.option(Self::number)?.map(Span);
        let message = Message { key, payload, headers, partition, deliver_at, ttl };
        Ok(Scheduled { id, topic, due, producer, message })
    }
}

/// The smallest run: sequence, count, place, sum.
const RUN_BYTES_MIN: usize = 10;

pub(crate) fn bad<T>(words: &str) -> Result<T, Undecodable> {
    Err(Undecodable(words.to_owned()))
}

pub(crate) fn short() -> Undecodable {
    Undecodable("the bytes end too early".to_owned())
}
