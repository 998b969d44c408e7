//! The streams room on embedded storage.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::{Disk, Memory};
use handoff_log::journal::{Inline, Options, Purpose};
use handoff_log::segments::{Lane, Read, Segments};
use handoff_store_embedded::{Checkpointing, Host, Loading, Persist, Progress, open_journal};
use handoff_streams::groups::{Group, GroupId, GroupName, GroupSettings};
use handoff_streams::{
    Aggregate, Bounds, Command, Compression, Durability, Key, Message, PartitionId, Produce,
    ProducerId, Reply, State, Streams, Topic, TopicId, TopicName, TopicSettings, TopicSpec, batch,
    encode_aggregate,
};
use handoff_types::{Entropy, Limits, Now, Span, Steady, Wall};

const BOUNDS: Bounds = Bounds {
    message_bytes_max: 1 << 20,
    headers_max: 64,
    batch_messages_max: 10_000,
    topics_max: 100,
    partitions_max: 20_000,
    producers_max: 100,
    remembered_max: 16,
    missing_max: 64,
    producer_idle: Span::from_secs(3600),
    scheduled_max: 100,
    scheduled_bytes_max: 1 << 20,
    deliver_ahead_max: Span::from_secs(3600),
};

struct Server {
    directory: Directory,
    journal: Arc<Inline>,
    host: Host<Streams>,
    time: i64,
}

impl Server {
    fn open(disk: Arc<dyn Disk>) -> Self {
        let entropy = Entropy(7);
        let limits = Limits { journal_file_bytes: 4 << 20, ..Limits::default() };
        let directory = Directory::open(disk, entropy).unwrap();
        let mut loading = Loading::<Streams>::begin(&directory).unwrap();
        let options = Options { limits: limits.clone(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().unwrap();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        Self { directory, journal, host, time: 1_700_000_000_000_000 }
    }

    fn apply(&mut self, command: &Command, bytes: u64) -> Reply {
        self.time += 1_000_000;
        let now = Now { wall: Wall(self.time), steady: Steady::default() };
        let chance = (now, Entropy(u128::from(self.time.unsigned_abs())));
        let applied = self.host.apply_made(command, bytes, Purpose::Accept, chance).unwrap();
        self.journal.commit().unwrap();
        assert!(applied.ticket.outcome().is_some_and(|outcome| outcome.is_ok()));
        applied.reply
    }

    fn create(&mut self, name: &str, partitions: u32) -> Reply {
        let settings = TopicSettings {
            retention: None,
            retention_bytes: None,
            durability: Durability::Fsync,
            compression: Compression::None,
        };
        let topic = TopicSpec { name: name.parse().unwrap(), partitions, settings };
        let bytes = u64::from(partitions) * 64;
        self.apply(&Command::CreateTopic { topic, bounds: BOUNDS }, bytes)
    }

    fn produce(&mut self, name: &str, producer: Option<(ProducerId, u64)>, words: &[&str]) {
        let message = |(at, word): (usize, &&str)| Message {
            payload: Bytes::copy_from_slice(word.as_bytes()),
            partition: u32::try_from(at % 2).ok(),
            ..Message::default()
        };
        let messages = words.iter().enumerate().map(message).collect();
        let produce = Produce { topic: topic(name), producer, messages };
        let reply = self.apply(&Command::Produce { produce, bounds: BOUNDS }, 4096);
        assert!(matches!(reply, Reply::Produced { .. }), "{reply:?}");
    }

    fn checkpoint(&mut self, chunk_bytes: usize) {
        let mut checkpoint = Checkpointing::begin::<Streams>(&self.directory, chunk_bytes).unwrap();
        while checkpoint.step(&mut self.host, Now::default()).unwrap() != Progress::Done {}
    }

    /// The payloads of a partition.
    fn payloads(&self, name: &str, number: u32) -> Vec<Bytes> {
        let topic = self.host.state().topic(&topic(name)).unwrap();
        let partition = PartitionId { topic: topic.id, number };
        let end = self.host.state().partition(partition).unwrap().end;
        let reader = self.host.reader();
        let (mut at, mut payloads) = (0, Vec::new());
        while at < end {
            let read = reader.read_below(Lane(partition.lane()), at, end, 100).unwrap();
            let Read::Frames(frames) = read else { panic!("{read:?}") };
            for frame in frames {
                let head = batch::head(&frame.body).unwrap();
                assert_eq!((head.base, head.count), (frame.base, frame.count));
                assert_eq!(head.last, frame.max_timestamp);
                let records = batch::records(&frame.body, 1 << 20).unwrap();
                payloads.extend(records.into_iter().filter_map(|record| record.payload));
                at = frame.end();
            }
        }
        payloads
    }
}

fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

#[test]
fn what_was_produced_is_read_back_before_and_after_a_checkpoint_and_a_restart() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.create("orders", 2);
    server.produce("orders", None, &["a", "b", "c"]);
    server.produce("orders", Some((ProducerId(9), 0)), &["d", "e"]);
    let check = |server: &Server, more: bool| {
        let first = ["a", "c", "d", "f"];
        assert_eq!(server.payloads("orders", 0), first[..3 + usize::from(more)]);
        assert_eq!(server.payloads("orders", 1), ["b", "e"]);
    };
    check(&server, false);
    check(&Server::open(Arc::new(disk.fork())), false);
    server.checkpoint(1);
    check(&server, false);
    check(&Server::open(Arc::new(disk.fork())), false);
    server.produce("orders", Some((ProducerId(9), 2)), &["f"]);
    check(&server, true);
    let again = Server::open(Arc::new(disk));
    check(&again, true);
    assert_eq!(again.host.state(), server.host.state());
}

#[test]
fn a_checkpoint_holds_the_whole_state_whatever_the_size_of_its_chunks() {
    for chunk_bytes in [1, 100, 1 << 20] {
        let disk = Memory::new();
        let mut server = Server::open(Arc::new(disk.clone()));
        for name in ["a", "b", "c"] {
            server.create(name, 5);
            let producer = ProducerId(u128::from(name.as_bytes()[0]));
            server.produce(name, Some((producer, 0)), &["x", "y"]);
        }
        let later = Message {
            deliver_at: Some(Wall(server.time + 60_000_000)),
            payload: "later".into(),
            ..Message::default()
        };
        let produce = Produce { topic: topic("a"), producer: None, messages: vec![later] };
        server.apply(&Command::Produce { produce, bounds: BOUNDS }, 4096);
        server.apply(&Command::DeleteTopic { name: topic("b") }, 4096);
        server.checkpoint(chunk_bytes);
        let again = Server::open(Arc::new(disk.clone()));
        assert_eq!(again.host.state(), server.host.state(), "chunks of {chunk_bytes}");
        assert_eq!(again.host.state().counts().scheduled, 1);
    }
}

/// Which of them a number meant then depended on the order they stood in.
#[test]
fn a_chunk_in_which_two_topics_have_one_number_is_refused() {
    let made = |name: &str, id| {
        let settings = TopicSettings {
            retention: None,
            retention_bytes: None,
            durability: Durability::Fsync,
            compression: Compression::None,
        };
        let created = Wall::default();
        Topic { id: TopicId(id), name: topic(name), partitions: 1, settings, created }
    };
    let restored = |topics: &[Topic]| {
        let mut chunk = Vec::new();
        for topic in topics {
            let key = Key::Topic(topic.name.clone());
            encode_aggregate(&key, &Aggregate::Topic(topic.clone()), &mut chunk);
        }
        <Streams as Persist>::restore(&mut State::default(), &chunk)
    };
    assert_eq!(restored(&[made("a", 3), made("b", 4), made("a", 3)]), Ok(()));
    let refused = restored(&[made("b", 3), made("a", 3)]).unwrap_err();
    assert_eq!(refused.to_string(), "two topics have the number 3");
}

#[test]
fn a_chunk_in_which_two_groups_have_one_number_is_refused() {
    let made = |name: &str, id| {
        let name: GroupName = name.parse().unwrap();
        let settings = GroupSettings::of(&name, Vec::new());
        Group { id: GroupId(id), name, settings, created: Wall::default() }
    };
    let restored = |groups: &[Group]| {
        let mut chunk = Vec::new();
        for group in groups {
            let key = Key::Group(group.name.clone());
            encode_aggregate(&key, &Aggregate::Group(Box::new(group.clone())), &mut chunk);
        }
        <Streams as Persist>::restore(&mut State::default(), &chunk)
    };
    assert_eq!(restored(&[made("a", 3), made("b", 4), made("a", 3)]), Ok(()));
    let refused = restored(&[made("b", 3), made("a", 3)]).unwrap_err();
    assert_eq!(refused.to_string(), "two groups have the number 0000000000000003");
}

/// Ten thousand partitions make one change of some hundred KiB, and it is admitted as such.
#[test]
fn a_topic_of_ten_thousand_partitions_is_made_and_comes_back() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    assert!(matches!(server.create("wide", 10_000), Reply::Created(_)));
    server.produce("wide", None, &["a", "b"]);
    server.checkpoint(64 << 10);
    let again = Server::open(Arc::new(disk));
    assert_eq!(again.host.state(), server.host.state());
    assert_eq!(again.host.state().counts().partitions, 10_000);
    assert_eq!(again.payloads("wide", 1), ["b"]);
}

#[test]
fn a_deleted_topic_leaves_no_lane_behind_also_when_the_journal_brings_its_messages_back() {
    let disk = Memory::new();
    let mut server = Server::open(Arc::new(disk.clone()));
    server.create("gone", 2);
    server.create("kept", 2);
    server.produce("gone", None, &["a", "b"]);
    server.produce("kept", None, &["c", "d"]);
    server.apply(&Command::DeleteTopic { name: topic("gone") }, 4096);
    let mut again = Server::open(Arc::new(disk));
    again.host.bulk().copy(usize::MAX).unwrap();
    again.host.bulk().sync().unwrap();
    assert_eq!(again.host.lanes().on_disk().unwrap().len(), 2);
    assert_eq!(again.host.strays().unwrap(), []);
    assert_eq!(again.payloads("kept", 0), ["c"]);
}
