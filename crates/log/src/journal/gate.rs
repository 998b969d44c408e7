//! Admission: bytes are taken before work is begun.
//!
//! Each room has its own allowance, so a flood in one cannot shut another out, and the ring keeps
//! a reserve for records that finish what was promised. Once admitted, an entry is written: there
//! is no refusal after the decision.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use handoff_types::{Limits, Position, Room};

use super::error::Refused;
use super::format::Geometry;

/// What an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Takes on something new. Refused when only the reserve is left.
    Accept,
    /// Finishes what was promised: an acknowledgement, a removal, a mark. May use the reserve.
    Finish,
}

/// Bytes a room may append. Given back when dropped unused.
#[derive(Debug)]
#[must_use = "a permit that is dropped admits nothing"]
pub struct Permit {
    gate: Arc<Gate>,
    room: Room,
    bytes: u64,
}

impl Permit {
    /// The room it was given to.
    #[must_use]
    pub fn room(&self) -> Room {
        self.room
    }

    /// Turns the permit into what an entry really takes. The estimate may have been too low;
    /// then the room is over its allowance until the entry is durable, and admits nothing more.
    pub(crate) fn spend(mut self, bytes: u64) {
        self.gate.take(self.room, bytes);
        self.gate.release(self.room, std::mem::take(&mut self.bytes));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.release(self.room, self.bytes);
    }
}

/// The state of the door.
#[derive(Debug)]
pub(crate) struct Gate {
    geometry: Geometry,
    waiting: [AtomicU64; Room::MAX],
    /// What everything admitted may take of the ring.
    reserved: AtomicU64,
    free: AtomicU64,
    room_max: u64,
    change_max: u64,
    reserve: u64,
    shut: Mutex<Shut>,
}

#[derive(Debug, Default)]
struct Shut {
    closed: bool,
    poisoned: Option<Arc<io::Error>>,
    no_file: Option<Arc<io::Error>>,
    damaged: [Option<Position>; Room::MAX],
}

impl Gate {
    pub(crate) fn new(
        limits: &Limits,
        geometry: Geometry,
        damaged: [Option<Position>; Room::MAX],
    ) -> Self {
        Self {
            geometry,
            waiting: Default::default(),
            reserved: AtomicU64::new(0),
            free: AtomicU64::new(0),
            room_max: limits.room_queue_bytes_max,
            change_max: limits.change_bytes_max,
            reserve: limits.journal_reserve_bytes,
            shut: Mutex::new(Shut { damaged, ..Shut::default() }),
        }
    }

    /// Takes `bytes` of the room's allowance, or says why not.
    pub(crate) fn admit(
        self: &Arc<Self>,
        room: Room,
        bytes: u64,
        purpose: Purpose,
    ) -> Result<Permit, Refused> {
        if bytes > self.change_max {
            return Err(Refused::TooLarge { bytes, limit: self.change_max });
        }
        self.check_open(room)?;
        self.check_space(bytes, purpose)?;
        let waiting = self.take(room, bytes);
        // A change larger than the allowance passes when the room has nothing else waiting.
        if waiting > 0 && waiting + bytes > self.room_max {
            self.release(room, bytes);
            return Err(Refused::Busy { room, waiting, limit: self.room_max });
        }
        Ok(Permit { gate: Arc::clone(self), room, bytes })
    }

    /// Gives back what an entry took, once it is durable.
    pub(crate) fn release(&self, room: Room, bytes: u64) {
        if let Some(waiting) = self.waiting.get(room.index()) {
            waiting.fetch_sub(bytes, Ordering::AcqRel);
        }
        if bytes > 0 {
            let space = self.geometry.entry_bytes_at_most(bytes);
            self.reserved.fetch_sub(space, Ordering::AcqRel);
        }
    }

    /// What the room has on its way to the disk.
    pub(crate) fn waiting(&self, room: Room) -> u64 {
        self.waiting.get(room.index()).map_or(0, |waiting| waiting.load(Ordering::Acquire))
    }

    /// Publishes how much the ring can still take, and what keeps it from growing.
    pub(crate) fn set_free(&self, free: u64, fault: Option<Arc<io::Error>>) {
        self.free.store(free, Ordering::Release);
        self.lock().no_file = fault;
    }

    /// Shuts the door while the journal moves to a fresh file, or opens it again.
    pub(crate) fn set_poisoned(&self, fault: Option<Arc<io::Error>>) {
        self.lock().poisoned = fault;
    }

    /// Shuts the door for good.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
    }

    fn take(&self, room: Room, bytes: u64) -> u64 {
        if bytes > 0 {
            let space = self.geometry.entry_bytes_at_most(bytes);
            self.reserved.fetch_add(space, Ordering::AcqRel);
        }
        let waiting = self.waiting.get(room.index());
        waiting.map_or(0, |waiting| waiting.fetch_add(bytes, Ordering::AcqRel))
    }

    fn check_open(&self, room: Room) -> Result<(), Refused> {
        let shut = self.lock();
        if shut.closed {
            return Err(Refused::Closed);
        }
        if let Some(at) = shut.damaged.get(room.index()).copied().flatten() {
            return Err(Refused::Damaged { room, at });
        }
        match &shut.poisoned {
            Some(fault) => Err(Refused::Poisoned { fault: Arc::clone(fault) }),
            None => Ok(()),
        }
    }

    fn check_space(&self, bytes: u64, purpose: Purpose) -> Result<(), Refused> {
        let reserve = match purpose {
            Purpose::Accept => self.reserve,
            Purpose::Finish => 0,
        };
        let reserved = self.reserved.load(Ordering::Acquire);
        let free = self.free.load(Ordering::Acquire).saturating_sub(reserved);
        let space = self.geometry.entry_bytes_at_most(bytes);
        if free >= space.saturating_add(reserve) {
            return Ok(());
        }
        match &self.lock().no_file {
            Some(fault) => Err(Refused::NoFile { fault: Arc::clone(fault) }),
            None => Err(Refused::Full { free, reserve }),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shut> {
        self.shut.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(free: u64) -> Arc<Gate> {
        let limits = Limits {
            room_queue_bytes_max: 100,
            change_bytes_max: 1000,
            journal_reserve_bytes: 5000,
            ..Limits::default()
        };
        let gate = Arc::new(Gate::new(&limits, Geometry::of_files(64 << 10), [None; Room::MAX]));
        gate.set_free(free, None);
        gate
    }

    #[test]
    fn a_full_room_is_refused_and_another_is_not() {
        let gate = gate(100_000);
        let first = gate.admit(Room::Streams, 90, Purpose::Accept).unwrap();
        assert!(matches!(
            gate.admit(Room::Streams, 20, Purpose::Accept),
            Err(Refused::Busy { waiting: 90, limit: 100, .. })
        ));
        drop(gate.admit(Room::Events, 20, Purpose::Accept).unwrap());
        drop(first);
        drop(gate.admit(Room::Streams, 20, Purpose::Accept).unwrap());
        assert_eq!(gate.waiting(Room::Streams), 0);
    }

    #[test]
    fn the_reserve_is_for_finishing() {
        let gate = gate(9_000);
        assert!(matches!(
            gate.admit(Room::Streams, 20, Purpose::Accept),
            Err(Refused::Full { free: 9_000, reserve: 5_000 })
        ));
        drop(gate.admit(Room::Streams, 20, Purpose::Finish).unwrap());
    }

    #[test]
    fn a_change_above_the_limit_is_refused_by_name() {
        assert!(matches!(
            gate(100_000).admit(Room::Streams, 1001, Purpose::Finish),
            Err(Refused::TooLarge { bytes: 1001, limit: 1000 })
        ));
    }

    #[test]
    fn a_damaged_room_is_refused_and_the_others_are_not() {
        let mut damaged = [None; Room::MAX];
        damaged[Room::Calls.index()] = Some(Position(8192));
        let gate = Arc::new(Gate::new(&Limits::default(), Geometry::of_files(64 << 10), damaged));
        gate.set_free(1 << 30, None);
        assert!(matches!(
            gate.admit(Room::Calls, 1, Purpose::Finish),
            Err(Refused::Damaged { room: Room::Calls, at: Position(8192) })
        ));
        drop(gate.admit(Room::Events, 1, Purpose::Accept).unwrap());
    }

    #[test]
    fn an_entry_above_its_permit_counts_in_full_until_it_is_durable() {
        let gate = gate(100_000);
        gate.admit(Room::Streams, 10, Purpose::Accept).unwrap().spend(120);
        assert_eq!(gate.waiting(Room::Streams), 120);
        assert!(gate.admit(Room::Streams, 1, Purpose::Accept).is_err());
        gate.release(Room::Streams, 120);
        drop(gate.admit(Room::Streams, 1, Purpose::Accept).unwrap());
    }
}
