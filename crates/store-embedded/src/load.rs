//! From a data directory to living rooms.

use std::fmt;
use std::sync::Arc;

use handoff_log::checkpoint::{self, Marks};
use handoff_log::directory::Directory;
use handoff_log::journal::{
    BodyAt, Journal, OpenError, Opened, Options, Recovery, Replayed, Report, Start, excused,
};
use handoff_log::segments::{Move, Segments};
use handoff_types::{Now, Room, Sequence};
use thiserror::Error;

use crate::bulk::Bulk;
use crate::filing::Filing;
use crate::host::Host;
use crate::persist::{Persist, Undecodable};

/// Why a room cannot be loaded. The others can.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Its checkpoint cannot be used.
    #[error(transparent)]
    Checkpoint(#[from] checkpoint::Error),
    /// Bytes that passed their checksum are not the room's: a newer version wrote them.
    #[error(
        "{room} does not understand what is stored for it at {at}: {source}; start the version that wrote it"
    )]
    Undecodable {
        /// The room.
        room: Room,
        /// Where.
        at: String,
        /// What is wrong with it.
        source: Undecodable,
    },
}

/// A room being loaded, whatever its machine.
pub trait Loads: fmt::Debug {
    /// Whose records it takes.
    fn room(&self) -> Room;

    /// From where the journal must be read for it, and what is known to be durable.
    fn start(&self) -> (checkpoint::Mark, checkpoint::Mark);

    /// Takes an entry of the journal.
    ///
    /// # Errors
    /// [`LoadError::Undecodable`]
    fn replay(&mut self, entry: &Replayed) -> Result<(), LoadError>;
}

/// A room being loaded.
pub struct Loading<M: Persist> {
    state: M::State,
    marks: Marks,
    low: checkpoint::Mark,
    high: checkpoint::Mark,
    clock: Option<Now>,
    through: Sequence,
    moves: Vec<(Sequence, Vec<Move>)>,
}

impl<M: Persist> fmt::Debug for Loading<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loading").field("room", &M::ROOM).field("low", &self.low).finish()
    }
}

impl<M: Persist> Loading<M>
where
    M::State: Default,
{
    /// Restores a room from its checkpoint, or begins it empty.
    ///
    /// # Errors
    /// [`LoadError`] when the checkpoint is damaged or not understood.
    pub fn begin(directory: &Directory) -> Result<Self, LoadError> {
        let mut loading = Self {
            state: M::State::default(),
            marks: Marks::default(),
            low: checkpoint::Mark::default(),
            high: checkpoint::Mark::default(),
            clock: None,
            through: Sequence::NONE,
            moves: Vec::new(),
        };
        // The process before may have died between putting a checkpoint in force and knowing that
        // it stays so. The journal forgets what this one has, so it must stay.
        directory.disk.sync_dir(checkpoint::DIR).map_err(|fault| {
            let path = checkpoint::DIR.to_owned();
            checkpoint::Error::Disk { path, fault }
        })?;
        let Some(found) = checkpoint::latest(&*directory.disk, M::ROOM, directory.id)? else {
            return Ok(loading);
        };
        (loading.low, loading.high) = (found.low(), found.high());
        loading.clock = Some(found.now());
        let mut chunks = found.chunks();
        while let Some(chunk) = chunks.next_chunk()? {
            loading.through = loading.through.max(chunk.mark.sequence);
            M::restore(&mut loading.state, &chunk.state).map_err(|source| {
                let at = format!("the checkpoint chunk from key {:?}", chunk.from);
                LoadError::Undecodable { room: M::ROOM, at, source }
            })?;
        }
        loading.marks = chunks.into_marks();
        Ok(loading)
    }

    /// The state, as far as it is loaded.
    #[must_use]
    pub fn state(&self) -> &M::State {
        &self.state
    }

    /// The last record of the room that the state has, once the journal is read.
    #[must_use]
    pub fn through(&self) -> Sequence {
        self.through
    }

    /// The latest time the checkpoint knows of.
    #[must_use]
    pub fn clock(&self) -> Option<Now> {
        self.clock
    }

    /// Brings the room to life on its journal. Bodies of lanes that the state does not know are left
    /// behind.
    #[must_use]
    pub fn into_host(self, journal: Arc<dyn Journal>, segments: Arc<Segments>) -> Host<M> {
        let Self { state, mut moves, .. } = self;
        for (_, moves) in &mut moves {
            moves.retain(|moved| M::has_lane(&state, moved.lane));
        }
        let bulk = Bulk::new(Arc::clone(&journal), segments, moves);
        Host::new(state, journal, bulk)
    }
}

impl<M: Persist> Loading<M> {
    /// Brings the room to life on its journal, with what puts its bodies into files. The room has no
    /// lane; the segments stand in for one.
    #[must_use]
    pub fn into_filing_host(
        self,
        journal: Arc<dyn Journal>,
        segments: Arc<Segments>,
    ) -> (Host<M>, Filing) {
        let Self { state, moves, .. } = self;
        let (bulk, filing) = Bulk::filed(Arc::clone(&journal), segments, moves);
        (Host::new(state, journal, bulk), filing)
    }
}

impl<M: Persist> Loads for Loading<M> {
    fn room(&self) -> Room {
        M::ROOM
    }

    fn start(&self) -> (checkpoint::Mark, checkpoint::Mark) {
        (self.low, self.high)
    }

    fn replay(&mut self, entry: &Replayed) -> Result<(), LoadError> {
        let undecodable = |source| LoadError::Undecodable {
            room: M::ROOM,
            at: format!("journal position {}", entry.position),
            source,
        };
        let mut moves = Vec::new();
        let mut rest = entry.change.as_ref();
        while !rest.is_empty() {
            let (change, behind) = M::decode_change(rest).map_err(undecodable)?;
            rest = behind;
            if let Some(frame) = M::frame(&change) {
                let index = u32::try_from(moves.len()).unwrap_or(u32::MAX);
                let body = BodyAt { position: entry.position, index };
                moves.push(crate::books::move_of(frame, body));
            }
            if entry.sequence > self.marks.of(&M::key(&change)) {
                M::evolve(&mut self.state, &change);
            }
        }
        if moves.len() != entry.bodies as usize {
            let words = format!("{} bodies for {} frames", entry.bodies, moves.len());
            return Err(undecodable(Undecodable(words)));
        }
        if !moves.is_empty() {
            self.moves.push((entry.sequence, moves));
        }
        self.through = self.through.max(entry.sequence);
        Ok(())
    }
}

/// Reads the journal back into the rooms.
///
/// # Errors
/// [`OpenError`] when the journal cannot be opened. A room that does not understand an entry is
/// given with its error, the others are whole.
pub fn open_journal(
    directory: &Directory,
    options: Options,
    rooms: &mut [&mut dyn Loads],
) -> Result<(Opened, Report, Vec<LoadError>), OpenError> {
    let start = start_of(directory, rooms);
    let mut failed: Vec<(Room, LoadError)> = Vec::new();
    let mut recovery = Recovery::begin(Arc::clone(&directory.disk), options, start)?;
    while let Some(entry) = recovery.next_entry()? {
        let hit = failed.iter().any(|(room, _)| *room == entry.room);
        let room = rooms.iter_mut().find(|room| room.room() == entry.room);
        if let Some(room) = room.filter(|_| !hit)
            && let Err(error) = room.replay(&entry)
        {
            failed.push((entry.room, error));
        }
    }
    let (opened, report) = recovery.finish()?;
    Ok((opened, report, failed.into_iter().map(|(_, error)| error).collect()))
}

fn start_of(directory: &Directory, rooms: &[&mut dyn Loads]) -> Start {
    let mut start = Start {
        // A list that cannot be read excuses nothing: the rooms stay closed.
        excused: excused(&*directory.disk).unwrap_or_default(),
        unloaded: Room::ALL.to_vec(),
        ..Start::default()
    };
    for room in rooms {
        let (low, high) = room.start();
        let at = room.room().index();
        start.unloaded.retain(|unloaded| *unloaded != room.room());
        start.end = start.end.max(high.position);
        set(&mut start.needs, at, low.position);
        set(&mut start.sequences, at, low.sequence);
        set(&mut start.known, at, high.sequence);
        set(&mut start.known_to, at, high.position);
    }
    // How far the journal went is also known to a room that is not loaded: once every file has
    // been recycled, its checkpoint may be all that is left to say so.
    for room in &start.unloaded {
        if let Ok(Some(found)) = checkpoint::latest(&*directory.disk, *room, directory.id) {
            start.end = start.end.max(found.high().position);
        }
    }
    let lows = rooms.iter().map(|room| room.start().0.position);
    start.position = lows.min().unwrap_or_default();
    start
}

fn set<T>(table: &mut [T; Room::MAX], at: usize, value: T) {
    if let Some(place) = table.get_mut(at) {
        *place = value;
    }
}
