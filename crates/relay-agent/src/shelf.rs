//! The thread that has to do with disks: refill files, and nothing that anybody decides.
//!
//! Orders are done one after the other. After a failed write nobody knows what a file holds behind what
//! was synced before: it gets no segment any more, is cut there as soon as the disk lets it, and sealed.
//! What was to be written is still in memory, and goes to another file. That there is no room is no
//! failure.

mod opening;
mod orders;

pub(crate) use opening::{Opening, open};
pub(crate) use orders::{Done, FileId, Order, Sealed};

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use handoff_log::disk::Open;
use handoff_relay::refill::{
    Entry, FRAME_CRC_BYTES, FRAME_HEAD_BYTES, Frame, Refill, RefillError, RefillLimits, Spool,
};
use handoff_relay::{AckStatus, SegmentKey};
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
        files: BTreeMap<FileId, Refill>,
        events: mpsc::Sender<Event>,
    ) -> io::Result<Self> {
        let (mut shelf, keeper) = Self::by_hand(tools, files);
        let thread = thread::Builder::new().name("shelf".to_owned());
        shelf.thread = Some(thread.spawn(move || keeper.work(&events))?);
        Ok(shelf)
    }

    /// The same without a thread: whoever has the keeper says when it works.
    pub(crate) fn by_hand(tools: Tools, files: BTreeMap<FileId, Refill>) -> (Self, Keeper) {
        let (orders, incoming) = sync_channel(ORDERS);
        (Self { orders: Some(orders), thread: None }, Keeper { tools, files, incoming })
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

/// Whoever does what is ordered.
pub(crate) struct Keeper {
    tools: Tools,
    files: BTreeMap<FileId, Refill>,
    incoming: Receiver<Order>,
}

impl Keeper {
    fn work(mut self, events: &mpsc::Sender<Event>) {
        while let Ok(order) = self.incoming.recv() {
            let done = self.carry_out(order);
            // A core that has ended still wants done what it ordered.
            drop(events.blocking_send(Event::Disk(done)));
        }
    }

    /// Does the next thing that was ordered, if anything was.
    pub(crate) fn work_once(&mut self) -> Option<Done> {
        let order = self.incoming.try_recv().ok()?;
        Some(self.carry_out(order))
    }

    fn carry_out(&mut self, order: Order) -> Done {
        match order {
            Order::Append { file, acks, spooling } => {
                let appended = self.append(file, acks, &spooling.frames);
                Done::Appended { file, spooling, appended }
            }
            Order::Seal { file, acks } => Done::Sealed { file, sealed: self.seal(file, &acks) },
            Order::Statuses { file, acks } => {
                let wrote = self.write_down(file, &acks);
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
                Done::Ended { ended: finished }
            }
            Order::GiveUp { file } => {
                let removed = match self.files.remove(&file) {
                    Some(refill) => self.tools.spool.remove(refill.name()),
                    None => Ok(()),
                };
                Done::Ended { ended: removed }
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
        file: FileId,
        acks: AckStatus,
        frames: &[Frame],
    ) -> Result<(), RefillError> {
        let Tools { spool, limits, free, free_min } = &self.tools;
        if free()? < *free_min {
            return Err(RefillError::Full);
        }
        let fresh = || Refill::new(spool.clone(), *limits, file.begun(), file.block, acks);
        self.files.entry(file).or_insert_with(fresh).append(frames)
    }

    fn write_down(&mut self, file: FileId, acks: &AckStatus) -> Result<(), RefillError> {
        let Some(refill) = self.files.get_mut(&file) else { return Ok(()) };
        refill.mend()?;
        refill.write_ack_status(acks)
    }

    fn seal(&mut self, file: FileId, acks: &AckStatus) -> Result<Option<Sealed>, RefillError> {
        if let Some(refill) = self.files.get_mut(&file) {
            refill.mend()?;
        }
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
        Ok(Some(Sealed::of(file, refill)))
    }

    fn read(&self, file: FileId, key: SegmentKey, entry: Entry) -> Result<Bytes, RefillError> {
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
    fn keep(&self, file: FileId, key: SegmentKey) -> Result<bool, RefillError> {
        let Some(refill) = self.files.get(&file) else { return Ok(false) };
        match refill.get(key) {
            Ok(Some(bytes)) => Ok(self.tools.spool.keep_segment(refill.name(), key, &bytes)?),
            Ok(None) | Err(RefillError::Damaged(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
