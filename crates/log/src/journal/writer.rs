//! Writing rounds: one write, one sync, and what happens when either fails.
//!
//! After a failed write or sync nobody knows what the file holds from the durable end on, so the
//! file is never written again. The round that failed is written to a fresh file, at the same
//! position. Recovery follows the later file from its first round on, so whatever survives of the
//! failed attempt does not count once the second attempt is durable, and until then the two hold
//! the same records.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use super::format::{BLOCK, BLOCK_BYTES, RoundHeader};
use super::ring::{Ring, RingFile};
use super::round::Round;
use super::shelf::{Shelf, Shelved};
use crate::disk::write_all_at;

/// The only writer of the journal's files.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Arc<Mutex<Ring>>,
    shelf: Arc<Shelf>,
    current: Option<Current>,
    /// The number of the last file that holds durable rounds.
    last: u64,
    buffer: Vec<u8>,
}

#[derive(Debug)]
struct Current {
    file: RingFile,
    /// The number of the file it takes over from.
    follows: u64,
    /// Where in the file the next round goes.
    offset: u64,
    /// The durable end, once the file holds a round.
    end: Option<u64>,
    marked: bool,
}

/// Why a round is not durable yet.
#[derive(Debug)]
pub(crate) enum CommitFault {
    /// The ring has no file ready.
    NeedsFile,
    /// The disk failed. The file is given up; the round must be committed again.
    Disk(io::Error),
}

impl Writer {
    /// A writer that takes over from a file.
    pub(crate) fn new(ring: Arc<Mutex<Ring>>, shelf: Arc<Shelf>, last: u64) -> Self {
        Self { ring, shelf, current: None, last, buffer: Vec::new() }
    }

    /// Makes a round durable.
    pub(crate) fn commit(&mut self, round: &Round) -> Result<(), CommitFault> {
        let extent = round.extent();
        if self.rest_bytes() < extent {
            self.roll()?;
        }
        let Some(current) = &mut self.current else { return Err(CommitFault::NeedsFile) };
        round.encode(current.file.salt, current.follows, &mut self.buffer);
        let written = write_all_at(&*current.file.file, &self.buffer, current.offset)
            .and_then(|()| current.file.file.sync());
        if let Err(fault) = written {
            self.give_up(false);
            return Err(CommitFault::Disk(fault));
        }
        let end = round.position + extent;
        if current.end.is_none() {
            let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
            ring.ends_in(current.file.slot);
            drop(ring);
            self.shelf.put(Shelved {
                base: round.position,
                salt: current.file.salt,
                file: Arc::clone(&current.file.file),
            });
        }
        current.offset += extent;
        current.end = Some(end);
        current.marked = false;
        self.last = current.file.number;
        self.shelf.advance(end);
        Ok(())
    }

    /// Leaves a witness, without a sync, that everything so far is durable. Damage to the last
    /// round can then be told from a torn one. Costs one small write while the journal is idle.
    pub(crate) fn mark(&mut self, header: RoundHeader) {
        let Some(current) = &mut self.current else { return };
        if current.marked || current.end.is_none() {
            return;
        }
        let header = RoundHeader { follows: current.follows, ..header };
        self.buffer.clear();
        self.buffer.extend_from_slice(&header.encode(current.file.salt));
        // A whole block, so that the kernel need not read the old one first.
        self.buffer.resize(BLOCK_BYTES, 0);
        match write_all_at(&*current.file.file, &self.buffer, current.offset) {
            Ok(()) => current.marked = true,
            Err(_) => self.give_up(false),
        }
    }

    /// Makes the last mark durable too.
    ///
    /// # Errors
    /// Whatever the disk answers. Nothing that was acknowledged depends on it.
    pub(crate) fn close(&mut self) -> io::Result<()> {
        match &self.current {
            Some(current) => current.file.file.sync(),
            None => Ok(()),
        }
    }

    /// Bytes of rounds the file being written can still take. A block is left for the mark.
    pub(crate) fn rest_bytes(&self) -> u64 {
        let rest = |current: &Current| current.file.bytes.saturating_sub(current.offset + BLOCK);
        self.current.as_ref().map_or(0, rest)
    }

    /// Takes the next file. If there is none the file being written is sealed all the same: what
    /// waits does not fit it, and a ring in which nothing is being written gets a file whatever its
    /// bound says. Otherwise an admitted entry could wait for a trim, and the checkpoint behind
    /// that trim for the entry.
    fn roll(&mut self) -> Result<(), CommitFault> {
        let ready = self.ring.lock().unwrap_or_else(PoisonError::into_inner).take_ready();
        self.give_up(ready.is_some());
        let file = ready.ok_or(CommitFault::NeedsFile)?;
        let fresh = Current { file, follows: self.last, offset: BLOCK, end: None, marked: false };
        self.current = Some(fresh);
        Ok(())
    }

    /// Writes the current file no more. `replaced` when another one has been taken.
    fn give_up(&mut self, replaced: bool) {
        let Some(current) = self.current.take() else { return };
        let mut ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        match current.end {
            Some(end) => ring.seal(current.file.slot, end, replaced),
            None => ring.spoil(current.file.slot, replaced),
        }
    }
}
