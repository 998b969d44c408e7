//! Refill files: what a destination has not confirmed, on disk.
//!
//! Constraints first:
//!
//! * A frame counts once it is synced; what is written at once is synced once.
//! * After a failed write or sync nobody knows what the file holds behind what was synced before. It
//!   takes nothing more until that is cut off ([`Refill::mend`]).
//! * A torn end, an end of zeros and damage in the middle are three things. The first two are cut,
//!   with a copy kept of whatever is not zero; the third is reported, and what lies behind it is
//!   read from the next snapshot on.
//! * A segment is read with its checksum every time: disks forget at rest.
//!
//! The layout is in [`frame`](self), the books in [`Ledger`], the directory in [`Spool`].

mod frame;
mod ledger;
mod scan;
mod source;
mod spool;

pub use frame::{FILE_HEAD_BYTES, FRAME_CRC_BYTES, FRAME_HEAD_BYTES, Frame, Layout, Rejected};
pub use ledger::{Entry, Ledger, Stored};
pub use scan::{Damage, Found, Tail, scan};
pub use source::Source;
pub use spool::{Spool, SpoolFile, SpoolLimits};

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::disk::{File, Open, write_all_at};
use handoff_types::Wall;
use thiserror::Error;

use crate::ack::AckStatus;
use crate::key::{BlockId, SegmentKey, ShardId};

/// Bounds of one refill file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefillLimits {
    /// `relay.refill_file_bytes_max`: what one file may grow to.
    pub file_bytes_max: u64,
    /// `relay.frame_bytes_max`: the largest segment or snapshot. A full key frame fits.
    pub payload_bytes_max: usize,
}

impl Default for RefillLimits {
    fn default() -> Self {
        Self { file_bytes_max: 1 << 30, payload_bytes_max: 129 << 20 }
    }
}

/// Why a refill file does not do what it was asked for.
#[derive(Debug, Error)]
pub enum RefillError {
    /// Neither the segment before nor a snapshot for it is in the file.
    #[error("nothing in the file leads to segment {0}")]
    UnknownShard(SegmentKey),
    /// It is larger than any frame may be.
    #[error("segment {0} is too large for a frame")]
    TooLarge(SegmentKey),
    /// The file, or the whole spool, would grow beyond its limit.
    #[error("the spool is full")]
    Full,
    /// It was there and its bytes are not what was written.
    #[error("segment {0} is damaged in the file")]
    Damaged(SegmentKey),
    /// An earlier call failed: see [`Refill::mend`].
    #[error("the file has failed before")]
    Poisoned,
    /// The disk said no.
    #[error("the disk failed: {0}")]
    Disk(#[from] io::Error),
}

/// What was found when a file was opened, beyond its books.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Troubles {
    /// Parts in the middle that could not be read; a copy is in the quarantine.
    pub damage: Vec<Damage>,
    /// Bytes cut off the end that were not zeros; a copy is in the quarantine.
    pub torn_bytes: u64,
    /// Zeros cut off the end.
    pub zero_bytes: u64,
    /// Bytes of the above of which no copy was kept: the quarantine is full.
    pub unkept_bytes: u64,
}

/// What a file turned out to be.
#[derive(Debug)]
pub enum Opened {
    /// A refill file.
    Refill(Box<Refill>, Troubles),
    /// A file without a beginning. It is gone from the spool; what was not zeros is in the
    /// quarantine.
    Nothing(Troubles),
}

/// One refill file: the books, and the bytes on disk.
#[derive(Debug)]
pub struct Refill {
    spool: Spool,
    name: String,
    limits: RefillLimits,
    ledger: Ledger,
    /// None until the first frame is written: a healthy path makes no file.
    file: Option<Arc<dyn File>>,
    end: u64,
    poisoned: bool,
    buffer: Vec<u8>,
}

impl Refill {
    /// A file for a block. It comes into being with the first frame.
    #[must_use]
    pub fn new(
        spool: Spool,
        limits: RefillLimits,
        begun: Wall,
        block: BlockId,
        acks: AckStatus,
    ) -> Self {
        Self {
            name: Spool::name(begun, block),
            spool,
            limits,
            ledger: Ledger::new(Layout::CURRENT, block, acks),
            file: None,
            end: 0,
            poisoned: false,
            buffer: Vec::new(),
        }
    }

    /// Opens a file of the spool, reads it whole and cuts off what was never written.
    ///
    /// # Errors
    /// Whatever the disk answers; `InvalidData` for a file of a later version.
    pub fn open(spool: Spool, limits: RefillLimits, name: &str) -> io::Result<Opened> {
        let file = spool.disk().open(&spool.path(name), Open::Write)?;
        let found = scan(&*file, limits.payload_bytes_max)?;
        let len = file.len()?;
        let mut troubles = Troubles { damage: found.damage, ..Troubles::default() };
        let mut copies: Vec<(u64, u64)> = Vec::new();
        copies.extend(troubles.damage.iter().map(|damage| (damage.from, damage.to)));
        match found.tail {
            Tail::Clean => {}
            Tail::Zeros(at) => troubles.zero_bytes = len - at,
            Tail::Torn(at) => {
                troubles.torn_bytes = len - at;
                copies.push((at, len));
            }
        }
        for (from, to) in copies {
            if !spool.keep_copy(name, &*file, from, to)? {
                troubles.unkept_bytes += to - from;
            }
        }
        let Some(ledger) = found.ledger else {
            if troubles.unkept_bytes == 0 {
                spool.remove(name)?;
            } else {
                spool.set_aside(name)?;
            }
            return Ok(Opened::Nothing(troubles));
        };
        if found.end < len {
            file.set_len(found.end)?;
            file.sync()?;
        }
        let refill = Self {
            spool,
            name: name.to_owned(),
            limits,
            ledger,
            file: Some(file),
            end: found.end,
            poisoned: false,
            buffer: Vec::new(),
        };
        Ok(Opened::Refill(Box::new(refill), troubles))
    }

    /// What is in it.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Its name in the spool.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its length.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end
    }

    /// Whether there is a file at all.
    #[must_use]
    pub const fn exists(&self) -> bool {
        self.file.is_some()
    }

    /// Appends frames and makes them durable, all of them or none as far as anybody can tell.
    ///
    /// # Errors
    /// See [`RefillError`]. [`RefillError::UnknownShard`], [`RefillError::TooLarge`] and
    /// [`RefillError::Full`] change nothing; after any other the file must be mended.
    pub fn append(&mut self, frames: &[Frame]) -> Result<(), RefillError> {
        if self.poisoned {
            return Err(RefillError::Poisoned);
        }
        if frames.is_empty() {
            return Ok(());
        }
        let places = self.draft(frames)?;
        let more = self.buffer.len() as u64;
        let spool_room = self.spool.limits().bytes_max.saturating_sub(self.spool.bytes()?);
        let room = self.limits.file_bytes_max.saturating_sub(self.end).min(spool_room);
        if more > room {
            return Err(RefillError::Full);
        }
        self.poisoned = true;
        let file = match &self.file {
            Some(file) => file.clone(),
            None => self.spool.disk().open(&self.spool.path(&self.name), Open::Create)?,
        };
        write_all_at(&*file, &self.buffer, self.end)?;
        file.sync()?;
        if self.file.is_none() {
            self.spool.disk().sync_dir(self.spool.dir())?;
            self.file = Some(file);
        }
        self.poisoned = false;
        self.end += more;
        for (frame, at) in frames.iter().zip(places) {
            self.ledger.evolve(frame, at);
        }
        Ok(())
    }

    /// Whether an earlier call failed.
    #[must_use]
    pub const fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Brings a file that failed back to what it held before; one that never held anything is removed.
    /// What was confirmed can be written to it then, and it can be sealed.
    ///
    /// # Errors
    /// Whatever the disk answers: it has still failed.
    pub fn mend(&mut self) -> io::Result<()> {
        if !self.poisoned {
            return Ok(());
        }
        if self.file.is_none() {
            self.spool.remove(&self.name)?;
        } else {
            // A handle of which a sync failed is not asked again.
            let file = self.spool.disk().open(&self.spool.path(&self.name), Open::Write)?;
            file.set_len(self.end)?;
            file.sync()?;
            self.file = Some(file);
        }
        self.poisoned = false;
        Ok(())
    }

    /// Puts frames into the buffer and says where each will begin. Refuses what the books do not
    /// admit.
    fn draft(&mut self, frames: &[Frame]) -> Result<Vec<u64>, RefillError> {
        let layout = self.ledger.layout();
        let mut next: BTreeMap<ShardId, Option<u32>> = BTreeMap::new();
        self.buffer.clear();
        if self.file.is_none() {
            let acks = self.ledger.acks();
            layout.put_head(&mut self.buffer);
            let title = Frame::Title { shards: acks.shards(), block: self.ledger.block() };
            title.put(layout, &mut self.buffer);
            Frame::Names(acks.names().to_vec()).put(layout, &mut self.buffer);
        }
        let mut places = Vec::with_capacity(frames.len());
        for frame in frames {
            if let Frame::Segment { key, bytes } | Frame::Snapshot { key, bytes } = frame {
                if bytes.len() > self.limits.payload_bytes_max {
                    return Err(RefillError::TooLarge(*key));
                }
                let segment = matches!(frame, Frame::Segment { .. });
                let admitted = match next.get(&key.shard) {
                    Some(next) => *next == Some(key.segment),
                    None => self.ledger.admits(*key),
                };
                if segment && !admitted {
                    return Err(RefillError::UnknownShard(*key));
                }
                let more = u32::from(segment);
                next.insert(key.shard, key.segment.checked_add(more));
            }
            places.push(self.end + self.buffer.len() as u64);
            frame.put(layout, &mut self.buffer);
        }
        Ok(places)
    }

    /// Writes what was confirmed, if it is news.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn write_ack_status(&mut self, acks: &AckStatus) -> Result<(), RefillError> {
        let mut after = self.ledger.acks().clone();
        after.merge(acks.numbers());
        if after == *self.ledger.acks() {
            return Ok(());
        }
        self.append(&[Frame::Statuses(after.numbers().to_vec())])
    }

    /// Reads a segment. None if it is not in the file, or nothing in the file leads to it.
    ///
    /// # Errors
    /// [`RefillError::Damaged`] and whatever the disk answers.
    pub fn get(&self, key: SegmentKey) -> Result<Option<Bytes>, RefillError> {
        self.ledger.segment(key).map(|entry| self.read(key, entry)).transpose()
    }

    /// Reads what an [`Entry`] of its books stands for.
    ///
    /// # Errors
    /// [`RefillError::Damaged`] and whatever the disk answers.
    pub fn read(&self, key: SegmentKey, entry: Entry) -> Result<Bytes, RefillError> {
        let damaged = RefillError::Damaged(key);
        let Some(file) = &self.file else { return Err(damaged) };
        let max = self.limits.payload_bytes_max;
        source::read(&**file, self.ledger.layout(), key, entry, max)?.ok_or(damaged)
    }

    /// Seals the file: from here on only the refill sender has to do with it. None if there is no
    /// file.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn seal(&mut self) -> io::Result<Option<String>> {
        if self.file.is_none() {
            return Ok(None);
        }
        self.name = self.spool.seal(&self.name)?;
        Ok(Some(self.name.clone()))
    }

    /// Ends a file of which nothing is left to deliver: it is removed, or set aside if parts of it
    /// could never be delivered.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn finish(self) -> io::Result<()> {
        let unreachable = |shard| self.ledger.unreachable(shard) > 0;
        if self.file.is_none() {
            return Ok(());
        }
        if self.ledger.acks().shards().ids().any(unreachable) {
            return self.spool.set_aside(&self.name);
        }
        self.spool.remove(&self.name)
    }
}
