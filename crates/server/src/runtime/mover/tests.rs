use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::{Call, Calls, Counting, Disk, Faulty, File, Memory, Open, Walk};
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
    batch_messages_max: 10_000,
    topics_max: 10,
    partitions_max: 10_000,
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
        Self::with_partitions(disk, 1)
    }

    fn with_partitions(disk: Arc<dyn Disk>, partitions: u32) -> Self {
        let mut bench = Self::reopen(disk);
        let settings = TopicSettings {
            retention: None,
            retention_bytes: None,
            durability: Durability::Fsync,
            compression: Compression::None,
        };
        let topic = TopicSpec { name: "t".parse().unwrap(), partitions, settings };
        bench.apply(&Command::CreateTopic { topic, bounds: BOUNDS });
        bench
    }

    fn reopen(disk: Arc<dyn Disk>) -> Self {
        let directory = Directory::open(disk, Entropy(7)).unwrap();
        let limits = Limits { journal_file_bytes: 4 << 20, ..Limits::default() };
        let mut loading = Loading::<Streams>::begin(&directory).unwrap();
        let options =
            Options { limits: limits.clone(), directory: directory.id, entropy: Entropy(7) };
        let (opened, ..) = open_journal(&directory, options, &mut [&mut loading]).unwrap();
        let journal = Arc::new(Inline::start(opened));
        let segments = Segments::open(directory.disk, (&limits).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        Self { journal, host }
    }

    fn apply(&mut self, command: &Command) -> Sequence {
        let when = (Now::default(), Entropy(1));
        let applied = self.host.apply_made(command, 1 << 20, Purpose::Accept, when).unwrap();
        self.journal.commit().unwrap();
        applied.ticket.wait().unwrap().sequence
    }

    fn produce(&mut self) -> Sequence {
        self.produce_to(0..1)
    }

    /// One message for each of these partitions.
    fn produce_to(&mut self, partitions: std::ops::Range<u32>) -> Sequence {
        let payload = Bytes::from_static(b"hello");
        let to = |number| Message {
            payload: payload.clone(),
            partition: Some(number),
            ..Message::default()
        };
        let topic = "t".parse().unwrap();
        let produce = Produce { topic, producer: None, messages: partitions.map(to).collect() };
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

/// Whatever floods there are, the journal must be able to forget.
#[test]
fn what_a_checkpoint_waits_for_is_moved_however_patient_the_thread_is() {
    let mut bench = Bench::new(Arc::new(Memory::new()));
    let moving = bench.host.bulk().take_moving().unwrap();
    moving.be_patient(u64::MAX);
    let mover = MoverThread::start(Room::Streams, moving).unwrap();
    let through = bench.produce();
    bench.wait_for(through);
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

/// With 10,000 partitions under load a copy of what there was took longer than a server has to
/// stop: it opened a file for each, and looked at the bell only when all were done.
#[test]
fn the_thread_ends_between_two_lanes_however_many_are_left() {
    const LANES: u32 = 10_000;
    let memory = Memory::new();
    let (gated, gate) = Gated::over(Arc::new(memory.clone()));
    let counting = Counting::new(Arc::new(gated));
    let mut bench = Bench::with_partitions(Arc::new(counting.clone()), LANES);
    let through = bench.produce_to(0..LANES);
    let mover = bench.start();

    gate.reached.recv().unwrap();
    let syncs = counting.counts().sync_alls;
    mover.tell();
    gate.open.send(()).unwrap();
    drop(mover);

    let lanes = memory.list("segments").unwrap().len();
    assert_eq!(lanes, 1, "the lane it was at, and no other");
    assert_eq!(counting.counts().sync_alls, syncs, "nobody waits for a sync that nobody needs");
    assert!(!bench.host.bulk().has(through), "the journal is still needed for all of it");

    drop(bench);
    let mut again = Bench::reopen(Arc::new(memory.clone()));
    let mover = again.start();
    again.wait_for(through);
    drop(mover);
    assert_eq!(memory.list("segments").unwrap().len(), LANES as usize);
}

/// Deleting a topic leaves as many lanes to be removed as it had partitions.
#[test]
fn the_thread_ends_between_two_removals_however_many_are_left() {
    const LANES: u32 = 1_000;
    let memory = Memory::new();
    let (gated, gate) = Gated::over(Arc::new(memory.clone()));
    let mut bench = Bench::with_partitions(Arc::new(gated), LANES);
    let through = bench.produce_to(0..LANES);
    let mover = bench.start();
    gate.reached.recv().unwrap();
    gate.open.send(()).unwrap();
    bench.wait_for(through);
    let held = |memory: &Memory| {
        let lanes = memory.list("segments").unwrap();
        lanes
            .iter()
            .filter(|lane| !memory.list(&format!("segments/{lane}")).unwrap().is_empty())
            .count()
    };
    assert_eq!(held(&memory), LANES as usize);

    let lanes = bench.host.lanes();
    let all = lanes.on_disk().unwrap();
    lanes.remove(&all);
    gate.removing.recv().unwrap();
    mover.tell();
    gate.open.send(()).unwrap();
    drop(mover);
    assert_eq!(held(&memory), LANES as usize - 1);
}

/// A disk that stops once when the first lane is made, and once when the first is removed.
#[derive(Debug)]
struct Gated {
    inner: Arc<dyn Disk>,
    makes: Mutex<Option<SyncSender<()>>>,
    removes: Mutex<Option<SyncSender<()>>>,
    opened: Mutex<Receiver<()>>,
}

/// The other side of it: tells when it stops, and lets it go on.
struct Keeper {
    reached: Receiver<()>,
    removing: Receiver<()>,
    open: SyncSender<()>,
}

impl Gated {
    fn over(inner: Arc<dyn Disk>) -> (Self, Keeper) {
        let ((makes, reached), (removes, removing)) = (sync_channel(1), sync_channel(1));
        let (open, opened) = sync_channel(1);
        let gated = Self {
            inner,
            makes: Mutex::new(Some(makes)),
            removes: Mutex::new(Some(removes)),
            opened: Mutex::new(opened),
        };
        (gated, Keeper { reached, removing, open })
    }

    fn stop_once(&self, at: &Mutex<Option<SyncSender<()>>>, path: &str) {
        let tell = if path.starts_with("segments/") { at.lock().unwrap().take() } else { None };
        if let Some(tell) = tell {
            tell.send(()).unwrap();
            self.opened.lock().unwrap().recv().unwrap();
        }
    }
}

impl Disk for Gated {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        self.inner.open(path, how)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.inner.walk(dir)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename_new(from, to)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.remove_dir(dir)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.stop_once(&self.makes, dir);
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.stop_once(&self.removes, path);
        self.inner.remove(path)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.sync_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.inner.sync_all()
    }
}
