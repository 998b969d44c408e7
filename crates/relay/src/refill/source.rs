//! A refill file that is only looked at: nothing of it is cut, copied or moved.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::disk::{Disk, File, Open};

use super::frame::{Frame, Layout};
use super::ledger::{Entry, Stored};
use super::scan::{self, Found};
use super::{RefillError, RefillLimits};
use crate::key::SegmentKey;

/// A refill file that belongs to somebody else.
#[derive(Debug)]
pub struct Source {
    file: Arc<dyn File>,
    found: Found,
    limits: RefillLimits,
}

impl Source {
    /// Opens a file and reads it whole.
    ///
    /// # Errors
    /// Whatever the disk answers; `InvalidData` for a file of a later version.
    pub fn open(disk: &dyn Disk, path: &str, limits: RefillLimits) -> io::Result<Self> {
        let file = disk.open(path, Open::Read)?;
        let found = scan::scan(&*file, limits.payload_bytes_max)?;
        Ok(Self { file, found, limits })
    }

    /// What was found in it.
    #[must_use]
    pub const fn found(&self) -> &Found {
        &self.found
    }

    /// Its length.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn bytes(&self) -> io::Result<u64> {
        self.file.len()
    }

    /// Reads what an [`Entry`] of its books stands for.
    ///
    /// # Errors
    /// [`RefillError::Damaged`] and whatever the disk answers.
    pub fn read(&self, key: SegmentKey, entry: Entry) -> Result<Bytes, RefillError> {
        let damaged = RefillError::Damaged(key);
        let Some(ledger) = &self.found.ledger else { return Err(damaged) };
        let max = self.limits.payload_bytes_max;
        read(&*self.file, ledger.layout(), key, entry, max)?.ok_or(damaged)
    }
}

/// The bytes of an entry. None if they are not what was written.
pub(super) fn read(
    file: &dyn File,
    layout: Layout,
    key: SegmentKey,
    entry: Entry,
    payload_bytes_max: usize,
) -> io::Result<Option<Bytes>> {
    let frame = scan::read_frame(file, layout, entry.at, payload_bytes_max)?;
    Ok(match (frame, entry.stored) {
        (Some(Frame::Segment { key: found, bytes }), Stored::Segment)
        | (Some(Frame::Snapshot { key: found, bytes }), Stored::Snapshot)
            if found.shard == key.shard && found.segment == entry.segment =>
        {
            Some(bytes)
        }
        _ => None,
    })
}
