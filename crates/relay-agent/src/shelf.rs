//! The thread that has to do with disks: refill files, and nothing that anybody decides.
//!
//! Orders are done one after the other. What fails is said once; the agent then ends, because after a
//! failed write nobody knows what a file holds, and the next start finds out. That there is no room is
//! no failure.

mod opening;
mod orders;

pub(crate) use opening::{Opening, Resumed, open};
pub(crate) use orders::{Done, Order, Sealed};

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use handoff_log::disk::Open;
use handoff_relay::refill::{
    Entry, FRAME_CRC_BYTES, FRAME_HEAD_BYTES, Frame, Refill, RefillError, RefillLimits, Spool,
};
use handoff_relay::{AckStatus, BlockId, SegmentKey};
use handoff_types::Wall;
use tokio::sync::mpsc;

use crate::core::Event;

/// Orders that wait. A block and a destination have one each at a time, so there are never so many.
const ORDERS: usize = 1_024;

/// How much space the disk has left.
pub(crate) type FreeSpace = Box<dyn Fn() -> io::Result<u64> + Send>;

/// What the thread works with.
pub(crate) struct Tools {
    pub(crate) spool: Spool,
    pub(crate) limits: RefillLimits,
    pub(crate) free: FreeSpace,
    pub(crate) free_min: u64,
}

/// The core's end of it.
#[derive(Debug)]
pub(crate) struct Shelf {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Shelf {
    /// Starts the thread, with the files that are open already.
    pub(crate) fn start(
        tools: Tools,
        files: BTreeMap<BlockId, Refill>,
        events: mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let (orders, incoming) = sync_channel(ORDERS);
        let keeper = Keeper { tools, files };
        let thread = thread::Builder::new().name("shelf".to_owned());
        let thread = thread.spawn(move || keeper.work(&incoming, &events))?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Orders something. False if too much is ordered already: again later.
    pub(crate) fn order(&self, order: Order) -> bool {
        let Some(orders) = &self.orders else { return false };
        match orders.try_send(order) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => false,
        }
    }

    /// Nothing more is ordered. What was ordered is done when the thread that is given has ended.
    pub(crate) fn close(&mut self) -> Option<JoinHandle<()>> {
        self.orders = None;
        self.thread.take()
    }
}

struct Keeper {
    tools: Tools,
    files: BTreeMap<BlockId, Refill>,
}

impl Keeper {
    fn work(mut self, orders: &Receiver<Order>, events: &mpsc::Sender<Event>) {
        for order in orders {
            let done = self.carry_out(order);
            // A core that has ended still wants done what it ordered.
            drop(events.blocking_send(Event::Disk(done)));
        }
    }

    fn carry_out(&mut self, order: Order) -> Done {
        match order {
            Order::Append { file, begun, acks, spooling } => {
                let appended = self.append(file, begun, acks, &spooling.frames);
                Done::Appended { file, spooling, appended }
            }
            Order::Farewell { file, frames } => {
                let appended = match self.files.get_mut(&file) {
                    Some(refill) => refill.append(&frames),
                    None => Ok(()),
                };
                Done::Wrote { file, acks: None, wrote: appended }
            }
            Order::Seal { file, acks } => Done::Sealed { file, sealed: self.seal(file, &acks) },
            Order::Statuses { file, acks } => {
                let wrote = match self.files.get_mut(&file) {
                    Some(refill) => refill.write_ack_status(&acks),
                    None => Ok(()),
                };
                Done::Wrote { file, acks: Some(acks), wrote }
            }
            Order::Read { file, line, key, entry } => {
                let bytes = self.read(file, key, entry);
                Done::Read { file, line, key, entry, bytes }
            }
            Order::Keep { file, line, key } => {
                let kept = self.keep(file, key);
                Done::Kept { file, line, key, kept }
            }
            Order::Finish { file } => {
                let finished = self.files.remove(&file).map_or(Ok(()), Refill::finish);
                Done::Ended { file, ended: finished }
            }
            Order::GiveUp { file } => {
                let removed = match self.files.remove(&file) {
                    Some(refill) => self.tools.spool.remove(refill.name()),
                    None => Ok(()),
                };
                Done::Ended { file, ended: removed }
            }
            Order::Look => Done::Looked {
                spool_bytes: self.tools.spool.bytes(),
                quarantine_bytes: self.tools.spool.quarantine_bytes(),
                free_bytes: (self.tools.free)(),
            },
        }
    }

    fn append(
        &mut self,
        file: BlockId,
        begun: Wall,
        acks: AckStatus,
        frames: &[Frame],
    ) -> Result<(), RefillError> {
        let Tools { spool, limits, free, free_min } = &self.tools;
        if free()? < *free_min {
            return Err(RefillError::Full);
        }
        let fresh = || Refill::new(spool.clone(), *limits, begun, file, acks);
        self.files.entry(file).or_insert_with(fresh).append(frames)
    }

    fn seal(&mut self, file: BlockId, acks: &AckStatus) -> Result<Option<Sealed>, RefillError> {
        let Some(refill) = self.files.get_mut(&file).filter(|refill| refill.exists()) else {
            self.files.remove(&file);
            return Ok(None);
        };
        match refill.write_ack_status(acks) {
            // What is not written down is asked for again, and known there.
            Ok(()) | Err(RefillError::Full) => {}
            Err(error) => return Err(error),
        }
        refill.seal()?;
        Ok(Some(Sealed::of(refill)))
    }

    fn read(&self, file: BlockId, key: SegmentKey, entry: Entry) -> Result<Bytes, RefillError> {
        let Some(refill) = self.files.get(&file) else { return Err(RefillError::Damaged(key)) };
        let read = refill.read(key, entry);
        if matches!(read, Err(RefillError::Damaged(_))) {
            // A disk forgot it at rest. A copy of what is there now is kept before it is passed by.
            let spool = &self.tools.spool;
            let size = FRAME_HEAD_BYTES as u64 + u64::from(entry.size) + FRAME_CRC_BYTES as u64;
            let path = spool.path(refill.name());
            let opened = spool.disk().open(&path, Open::Read)?;
            spool.keep_copy(refill.name(), &*opened, entry.at, entry.at + size)?;
        }
        read
    }

    /// Keeps a segment that its destination will never take. False if there is no room for it.
    fn keep(&self, file: BlockId, key: SegmentKey) -> Result<bool, RefillError> {
        let Some(refill) = self.files.get(&file) else { return Ok(false) };
        match refill.get(key) {
            Ok(Some(bytes)) => Ok(self.tools.spool.keep_segment(refill.name(), key, &bytes)?),
            Ok(None) | Err(RefillError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
