//! From a disk to rooms, and why not.

use std::sync::Arc;

use handoff_log::checkpoint;
use handoff_log::directory::{self, Directory};
use handoff_log::disk::Disk;
use handoff_log::journal::{Inline, Journal, OpenError, Opened, Options, Report};
use handoff_log::segments::Segments;
use handoff_store_embedded::{LoadError, Loads, open_journal};
use handoff_types::{Entropy, Room};

use super::parts::limits;

/// Rooms that are about to be read back.
pub(crate) trait Loaded {
    /// Takes each room from its checkpoint. A room that is damaged is left out and said why.
    ///
    /// # Errors
    /// When the disk fails.
    fn begin(&mut self, directory: &Directory) -> Result<(), Closed>;

    /// The rooms that get entries.
    fn loads(&mut self) -> Vec<&mut dyn Loads>;

    /// A room is damaged, with the words an operator would read.
    fn close(&mut self, room: Room, words: String);
}

/// Rooms that were read back and do not live yet. Nothing was written but what an open leaves.
pub(crate) struct ReadBack {
    pub(crate) directory: Directory,
    pub(crate) report: Report,
    opened: Opened,
}

/// Why a server does not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The disk failed a call. The next start may succeed.
    ByFault(String),
    /// The disk's contents are damaged, and it says so.
    ByDamage(String),
}

impl ReadBack {
    /// Reads rooms back.
    ///
    /// # Errors
    /// [`Closed`], with the words an operator would read.
    pub(crate) fn of(
        rooms: &mut dyn Loaded,
        disk: Arc<dyn Disk>,
        entropy: Entropy,
    ) -> Result<Self, Closed> {
        let directory = Directory::open(disk, entropy)?;
        rooms.begin(&directory)?;
        let options = Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) = open_journal(&directory, options, &mut rooms.loads())?;
        for error in failed {
            match &error {
                LoadError::Undecodable { room, .. } => rooms.close(*room, error.to_string()),
                _ => return Err(error.into()),
            }
        }
        for (room, at) in &report.closed {
            rooms.close(*room, format!("{room} lost records at {at}"));
        }
        Ok(Self { directory, report, opened })
    }

    /// Starts the journal. Nothing is served before what was read back is durable.
    ///
    /// # Errors
    /// [`Closed`] when the disk fails meanwhile.
    pub(crate) fn start(self) -> Result<(Directory, Arc<Inline>, Arc<Segments>), Closed> {
        let Self { directory, opened, .. } = self;
        let inline = Arc::new(Inline::start(opened));
        inline.commit().map_err(|stalled| Closed::ByFault(stalled.to_string()))?;
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits()).into())
            .map_err(|error| Closed::ByFault(error.to_string()))?;
        Ok((directory, inline, Arc::new(segments)))
    }

    /// The same for a look, with the journal as a room sees it.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_to_look(self) -> Result<(Arc<dyn Journal>, Arc<Segments>), Closed> {
        self.start().map(|(_, inline, segments)| (inline as _, segments))
    }
}

impl From<directory::Error> for Closed {
    fn from(error: directory::Error) -> Self {
        match error {
            directory::Error::Disk { .. } => Self::ByFault(error.to_string()),
            _ => Self::ByDamage(error.to_string()),
        }
    }
}

impl From<LoadError> for Closed {
    fn from(error: LoadError) -> Self {
        match error {
            LoadError::Checkpoint(checkpoint::Error::Disk { .. }) => {
                Self::ByFault(error.to_string())
            }
            _ => Self::ByDamage(error.to_string()),
        }
    }
}

impl From<OpenError> for Closed {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Disk { .. } => Self::ByFault(error.to_string()),
            _ => Self::ByDamage(error.to_string()),
        }
    }
}
