use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::{Call, Calls, Disk, Faulty, Memory};
use handoff_log::journal::{Inline, Options, Purpose};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Host, Loading, open_journal};
use handoff_streams::{
    Bounds, Command, Compression, Durability, Message, Produce, Streams, TopicSettings, TopicSpec,
};
use handoff_types::{Entropy, Limits, Now, Sequence, Span};

use super::*;

const BOUNDS: Bounds = Bounds {
    message_bytes_max: 1 << 20,
    headers_max: 1,
    batch_messages_max: 10,
    topics_max: 10,
    partitions_max: 10,
    producers_max: 1,
    remembered_max: 1,
    missing_max: 1,
    producer_idle: Span::ZERO,
    scheduled_max: 1,
    scheduled_bytes_max: 1,
    deliver_ahead_max: Span::ZERO,
};

struct Bench {
    journal: Arc<Inline>,
    host: Host<Streams>,
}

impl Bench {
    fn new(disk: Arc<dyn Disk>) -> Self {
        let directory = Directory::open(disk, Entropy(7)).unwrap();
        let limits = Limits { journal_file_bytes: 4 << 20, ..Limits::default() };
        let mut loading = Loading::<Streams>::begin(&directory).unwrap();
        let options =
            Options { limits: limits.clone(), directory: directory.id, entropy: Entropy(7) };
        let (opened, ..) = open_journal(&directory, options, &mut [&mut loading]).unwrap();
        let journal = Arc::new(Inline::start(opened));
        let segments = Segments::open(directory.disk, (&limits).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        let mut bench = Self { journal, host };
        let settings = TopicSettings {
            retention: None,
            retention_bytes: None,
            durability: Durability::Fsync,
            compression: Compression::None,
        };
        let topic = TopicSpec { name: "t".parse().unwrap(), partitions: 1, settings };
        bench.apply(&Command::CreateTopic { topic, bounds: BOUNDS });
        bench
    }

    fn apply(&mut self, command: &Command) -> Sequence {
        let when = (Now::default(), Entropy(1));
        let applied = self.host.apply_made(command, 4096, Purpose::Accept, when).unwrap();
        self.journal.commit().unwrap();
        applied.ticket.wait().unwrap().sequence
    }

    fn produce(&mut self) -> Sequence {
        let message = Message { payload: Bytes::from_static(b"hello"), ..Message::default() };
        let topic = "t".parse().unwrap();
        let produce = Produce { topic, producer: None, messages: vec![message] };
        self.apply(&Command::Produce { produce, bounds: BOUNDS })
    }

    fn start(&mut self) -> MoverThread {
        MoverThread::start(Room::Streams, self.host.bulk().take_moving().unwrap()).unwrap()
    }

    /// Asks as a checkpoint does, until segments have it.
    fn wait_for(&mut self, through: Sequence) {
        while !self.host.bulk().want(through).unwrap() {
            thread::yield_now();
        }
    }
}

#[test]
fn what_a_checkpoint_waits_for_is_moved_and_synced_by_the_thread() {
    let mut bench = Bench::new(Arc::new(Memory::new()));
    let mover = bench.start();
    for _ in 0..20 {
        let through = bench.produce();
        bench.wait_for(through);
    }
    drop(mover);
}

#[test]
fn a_failed_sync_costs_a_pause_and_the_thread_goes_on() {
    let (disk, faults) = Faulty::new(Arc::new(Memory::new()));
    let mut bench = Bench::new(Arc::new(disk));
    let mover = bench.start();
    for call in [Call::SyncAll, Call::Write, Call::Read] {
        let through = bench.produce();
        faults.fail_nth(Calls::Only(call), 1);
        bench.wait_for(through);
    }
    drop(mover);
}

/// A server that cannot end is killed, and starts more slowly for it.
#[test]
fn the_thread_ends_whether_or_not_there_is_something_to_move() {
    let mut bench = Bench::new(Arc::new(Memory::new()));
    drop(bench.start());
    let mut bench = Bench::new(Arc::new(Memory::new()));
    let mover = bench.start();
    bench.produce();
    drop(mover);
}
