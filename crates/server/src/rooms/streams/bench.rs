//! A streams room on a disk in memory, whose ring is full when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::{Disk, Memory};
use handoff_log::journal::{
    BodyAt, Entry, Inline, Journal, Options, Permit, Purpose, ReadError, Refused, Ticket,
};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Loading, open_journal};
use handoff_streams::Streams;
use handoff_types::{Entropy, Limits, Now, Position, Room, Sequence, Steady, Wall};
use tokio::sync::watch;

use super::{Parts, StreamsRoom};
use crate::clock::Clock;
use crate::dice::Dice;
use crate::rooms::Work;
use crate::runtime::{Checkpoints, Watermark};
use crate::settings;

/// What time it is. It stays so: what is due is never delivered.
pub(super) const NOW: Now = Now { wall: Wall(1_000_000_000), steady: Steady(0) };

pub(super) struct Bench {
    pub(super) room: StreamsRoom,
    pub(super) work: Work,
    pub(super) journal: Arc<Tight>,
}

impl Bench {
    pub(super) async fn start() -> Self {
        let mut bench = Self::open(Arc::new(Memory::new()));
        bench.journal.go_on();
        bench.work.resumed().await;
        bench
    }

    /// A room that is not at work yet: nothing has become durable since the disk was opened.
    pub(super) fn open(disk: Arc<dyn Disk>) -> Self {
        let limits = Limits { journal_file_bytes: 4 << 20, ..Limits::default() };
        let entropy = Entropy(7);
        let directory = Directory::open(disk, entropy).unwrap();
        let mut loading = Loading::<Streams>::begin(&directory).unwrap();
        let options = Options { limits: limits.clone(), directory: directory.id, entropy };
        let (opened, ..) = open_journal(&directory, options, &mut [&mut loading]).unwrap();
        let journal = Arc::new(Tight::over(Inline::start(opened)));
        journal.pause();
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        let (room, work) = StreamsRoom::start(Parts {
            host,
            checkpoints: Checkpoints::new(directory, &settings::Log::default()),
            clock: Clock::told(NOW).0,
            dice: Dice::seeded(Entropy(1)),
            settings: settings::Streams::default(),
            watermark: Watermark::new(&std::env::temp_dir(), Some(0)).unwrap(),
        })
        .unwrap();
        Self { room, work, journal }
    }
}

/// A journal that commits by itself unless it is paused, and has no space for anything new while it
/// is full.
#[derive(Debug)]
pub(super) struct Tight {
    inline: Inline,
    full: AtomicBool,
    paused: AtomicBool,
    /// How often something was appended.
    appended: watch::Sender<usize>,
    /// How often it said so.
    refused: watch::Sender<usize>,
}

impl Tight {
    fn over(inline: Inline) -> Self {
        Self {
            inline,
            full: AtomicBool::new(false),
            paused: AtomicBool::new(false),
            appended: watch::Sender::new(0),
            refused: watch::Sender::new(0),
        }
    }

    /// Nothing becomes durable any more.
    pub(super) fn pause(&self) {
        self.paused.store(true, Ordering::Release);
        self.appended.send_replace(0);
    }

    /// Waits until so much was appended since the pause.
    pub(super) async fn has_appended(&self, count: usize) {
        let mut appended = self.appended.subscribe();
        appended.wait_for(|&so_far| so_far >= count).await.unwrap();
    }

    /// Everything becomes durable again, and at once.
    pub(super) fn go_on(&self) {
        self.paused.store(false, Ordering::Release);
        self.inline.commit().unwrap();
    }

    pub(super) fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::Release);
    }

    /// Waits until it has refused something once more.
    pub(super) async fn refuses(&self) {
        let mut refused = self.refused.subscribe();
        refused.mark_unchanged();
        refused.changed().await.unwrap();
    }
}

impl Journal for Tight {
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused> {
        if purpose == Purpose::Accept && self.full.load(Ordering::Acquire) {
            self.refused.send_modify(|count| *count += 1);
            return Err(Refused::Full { free: 0, reserve: 1 });
        }
        self.inline.admit(room, bytes, purpose)
    }

    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        let appended = self.inline.append(permit, entry);
        if !self.paused.load(Ordering::Acquire) {
            self.inline.commit().unwrap();
        }
        self.appended.send_modify(|count| *count += 1);
        appended
    }

    fn barrier(&self, room: Room) -> Ticket {
        self.inline.barrier(room)
    }

    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        self.inline.body(at)
    }

    fn trim(&self, room: Room, below: Position) {
        self.inline.trim(room, below);
    }

    fn durable(&self) -> Position {
        self.inline.durable()
    }
}
