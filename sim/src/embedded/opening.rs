//! From a disk to a room, and why not.

use std::sync::Arc;

use handoff_log::checkpoint;
use handoff_log::directory::{self, Directory};
use handoff_log::disk::Disk;
use handoff_log::journal::{Inline, Journal, OpenError, Opened, Options, Report};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Host, LoadError, Loading, Persist, open_journal};
use handoff_types::{Entropy, Now};

use super::parts::limits;
use crate::room::State;

/// A room that was read back and does not live yet. Nothing was written but what an open leaves.
pub(super) struct ReadBack<M: Persist> {
    pub(super) directory: Directory,
    pub(super) loading: Loading<M>,
    pub(super) report: Report,
    opened: Opened,
}

/// Why a room does not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// The disk failed a call. The next start may succeed.
    ByFault(String),
    /// The disk's contents are damaged, and it says so.
    ByDamage(String),
}

impl<M: Persist<State = State>> ReadBack<M> {
    /// Reads a room back.
    ///
    /// # Errors
    /// [`Closed`], with the words an operator would read.
    pub(super) fn from(disk: Arc<dyn Disk>, entropy: Entropy) -> Result<Self, Closed> {
        let directory = Directory::open(disk, entropy)?;
        let mut loading = Loading::<M>::begin(&directory)?;
        let options = Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) = open_journal(&directory, options, &mut [&mut loading])?;
        if let Some(error) = failed.into_iter().next() {
            return Err(error.into());
        }
        if let Some((room, at)) = report.closed.iter().find(|(room, _)| *room == M::ROOM) {
            return Err(Closed::ByDamage(format!("{room} lost records at {at}")));
        }
        Ok(Self { directory, loading, report, opened })
    }

    /// The latest time the directory knows of.
    pub(super) fn clock(&self) -> Option<Now> {
        let known = [self.loading.clock(), self.report.clock];
        known.into_iter().flatten().max_by_key(|now| now.steady)
    }

    /// Brings the room to life. Nothing is served before what was read back is durable.
    ///
    /// # Errors
    /// [`Closed`] when the disk fails meanwhile.
    pub(super) fn start(
        self,
        journal: impl FnOnce(Arc<dyn Journal>) -> Arc<dyn Journal>,
    ) -> Result<(Directory, Arc<Inline>, Host<M>), Closed> {
        let Self { directory, loading, opened, .. } = self;
        let inline = Arc::new(Inline::start(opened));
        inline.commit().map_err(|stalled| Closed::ByFault(stalled.to_string()))?;
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits()).into())
            .map_err(|error| Closed::ByFault(error.to_string()))?;
        let host = loading.into_host(journal(Arc::clone(&inline) as _), Arc::new(segments));
        Ok((directory, inline, host))
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
