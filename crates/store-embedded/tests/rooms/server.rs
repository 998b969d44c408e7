//! A server with one room.

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::Disk;
use handoff_log::journal::{Inline, Options, Purpose, Ticket};
use handoff_log::segments::Segments;
use handoff_store_embedded::{Checkpointing, Host, Loading, Progress, StepError, open_journal};
use handoff_types::{Entropy, Limits, Now};

use crate::tally::{Command, Tally};

pub(crate) struct Server {
    pub(crate) directory: Directory,
    pub(crate) journal: Arc<Inline>,
    pub(crate) host: Host<Tally>,
}

fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 512 << 10,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 64 << 10,
        change_bytes_max: 64 << 10,
        segment_bytes: 8 << 10,
        ..Limits::default()
    }
}

impl Server {
    /// Opens a directory; the words of whatever keeps it closed.
    pub(crate) fn try_open(disk: Arc<dyn Disk>) -> Result<Self, String> {
        let entropy = Entropy(7);
        let words = |error: &dyn std::error::Error| error.to_string();
        let directory = Directory::open(disk, entropy).map_err(|error| words(&error))?;
        let mut loading = Loading::<Tally>::begin(&directory).map_err(|error| words(&error))?;
        let options = Options { limits: limits(), directory: directory.id, entropy };
        let (opened, report, failed) = open_journal(&directory, options, &mut [&mut loading])
            .map_err(|error| words(&error))?;
        if !failed.is_empty() || !report.closed.is_empty() {
            return Err(format!("{failed:?} {report:?}"));
        }
        let journal = Arc::new(Inline::start(opened));
        journal.commit().map_err(|error| words(&error))?;
        let segments = Segments::open(Arc::clone(&directory.disk), (&limits()).into())
            .map_err(|error| words(&error))?;
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        Ok(Self { directory, journal, host })
    }

    pub(crate) fn open(disk: Arc<dyn Disk>) -> Self {
        Self::try_open(disk).unwrap()
    }

    pub(crate) fn add(&mut self, key: u8, by: u64) -> Ticket {
        self.apply(Command::Add { key, by }, vec![])
    }

    pub(crate) fn note(&mut self, key: u8, body: &[u8]) -> Ticket {
        self.apply(Command::Note { key }, vec![Bytes::copy_from_slice(body)])
    }

    fn apply(&mut self, command: Command, bodies: Vec<Bytes>) -> Ticket {
        let chance = (Now::default(), Entropy(0));
        self.host.apply(&command, bodies, Purpose::Accept, chance).unwrap().ticket
    }

    /// Takes a checkpoint to its end; everything appended must be durable.
    pub(crate) fn checkpoint(&mut self) -> Result<(), StepError> {
        let mut checkpoint = Checkpointing::begin::<Tally>(&self.directory, 1)?;
        self.finish(&mut checkpoint)
    }

    pub(crate) fn finish(&mut self, checkpoint: &mut Checkpointing) -> Result<(), StepError> {
        while checkpoint.step(&mut self.host, Now::default())? != Progress::Done {}
        Ok(())
    }
}
