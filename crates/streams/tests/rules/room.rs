//! A room under test. After every command the state is built again, from changes that went through
//! their bytes and from aggregates that did, and must be the live one.

use bytes::Bytes;
use handoff_streams::{
    Action, Bounds, Change, Command, Durability, Key, Message, PartitionId, Produce, Produced,
    ProducerId, Refusal, Registration, Reply, Scope, State, Status, Streams, Topic, TopicName,
    TopicSettings, TopicSpec, batch, decode_aggregate, decode_change, encode_aggregate,
    encode_change,
};
use handoff_types::{Decision, Entropy, Machine, Now, Sight, Span, Steady, Wall};

pub(crate) type Decided = Decision<Reply, Change, Action>;

pub(crate) const BOUNDS: Bounds = Bounds {
    message_bytes_max: 9 << 20,
    headers_max: 4,
    batch_messages_max: 1_000,
    topics_max: 10,
    partitions_max: 50,
    producers_max: 5,
    remembered_max: 8,
    missing_max: 3,
    producer_idle: Span::from_secs(7 * 86_400),
    scheduled_max: 20,
    scheduled_bytes_max: 1 << 20,
    deliver_ahead_max: Span::from_secs(366 * 86_400),
};

pub(crate) const SETTINGS: TopicSettings = TopicSettings {
    retention: None,
    retention_bytes: None,
    durability: Durability::Fsync,
    compression: handoff_streams::Compression::None,
};

pub(crate) const ME: ProducerId = ProducerId(0x6f1c_2d3e_4a5b_4c6d_8e7f_0123_4567_89ab);

pub(crate) struct Room {
    pub(crate) state: State,
    pub(crate) now: Now,
    pub(crate) bounds: Bounds,
    replayed: State,
    draws: u128,
}

impl Room {
    pub(crate) fn new() -> Self {
        let now = Now { wall: Wall(1_800_000_000_123_456), steady: Steady(1_000_000) };
        let (state, replayed) = (State::default(), State::default());
        Self { state, now, bounds: BOUNDS, replayed, draws: 0 }
    }

    /// With a topic `orders` of so many partitions.
    pub(crate) fn with(partitions: u32) -> Self {
        let mut room = Self::new();
        room.create("orders", partitions);
        room
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Decided {
        self.draws += 1;
        let before = self.state.clone();
        let decided = Streams::decide(&self.state, command, self.now, Entropy(self.draws));
        for change in &decided.changes {
            self.check(change);
            Streams::evolve(&mut self.state, change);
        }
        if matches!(decided.reply, Reply::Refused(_)) {
            assert_eq!((decided.changes.len(), decided.actions.len()), (0, 0));
            assert_eq!(self.state, before);
        }
        self.rebuild(&decided.changes);
        decided
    }

    /// A batch says what its change says, and stands at the end of its partition.
    fn check(&self, change: &Change) {
        let Change::Appended { partition, base, count, last, bytes, batch } = change else {
            return;
        };
        let there = self.state.partition(*partition).unwrap();
        assert_eq!(there.end, *base, "offsets are dense");
        assert!(there.last <= *last, "timestamps never decrease");
        let head = batch::head(batch).unwrap();
        assert_eq!((head.base, head.count, head.last), (*base, *count, *last));
        assert_eq!((head.bytes, batch.len()), (*bytes as usize, *bytes as usize));
    }

    fn rebuild(&mut self, changes: &[Change]) {
        for change in changes {
            let mut bytes = Vec::new();
            encode_change(change, &mut bytes);
            let (read, rest) = decode_change(&bytes).unwrap();
            assert_eq!((read.key(), rest.len()), (change.key(), 0));
            Streams::evolve(&mut self.replayed, &read);
        }
        assert_eq!(self.replayed, self.state, "what changes give is what is there");
        let mut loaded = State::default();
        // From the last to the first: a state does not depend on the order it was filled in.
        let keys: Vec<Key> = self.state.keys_from(&Key::Counters).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for key in keys.iter().rev() {
            let mut bytes = Vec::new();
            encode_aggregate(key, &self.state.aggregate(key).unwrap(), &mut bytes);
            let (read, aggregate, rest) = decode_aggregate(&bytes).unwrap();
            assert_eq!((&read, rest.len()), (key, 0));
            loaded.put(&read, Some(aggregate));
        }
        assert_eq!(loaded, self.state, "what aggregates give is what is there");
    }

    pub(crate) fn create(&mut self, name: &str, partitions: u32) -> Topic {
        self.create_with(name, partitions, SETTINGS)
    }

    pub(crate) fn create_with(
        &mut self,
        name: &str,
        partitions: u32,
        settings: TopicSettings,
    ) -> Topic {
        let topic = TopicSpec { name: topic(name), partitions, settings };
        match self.apply(&Command::CreateTopic { topic, bounds: self.bounds }).reply {
            Reply::Created(topic) => topic,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn send(
        &mut self,
        name: &str,
        producer: Option<(ProducerId, u64)>,
        messages: &[Message],
    ) -> Decided {
        let produce = Produce { topic: topic(name), producer, messages: messages.to_vec() };
        self.apply(&Command::Produce { produce, bounds: self.bounds })
    }

    /// What became of messages to `orders`, without a producer.
    pub(crate) fn store(&mut self, messages: &[Message]) -> Vec<Produced> {
        results(&self.send("orders", None, messages))
    }

    /// What became of messages of [`ME`] to `orders`, and what is missing.
    pub(crate) fn sequence(
        &mut self,
        first: u64,
        messages: &[Message],
    ) -> (Vec<Status>, Vec<(u64, u64)>) {
        match self.send("orders", Some((ME, first)), messages).reply {
            Reply::Produced { results, missing, .. } => (
                results.iter().map(|result| result.status).collect(),
                missing.iter().map(|range| (*range.start(), *range.end())).collect(),
            ),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refused(&mut self, command: &Command) -> Refusal {
        match self.apply(command).reply {
            Reply::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refused_message(&mut self, message: Message) -> Refusal {
        let produce = Produce { topic: topic("orders"), producer: None, messages: vec![message] };
        self.refused(&Command::Produce { produce, bounds: self.bounds })
    }

    pub(crate) fn register(&mut self, producer: Option<ProducerId>, scope: Option<Scope>) -> Reply {
        let registration = Registration { producer, name: None, scope };
        let command =
            Command::RegisterProducer { registration, sight: Sight::All, bounds: self.bounds };
        self.apply(&command).reply
    }

    pub(crate) fn tick(&mut self, limit: usize) -> Decided {
        let bytes_max = 1 << 30;
        self.apply(&Command::Tick { limit, bytes_max, bounds: self.bounds })
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now.wall = self.now.wall + span;
        self.now.steady = self.now.steady + span;
    }

    pub(crate) fn ends(&self, name: &str) -> Vec<u64> {
        let view = self.state.view(&topic(name), &Sight::All).unwrap();
        view.partitions.iter().map(|partition| partition.end).collect()
    }
}

pub(crate) fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

pub(crate) fn text(payload: &str) -> Message {
    Message { payload: Bytes::copy_from_slice(payload.as_bytes()), ..Message::default() }
}

pub(crate) fn keyed(key: &str, payload: &str) -> Message {
    Message { key: Some(Bytes::copy_from_slice(key.as_bytes())), ..text(payload) }
}

pub(crate) fn to(partition: u32, payload: &str) -> Message {
    Message { partition: Some(partition), ..text(payload) }
}

pub(crate) fn texts(payloads: &[&str]) -> Vec<Message> {
    payloads.iter().map(|payload| text(payload)).collect()
}

pub(crate) fn results(decided: &Decided) -> Vec<Produced> {
    match &decided.reply {
        Reply::Produced { results, .. } => results.clone(),
        other => panic!("{other:?}"),
    }
}

/// Where a message is: number of the partition and offset.
pub(crate) fn at(produced: &Produced) -> (u32, u64) {
    match produced.place {
        Some(handoff_streams::Place::At(PartitionId { number, .. }, offset)) => (number, offset),
        other => panic!("{other:?}"),
    }
}

/// The records that a decision stores, by partition.
pub(crate) fn records(decided: &Decided) -> Vec<(u32, batch::Record)> {
    let mut all = Vec::new();
    for change in &decided.changes {
        if let Change::Appended { partition, batch, .. } = change {
            let records = batch::records(batch, 64 << 20).unwrap();
            all.extend(records.into_iter().map(|record| (partition.number, record)));
        }
    }
    all
}
