//! What the users of groups ask for.
//!
//! Few topics, few keys, few consumers, so that they meet. A consumer polls and commits what it was
//! handed, in any order and any part of it; it stops for a while or for ever, comes back after its
//! session, says what it said before, and answers for what it does not hold any more. Producers that
//! did not hear an answer send the same request again under the same sequence.

mod consumer;

use std::collections::VecDeque;

use bytes::Bytes;
use handoff_streams::groups::{
    Body, Due, GroupBounds, GroupCommand, GroupName, GroupReply, GroupSettings, Order, Start,
};
use handoff_streams::{
    Bounds, Command, Compression, Durability, Header, Message, PartitionId, Produce, ProducerId,
    Reply, State, TopicName, TopicSettings, TopicSpec,
};
use handoff_types::{Now, Sight, Span};

use self::consumer::Consumer;
use crate::dice::Dice;

const TOPICS: [&str; 3] = ["in", "more", "out"];

const GROUPS: [&str; 2] = ["work", "other"];

const KEYS: [&[u8]; 4] = [b"a", b"b", b"key-1", b""];

/// How many messages a topic has before nobody produces to it any more.
const MESSAGES_MAX: u64 = 120;

/// How many there are before anybody does much else.
const MESSAGES_MIN: u64 = 30;

/// How many requests are remembered to be sent again.
const REMEMBERED: usize = 12;

/// What may be asked for. Nothing is scarce: that is another world's business.
pub(super) const BOUNDS: Bounds = Bounds {
    message_bytes_max: 16 << 10,
    headers_max: 16,
    batch_messages_max: 40,
    topics_max: 1_000,
    partitions_max: 10_000,
    producers_max: 1_000,
    remembered_max: 10_000,
    missing_max: 1_000,
    producer_idle: Span::from_secs(100 * 366 * 86_400),
    scheduled_max: 100,
    scheduled_bytes_max: 1 << 20,
    deliver_ahead_max: Span::from_secs(3_600),
};

/// Makes commands up.
#[derive(Debug)]
pub(super) struct Workload {
    dice: Dice,
    consumers: Vec<Consumer>,
    payloads: u64,
    sequence: u64,
    /// Requests that will be sent again.
    again: VecDeque<Command>,
    /// Topics go now and then.
    deletes: bool,
    keyless: bool,
}

impl Workload {
    pub(super) fn new(mut dice: Dice) -> Self {
        let count = 2 + dice.below(4);
        let (deletes, keyless) = (dice.one_in(3), dice.one_in(5));
        // Of letters of a topic that is gone nobody knows what they say.
        let consumers = (0..count).map(|n| Consumer::new(n, !deletes, &mut dice)).collect();
        let again = VecDeque::new();
        Self { dice, consumers, payloads: 0, sequence: 0, again, deletes, keyless }
    }

    /// Something that somebody asks for. What has to be read for it is not in it yet.
    pub(super) fn next_command(&mut self, state: &State, now: Now) -> Command {
        let counts = state.counts();
        if counts.topics == 0 || (counts.topics < 2 && self.dice.one_in(4)) {
            return self.create_topic();
        }
        if counts.groups == 0 {
            return self.create_group(state);
        }
        // Nobody reads where nothing is.
        let stored = state.partitions().map(|(_, one)| one.end).sum::<u64>();
        if stored < MESSAGES_MIN && self.dice.one_in(2) {
            return self.produce(state);
        }
        match self.dice.below(120) {
            0 => self.create_topic(),
            1 => self.grow(state),
            2 if self.deletes && self.dice.one_in(4) => Command::DeleteTopic { name: self.topic() },
            2 => self.create_group(state),
            3 => self.alter_group(state),
            4 if self.dice.one_in(8) => Command::Group(GroupCommand::Delete { name: self.group() }),
            4 => self.trim(state),
            5 => self.seek(state),
            6..9 => self.replay(state),
            9..22 => self.produce(state),
            22..26 => self.said_before().unwrap_or_else(|| self.produce(state)),
            26..30 => self.sweep(state, now),
            _ => self.consume(state, now),
        }
    }

    /// What is due in a group, or in any.
    pub(super) fn sweep(&mut self, state: &State, now: Now) -> Command {
        let due: Vec<GroupName> = state.groups_due(now).cloned().collect();
        let group = self.dice.pick(&due).cloned().unwrap_or_else(|| self.group());
        let mut due = state.due(&group, now);
        if self.dice.one_in(8) {
            due.partitions.clear();
        }
        if self.dice.one_in(8) {
            due.members.clear();
        }
        sweep(group, due)
    }

    pub(super) fn tick() -> Command {
        Command::Tick { limit: 1_000, bytes_max: 1 << 20, bounds: BOUNDS }
    }

    /// Messages that make a round of many sectors.
    pub(super) fn large(&mut self, state: &State) -> Command {
        let mut command = self.produce(state);
        if let Command::Produce { produce, .. } = &mut command {
            let filled = |message: &mut Message| {
                let mut payload = message.payload.to_vec();
                payload.resize(1_500, b'.');
                message.payload = Bytes::from(payload);
            };
            produce.messages.iter_mut().for_each(filled);
        }
        command
    }

    /// Somebody heard an answer.
    pub(super) fn heard(&mut self, command: &Command, reply: &Reply) {
        let Command::Group(command) = command else { return };
        for consumer in &mut self.consumers {
            consumer.heard(command, reply);
        }
        let again = match reply {
            Reply::Group(GroupReply::Wants(_)) => true,
            Reply::Group(GroupReply::Swept { more, .. }) => *more,
            Reply::Group(GroupReply::Committed { .. }) => self.dice.one_in(10),
            Reply::Group(GroupReply::Replayed(_)) => self.dice.one_in(2),
            _ => false,
        };
        if again {
            self.remember(Command::Group(command.clone()));
        }
    }

    /// A request that nobody answered will be sent again.
    pub(super) fn lost(&mut self, command: &Command) {
        let again = match command {
            Command::Produce { produce, .. } => produce.producer.is_some(),
            Command::Group(GroupCommand::Commit { .. } | GroupCommand::Replay { .. }) => true,
            _ => false,
        };
        if again {
            self.remember(command.clone());
        }
    }

    fn remember(&mut self, command: Command) {
        self.again.push_back(command);
        while self.again.len() > REMEMBERED {
            self.again.pop_front();
        }
    }

    fn said_before(&mut self) -> Option<Command> {
        let mut command = self.again.pop_front()?;
        // Whoever reads for it reads anew.
        if let Command::Group(GroupCommand::Commit { bodies, .. }) = &mut command {
            bodies.clear();
        }
        if self.dice.one_in(3) {
            self.again.push_back(command.clone());
        }
        Some(command)
    }

    fn topic(&mut self) -> TopicName {
        named(self.dice.pick(&TOPICS).copied().unwrap_or("in"))
    }

    fn group(&mut self) -> GroupName {
        group_named(self.dice.pick(&GROUPS).copied().unwrap_or("work"))
    }

    /// One of the topics there are.
    fn known_topic(&mut self, state: &State) -> TopicName {
        let there = state.topics(&Sight::All, None).map(|topic| topic.name.clone());
        let there: Vec<TopicName> = there.filter(|name| TOPICS.contains(&name.as_str())).collect();
        self.dice.pick(&there).cloned().unwrap_or_else(|| self.topic())
    }

    fn create_topic(&mut self) -> Command {
        let partitions = 1 + u32::try_from(self.dice.below(3)).unwrap_or(0);
        let settings = TopicSettings {
            retention: None,
            retention_bytes: None,
            durability: if self.dice.one_in(4) { Durability::Os } else { Durability::Fsync },
            compression: if self.dice.one_in(6) { Compression::Lz4 } else { Compression::None },
        };
        let name = if self.dice.one_in(12) { named("work.dead") } else { self.topic() };
        Command::CreateTopic { topic: TopicSpec { name, partitions, settings }, bounds: BOUNDS }
    }

    fn grow(&mut self, state: &State) -> Command {
        let name = self.known_topic(state);
        let count = state.topic(&name).map_or(1, |topic| topic.partitions);
        let partitions = (count + u32::from(self.dice.one_in(2))).min(5);
        Command::GrowTopic { name, partitions, bounds: BOUNDS }
    }

    fn settings(&mut self, name: &GroupName, state: &State) -> GroupSettings {
        let mut topics = vec![self.known_topic(state)];
        if self.dice.one_in(3) {
            topics.push(self.topic());
        }
        let mut between = |least: u64, most: u64| least + self.dice.below(most - least + 1);
        let small = |count: u64| u32::try_from(count).unwrap_or(1);
        let usual = GroupSettings::of(name, topics);
        let backoff = Span::from_millis(between(0, 2_000));
        GroupSettings {
            start: Start::Earliest,
            order: match between(0, 3) {
                0 | 1 => Order::Key,
                2 => Order::Partition,
                _ => Order::Free,
            },
            max_attempts: small(between(1, 4)),
            lease: Span::from_millis(between(1_000, 30_000)),
            backoff,
            backoff_max: Span(backoff.0 + 1_000 * between(0, 8_000)),
            in_flight_max: small(if between(0, 2) == 0 { between(1, 6) } else { between(6, 60) }),
            dead_letter: if between(0, 3) == 0 { named("dead") } else { usual.dead_letter },
            ..usual
        }
    }

    fn create_group(&mut self, state: &State) -> Command {
        let name = self.group();
        let mut settings = self.settings(&name, state);
        if self.dice.one_in(20) {
            settings.max_attempts = 0;
        }
        let begin = self.begin(state);
        let limits = GroupBounds::default();
        Command::Group(GroupCommand::Create { name, settings, begin, limits })
    }

    fn alter_group(&mut self, state: &State) -> Command {
        let name = self.group();
        let mut settings = self.settings(&name, state);
        if let Some(group) = state.group(&name) {
            if !self.dice.one_in(5) {
                settings.dead_letter = group.settings.dead_letter.clone();
            }
            if !self.dice.one_in(4) {
                settings.topics.clone_from(&group.settings.topics);
            }
        }
        Command::Group(GroupCommand::Alter { name, settings, begin: self.begin(state) })
    }

    /// Where a group begins that has not read yet.
    fn begin(&mut self, state: &State) -> Vec<(PartitionId, u64)> {
        if !self.dice.one_in(4) {
            return Vec::new();
        }
        let there: Vec<_> = state.partitions().map(|(id, one)| (id, *one)).collect();
        let spot = |(id, one): (PartitionId, handoff_streams::Partition)| {
            (id, one.start + self.dice.below(one.end - one.start + 1))
        };
        there.into_iter().map(spot).collect()
    }

    fn produce(&mut self, state: &State) -> Command {
        let produce = self.messages(state);
        Command::Produce { produce, bounds: BOUNDS }
    }

    fn messages(&mut self, state: &State) -> Produce {
        let topic = self.known_topic(state);
        let stored = state
            .topic(&topic)
            .map_or(0, |topic| state.partitions_of(topic.id).map(|(_, one)| one.end).sum::<u64>());
        let most = if stored < MESSAGES_MAX { 6 } else { 1 };
        let count = 1 + self.dice.below(most);
        let messages: Vec<Message> = (0..count).map(|_| self.message()).collect();
        let producer = self.dice.one_in(2).then(|| {
            let first = self.sequence;
            self.sequence += count;
            (ProducerId(77), first)
        });
        Produce { topic, producer, messages }
    }

    fn message(&mut self) -> Message {
        self.payloads += 1;
        let keyed = !self.keyless && !self.dice.one_in(3);
        let key = keyed.then(|| self.dice.pick(&KEYS).copied().unwrap_or_default());
        let header =
            || Header { name: Bytes::from_static(b"trace"), value: Bytes::from_static(b"42") };
        let headers = if self.dice.one_in(6) { vec![header()] } else { Vec::new() };
        let ttl = self.dice.one_in(12).then(|| Span::from_millis(self.dice.below(40_000)));
        Message {
            key: key.map(Bytes::from_static),
            payload: Bytes::from(format!("payload {}", self.payloads)),
            headers,
            ttl,
            ..Message::default()
        }
    }

    fn trim(&mut self, state: &State) -> Command {
        let there: Vec<_> = state.partitions().map(|(id, one)| (id, *one)).collect();
        match self.dice.pick(&there).copied() {
            Some((partition, known)) if self.dice.one_in(3) => {
                let below = known.start + self.dice.below((known.end - known.start) / 2 + 1);
                Command::Trim { partition, below, bytes: known.bytes / 2 }
            }
            _ => self.produce(state),
        }
    }

    fn seek(&mut self, state: &State) -> Command {
        let there: Vec<_> = state.partitions().map(|(id, one)| (id, *one)).collect();
        let group = self.group();
        let preview = self.dice.one_in(3);
        let to = match self.dice.pick(&there).copied() {
            Some((id, one)) => {
                vec![(id, one.start + self.dice.below(one.end - one.start + 1))]
            }
            None => Vec::new(),
        };
        Command::Group(GroupCommand::Seek { group, to, preview })
    }

    fn replay(&mut self, state: &State) -> Command {
        let name = self.group();
        let topic = state.group(&name).and_then(|group| state.topic(&group.settings.dead_letter));
        let Some(topic) = topic else { return self.produce(state) };
        let mut letters = Vec::new();
        // The first ones often, so that some are asked for again.
        let once_in = if self.dice.one_in(2) { 1 } else { 4 };
        for (number, one) in state.partitions_of(topic.id) {
            let partition = PartitionId { topic: topic.id, number };
            let few = one.start..one.end.min(one.start + 40);
            let some = few.filter(|_| self.dice.one_in(once_in));
            letters.extend(some.map(|offset| Body { partition, offset, record: None }));
        }
        letters.truncate(4);
        Command::Group(GroupCommand::Replay { group: name, letters, bounds: BOUNDS })
    }

    fn consume(&mut self, state: &State, now: Now) -> Command {
        let at = usize::try_from(self.dice.below(self.consumers.len() as u64)).unwrap_or(0);
        let produce = match self.dice.one_in(6) {
            true => vec![self.messages(state)],
            false => Vec::new(),
        };
        let begin = self.begin(state);
        let Some(consumer) = self.consumers.get_mut(at) else { return Self::tick() };
        let asked = consumer.asks(produce, begin, &mut self.dice);
        asked.unwrap_or_else(|| self.sweep(state, now))
    }
}

pub(super) fn sweep(group: GroupName, due: Due) -> Command {
    Command::Group(GroupCommand::Sweep { group, due, bodies: Vec::new(), bounds: BOUNDS })
}

fn named(name: &str) -> TopicName {
    match name.parse() {
        Ok(name) => name,
        Err(_) => unreachable!("these are names"),
    }
}

fn group_named(name: &str) -> GroupName {
    match name.parse() {
        Ok(name) => name,
        Err(_) => unreachable!("these are names"),
    }
}
