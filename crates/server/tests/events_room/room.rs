//! A room on a real directory, and hands on its clock.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use handoff_events::{Registration, Schedule, Selection};
use handoff_log::directory::{Directory, Lock};
use handoff_log::disk::Disk;
use handoff_log::journal::{Options, Threaded};
use handoff_log::segments::Segments;
use handoff_server::clock::{Clock, Hands};
use handoff_server::dice::Dice;
use handoff_server::rooms::RoomError;
use handoff_server::rooms::Work;
use handoff_server::rooms::events::{EventsRoom, Parts, Session, Told};
use handoff_server::runtime::{Checkpoints, Watermark};
use handoff_server::settings::Settings;
use handoff_server::telemetry::Metrics;
use handoff_store_embedded::{Loading, Loads, open_journal};
use handoff_types::{Entropy, Now, Sight, Span, Steady, Wall};
use tokio::time::timeout;

/// Whoever takes longer than this hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What the operator's clock shows at the beginning.
const NOON: Now = Now { wall: Wall(1_700_000_000_000_000), steady: Steady(5_000_000) };

/// A room that works.
pub(crate) struct Rented {
    pub(crate) room: EventsRoom,
    pub(crate) journal: Arc<Threaded>,
    work: Work,
    lock: Option<Lock>,
}

/// The clock of all rooms in a test.
pub(crate) fn clock() -> (Clock, Hands) {
    Clock::told(NOON)
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.log.limits.journal_file_bytes = 1 << 20;
    settings.log.limits.journal_bytes_max = 16 << 20;
    settings.log.limits.journal_reserve_bytes = 2 << 20;
    settings
}

impl Rented {
    /// Opens the room of a directory and waits until it has caught up.
    pub(crate) async fn open(path: &Path, clock: &Clock, settings: &Settings) -> Self {
        let (directory, lock) = Directory::open_locked(path, Entropy(7)).unwrap();
        let room = Self::open_in(directory, clock, settings).await;
        Self { lock: Some(lock), ..room }
    }

    /// Opens the room of a disk and waits until it has caught up.
    pub(crate) async fn open_on(disk: &Arc<dyn Disk>, clock: &Clock, settings: &Settings) -> Self {
        let directory = Directory::open(Arc::clone(disk), Entropy(7)).unwrap();
        Self::open_in(directory, clock, settings).await
    }

    async fn open_in(directory: Directory, clock: &Clock, settings: &Settings) -> Self {
        let mut loading = Loading::begin(&directory).unwrap();
        let (limits, entropy) = (settings.log.limits.clone(), Dice::new().unwrap().roll());
        let options = Options { limits, directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let segments = Segments::open(Arc::clone(&directory.disk), (&settings.log.limits).into());
        let journal = Arc::new(Threaded::start(opened).unwrap());
        let marks = loading.start();
        let (room, mut work) = EventsRoom::start(Parts {
            host: loading.into_host(Arc::clone(&journal) as _, Arc::new(segments.unwrap())),
            checkpoints: Checkpoints::new(directory, &settings.log).after(marks),
            clock: clock.clone(),
            dice: Dice::seeded(Entropy(7)),
            settings: settings.events.clone(),
            watermark: Watermark::new(Path::new("/"), Some(0)).unwrap(),
            metrics: Arc::new(Metrics::new("0")),
            topics: None,
        });
        timeout(PATIENCE, work.resumed()).await.unwrap();
        Self { room, journal, work, lock: None }
    }

    /// Stops the room and closes its journal.
    pub(crate) async fn close(self) {
        let Self { room, journal, work, lock } = self;
        timeout(PATIENCE, work.stop()).await.unwrap();
        drop(room);
        drop(Arc::into_inner(journal).expect("nobody has the journal any more"));
        drop(lock);
    }

    /// Registers an event.
    pub(crate) async fn register(&self, secs: u64, repeat: i32, name: &str) -> i32 {
        self.try_register(secs, repeat, name).await.unwrap()
    }

    pub(crate) async fn try_register(
        &self,
        secs: u64,
        repeat: i32,
        name: &str,
    ) -> Result<i32, RoomError> {
        let registration = Registration {
            description: "words".to_owned(),
            types: vec![name.to_owned()],
            schedule: Schedule::Every(Span::from_secs(secs).into()),
            repeat,
            publish: None,
        };
        let registered = self.room.register(registration, Sight::All).await?;
        Ok(i32::try_from(registered.id.number()).unwrap())
    }

    /// A session that is told of a type.
    pub(crate) async fn session(&self, name: &str) -> Session {
        let session = self.room.open_session(Sight::All).await.unwrap();
        session.subscribe(of_type(name)).await.unwrap();
        session
    }

    /// Waits until the room has looked at its clock, twice, so that what was due has been decided
    /// and what could be told has been.
    pub(crate) async fn look(&self) {
        for _ in 0..2 {
            self.room
                .list(Some(vec![]), Sight::All, handoff_events::Id::default(), 1)
                .await
                .unwrap();
        }
    }
}

pub(crate) fn of_type(name: &str) -> Selection {
    Selection { ids: Vec::new(), types: vec![name.to_owned()] }
}

/// The next occurrence a session is told of.
pub(crate) async fn next(session: &Session) -> Arc<Told> {
    timeout(PATIENCE, session.next()).await.unwrap().unwrap()
}

/// What a session has been told by now: the event and the number of the occurrence.
pub(crate) async fn told_by_now(session: &Session) -> Vec<(u32, u64)> {
    let mut told = Vec::new();
    let mut next = Box::pin(session.next());
    while let Ok(Some(one)) = timeout(Duration::ZERO, &mut next).await {
        told.push((one.notification.id.number(), one.notification.occurrence));
        next = Box::pin(session.next());
    }
    told
}
