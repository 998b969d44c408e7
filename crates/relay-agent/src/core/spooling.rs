//! From memory to disk: what is due is written, and a block that has left is sealed.
//!
//! A block has one file, mostly. One that found no room is sealed as it is: what is in it is delivered,
//! and makes room; so is one that the disk failed, which is cut to what was synced before. What is still
//! in memory goes to another file, or to its destinations.

use handoff_relay::refill::{Frame, RefillError};
use handoff_relay::{AckStatus, BlockId, DeliveryManager};
use handoff_types::{Now, Span, Steady, Wall};
use tracing::{debug, error, info, warn};

use super::Core;
use crate::shelf::{Done, FileId, Order};

/// How soon after something was written the spool is looked at.
const LOOK_SOON: Span = Span::from_secs(1);

/// How long after a refusal, or a failure, the spool is asked again.
pub(super) const SPOOL_PAUSE: Span = Span::from_millis(500);

/// The file of a block that is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filed {
    file: FileId,
    /// Whether something is in it.
    written: bool,
    /// Whether what comes next is for the file after it.
    over: bool,
}

/// A file to be sealed.
#[derive(Debug)]
pub(super) struct Sealing {
    pub(super) file: FileId,
    acks: AckStatus,
    ordered: bool,
    again: Steady,
}

impl Core {
    /// Orders what is due to be written. A block has one order at a time.
    pub(super) fn spool(&mut self, now: Now) {
        if self.spool_again > now.steady {
            return;
        }
        let blocks = [Some(self.keeper.present()), self.keeper.leaving()];
        let blocks: Vec<BlockId> = blocks.into_iter().flatten().map(|one| one.block()).collect();
        for block in blocks {
            if self.writing.contains(&block) {
                continue;
            }
            let Some(one) = self.keeper.block_mut(block) else { continue };
            let Some(spooling) = one.spooling(now.steady, &mut self.bench) else { continue };
            let acks = AckStatus::new(self.rules.destinations.iter().cloned(), self.rules.shards);
            let spooling = Box::new(spooling);
            let file = self.file_for(block, now.wall);
            if self.shelf.order(Order::Append { file, acks, spooling }) {
                self.writing.insert(block);
            }
        }
    }

    /// The file that a block is written to.
    fn file_for(&mut self, block: BlockId, now: Wall) -> FileId {
        let begun = self.keeper.block_mut(block).map_or(now, |one| one.begun().wall);
        let first = Filed { file: FileId::new(begun, block), written: false, over: false };
        let filed = self.filed.entry(block).or_insert(first);
        if filed.over {
            *filed = Filed { file: filed.file.next(now), written: false, over: false };
        }
        filed.file
    }

    /// The file of a block gets nothing more: what is in it is backlog, and the rest goes elsewhere.
    fn leave_file(&mut self, block: BlockId) {
        let Some(filed) = self.filed.get_mut(&block).filter(|filed| !filed.over) else { return };
        filed.over = true;
        let file = filed.file;
        let Some(one) = self.keeper.block_mut(block) else { return };
        one.begin_file();
        let acks = one.acks().clone();
        self.sealing.push(Sealing { file, acks, ordered: false, again: Steady(0) });
    }

    /// Orders that files be sealed.
    pub(super) fn seal(&mut self, now: Steady) {
        for one in self.sealing.iter_mut().filter(|one| !one.ordered && one.again <= now) {
            one.ordered = self.shelf.order(Order::Seal { file: one.file, acks: one.acks.clone() });
        }
    }

    /// Whether a part of the block that was begun before this file is not sealed yet.
    pub(super) fn seals_before(&self, file: FileId) -> bool {
        self.sealing.iter().any(|one| one.file.block == file.block && one.file < file)
    }

    /// Something ordered is done.
    pub(super) fn done(&mut self, done: Done, now: Now) {
        if !matches!(done, Done::Looked { .. } | Done::Read { .. }) {
            // What the spool has is another number now.
            self.look_again = self.look_again.min(now.steady + LOOK_SOON);
        }
        match done {
            Done::Appended { file, spooling, appended } => {
                self.writing.remove(&file.block);
                let Some(block) = self.keeper.block_mut(file.block) else { return };
                let filed = self.filed.get_mut(&file.block);
                let written = filed.as_ref().is_some_and(|filed| filed.written);
                match appended {
                    Ok(()) => {
                        self.metrics.counted.spooled_bytes.inc_by(weight(&spooling.frames));
                        block.spooled(*spooling, now.steady, &mut self.bench);
                        if let Some(filed) = filed {
                            filed.written = true;
                        }
                    }
                    // It may be this file alone that has no room.
                    Err(RefillError::Full) if written => {
                        self.leave_file(file.block);
                    }
                    Err(RefillError::Full) => {
                        if !block.needs_spool() {
                            warn!("the spool has no room; whoever sends is told to wait");
                        }
                        block.spool_is_full();
                        self.metrics.counted.spool_full.inc();
                        self.spool_again = now.steady + SPOOL_PAUSE;
                    }
                    Err(error @ (RefillError::Disk(_) | RefillError::Poisoned)) => {
                        block.spool_is_full();
                        self.spool_again = now.steady + SPOOL_PAUSE;
                        self.disk_failed(&error);
                        self.leave_file(file.block);
                    }
                    Err(error) => self.fail(error),
                }
            }
            Done::Sealed { file, sealed } => self.sealed(file, sealed, now),
            Done::Wrote { file, acks, wrote } => {
                // What is not written down is asked for again, and known there.
                let acks = acks.filter(|_| wrote.is_ok());
                self.backlog.saved(file, acks, now.steady);
                if let Err(error) = wrote {
                    debug!(error = &error as &dyn std::error::Error, "not written down yet");
                    self.count_failure(&error);
                }
            }
            Done::Read { file, line, key, entry, bytes } => {
                self.read(file, line, (key, entry), bytes, now.steady);
            }
            Done::Kept { file, line, key, kept } => self.kept(file, line, key, kept, now.steady),
            Done::Ended { ended } => {
                if let Err(error) = ended {
                    let error = RefillError::from(error);
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "a refill file that is over cannot be removed; the next start does it"
                    );
                    self.count_failure(&error);
                }
            }
            Done::Looked { spool_bytes, quarantine_bytes, free_bytes } => {
                let counted = &self.metrics.counted;
                let gauges = [
                    (&counted.spool_bytes, spool_bytes),
                    (&counted.quarantine_bytes, quarantine_bytes),
                    (&counted.disk_free_bytes, free_bytes),
                ];
                for (gauge, bytes) in gauges {
                    match bytes {
                        Ok(bytes) => {
                            gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
                        }
                        Err(error) => {
                            let error = &error as &dyn std::error::Error;
                            warn!(error, "the spool cannot be looked at");
                        }
                    }
                }
            }
        }
    }

    fn sealed(
        &mut self,
        file: FileId,
        sealed: Result<Option<crate::shelf::Sealed>, RefillError>,
        now: Now,
    ) {
        match sealed {
            Ok(sealed) => {
                self.sealing.retain(|one| one.file != file);
                if let Some(sealed) = sealed {
                    self.backlog.add(sealed, &self.agent, &self.roads);
                }
            }
            Err(error) => {
                self.disk_failed(&error);
                for one in self.sealing.iter_mut().filter(|one| one.file == file) {
                    (one.ordered, one.again) = (false, now.steady + SPOOL_PAUSE);
                }
            }
        }
    }

    /// The disk failed what must be written. It is tried again until it is.
    fn disk_failed(&mut self, error: &RefillError) {
        self.count_failure(error);
        if !self.metrics.disk_fails() {
            let error = error as &dyn std::error::Error;
            error!(error, "the disk fails the refill files; whoever sends is told to wait");
            self.metrics.counted.disk_failing.set(1);
        }
    }

    /// A failure that nobody has to wait for is counted all the same.
    pub(super) fn count_failure(&self, error: &RefillError) {
        if matches!(error, RefillError::Disk(_) | RefillError::Poisoned) {
            self.metrics.counted.disk_failures.inc();
        }
    }

    /// A disk that failed is well again when nothing waits for it.
    pub(super) fn note_disk(&self) {
        let blocks = [Some(self.keeper.present()), self.keeper.leaving()];
        let waits = blocks.into_iter().flatten().any(DeliveryManager::needs_spool);
        if self.metrics.disk_fails() && self.sealing.is_empty() && !waits {
            info!("nothing waits for the disk any more");
            self.metrics.counted.disk_failing.set(0);
        }
    }

    /// Lets the block go that has left. Its file, if there is one, is sealed and is backlog then.
    pub(super) fn retire(&mut self) {
        let busy = self.keeper.leaving().is_some_and(|one| self.writing.contains(&one.block()));
        if busy {
            return;
        }
        let Some(left) = self.keeper.take_left() else { return };
        self.close_links(&left);
        self.seal_left(&left);
    }

    fn seal_left(&mut self, left: &DeliveryManager) {
        if let Some(filed) = self.filed.remove(&left.block()).filter(|filed| !filed.over) {
            let (file, acks) = (filed.file, left.acks().clone());
            self.sealing.push(Sealing { file, acks, ordered: false, again: Steady(0) });
        }
    }

    /// Leaves files as the next start likes to find them. What is ordered is done before the process
    /// ends.
    pub(super) fn say_farewell(&mut self) {
        for (file, acks) in self.backlog.unsaved() {
            self.shelf.order(Order::Statuses { file, acks });
        }
        if let Some(left) = self.keeper.take_left() {
            self.close_links(&left);
            self.seal_left(&left);
        }
        let present = self.keeper.present();
        if let Some(filed) = self.filed.get(&present.block()).filter(|filed| !filed.over) {
            let (file, acks) = (filed.file, present.acks().clone());
            self.sealing.push(Sealing { file, acks, ordered: false, again: Steady(0) });
        }
        self.sealing.iter_mut().for_each(|one| one.again = Steady(0));
        self.seal(Steady(0));
    }
}

/// Bytes of segments and snapshots.
fn weight(frames: &[Frame]) -> u64 {
    let bytes = frames.iter().map(|frame| match frame {
        Frame::Segment { bytes, .. } | Frame::Snapshot { bytes, .. } => bytes.len() as u64,
        _ => 0,
    });
    bytes.sum()
}
