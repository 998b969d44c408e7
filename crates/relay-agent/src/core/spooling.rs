//! From memory to disk: what is due is written, and a block that has left is sealed.

use handoff_relay::refill::{Frame, RefillError};
use handoff_relay::{AckStatus, BlockId};
use handoff_types::{Now, Span, Steady};
use tracing::warn;

use super::Core;
use crate::shelf::{Done, Order};

/// How long after a refusal the spool is asked again.
const SPOOL_PAUSE: Span = Span::from_millis(500);

impl Core {
    /// Orders what is due to be written. A block has one order at a time.
    pub(super) fn spool(&mut self, now: Steady) {
        if self.spool_again > now {
            return;
        }
        let blocks = [Some(self.keeper.present()), self.keeper.leaving()];
        let blocks: Vec<BlockId> = blocks.into_iter().flatten().map(|one| one.block()).collect();
        for block in blocks {
            if self.writing.contains(&block) {
                continue;
            }
            let Some(one) = self.keeper.block_mut(block) else { continue };
            let Some(spooling) = one.spooling(now, &mut self.bench) else { continue };
            let acks = AckStatus::new(self.rules.destinations.iter().cloned(), self.rules.shards);
            let spooling = Box::new(spooling);
            let begun = one.begun().wall;
            if self.shelf.order(Order::Append { file: block, begun, acks, spooling }) {
                self.writing.insert(block);
                self.filed.insert(block);
            }
        }
    }

    /// Something ordered is done.
    pub(super) fn done(&mut self, done: Done, now: Now) {
        match done {
            Done::Appended { file, spooling, appended } => {
                self.writing.remove(&file);
                let Some(block) = self.keeper.block_mut(file) else { return };
                match appended {
                    Ok(()) => {
                        self.metrics.counted.spooled_bytes.inc_by(weight(&spooling.frames));
                        block.spooled(*spooling, now.steady, &mut self.bench);
                    }
                    Err(RefillError::Full) => {
                        if !block.needs_spool() {
                            warn!("the spool has no room; whoever sends is told to wait");
                        }
                        block.spool_is_full();
                        self.metrics.counted.spool_full.inc();
                        self.spool_again = now.steady + SPOOL_PAUSE;
                    }
                    Err(error) => self.fail(error),
                }
            }
            Done::Sealed { file, sealed } => match sealed {
                Ok(Some(sealed)) => self.backlog.add(sealed, &self.agent, &self.roads),
                Ok(None) => {
                    self.filed.remove(&file);
                }
                Err(error) => self.fail(error),
            },
            Done::Wrote { file, acks, wrote } => match wrote {
                Ok(()) => self.backlog.saved(file, acks, now.steady),
                // It is asked for again, and known there.
                Err(RefillError::Full) => self.backlog.saved(file, None, now.steady),
                Err(error) => self.fail(error),
            },
            Done::Read { file, line, key, entry, bytes } => {
                self.read(file, line, key, entry, bytes);
            }
            Done::Kept { file, line, key, kept } => self.kept(file, line, key, kept),
            Done::Ended { file, ended } => {
                self.filed.remove(&file);
                if let Err(error) = ended {
                    self.fail(error.into());
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

    /// Lets the block go that has left. Its file, if there is one, is sealed and is backlog then.
    pub(super) fn retire(&mut self) {
        let busy = self.keeper.leaving().is_some_and(|one| self.writing.contains(&one.block()));
        if busy {
            return;
        }
        let Some(left) = self.keeper.take_left() else { return };
        self.close_links(&left);
        let file = left.block();
        if self.filed.contains(&file) {
            let acks = left.acks().clone();
            if !self.shelf.order(Order::Seal { file, acks }) {
                // The file is sealed by the next start; what was confirmed of it is known there.
                warn!(block = %file, "too much is ordered of the disk; a file stays open");
            }
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
            if self.filed.contains(&left.block()) {
                self.shelf.order(Order::Seal { file: left.block(), acks: left.acks().clone() });
            }
        }
        let present = self.keeper.present();
        let file = present.block();
        if self.filed.contains(&file) {
            let acks = present.acks().clone();
            let order = match present.farewell(&mut self.bench) {
                Some(frames) => Order::Farewell { file, frames },
                None => Order::Seal { file, acks },
            };
            self.shelf.order(order);
        }
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
