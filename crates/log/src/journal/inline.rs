//! A journal that commits when told: no threads, no clock, for simulations and for work on a
//! directory that no server runs on.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handoff_types::{Position, Room, Sequence};
use thiserror::Error;

use super::ahead::Ahead;
use super::desk::Desk;
use super::entry::{BodyAt, Entry};
use super::error::{ReadError, Refused};
use super::floors::Floors;
use super::gate::{Gate, Permit, Purpose};
use super::ring::Ring;
use super::round::Round;
use super::shelf::Shelf;
use super::ticket::Ticket;
use super::writer::{CommitFault, Writer};
use super::{Journal, Opened};
use crate::disk::Disk;

/// The waiting rounds are not durable yet. What was appended waits; commit again.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Stalled {
    /// The ring has no free file and the disk gave none.
    #[error("the journal has no file to write to{}", match fault {
        Some(fault) => format!(": {fault}"),
        None => " until rooms trim".to_owned(),
    })]
    NoFile {
        /// What the disk answered, if it was asked.
        fault: Option<Arc<io::Error>>,
    },
    /// The disk failed a write or a sync.
    #[error("the disk failed the journal: {fault}")]
    Poisoned {
        /// What the disk answered.
        fault: Arc<io::Error>,
    },
}

/// A journal whose rounds are written by [`Inline::commit`].
#[derive(Debug)]
pub struct Inline {
    gate: Arc<Gate>,
    shelf: Arc<Shelf>,
    floors: Floors,
    ring: Arc<Mutex<Ring>>,
    disk: Arc<dyn Disk>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    desk: Desk,
    writer: Writer,
    /// A round that was formed and is not durable.
    pending: Option<Round>,
}

impl Inline {
    /// Continues a journal. Nothing may be answered before the first [`Inline::commit`].
    #[must_use]
    pub fn start(opened: Opened) -> Self {
        let writer =
            Writer::new(Arc::clone(&opened.ring), Arc::clone(&opened.shelf), opened.last_number);
        let inline = Self {
            gate: Arc::new(Gate::new(&opened.limits, opened.geometry, opened.damaged)),
            shelf: opened.shelf,
            floors: opened.floors,
            ring: opened.ring,
            disk: opened.disk,
            inner: Mutex::new(Inner { desk: opened.desk, writer, pending: opened.unsure }),
        };
        inline.supply();
        inline.publish_space(&inline.lock());
        inline
    }

    /// Makes everything appended so far durable and fulfils its tickets.
    ///
    /// # Errors
    /// [`Stalled`]; nothing is lost, the rounds wait and a later commit writes them.
    pub fn commit(&self) -> Result<(), Stalled> {
        let mut inner = self.lock();
        loop {
            let Some(round) = inner.pending.take().or_else(|| inner.desk.form()) else { break };
            if let Err(stalled) = self.write(&mut inner, &round) {
                inner.pending = Some(round);
                self.publish_space(&inner);
                return Err(stalled);
            }
            self.announce(&mut inner, round);
        }
        let mark = inner.desk.mark();
        inner.writer.mark(mark);
        self.supply();
        self.publish_space(&inner);
        Ok(())
    }

    /// Commits and makes the mark durable that tells a clean end from a crash.
    ///
    /// # Errors
    /// [`Stalled`] as [`Inline::commit`].
    pub fn close(self) -> Result<(), Stalled> {
        self.commit()?;
        let closed = self.lock().writer.close();
        closed.map_err(|fault| Stalled::Poisoned { fault: Arc::new(fault) })
    }

    fn write(&self, inner: &mut Inner, round: &Round) -> Result<(), Stalled> {
        loop {
            match inner.writer.commit(round) {
                Ok(()) => return Ok(()),
                Err(CommitFault::NeedsFile) => {
                    if !self.supply() {
                        let fault = self.ring().fault();
                        return Err(Stalled::NoFile { fault });
                    }
                }
                Err(CommitFault::Disk(fault)) => {
                    let fault = Arc::new(fault);
                    self.gate.set_poisoned(Some(Arc::clone(&fault)));
                    return Err(Stalled::Poisoned { fault });
                }
            }
        }
    }

    fn announce(&self, inner: &mut Inner, round: Round) {
        self.gate.set_poisoned(None);
        self.floors.note(&round);
        for (promise, committed) in inner.desk.durable(&round) {
            promise.fulfil(Ok(committed));
        }
        for record in &round.records {
            self.gate.release(record.room, record.admitted);
        }
        round.fulfil();
    }

    /// Gets the ring files as far as it wants them; whether it got any.
    fn supply(&self) -> bool {
        let mut got = false;
        loop {
            let Some(order) = self.ring().order() else { return got };
            let result = order.carry_out(&*self.disk);
            let failed = result.is_err();
            self.ring().delivered(&order, result);
            if failed {
                return got;
            }
            got = true;
        }
    }

    fn publish_space(&self, inner: &Inner) {
        let ring = self.ring();
        self.gate.set_free(ring.free_bytes(inner.writer.rest_bytes()), ring.fault());
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for Inline {
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused> {
        self.gate.admit(room, bytes, purpose).inspect_err(|refused| {
            if matches!(refused, Refused::NoFile { .. }) && self.supply() {
                self.publish_space(&self.lock());
            }
        })
    }

    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        permit.spend(entry.bytes());
        self.lock().desk.push(entry)
    }

    fn barrier(&self, room: Room) -> Ticket {
        self.lock().desk.barrier(room)
    }

    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        self.shelf.body(at)
    }

    fn bodies(&self, position: Position) -> Result<Vec<Bytes>, ReadError> {
        self.shelf.bodies(position)
    }

    fn bodies_ahead(&self, position: Position, ahead: &mut Ahead) -> Result<Vec<Bytes>, ReadError> {
        self.shelf.bodies_ahead(position, ahead)
    }

    fn trim(&self, room: Room, below: Position) {
        if let Some(low) = self.floors.raise(room, below.0) {
            self.shelf.trim(low);
            self.ring().trim(low);
            self.publish_space(&self.lock());
        }
    }

    fn durable(&self) -> Position {
        self.shelf.durable()
    }
}
