//! The ring of journal files: which are written, which wait to be trimmed, which come next.
//!
//! ```text
//!            fill (once)                    take               seal
//!   (none) ─────────────▶ ready ──────────────────▶ current ────────▶ sealed
//!                           ▲                                            │
//!                           └── recycle: fresh number, fresh salt ── spare ◀── trim
//! ```
//!
//! A file is zero-filled once, under another name, so that a crash in the middle leaves nothing
//! that looks like a journal file. From then on it is only recycled: its blocks are allocated and
//! written, and a sync does not have to touch the filesystem's own journal.
//!
//! The last rounds say how far the journal went. While any file holds older ones, the file that
//! holds the last is not recycled before a later one has a durable round, or an opening would take
//! what is left for a journal that was cut.
//!
//! The ring decides; [`Order::carry_out`] does the disk work and is called without any lock held.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use handoff_types::Entropy;

use super::format::{FileHeader, Geometry};
use crate::disk::{Disk, File, Open, remove_if_there, write_all_at};

/// The directory of the journal.
pub(crate) const DIR: &str = "journal";

/// How many files are kept ready ahead of the one being written.
const READY_AHEAD: usize = 2;

/// Fewer files than this make no ring.
const FILES_MIN: u64 = 3;

static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

pub(crate) fn path_of(slot: u32) -> String {
    format!("{DIR}/{slot:04}.journal")
}

fn filling_path_of(slot: u32) -> String {
    format!("{DIR}/{slot:04}.filling")
}

/// The slot a name in the journal directory stands for.
pub(crate) fn slot_of(name: &str) -> Option<u32> {
    name.strip_suffix(".journal")?.parse().ok()
}

/// Whether a name is that of a file whose filling was cut short.
pub(crate) fn is_leftover(name: &str) -> bool {
    name.ends_with(".filling")
}

/// A file that has been given its number and salt and can be written.
#[derive(Clone, Debug)]
pub(crate) struct RingFile {
    pub(crate) slot: u32,
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn File>,
    pub(crate) salt: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Fill,
    Recycle,
    Remove,
}

/// A piece of disk work that gets the ring its next file.
#[derive(Debug)]
pub(crate) struct Order {
    work: Work,
    slot: u32,
    header: FileHeader,
}

/// A file that holds durable rounds and is written no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sealed {
    slot: u32,
    end: u64,
    /// Kept for a damaged room; does not count against the ring's size.
    held: bool,
}

/// The ledger of the ring.
#[derive(Debug)]
pub(crate) struct Ring {
    geometry: Geometry,
    files_max: u64,
    directory: u128,
    secret: Entropy,
    next_number: u64,
    /// Every slot that has a file, whatever its state.
    slots: Vec<u32>,
    ready: VecDeque<RingFile>,
    spare: VecDeque<u32>,
    sealed: Vec<Sealed>,
    /// The file with the last durable round.
    last: Option<u32>,
    /// The file whose recycling failed, until something else has been tried.
    refused: Option<u32>,
    writing: bool,
    ordered: bool,
    closed: bool,
    fault: Option<Arc<io::Error>>,
}

/// What a ring is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPlan {
    pub(crate) geometry: Geometry,
    pub(crate) bytes_max: u64,
    pub(crate) directory: u128,
    pub(crate) secret: Entropy,
}

impl Ring {
    /// A ring over the files that a scan found: their slots, the highest number in use, and
    /// which of them hold rounds that are still needed.
    pub(crate) fn new(plan: RingPlan, slots: Vec<u32>, next_number: u64) -> Self {
        let spare = slots.iter().copied().collect();
        Self {
            geometry: plan.geometry,
            files_max: (plan.bytes_max / plan.geometry.file_bytes).max(FILES_MIN),
            directory: plan.directory,
            secret: plan.secret,
            next_number,
            slots,
            ready: VecDeque::new(),
            spare,
            sealed: Vec::new(),
            last: None,
            refused: None,
            writing: false,
            ordered: false,
            closed: false,
            fault: None,
        }
    }

    /// Takes a file found at open out of the spare ones: it holds rounds that are still needed.
    pub(crate) fn keep(&mut self, slot: u32, end: u64, held: bool) {
        self.spare.retain(|&spare| spare != slot);
        self.sealed.push(Sealed { slot, end, held });
    }

    /// The last durable round is in this file.
    pub(crate) fn ends_in(&mut self, slot: u32) {
        self.last = Some(slot);
    }

    /// The next piece of disk work, if any is due. One is under way at a time, so that numbers
    /// are handed out in the order files become ready.
    pub(crate) fn order(&mut self) -> Option<Order> {
        if self.ordered || self.ready.len() >= READY_AHEAD {
            return None;
        }
        let (work, slot) = match self.next_spare() {
            Some(slot) if self.refused == Some(slot) && self.may_grow() => {
                (Work::Fill, self.free_slot())
            }
            Some(slot) if self.counted() > self.files_max && self.spare.len() > 1 => {
                (Work::Remove, slot)
            }
            Some(slot) => (Work::Recycle, slot),
            None if self.may_grow() => (Work::Fill, self.free_slot()),
            None => return None,
        };
        self.ordered = true;
        let number = self.next_number;
        self.next_number += 1;
        let header = FileHeader {
            number,
            salt: self.secret.word(number),
            directory: self.directory,
            bytes: self.geometry.file_bytes,
        };
        Some(Order { work, slot, header })
    }

    /// Notes how an order went.
    pub(crate) fn delivered(&mut self, order: &Order, result: io::Result<Option<RingFile>>) {
        self.ordered = false;
        self.refused = None;
        match result {
            Ok(file) => {
                self.fault = None;
                self.spare.retain(|&spare| spare != order.slot);
                match order.work {
                    Work::Fill => self.slots.push(order.slot),
                    Work::Remove => self.slots.retain(|&slot| slot != order.slot),
                    Work::Recycle => {}
                }
                self.ready.extend(file);
            }
            Err(fault) => {
                self.fault = Some(Arc::new(fault));
                // The next order is for another file, if there is one.
                if order.work != Work::Fill {
                    self.spare.retain(|&spare| spare != order.slot);
                    self.spare.push_back(order.slot);
                    self.refused = Some(order.slot);
                }
            }
        }
    }

    /// Whether a file can be taken.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether only a trim can give the next file.
    pub(crate) fn is_exhausted(&self) -> bool {
        !self.ordered
            && self.ready.is_empty()
            && self.spare.is_empty()
            && self.writing
            && self.counted() >= self.files_max
    }

    /// No more files are wanted.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether no more files are wanted.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes the next file to write.
    pub(crate) fn take_ready(&mut self) -> Option<RingFile> {
        let file = self.ready.pop_front()?;
        self.writing = true;
        Some(file)
    }

    /// The file being written holds rounds up to `end` and is written no more. `replaced` when
    /// another is being written already.
    pub(crate) fn seal(&mut self, slot: u32, end: u64, replaced: bool) {
        self.writing = replaced;
        self.sealed.push(Sealed { slot, end, held: false });
    }

    /// The file being written failed before it held anything durable.
    pub(crate) fn spoil(&mut self, slot: u32, replaced: bool) {
        self.writing = replaced;
        self.spare.push_back(slot);
    }

    /// Gives up the files that hold nothing at or above `low`.
    pub(crate) fn trim(&mut self, low: u64) {
        let spare = &mut self.spare;
        self.sealed.retain(|sealed| {
            let keep = sealed.held || sealed.end > low;
            if !keep {
                spare.push_back(sealed.slot);
            }
            keep
        });
    }

    /// Bytes of entries the ring can still take for certain, `rest` of them in the file being
    /// written.
    pub(crate) fn free_bytes(&self, rest: u64) -> u64 {
        let growable = match self.fault {
            Some(_) => 0,
            None => self.files_max.saturating_sub(self.counted()),
        };
        let files = (self.ready.len() + self.spare.len()) as u64 + growable;
        let rest = rest.saturating_sub(self.geometry.round_bytes());
        // Files above the bound were given so that what was admitted can be written. They admit
        // nothing, or a disk that keeps failing would make the ring grow without one.
        let above = self.counted().saturating_sub(self.files_max);
        let per_file = self.geometry.file_rounds_bytes();
        (rest + files * per_file).saturating_sub(above * per_file)
    }

    /// Why the last order failed, if it did.
    pub(crate) fn fault(&self) -> Option<Arc<io::Error>> {
        self.fault.clone()
    }

    /// The spare file to be used next. Every other one goes before the file with the last rounds,
    /// and that one waits as long as any of them may hold older rounds.
    fn next_spare(&self) -> Option<u32> {
        let is_last = |slot: &u32| self.last == Some(*slot);
        let other = self.spare.iter().copied().find(|slot| !is_last(slot));
        other.or_else(|| self.spare.front().copied().filter(|_| self.sealed.is_empty()))
    }

    /// Whether a file may be added. Whatever the bound says, a journal that has no file to write
    /// gets one: recovery and continuation must not depend on a trim that has not happened yet.
    fn may_grow(&self) -> bool {
        self.counted() < self.files_max || (!self.writing && self.ready.is_empty())
    }

    fn counted(&self) -> u64 {
        (self.slots.len() - self.sealed.iter().filter(|sealed| sealed.held).count()) as u64
    }

    fn free_slot(&self) -> u32 {
        (0..).find(|slot| !self.slots.contains(slot)).unwrap_or(u32::MAX)
    }
}

impl Order {
    /// Does the disk work. The file is ready only when all of it is durable.
    ///
    /// # Errors
    /// Whatever the disk answers. A file that could not be filled gives its space back.
    pub(crate) fn carry_out(&self, disk: &dyn Disk) -> io::Result<Option<RingFile>> {
        let path = path_of(self.slot);
        let file = match self.work {
            Work::Remove => {
                disk.remove(&path)?;
                return Ok(None);
            }
            Work::Recycle => self.recycle(disk, &path)?,
            Work::Fill => self.fill(disk, &path)?,
        };
        Ok(Some(RingFile {
            slot: self.slot,
            number: self.header.number,
            file,
            salt: self.header.salt,
            bytes: self.header.bytes,
        }))
    }

    fn recycle(&self, disk: &dyn Disk, path: &str) -> io::Result<Arc<dyn File>> {
        let file = disk.open(path, Open::Write)?;
        let len = file.len()?;
        if len > self.header.bytes {
            file.set_len(self.header.bytes)?;
        }
        fill_zeros(&*file, len, self.header.bytes)?;
        write_all_at(&*file, &self.header.block(), 0)?;
        file.sync()?;
        Ok(file)
    }

    fn fill(&self, disk: &dyn Disk, path: &str) -> io::Result<Arc<dyn File>> {
        let filling = filling_path_of(self.slot);
        remove_if_there(disk, &filling)?;
        let filled = disk.open(&filling, Open::Create).and_then(|file| {
            fill_zeros(&*file, 0, self.header.bytes)?;
            write_all_at(&*file, &self.header.block(), 0)?;
            file.sync()?;
            disk.rename(&filling, path)?;
            disk.sync_dir(DIR)?;
            Ok(file)
        });
        filled.inspect_err(|_| {
            // Best effort: the next try removes it anyway, this only frees the space sooner.
            drop(disk.remove(&filling));
        })
    }
}

fn fill_zeros(file: &dyn File, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let bytes = usize::try_from(to - at).unwrap_or(usize::MAX).min(ZEROS.len());
        write_all_at(file, ZEROS.get(..bytes).unwrap_or_default(), at)?;
        at += bytes as u64;
    }
    Ok(())
}
