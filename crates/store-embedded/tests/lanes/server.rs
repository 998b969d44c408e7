//! A server with lanes.

use std::sync::Arc;

use bytes::Bytes;
use handoff_log::directory::Directory;
use handoff_log::disk::Disk;
use handoff_log::journal::{Inline, Options, Purpose};
use handoff_log::segments::{Frame, Lane, Read, Segments};
use handoff_store_embedded::{
    Checkpointing, Host, Loading, Progress, Reader, StepError, open_journal,
};
use handoff_types::{Entropy, Limits, Now, Steady, Wall};

use crate::lines::{Command, Line, Lines};

pub(crate) struct Server {
    pub(crate) directory: Directory,
    pub(crate) journal: Arc<Inline>,
    pub(crate) host: Host<Lines>,
    time: i64,
}

pub(crate) fn limits() -> Limits {
    Limits {
        journal_file_bytes: 256 << 10,
        journal_bytes_max: 4 << 20,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 512 << 10,
        change_bytes_max: 1 << 20,
        segment_bytes: 8 << 10,
        segment_files_open_max: 8,
        segment_warm_bytes: 1 << 20,
        ..Limits::default()
    }
}

impl Server {
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Self {
        Self::open_with(disk, &limits())
    }

    pub(crate) fn open_with(disk: Arc<dyn Disk>, limits: &Limits) -> Self {
        let entropy = Entropy(7);
        let directory = Directory::open(disk, entropy).unwrap();
        let mut loading = Loading::<Lines>::begin(&directory).unwrap();
        let options = Options { limits: limits.clone(), directory: directory.id, entropy };
        let (opened, report, failed) =
            open_journal(&directory, options, &mut [&mut loading]).unwrap();
        assert!(failed.is_empty() && report.closed.is_empty(), "{failed:?} {report:?}");
        let journal = Arc::new(Inline::start(opened));
        journal.commit().unwrap();
        let segments = Segments::open(Arc::clone(&directory.disk), limits.into()).unwrap();
        let host = loading.into_host(Arc::clone(&journal) as _, Arc::new(segments));
        Self { directory, journal, host, time: 0 }
    }

    pub(crate) fn apply(&mut self, command: &Command, bytes: u64) {
        self.time += 10;
        let now = Now { wall: Wall(self.time), steady: Steady::default() };
        let when = (now, Entropy(0));
        drop(self.host.apply_made(command, bytes, Purpose::Accept, when).unwrap().ticket);
    }

    /// Appends bodies as one entry, each with so many offsets; the journal has not committed it.
    pub(crate) fn append(&mut self, lines: &[(u64, u32, &[u8])]) {
        let bytes = lines.iter().map(|(.., body)| body.len() as u64 + 64).sum();
        let line = |&(lane, count, body): &(u64, u32, &[u8])| {
            let body = Bytes::copy_from_slice(body);
            Line { lane, count, body }
        };
        let lines = lines.iter().map(line).collect();
        self.apply(&Command::Append(lines), bytes);
    }

    /// Appends one body to a lane and makes it durable.
    pub(crate) fn write(&mut self, lane: u64, count: u32, body: &[u8]) {
        self.append(&[(lane, count, body)]);
        self.journal.commit().unwrap();
    }

    pub(crate) fn move_all(&mut self) {
        self.host.bulk().copy(usize::MAX).unwrap();
        self.host.bulk().sync().unwrap();
    }

    pub(crate) fn checkpoint(&mut self) -> Result<(), StepError> {
        let mut checkpoint = Checkpointing::begin::<Lines>(&self.directory, 1 << 10)?;
        while checkpoint.step(&mut self.host, Now::default())? != Progress::Done {}
        Ok(())
    }
}

/// The frames that a read gives.
pub(crate) fn frames(read: Read) -> Vec<Frame> {
    let Read::Frames(frames) = read else { panic!("{read:?} has no frames") };
    frames
}

/// The bodies from an offset on to the end, read in pieces of so many bytes.
pub(crate) fn bodies(reader: &Reader, lane: u64, from: u64, max_bytes: u64) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    let mut at = from;
    loop {
        match reader.read(Lane(lane), at, max_bytes).unwrap() {
            Read::Frames(frames) => {
                assert!(frames[0].base <= at && at < frames[0].end());
                assert!(frames.windows(2).all(|pair| pair[0].end() == pair[1].base));
                at = frames.last().unwrap().end();
                bodies.extend(frames.into_iter().map(|frame| frame.body));
            }
            Read::End { end } => {
                assert_eq!(end, at);
                return bodies;
            }
            other => panic!("{other:?} at {at}"),
        }
    }
}
