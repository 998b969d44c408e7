//! From a data directory to rooms that can be put to work.
//!
//! * A room whose records are damaged or not understood stays closed and says why; the others run.
//! * A room that is switched off is not loaded. Its records stay where they are, and the journal
//!   does not count them against its size.
//! * Only an unreadable directory or journal keeps a server from starting; or a house that cannot
//!   be read when tokens are asked for.

use std::sync::Arc;

use handoff_calls::Calls;
use handoff_events::Events;
use handoff_exchange::Exchange;
use handoff_house::House;
use handoff_log::checkpoint;
use handoff_log::directory::{Directory, Lock};
use handoff_log::journal::{Journal, Opened, Options, Report, Threaded};
use handoff_log::segments::{self, Segments};
use handoff_store_embedded::folders::{self, Folders, check_paths};
use handoff_store_embedded::{Host, LoadError, Loading, Loads, Persist, open_journal};
use handoff_streams::Streams;
use handoff_types::{Now, Room};

use super::start_error::{StartError, absolute};
use super::{Checkpoints, RoomStatus};
use crate::clock::Clock;
use crate::dice::{self, Dice};
use crate::settings::Settings;

/// An open data directory and its rooms.
#[derive(Debug)]
pub struct Foundation {
    /// The journal. Drop everything else that holds it first: its own drop leaves the mark of a
    /// clean end.
    pub journal: Arc<Threaded>,
    /// What time it is, going on where the journal stopped.
    pub clock: Clock,
    /// Chance.
    pub dice: Dice,
    /// Tokens and acts.
    pub house: Found<House>,
    /// Events.
    pub events: Found<Events>,
    /// Topics.
    pub streams: Found<Streams>,
    /// Devices and databases.
    pub exchange: Found<Exchange>,
    /// Calls.
    pub calls: Found<Calls>,
    /// The files of their messages, if that room is open.
    pub folders: Option<Folders>,
    /// What recovery found.
    pub report: Report,
    /// Dropped last: until then no other process opens the directory.
    pub lock: Lock,
}

/// A room, or why there is none.
#[derive(Debug)]
pub enum Found<M: Persist> {
    /// It can be put to work.
    Open(Box<Furnished<M>>),
    /// It was not loaded.
    Off,
    /// It cannot be, and why.
    Closed(String),
}

/// A room on its storage.
#[derive(Debug)]
pub struct Furnished<M: Persist> {
    /// The room.
    pub host: Host<M>,
    /// Its checkpoints.
    pub checkpoints: Checkpoints<M>,
}

impl<M: Persist> Found<M> {
    /// How the room is, for the board.
    #[must_use]
    pub fn status(&self) -> RoomStatus {
        match self {
            Self::Open(_) => RoomStatus::Open,
            Self::Off => RoomStatus::Off,
            Self::Closed(why) => RoomStatus::Closed(why.clone()),
        }
    }
}

impl Foundation {
    /// Opens and locks the data directory, makes it if it is not there, and reads its rooms. Blocks
    /// for as long as that takes.
    ///
    /// # Errors
    /// [`StartError`]
    pub fn open(settings: &Settings) -> Result<Self, StartError> {
        let data_dir = absolute(&settings.server.data_dir);
        let (directory, lock) = Directory::open_locked(&data_dir, dice::fresh()?)
            .map_err(|error| StartError::directory(&data_dir, error))?;
        let ReadBack { opened, report, house, events, streams, exchange, calls, clock } =
            read(&directory, settings)?;
        if settings.auth.enabled
            && let Read::Closed(why) = &house
        {
            return Err(StartError::House { why: why.clone() });
        }
        let segments = segments::Options::from(&settings.log.limits);
        let segments = Arc::new(Segments::open(Arc::clone(&directory.disk), segments)?);
        let clock = Clock::resume(clock);
        let journal = Threaded::start(opened)
            .map_err(|fault| StartError::System { what: "a thread", fault })?;
        let journal = Arc::new(journal);
        let furnish = Furnish { directory, settings, journal: Arc::clone(&journal) as _, segments };
        let (exchange, folders) = furnish.exchange(exchange);
        Ok(Self {
            journal,
            clock,
            dice: Dice::new()?,
            house: furnish.room(house),
            events: furnish.room(events),
            streams: furnish.room(streams),
            exchange,
            calls: furnish.room(calls),
            folders,
            report,
            lock,
        })
    }
}

struct Furnish<'a> {
    directory: Directory,
    settings: &'a Settings,
    journal: Arc<dyn Journal>,
    segments: Arc<Segments>,
}

impl Furnish<'_> {
    fn room<M: Persist>(&self, read: Read<M>) -> Found<M>
    where
        M::State: Default,
    {
        match read {
            Read::Off => Found::Off,
            Read::Closed(why) => Found::Closed(why),
            Read::Loaded(loading) => {
                let checkpoints = Checkpoints::new(self.directory.clone(), &self.settings.log);
                let checkpoints = checkpoints.after(loading.start());
                let (journal, segments) = (Arc::clone(&self.journal), Arc::clone(&self.segments));
                let host = loading.into_host(journal, segments);
                Found::Open(Box::new(Furnished { host, checkpoints }))
            }
        }
    }
}

impl Furnish<'_> {
    /// The exchange, whose bodies go into files of their own.
    fn exchange(&self, read: Read<Exchange>) -> (Found<Exchange>, Option<Folders>) {
        let loading = match read {
            Read::Off => return (Found::Off, None),
            Read::Closed(why) => return (Found::Closed(why), None),
            Read::Loaded(loading) => loading,
        };
        let checkpoints = Checkpoints::new(self.directory.clone(), &self.settings.log);
        let checkpoints = checkpoints.after(loading.start());
        let (journal, segments) = (Arc::clone(&self.journal), Arc::clone(&self.segments));
        let (host, filing) = loading.into_filing_host(journal, segments);
        // A file that somebody puts in has the fields of a message besides its payload.
        let take_in_bytes_max = self.settings.exchange.message_bytes_max as u64 + 4096;
        let options = folders::Options { take_in_bytes_max };
        let folders = Folders::new(Arc::clone(&self.directory.disk), filing, options);
        (Found::Open(Box::new(Furnished { host, checkpoints })), Some(folders))
    }
}

/// A directory that has been read.
struct ReadBack {
    opened: Opened,
    report: Report,
    house: Read<House>,
    events: Read<Events>,
    streams: Read<Streams>,
    exchange: Read<Exchange>,
    calls: Read<Calls>,
    /// The latest time the directory knows of.
    clock: Option<Now>,
}

/// A room that has been read.
enum Read<M: Persist> {
    Loaded(Box<Loading<M>>),
    Off,
    Closed(String),
}

impl<M: Persist> Read<M>
where
    M::State: Default,
{
    /// Begins with the room's checkpoint, unless it is closed already.
    fn begin(directory: &Directory, closed: &[(Room, String)]) -> Self {
        if let Some((_, why)) = closed.iter().find(|(room, _)| *room == M::ROOM) {
            return Self::Closed(why.clone());
        }
        match Loading::begin(directory) {
            Ok(loading) => Self::Loaded(Box::new(loading)),
            Err(error) => Self::Closed(error.to_string()),
        }
    }

    fn loads(&mut self) -> Option<&mut dyn Loads> {
        match self {
            Self::Loaded(loading) => Some(&mut **loading),
            Self::Off | Self::Closed(_) => None,
        }
    }

    /// Closes the room if the journal lost records of it.
    fn or_closed_by(self, report: &Report) -> Self {
        match report.closed.iter().find(|(room, _)| *room == M::ROOM) {
            Some((room, at)) => Self::Closed(format!(
                "the disk damaged records of {room} at position {at}; `handoff doctor --repair` sets the damaged range aside and opens the room"
            )),
            None => self,
        }
    }

    /// The latest time its checkpoint knows of, also if it was not loaded.
    fn clock(&self, directory: &Directory) -> Option<Now> {
        match self {
            Self::Loaded(loading) => loading.clock(),
            Self::Off | Self::Closed(_) => {
                let found = checkpoint::latest(&*directory.disk, M::ROOM, directory.id);
                Some(found.ok()??.now())
            }
        }
    }
}

/// Reads the rooms. Those that do not understand a record are left out and the rest is read again:
/// a room that was read but does not live would keep the journal from forgetting.
fn read(directory: &Directory, settings: &Settings) -> Result<ReadBack, StartError> {
    let data_dir = absolute(&settings.server.data_dir);
    let mut closed: Vec<(Room, String)> = Vec::new();
    loop {
        let mut house = Read::<House>::begin(directory, &closed);
        let mut events = match settings.events.enabled {
            true => Read::<Events>::begin(directory, &closed),
            false => Read::Off,
        };
        let mut streams = match settings.streams.enabled {
            true => Read::<Streams>::begin(directory, &closed),
            false => Read::Off,
        };
        let mut exchange = match settings.exchange.enabled {
            true => match check_paths(&data_dir) {
                Ok(()) => Read::<Exchange>::begin(directory, &closed),
                Err(too_long) => Read::Closed(too_long.to_string()),
            },
            false => Read::Off,
        };
        let mut calls = match settings.calls.enabled {
            true => Read::<Calls>::begin(directory, &closed),
            false => Read::Off,
        };
        let mut rooms: Vec<&mut dyn Loads> =
            [house.loads(), events.loads(), streams.loads(), exchange.loads(), calls.loads()]
                .into_iter()
                .flatten()
                .collect();
        let limits = settings.log.limits.clone();
        let options = Options { limits, directory: directory.id, entropy: dice::fresh()? };
        let (opened, report, failed) = open_journal(directory, options, &mut rooms)
            .map_err(|error| StartError::journal(&data_dir, error))?;
        if failed.is_empty() {
            let (house, events) = (house.or_closed_by(&report), events.or_closed_by(&report));
            let streams = streams.or_closed_by(&report);
            let exchange = exchange.or_closed_by(&report);
            let calls = calls.or_closed_by(&report);
            let rooms = [
                house.clock(directory),
                events.clock(directory),
                streams.clock(directory),
                exchange.clock(directory),
                calls.clock(directory),
            ];
            let known = rooms.into_iter().chain([report.clock]);
            let clock = known.flatten().max_by_key(|now| now.steady);
            return Ok(ReadBack { opened, report, house, events, streams, exchange, calls, clock });
        }
        let before = closed.len();
        closed.extend(failed.iter().filter_map(|error| match error {
            LoadError::Undecodable { room, .. } => Some((*room, error.to_string())),
            _ => None,
        }));
        assert!(closed.len() > before, "a room that failed is named");
    }
}
