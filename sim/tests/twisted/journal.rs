//! Journals that are right but for one thing.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use handoff_log::journal::{BodyAt, Entry, Journal, Permit, Purpose, ReadError, Refused, Ticket};
use handoff_types::{Position, Room, Sequence};

/// A journal that does one thing otherwise than the one below.
pub(crate) trait Hasty: fmt::Debug + Send + Sync + Sized + 'static {
    fn append(journal: &dyn Journal, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        journal.append(permit, entry)
    }

    fn barrier(journal: &dyn Journal, room: Room) -> Ticket {
        journal.barrier(room)
    }
}

#[derive(Debug)]
struct Hurried<T>(Arc<dyn Journal>, PhantomData<T>);

pub(crate) fn hurried<T: Hasty>(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
    Arc::new(Hurried::<T>(journal, PhantomData))
}

impl<T: Hasty> Journal for Hurried<T> {
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused> {
        self.0.admit(room, bytes, purpose)
    }

    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket) {
        T::append(&*self.0, permit, entry)
    }

    fn barrier(&self, room: Room) -> Ticket {
        T::barrier(&*self.0, room)
    }

    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        self.0.body(at)
    }

    fn trim(&self, room: Room, below: Position) {
        self.0.trim(room, below);
    }

    fn durable(&self) -> Position {
        self.0.durable()
    }
}

/// A ticket for what a room without records has appended: fulfilled at once.
pub(crate) fn fulfilled(journal: &dyn Journal) -> Ticket {
    journal.barrier(Room::Relay)
}
