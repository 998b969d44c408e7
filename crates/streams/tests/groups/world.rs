//! Groups under test: a room, the log beside it, and the shell's part: what may be handed out is
//! read, what may die is read. After every command the state is built again, from changes that went
//! through their bytes and from aggregates that did, and must be the live one; and the command is
//! decided once more by one that knows only what `needs` names.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_streams::batch::{self, Record};
use handoff_streams::groups::{
    Body, CommitOutcome, Committed, Due, Fact, Found, GroupBounds, GroupCommand, GroupName,
    GroupRefusal, GroupReply, GroupSettings, GroupView, HandedOut, Join, LeaseId, Mark, MemberId,
    MessageStatus, OnCorrupt, Position, Reads, Spot, Verdict, VerdictStatus,
};
use handoff_streams::{
    Action, Bounds, Change, Command, Compression, Durability, Key, Message, PartitionId, Produce,
    Refusal, Reply, State, Streams, Topic, TopicName, TopicSettings, TopicSpec, decode_aggregate,
    decode_change, encode_aggregate, encode_change,
};
use handoff_types::{Decision, Entropy, Machine, Now, Sight, Span, Steady, Wall};

pub(crate) const BOUNDS: Bounds = Bounds {
    message_bytes_max: 1 << 20,
    headers_max: 16,
    batch_messages_max: 200_000,
    topics_max: 20,
    partitions_max: 1_000,
    producers_max: 10,
    remembered_max: 64,
    missing_max: 8,
    producer_idle: Span::from_secs(7 * 86_400),
    scheduled_max: 20,
    scheduled_bytes_max: 1 << 20,
    deliver_ahead_max: Span::from_secs(366 * 86_400),
};

pub(crate) const SETTINGS: TopicSettings = TopicSettings {
    retention: None,
    retention_bytes: None,
    durability: Durability::Fsync,
    compression: Compression::None,
};

/// A member's session, far longer than a lease.
pub(crate) const SESSION: Span = Span::from_secs(600);

pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) now: Now,
    pub(crate) log: BTreeMap<(PartitionId, u64), Record>,
    pub(crate) on_corrupt: OnCorrupt,
    pub(crate) damaged: Option<(PartitionId, u64, u64)>,
    /// Whether everything is checked after every command; large tests do not.
    pub(crate) careful: bool,
    replayed: State,
    draws: u128,
    turn: u64,
}

impl World {
    /// A topic `orders` with so many partitions, and a group `work` that reads it.
    pub(crate) fn with(partitions: u32) -> Self {
        Self::like(partitions, |_| {})
    }

    pub(crate) fn like(partitions: u32, change: impl FnOnce(&mut GroupSettings)) -> Self {
        let mut world = Self::new();
        world.topic("orders", partitions);
        let mut settings = GroupSettings::of(&work(), vec![name("orders")]);
        change(&mut settings);
        let reply = world.group(GroupCommand::Create {
            name: work(),
            settings,
            begin: Vec::new(),
            limits: GroupBounds::default(),
        });
        assert!(matches!(reply, GroupReply::Created(_)), "{reply:?}");
        world
    }

    pub(crate) fn new() -> Self {
        let now = Now { wall: Wall(1_800_000_000_000_000), steady: Steady(1_000_000) };
        Self {
            state: State::default(),
            now,
            log: BTreeMap::new(),
            on_corrupt: OnCorrupt::Stop,
            damaged: None,
            careful: true,
            replayed: State::default(),
            draws: 0,
            turn: 0,
        }
    }

    pub(crate) fn apply(&mut self, command: &Command) -> Decision<Reply, Change, Action> {
        self.draws += 1;
        let decided = Streams::decide(&self.state, command, self.now, Entropy(self.draws));
        if self.careful {
            self.check_needs(command, &decided);
        }
        for change in &decided.changes {
            if let Change::Appended { partition, batch, .. } = change {
                for record in batch::records(batch, 64 << 20).unwrap() {
                    self.log.insert((*partition, record.offset), record);
                }
            }
            Streams::evolve(&mut self.state, change);
        }
        if self.careful {
            self.rebuild(&decided.changes);
        }
        decided
    }

    /// One that knows nothing but what is needed decides the same; and what is changed was needed,
    /// or was never there.
    fn check_needs(&self, command: &Command, decided: &Decision<Reply, Change, Action>) {
        // How much there is of everything, and what is due by the clock, is not told by keys.
        let untold =
            matches!(decided.reply, Reply::Refused(Refusal::Limit(_)) | Reply::Ticked { .. });
        if untold {
            return;
        }
        let mut part = State::default();
        let mut known = Vec::new();
        loop {
            let needed = Streams::needs(&part, command);
            let new: Vec<Key> = needed.into_iter().filter(|key| !known.contains(key)).collect();
            if new.is_empty() {
                break;
            }
            for key in new {
                part.put(&key, self.state.aggregate(&key));
                known.push(key);
            }
        }
        let again = Streams::decide(&part, command, self.now, Entropy(self.draws));
        assert_eq!(again.reply, decided.reply, "{command:?}");
        assert_eq!(again.changes, decided.changes, "{command:?}");
        for change in &decided.changes {
            let key = change.key();
            let there = self.state.aggregate(&key).is_some();
            assert!(!there || known.contains(&key), "{key:?} is changed unseen by {command:?}");
        }
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
        let keys: Vec<Key> = self.state.keys_from(&Key::Counters).collect();
        assert!(keys.is_sorted() && keys.windows(2).all(|two| two[0] < two[1]), "{keys:?}");
        for key in keys.iter().rev() {
            assert_eq!(Key::from_bytes(&key.to_bytes()).as_ref(), Some(key));
            let mut bytes = Vec::new();
            encode_aggregate(key, &self.state.aggregate(key).unwrap(), &mut bytes);
            let (read, aggregate, rest) = decode_aggregate(&bytes).unwrap();
            assert_eq!((&read, rest.len()), (key, 0));
            loaded.put(&read, Some(aggregate));
        }
        assert_eq!(loaded, self.state, "what aggregates give is what is there");
    }

    pub(crate) fn group(&mut self, command: GroupCommand) -> GroupReply {
        match self.apply(&Command::Group(command)).reply {
            Reply::Group(reply) => reply,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refused(&mut self, command: GroupCommand) -> Refusal {
        let decided = self.apply(&Command::Group(command));
        assert_eq!((decided.changes.len(), decided.actions.len()), (0, 0));
        match decided.reply {
            Reply::Refused(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn refused_group(&mut self, command: GroupCommand) -> GroupRefusal {
        match self.refused(command) {
            Refusal::Group(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn topic(&mut self, name: &str, partitions: u32) -> Topic {
        let topic = TopicSpec { name: self::name(name), partitions, settings: SETTINGS };
        match self.apply(&Command::CreateTopic { topic, bounds: BOUNDS }).reply {
            Reply::Created(topic) => topic,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn at(&self, number: u32) -> PartitionId {
        self.at_of("orders", number)
    }

    pub(crate) fn at_of(&self, topic: &str, number: u32) -> PartitionId {
        PartitionId { topic: self.state.topic(&name(topic)).unwrap().id, number }
    }

    pub(crate) fn produce(&mut self, messages: Vec<Message>) {
        let produce = Produce { topic: name("orders"), producer: None, messages };
        let decided = self.apply(&Command::Produce { produce, bounds: BOUNDS });
        assert!(matches!(decided.reply, Reply::Produced { .. }), "{:?}", decided.reply);
    }

    /// So many messages without keys to a partition.
    pub(crate) fn fill(&mut self, partition: u32, count: usize) {
        let text = |n: usize| Message {
            payload: Bytes::from(format!("message {n}")),
            partition: Some(partition),
            ..Message::default()
        };
        self.produce((0..count).map(text).collect());
    }

    /// Messages with these keys to partition 0; an empty one is none.
    pub(crate) fn keyed(&mut self, keys: &[&str]) {
        let message = |key: &&str| Message {
            key: (!key.is_empty()).then(|| Bytes::copy_from_slice(key.as_bytes())),
            payload: Bytes::from_static(b"x"),
            partition: Some(0),
            ..Message::default()
        };
        self.produce(keys.iter().map(message).collect());
    }

    pub(crate) fn join(&mut self) -> MemberId {
        self.join_as(&Join { session: SESSION, ..joining() }).0
    }

    pub(crate) fn join_as(&mut self, join: &Join) -> (MemberId, u64, Vec<u32>) {
        let limits = GroupBounds::default();
        match self.group(GroupCommand::Join { join: join.clone(), limits }) {
            GroupReply::Joined { member, generation, assignment, .. } => {
                let numbers = assignment.iter().map(|one| one.partition.number).collect();
                (member, generation, numbers)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn leave(&mut self, member: MemberId) {
        let reply = self.group(GroupCommand::Leave { group: work(), member });
        assert_eq!(reply, GroupReply::Left);
    }

    pub(crate) fn beat(&mut self, member: MemberId, generation: u64) -> (u64, Vec<u32>, bool) {
        match self.group(GroupCommand::Heartbeat { group: work(), member, generation }) {
            GroupReply::Beat { generation, assignment, changed } => {
                let numbers = assignment.iter().map(|partition| partition.number).collect();
                (generation, numbers, changed)
            }
            other => panic!("{other:?}"),
        }
    }

    /// What a shell does for a poll: asks what may be handed out and reads it.
    pub(crate) fn found(&mut self, member: MemberId, max: usize) -> Vec<Found> {
        self.turn += 1;
        let candidates = self.state.candidates(&work(), member, max, self.now, self.turn);
        candidates
            .into_iter()
            .map(|candidate| {
                let partition = candidate.partition;
                let kept = self.state.partition(partition).map_or(0, |one| one.start);
                let damaged = self.damaged.filter(|(of, ..)| *of == partition);
                let damaged = damaged.map(|(_, from, behind)| (from, behind));
                let lost = |offset: u64| {
                    damaged.is_some_and(|(from, behind)| (from..behind).contains(&offset))
                };
                let fact = |offset: u64| {
                    let record = self.log.get(&(partition, offset))?;
                    (offset >= kept && !lost(offset)).then(|| Fact::of(record))
                };
                let waiting = candidate.waiting.iter().flat_map(|(first, last)| *first..=*last);
                let next = candidate.next.max(kept);
                let fresh = (next..next.saturating_add(candidate.count)).map_while(fact);
                let facts: Vec<Fact> = waiting.filter_map(fact).chain(fresh).collect();
                Found { partition, kept, facts, damaged }
            })
            .collect()
    }

    pub(crate) fn poll(&mut self, member: MemberId, max: usize) -> Vec<HandedOut> {
        for _ in 0..100 {
            let found = self.found(member, max);
            match self.group(polling(member, max, found, self.on_corrupt)) {
                GroupReply::Polled { again: true, .. } => {}
                GroupReply::Polled { batches, .. } => return batches,
                other => panic!("{other:?}"),
            }
        }
        panic!("a poll that never ends")
    }

    /// What a poll hands out: partition, offset and attempt of each.
    pub(crate) fn offsets(&mut self, member: MemberId, max: usize) -> Vec<(u32, u64, u32)> {
        let batches = self.poll(member, max);
        let one = |batch: &HandedOut| {
            let (number, attempt) = (batch.partition.number, batch.attempt);
            (batch.base..batch.base + batch.count).map(move |offset| (number, offset, attempt))
        };
        batches.iter().flat_map(one).collect()
    }

    pub(crate) fn read(&self, reads: &Reads) -> Vec<Body> {
        let offsets =
            reads.iter().flat_map(|(at, range)| range.clone().map(move |offset| (*at, offset)));
        offsets
            .map(|(partition, offset)| {
                let kept = self.state.partition(partition).map_or(0, |one| one.start);
                let record = self.log.get(&(partition, offset)).filter(|_| offset >= kept);
                Body { partition, offset, record: record.cloned() }
            })
            .collect()
    }

    /// Commits as a shell does: with what has to be read first.
    pub(crate) fn commit(&mut self, member: MemberId, results: Vec<Verdict>) -> Vec<Committed> {
        match self.commit_with(member, results, Vec::new()) {
            GroupReply::Committed { results, .. } => results,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn commit_with(
        &mut self,
        member: MemberId,
        results: Vec<Verdict>,
        produce: Vec<Produce>,
    ) -> GroupReply {
        let mut command = committing(member, results, produce);
        let reads = Streams::reads(&self.state, &Command::Group(command.clone()), self.now);
        if let GroupCommand::Commit { bodies, .. } = &mut command {
            *bodies = self.read(&reads);
        }
        self.group(command)
    }

    pub(crate) fn ok(&mut self, member: MemberId, from: u64, to: u64) -> Vec<CommitOutcome> {
        let verdict = self.verdict(0, from, to, VerdictStatus::Ok);
        self.commit(member, vec![verdict]).iter().map(|one| one.outcome).collect()
    }

    pub(crate) fn verdict(
        &self,
        number: u32,
        from: u64,
        to: u64,
        status: VerdictStatus,
    ) -> Verdict {
        let partition = self.at(number);
        Verdict { partition, from, to, status, error: None, lease: None, delay: None }
    }

    /// Looks after everything that is due, as a shell does.
    pub(crate) fn sweep(&mut self) -> (usize, u64, u64) {
        let (mut gone, mut returned, mut dead) = (0, 0, 0);
        for _ in 0..1_000 {
            let due: Due = self.state.due(&work(), self.now);
            if due.is_empty() {
                return (gone, returned, dead);
            }
            let command = |bodies| GroupCommand::Sweep {
                group: work(),
                due: due.clone(),
                bodies,
                bounds: BOUNDS,
            };
            let asked = Command::Group(command(Vec::new()));
            let bodies = self.read(&Streams::reads(&self.state, &asked, self.now));
            match self.group(command(bodies)) {
                GroupReply::Swept { gone: who, returned: back, dead: died, .. } => {
                    gone += who.len();
                    returned += back;
                    dead += died;
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("a sweep that never ends")
    }

    pub(crate) fn seek(&mut self, to: Vec<Spot>, preview: bool) -> GroupReply {
        self.group(GroupCommand::Seek { group: work(), to, preview })
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now.wall = self.now.wall + span;
        self.now.steady = self.now.steady + span;
    }

    pub(crate) fn position(&self, number: u32) -> &Position {
        let id = self.state.group(&work()).unwrap().id;
        self.state.position(id, self.at(number)).unwrap()
    }

    pub(crate) fn status(&self, offset: u64) -> MessageStatus {
        self.state.message_status(&work(), self.at(0), offset, self.now).unwrap()
    }

    pub(crate) fn view(&self) -> GroupView {
        self.state.group_view(&work(), &Sight::All, self.now).unwrap()
    }

    /// Messages of a topic, as they are stored.
    pub(crate) fn records(&self, topic: &str) -> Vec<Record> {
        let Some(topic) = self.state.topic(&name(topic)) else { return Vec::new() };
        let all = self.log.iter().filter(|((partition, _), _)| partition.topic == topic.id);
        all.map(|(_, record)| record.clone()).collect()
    }
}

pub(crate) fn name(text: &str) -> TopicName {
    text.parse().unwrap()
}

pub(crate) fn work() -> GroupName {
    "work".parse().unwrap()
}

pub(crate) fn joining() -> Join {
    Join {
        group: work(),
        topics: Vec::new(),
        client: "test".to_owned(),
        instance: None,
        session: SESSION,
        begin: Vec::new(),
    }
}

pub(crate) fn polling(
    member: MemberId,
    max_messages: usize,
    found: Vec<Found>,
    on_corrupt: OnCorrupt,
) -> GroupCommand {
    let max_bytes = 1 << 30;
    GroupCommand::Poll { group: work(), member, max_messages, max_bytes, found, on_corrupt }
}

pub(crate) fn committing(
    member: MemberId,
    results: Vec<Verdict>,
    produce: Vec<Produce>,
) -> GroupCommand {
    let (group, bodies, bounds) = (work(), Vec::new(), BOUNDS);
    GroupCommand::Commit { group, member, results, produce, bodies, bounds }
}

/// What is known between start and next, in a few letters: first offset, count, and what.
pub(crate) fn shape(position: &Position) -> Vec<(u64, u64, char)> {
    let one = |(first, range): (u64, &handoff_streams::groups::Range)| {
        let mark = match range.mark {
            Mark::Waiting { attempt: 0, .. } => 'f',
            Mark::Waiting { .. } => 'w',
            Mark::Leased { .. } => 'l',
            Mark::Done => 'd',
        };
        (first, range.last - first + 1, mark)
    };
    position.ranges().map(one).collect()
}

pub(crate) fn lease(number: u64) -> LeaseId {
    LeaseId(number)
}
