//! The house of a stopped server: its first token, and what an administrator did while it was down.
//!
//! * The directory is locked meanwhile. If a server has it, the error says to ask that server.
//! * Only the house is loaded. What the journal holds of other rooms stays where it is: of a room
//!   that has a checkpoint the marks are read, so that the journal knows how far it went and what
//!   the room still needs; a room without one, or with one that cannot be read, keeps everything.
//! * A command is on disk when it is answered, and the journal ends with the mark of a clean stop.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handoff_house::{Act, Command, House, Reply, Token};
use handoff_log::checkpoint::{self, Mark};
use handoff_log::directory::{self, Directory, Lock};
use handoff_log::journal::{Inline, Lost, OpenError, Opened, Options, Refused, Replayed, Stalled};
use handoff_log::segments::{Segments, WriteError};
use handoff_store_embedded::{LoadError, Loading, Loads, open_journal};
use handoff_types::{Code, Limits, Now, Outcome, Position, Room};
use thiserror::Error;

use crate::clock::Clock;
use crate::dice::{Dice, NoChance, fresh};
use crate::rooms::house::purpose;

/// Why the house of a stopped server could not be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OfflineError {
    /// A server runs on it.
    #[error("data directory {path} is in use by {holder}; ask that server, with --url, or stop it")]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it.
        holder: String,
    },
    /// There is none.
    #[error("there is no data directory {path}; check --data-dir")]
    Missing {
        /// Where it should be.
        path: PathBuf,
    },
    /// It cannot be used.
    #[error(transparent)]
    Directory(directory::Error),
    /// Its journal cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The house cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The house lost records.
    #[error(
        "the disk damaged records of the house at position {at}; run `handoff doctor --repair` first"
    )]
    Damaged {
        /// Where the damage begins.
        at: Position,
    },
    /// The journal takes nothing.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The disk does not take it. It may be there at the next start, or not.
    #[error("{0}; it may have been done all the same, look before you repeat it")]
    Stalled(#[from] Stalled),
    /// The journal stopped.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// The segments cannot be opened.
    #[error(transparent)]
    Segments(#[from] WriteError),
    /// No chance.
    #[error(transparent)]
    Chance(#[from] NoChance),
}

impl From<directory::Error> for OfflineError {
    fn from(error: directory::Error) -> Self {
        match error {
            directory::Error::InUse { path, holder } => Self::InUse { path, holder },
            other => Self::Directory(other),
        }
    }
}

impl OfflineError {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::InUse { .. } => Code::DirectoryInUse,
            Self::Missing { .. } => Code::DirectoryUnreadable,
            Self::Directory(error) => error.code(),
            Self::Open(error) => error.code(),
            Self::Load(LoadError::Checkpoint(error)) => error.code(),
            Self::Load(_) => Code::DirectoryNewer,
            Self::Damaged { .. } => Code::RoomDamaged,
            Self::Refused(refused) => refused.code(),
            Self::Stalled(_) | Self::Segments(_) => Code::DiskFault,
            Self::Lost(_) => Code::JournalClosed,
            Self::Chance(_) => Code::Internal,
        }
    }
}

/// Does what is asked of the house of a stopped server, in order. A directory that is not there is
/// made. Every answer is durable; a refusal does not keep the commands behind it from being done.
///
/// # Errors
/// [`OfflineError`]
pub fn apply_offline(
    data_dir: &Path,
    limits: &Limits,
    commands: Vec<Command>,
) -> Result<Vec<Reply>, OfflineError> {
    let Opening { house, opened, clock, directory, _lock } = open(data_dir, limits)?;
    let journal = Arc::new(Inline::start(opened));
    // The last round may have to be made durable again before anything rests on it.
    journal.commit()?;
    let segments = Segments::open(Arc::clone(&directory.disk), limits.into())?;
    let mut host = house.into_host(Arc::clone(&journal) as _, Arc::new(segments));
    let dice = Dice::new()?;
    let mut replies = Vec::with_capacity(commands.len());
    for command in commands {
        let when = (clock.now(), dice.roll());
        let applied = host.apply(&command, Vec::new(), purpose(&command), when)?;
        journal.commit()?;
        let unknown = Err(Lost { outcome: Outcome::Unknown });
        applied.ticket.outcome().unwrap_or(unknown)?;
        replies.push(applied.reply);
    }
    drop(host);
    Arc::into_inner(journal).map_or(Ok(()), Inline::close)?;
    Ok(replies)
}

/// The tokens of a stopped server, by id.
///
/// # Errors
/// [`OfflineError`]
pub fn tokens_offline(data_dir: &Path, limits: &Limits) -> Result<Vec<Token>, OfflineError> {
    look(data_dir)?;
    Ok(open(data_dir, limits)?.house.state().tokens().cloned().collect())
}

/// The acts of a stopped server, the latest first, those below a number, at most `limit`.
///
/// # Errors
/// [`OfflineError`]
pub fn acts_offline(
    data_dir: &Path,
    limits: &Limits,
    below: Option<u64>,
    limit: usize,
) -> Result<Vec<Act>, OfflineError> {
    look(data_dir)?;
    let opening = open(data_dir, limits)?;
    let acts = opening.house.state().acts_below(below.unwrap_or(u64::MAX));
    Ok(acts.take(limit).cloned().collect())
}

/// Who only reads does not want a directory made.
fn look(data_dir: &Path) -> Result<(), OfflineError> {
    match fs::metadata(data_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(OfflineError::Missing { path: data_dir.to_owned() })
        }
        _ => Ok(()),
    }
}

struct Opening {
    house: Loading<House>,
    opened: Opened,
    clock: Clock,
    directory: Directory,
    /// Dropped last: until then nobody else opens the directory.
    _lock: Lock,
}

fn open(data_dir: &Path, limits: &Limits) -> Result<Opening, OfflineError> {
    let (directory, lock) = Directory::open_locked(data_dir, fresh()?)?;
    let mut house = Loading::<House>::begin(&directory)?;
    let mut bystanders = bystanders(&directory);
    let mut rooms: Vec<&mut dyn Loads> = vec![&mut house];
    rooms.extend(bystanders.iter_mut().map(|room| room as &mut dyn Loads));
    let options = Options { limits: limits.clone(), directory: directory.id, entropy: fresh()? };
    let (opened, report, failed) = open_journal(&directory, options, &mut rooms)?;
    if let Some(error) = failed.into_iter().next() {
        return Err(error.into());
    }
    if let Some((_, at)) = report.closed.iter().find(|(room, _)| *room == Room::House) {
        return Err(OfflineError::Damaged { at: *at });
    }
    let known = bystanders.iter().map(|room| room.now).chain(house.clock()).chain(report.clock);
    let clock = Clock::resume(known.max_by_key(|now| now.steady));
    Ok(Opening { house, opened, clock, directory, _lock: lock })
}

/// A room that is not loaded but whose checkpoint says what it needs of the journal.
#[derive(Debug)]
struct Bystander {
    room: Room,
    marks: (Mark, Mark),
    now: Now,
}

impl Loads for Bystander {
    fn room(&self) -> Room {
        self.room
    }

    fn start(&self) -> (Mark, Mark) {
        self.marks
    }

    fn replay(&mut self, _: &Replayed) -> Result<(), LoadError> {
        Ok(())
    }
}

fn bystanders(directory: &Directory) -> Vec<Bystander> {
    let others = Room::ALL.into_iter().filter(|room| *room != Room::House);
    others
        .filter_map(|room| {
            let found = checkpoint::latest(&*directory.disk, room, directory.id).ok().flatten()?;
            Some(Bystander { room, marks: (found.low(), found.high()), now: found.now() })
        })
        .collect()
}

#[cfg(test)]
mod tests;
