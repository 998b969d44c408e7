//! A house on a disk in memory whose journal commits when a test says so.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use handoff_house::House;
use handoff_log::directory::Directory;
use handoff_log::disk::Memory;
use handoff_log::journal::{
    BodyAt, Entry, Inline, Journal, Options, Permit, Purpose, ReadError, Refused, Ticket,
};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Loading, open_journal};
use handoff_types::{Entropy, Limits, Now, Position, Room, Sequence, Steady, Wall};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::HouseRoom;
use crate::clock::{Clock, Hands};
use crate::dice::Dice;
use crate::runtime::checkpoints::Checkpoints;
use crate::settings;

/// When the clock of a bench begins.
pub(crate) const BEGIN: Now = Now { wall: Wall(1_000_000_000), steady: Steady(0) };

pub(crate) struct Bench {
    pub(crate) room: HouseRoom,
    pub(crate) task: JoinHandle<()>,
    pub(crate) stop: CancellationToken,
    pub(crate) hands: Hands,
    pub(crate) journal: Arc<Watched>,
}

impl Bench {
    /// A house whose journal commits by itself.
    pub(crate) fn committing(disk: &Memory) -> Self {
        Self::open(disk, true)
    }

    /// A house whose journal commits when it is told.
    pub(crate) fn held(disk: &Memory) -> Self {
        Self::open(disk, false)
    }

    fn open(disk: &Memory, at_once: bool) -> Self {
        let limits = Limits {
            journal_file_bytes: 256 << 10,
            journal_bytes_max: 4 << 20,
            journal_reserve_bytes: 64 << 10,
            ..Limits::default()
        };
        let entropy = Entropy(7);
        let directory = Directory::open(Arc::new(disk.clone()), entropy).unwrap();
        let mut loading = Loading::<House>::begin(&directory).unwrap();
        let options = Options { limits: limits.clone(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let inline = Inline::start(opened);
        inline.commit().unwrap();
        let journal = Arc::new(Watched::over(inline, at_once));
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits).into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        let (clock, hands) = Clock::told(BEGIN);
        let stop = CancellationToken::new();
        let checkpoints = Checkpoints::new(directory, &settings::Log::default());
        let dice = Dice::seeded(Entropy(1));
        let (room, task) = HouseRoom::start(host, clock, dice, checkpoints, stop.clone());
        Self { room, task, stop, hands, journal }
    }

    /// Stops the house and waits until it is gone.
    pub(crate) async fn close(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// A journal that says how much was appended, commits when it is told, and can be made to stop.
#[derive(Debug)]
pub(crate) struct Watched {
    inline: Mutex<Option<Arc<Inline>>>,
    at_once: bool,
    appended: watch::Sender<usize>,
}

impl Watched {
    fn over(inline: Inline, at_once: bool) -> Self {
        let inline = Mutex::new(Some(Arc::new(inline)));
        Self { inline, at_once, appended: watch::Sender::new(0) }
    }

    /// Waits until so many entries were appended.
    pub(crate) async fn appended(&self, count: usize) {
        self.appended.subscribe().wait_for(|appended| *appended >= count).await.unwrap();
    }

    /// How many entries were appended.
    pub(crate) fn count(&self) -> usize {
        *self.appended.borrow()
    }

    pub(crate) fn commit(&self) {
        self.inner().commit().unwrap();
    }

    /// The journal stops: what was not durable is lost.
    pub(crate) fn stop(&self) {
        self.inline.lock().unwrap().take();
    }

    fn inner(&self) -> Arc<Inline> {
        self.inline.lock().unwrap().clone().expect("the journal runs")
    }
}

impl Journal for Watched {
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused> {
        match &*self.inline.lock().unwrap() {
            Some(inline) => inline.admit(room, bytes, purpose),
            None => Err(Refused::Closed),
        }
    }

    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        let inline = self.inner();
        let appended = inline.append(permit, entry);
        if self.at_once {
            inline.commit().unwrap();
        }
        self.appended.send_modify(|count| *count += 1);
        appended
    }

    fn barrier(&self, room: Room) -> Ticket {
        self.inner().barrier(room)
    }

    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        self.inner().body(at)
    }

    fn trim(&self, room: Room, below: Position) {
        self.inner().trim(room, below);
    }

    fn durable(&self) -> Position {
        self.inline.lock().unwrap().as_ref().map_or(Position::START, |inline| inline.durable())
    }
}
