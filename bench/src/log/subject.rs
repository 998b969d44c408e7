//! The journal that is measured, in the state of a server that has been running for a while.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use handoff_log::disk::{Disk, Real};
use handoff_log::journal::{
    Committed, Entry, Journal, Options, Purpose, Recovery, Start, Threaded, Ticket,
};
use handoff_types::limits::RECORD_BYTES_MAX;
use handoff_types::{Entropy, Limits, Now, Position, Room};

use super::Plan;
use super::pipeline::pipeline;

/// The id of the data directory.
pub(super) const DIRECTORY: u128 = 7;

/// The largest body that leaves its entry one record, and so one round its own.
pub(super) const BULK_BYTES: usize = RECORD_BYTES_MAX - 128;

/// A running journal and how far it has been trimmed.
#[derive(Debug)]
pub(super) struct Subject {
    pub(super) journal: Threaded,
    trimmed: AtomicU64,
    trim_bytes: u64,
}

impl Subject {
    /// Opens a new journal and sends enough through it that it only recycles files from now on.
    pub(super) fn warm(plan: &Plan, disk: &Arc<Real>) -> io::Result<Self> {
        let subject = Self::cold(plan, disk, plan.ring_bytes)?;
        let mut left = 8 * plan.file_bytes / BULK_BYTES as u64;
        let body = Bytes::from(vec![0x5a; BULK_BYTES]);
        let next = || {
            left = left.checked_sub(1)?;
            Some((entry(Room::Counter, 0, Some(body.clone())), ()))
        };
        pipeline(&subject, next, |committed, ()| subject.done_with(committed))?;
        Ok(subject)
    }

    /// Opens a new journal.
    pub(super) fn cold(plan: &Plan, disk: &Arc<Real>, ring_bytes: u64) -> io::Result<Self> {
        let disk: Arc<dyn Disk> = Arc::<Real>::clone(disk);
        let recovery = begin(plan, disk, ring_bytes)?;
        let (opened, _) = recovery.finish().map_err(io::Error::other)?;
        let journal = Threaded::start(opened)?;
        Ok(Self { journal, trimmed: AtomicU64::new(0), trim_bytes: plan.file_bytes })
    }

    pub(super) fn append(&self, entry: Entry) -> io::Result<Ticket> {
        let admitted = self.journal.admit(entry.room, entry.bytes(), Purpose::Accept);
        let permit = admitted.map_err(io::Error::other)?;
        Ok(self.journal.append(permit, entry).1)
    }

    /// Appends and blocks until the entry is durable, as one caller does.
    pub(super) fn call(&self, entry: Entry) -> io::Result<()> {
        let committed = self.append(entry)?.wait().map_err(io::Error::other)?;
        self.done_with(committed)
    }

    /// Nobody needs this entry or one before it; the ring is trimmed now and then.
    pub(super) fn done_with(&self, committed: Committed) -> io::Result<()> {
        let Position(position) = committed.position;
        let trimmed = self.trimmed.load(Ordering::Relaxed);
        if position > trimmed + self.trim_bytes
            && (self.trimmed)
                .compare_exchange(trimmed, position, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            for room in Room::ALL {
                self.journal.trim(room, committed.position);
            }
        }
        Ok(())
    }
}

/// Begins to read a journal back.
pub(super) fn begin(plan: &Plan, disk: Arc<dyn Disk>, ring_bytes: u64) -> io::Result<Recovery> {
    let limits = Limits {
        journal_file_bytes: plan.file_bytes,
        journal_bytes_max: ring_bytes,
        journal_reserve_bytes: plan.file_bytes,
        ..Limits::default()
    };
    let options = Options { limits, directory: DIRECTORY, entropy: Entropy(0x5eed) };
    Recovery::begin(disk, options, Start::default()).map_err(io::Error::other)
}

/// An entry with a change of some bytes and perhaps a body.
pub(super) fn entry(room: Room, change_bytes: usize, body: Option<Bytes>) -> Entry {
    Entry {
        room,
        now: Now::default(),
        change: Bytes::from(vec![0x5a; change_bytes]),
        bodies: body.into_iter().collect(),
    }
}
