//! What the callers of the streams room ask for.
//!
//! Few names, few producers and few keys, so that callers meet. Producers that did not hear an
//! answer send the same request again under the same sequence, and some send one again that was
//! answered; some forget a message and send it later, some give a sequence to two messages.

use std::collections::VecDeque;

use bytes::Bytes;
use handoff_streams::{
    Bounds, Command, Compression, Durability, Header, Message, PartitionId, Place, Produce,
    ProducerId, Registration, Reply, ScheduledId, Scope, State, TopicName, TopicSettings,
    TopicSpec,
};
use handoff_types::{Now, Pattern, Room, Sight, Span, Wall, names};

use crate::dice::Dice;

const NAMES: [&str; 4] = ["orders", "orders.late", "audit_1", "x-2"];

const KEYS: [&[u8]; 7] = [b"a", b"b", b"key-1", b"key-22", b"", b"longer than a word", b"abc"];

/// How many producers bring their own GUID.
const PRODUCERS: u64 = 4;

/// How many requests a caller remembers.
const REMEMBERED: usize = 30;

/// Makes commands up.
#[derive(Debug)]
pub(crate) struct Workload {
    dice: Dice,
    pub(super) bounds: Bounds,
    payloads: u64,
    producers: Vec<Sender>,
    /// Requests that might be sent again.
    sent: VecDeque<Produce>,
    /// What waits, as far as somebody heard of it.
    waiting: VecDeque<ScheduledId>,
    /// Noise that does not compress.
    noise: Bytes,
}

/// A producer, and what it will call its next message.
#[derive(Clone, Copy, Debug)]
struct Sender {
    id: ProducerId,
    next: u64,
    skipped: Option<u64>,
}

impl Workload {
    pub(crate) fn new(mut dice: Dice) -> Self {
        let noise: Vec<u8> = (0..1024).flat_map(|_| dice.roll().to_le_bytes()).collect();
        let mut between = |least: u64, most: u64| least + dice.below(most - least + 1);
        let mut many = |least, most| usize::try_from(between(least, most)).unwrap_or(1);
        let bounds = Bounds {
            message_bytes_max: 6 << 10,
            headers_max: 3,
            batch_messages_max: many(4, 8),
            topics_max: many(2, 4),
            partitions_max: many(6, 14),
            producers_max: many(3, 6),
            remembered_max: 0,
            missing_max: 0,
            producer_idle: Span::from_secs(0),
            scheduled_max: many(4, 12),
            scheduled_bytes_max: many(6 << 10, 16 << 10),
            deliver_ahead_max: Span::from_secs(30 * 3_600),
        };
        let mut small = |least, most| u32::try_from(many(least, most)).unwrap_or(1);
        let bounds = Bounds { remembered_max: small(2, 12), missing_max: small(1, 4), ..bounds };
        let producer_idle = Span::from_secs(3_600 * between(12, 72));
        let producers = (0..PRODUCERS).map(|n| {
            let id = ProducerId(u128::from(n + 1) << 64 | 7);
            Sender { id, next: 0, skipped: None }
        });
        Self {
            bounds: Bounds { producer_idle, ..bounds },
            payloads: 0,
            producers: producers.collect(),
            sent: VecDeque::new(),
            waiting: VecDeque::new(),
            noise: Bytes::from(noise),
            dice,
        }
    }

    /// Nothing is scarce: for brokers that share a store and do not see everything in it.
    pub(crate) fn of_brokers(dice: Dice) -> Self {
        let mut workload = Self::new(dice);
        let bounds = &mut workload.bounds;
        (bounds.topics_max, bounds.partitions_max) = (1_000, 10_000);
        (bounds.producers_max, bounds.scheduled_max) = (10_000, 10_000);
        bounds.scheduled_bytes_max = 1 << 30;
        workload
    }

    /// Somebody heard an answer.
    pub(crate) fn heard(&mut self, reply: &Reply) {
        match reply {
            Reply::Produced { results, .. } => {
                for result in results {
                    if let Some(Place::Scheduled(id)) = result.place {
                        self.waiting.push_back(id);
                    }
                }
                while self.waiting.len() > REMEMBERED {
                    self.waiting.pop_front();
                }
            }
            Reply::Registered { producer, .. }
                if !self.producers.iter().any(|sender| sender.id == *producer)
                    && self.producers.len() < 8 =>
            {
                self.producers.push(Sender { id: *producer, next: 0, skipped: None });
            }
            _ => {}
        }
    }

    /// A request that nobody answered will be sent again.
    pub(crate) fn lost(&mut self, command: &Command) {
        if let Command::Produce { produce, .. } = command
            && produce.producer.is_some()
        {
            self.sent.push_front(produce.clone());
            self.sent.truncate(REMEMBERED);
        }
    }

    /// Something that somebody asks for.
    pub(crate) fn next_command(&mut self, state: &State, now: Now) -> Command {
        match self.dice.below(100) {
            0..6 => self.create(),
            6 => self.alter(),
            7 => self.grow(),
            8 => self.delete(),
            9..14 => self.register(),
            14..20 => self.cancel(),
            20..23 => self.trim(state),
            _ if state.counts().topics == 0 => self.create(),
            23..50 => self.produce(state, now),
            50..72 => self.again(state, now),
            _ => self.in_sequence(state, now),
        }
    }

    /// What is due is delivered, sometimes only a part of it.
    pub(crate) fn tick(&mut self) -> Command {
        let limit = if self.dice.one_in(3) { 1 + self.dice.below(3) } else { 1_000 };
        let bytes = if self.dice.one_in(4) { 1 + self.dice.below(3_000) } else { 16 << 10 };
        let many = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Command::Tick { limit: many(limit), bytes_max: many(bytes), bounds: self.bounds }
    }

    /// Large messages, to fill a round.
    pub(crate) fn large(&mut self, state: &State, now: Now) -> Command {
        let mut produce = self.messages(state, now);
        for message in &mut produce.messages {
            message.payload = self.noise.slice(..2_000);
            message.deliver_at = None;
        }
        Command::Produce { produce, bounds: self.bounds }
    }

    fn name(&mut self) -> TopicName {
        let name = self.dice.pick(&NAMES).copied().unwrap_or(NAMES[0]);
        match name.parse() {
            Ok(name) => name,
            Err(_) => unreachable!("these are names"),
        }
    }

    /// A name of a topic, mostly of one that is there.
    fn known_name(&mut self, state: &State) -> TopicName {
        let there: Vec<TopicName> =
            state.topics(&Sight::All, None).map(|topic| topic.name.clone()).collect();
        match self.dice.pick(&there).cloned() {
            Some(name) if !self.dice.one_in(30) => name,
            _ => self.name(),
        }
    }

    fn settings(&mut self) -> TopicSettings {
        let durability = if self.dice.one_in(4) { Durability::Os } else { Durability::Fsync };
        let compression = match self.dice.below(8) {
            0 => Compression::Gzip,
            1 => Compression::Snappy,
            2 => Compression::Lz4,
            3 => Compression::Zstd,
            _ => Compression::None,
        };
        TopicSettings { retention: None, retention_bytes: None, durability, compression }
    }

    fn create(&mut self) -> Command {
        let partitions = u32::try_from(self.dice.below(5)).unwrap_or(1);
        let topic = TopicSpec { name: self.name(), partitions, settings: self.settings() };
        Command::CreateTopic { topic, bounds: self.bounds }
    }

    fn alter(&mut self) -> Command {
        Command::AlterTopic { name: self.name(), settings: self.settings() }
    }

    fn grow(&mut self) -> Command {
        let partitions = 1 + u32::try_from(self.dice.below(6)).unwrap_or(1);
        Command::GrowTopic { name: self.name(), partitions, bounds: self.bounds }
    }

    fn delete(&mut self) -> Command {
        // Rarely: everything in it goes.
        match self.dice.one_in(3) {
            true => Command::DeleteTopic { name: self.name() },
            false => self.create(),
        }
    }

    fn sight(&mut self) -> Sight {
        let pattern = match self.dice.below(6) {
            0 => "streams:orders",
            1 => "streams:orders*",
            2 => "streams:audit_1",
            _ => return Sight::All,
        };
        match pattern.parse::<names::Scope>() {
            Ok(names::Scope::Room(Room::Streams, pattern)) => {
                Sight::Names(vec![Pattern::clone(&pattern)])
            }
            _ => Sight::All,
        }
    }

    fn register(&mut self) -> Command {
        let known = self.sender().map(|at| self.producers.get(at).map(|one| one.id));
        let producer = if self.dice.one_in(6) { None } else { known.flatten() };
        let name = match self.dice.below(6) {
            0 => Some("a producer".to_owned()),
            1 => Some("another".to_owned()),
            2 if self.dice.one_in(4) => Some("x".repeat(257)),
            _ => None,
        };
        let scope = match self.dice.below(4) {
            0 => Some(Scope::Producer),
            1 => Some(Scope::Topic),
            _ => None,
        };
        let registration = Registration { producer, name, scope };
        Command::RegisterProducer { registration, sight: self.sight(), bounds: self.bounds }
    }

    fn cancel(&mut self) -> Command {
        let waiting: Vec<ScheduledId> = self.waiting.iter().copied().collect();
        let known = self.dice.pick(&waiting).copied();
        let id = known.unwrap_or(ScheduledId(u128::from(self.dice.roll())));
        Command::CancelScheduled { id, sight: self.sight() }
    }

    fn trim(&mut self, state: &State) -> Command {
        let there: Vec<_> = state.partitions().map(|(id, one)| (id, *one)).collect();
        match self.dice.pick(&there).copied() {
            Some((partition, known)) => {
                let below = self.dice.below(known.end + 3);
                let bytes = self.dice.below(known.bytes + 1);
                Command::Trim { partition, below, bytes }
            }
            None => Command::Trim { partition: PartitionId::default(), below: 1, bytes: 0 },
        }
    }

    /// Messages that nobody counts.
    fn produce(&mut self, state: &State, now: Now) -> Command {
        let produce = self.messages(state, now);
        Command::Produce { produce, bounds: self.bounds }
    }

    /// A request that was sent before.
    fn again(&mut self, state: &State, now: Now) -> Command {
        let sent: Vec<Produce> = self.sent.iter().cloned().collect();
        // The latest ones mostly: a producer does not wait long with a retry.
        let latest = sent.get(..sent.len().min(4)).unwrap_or_default();
        let from = if self.dice.one_in(4) { &sent[..] } else { latest };
        let Some(mut produce) = self.dice.pick(from).cloned() else {
            return self.in_sequence(state, now);
        };
        match self.dice.below(12) {
            // Other content under the same sequence.
            0 => {
                let payload = self.payload();
                if let Some(first) = produce.messages.first_mut() {
                    first.payload = payload;
                }
            }
            // A new message behind those that were sent already.
            1 => {
                let message = self.message(state, &produce.topic.clone(), now);
                produce.messages.push(message);
            }
            // Without the first, as if it had been answered.
            2 if produce.messages.len() > 1 => {
                produce.messages.remove(0);
                produce.producer = produce.producer.map(|(id, first)| (id, first + 1));
            }
            _ => {}
        }
        Command::Produce { produce, bounds: self.bounds }
    }

    /// Messages of a producer that counts them.
    fn in_sequence(&mut self, state: &State, now: Now) -> Command {
        let mut produce = self.messages(state, now);
        let count = produce.messages.len() as u64;
        let roll = self.dice.below(40);
        let jump = 1 + self.dice.below(4);
        let old = self.dice.below(3);
        if let Some(sender) = self.sender().and_then(|at| self.producers.get_mut(at)) {
            let first = match roll {
                // Some messages are forgotten.
                0..4 => {
                    sender.skipped = Some(sender.next);
                    sender.next + jump
                }
                // And come later.
                4..8 => sender.skipped.take().unwrap_or(sender.next),
                8 => old,
                9 => u64::MAX - 2,
                10 => (1 << 63) - 1,
                11 if sender.next == 0 => 10,
                _ => sender.next,
            };
            if first < 1 << 40 {
                sender.next = sender.next.max(first + count);
            }
            produce.producer = Some((sender.id, first));
            if first < 1 << 40 {
                self.sent.push_front(produce.clone());
                self.sent.truncate(REMEMBERED);
            }
        }
        Command::Produce { produce, bounds: self.bounds }
    }

    fn sender(&mut self) -> Option<usize> {
        let at = self.dice.below(self.producers.len() as u64);
        usize::try_from(at).ok()
    }

    fn messages(&mut self, state: &State, now: Now) -> Produce {
        let topic = self.known_name(state);
        let most = self.bounds.batch_messages_max as u64;
        let count = match self.dice.below(80) {
            0 => 0,
            1 => most + 1,
            2..27 => 1 + self.dice.below(most),
            _ => 1 + self.dice.below(2),
        };
        let messages = (0..count).map(|_| self.message(state, &topic, now)).collect();
        Produce { topic, producer: None, messages }
    }

    fn message(&mut self, state: &State, topic: &TopicName, now: Now) -> Message {
        let key = match self.dice.below(3) {
            0 => None,
            _ => self.dice.pick(&KEYS).copied().map(Bytes::from_static),
        };
        let partitions = state.topic(topic).map_or(1, |topic| u64::from(topic.partitions));
        let partition = match self.dice.below(120) {
            0 => u32::try_from(partitions).ok(),
            1..16 => u32::try_from(self.dice.below(partitions)).ok(),
            _ => None,
        };
        let hours = |hours: i64| hours * 3_600_000_000;
        let deliver_at = match self.dice.below(24) {
            0 => Some(Wall(now.wall.0 - self.dice.below(5_000_000).cast_signed())),
            1 => Some(now.wall),
            2..5 => Some(Wall(now.wall.0 + 1 + self.dice.below(60_000_000).cast_signed())),
            5 => Some(Wall(now.wall.0 + hours(1 + self.dice.below(28).cast_signed()))),
            6 if self.dice.one_in(6) => Some(Wall(now.wall.0 + hours(31))),
            _ => None,
        };
        let ttl = self.dice.one_in(10).then(|| Span(self.dice.below(7_200_000_000)));
        let headers = match self.dice.below(120) {
            0 => 4,
            1..30 => 1 + self.dice.below(3),
            _ => 0,
        };
        let headers = (0..headers).map(|number| self.header(number)).collect();
        Message { key, payload: self.payload(), headers, partition, deliver_at, ttl }
    }

    fn header(&mut self, number: u64) -> Header {
        let name: &'static [u8] = match self.dice.below(60) {
            0 => b"handoff.expires",
            1 => &[0xff, 0xfe],
            2..20 => b"",
            _ if number == 0 => b"trace",
            _ => b"more",
        };
        let value = self.noise.slice(..usize::try_from(self.dice.below(40)).unwrap_or(0));
        Header { name: Bytes::from_static(name), value }
    }

    /// Every payload is another one, unless it is empty.
    fn payload(&mut self) -> Bytes {
        self.payloads += 1;
        let length = match self.dice.below(180) {
            0..3 => 0,
            3 => self.bounds.message_bytes_max + 1,
            4..16 => 500 + usize::try_from(self.dice.below(3_000)).unwrap_or(0),
            _ => 8 + usize::try_from(self.dice.below(60)).unwrap_or(0),
        };
        if length == 0 {
            return Bytes::new();
        }
        let mut payload = self.payloads.to_be_bytes().to_vec();
        match self.dice.one_in(2) {
            true => payload.resize(length, b'.'),
            false => payload.extend_from_slice(self.noise.get(..length.max(8) - 8).unwrap_or(&[])),
        }
        Bytes::from(payload)
    }
}
