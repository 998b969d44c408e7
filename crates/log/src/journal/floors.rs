//! How far back each room still needs the journal.

use std::sync::{Mutex, PoisonError};

use handoff_types::Room;

use super::round::Round;

/// Per room, the position below which it needs nothing; none for a room without records.
#[derive(Debug)]
pub(crate) struct Floors {
    floors: Mutex<[Option<u64>; Room::MAX]>,
}

impl Floors {
    pub(crate) fn new(floors: [Option<u64>; Room::MAX]) -> Self {
        Self { floors: Mutex::new(floors) }
    }

    /// The room needs nothing below a position. Gives what nobody needs any more.
    pub(crate) fn raise(&self, room: Room, below: u64) -> Option<u64> {
        let mut floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(floor)) = floors.get_mut(room.index()) {
            *floor = below.max(*floor);
        }
        floors.iter().flatten().min().copied()
    }

    /// A round with records is needed by its rooms from now on.
    pub(crate) fn note(&self, round: &Round) {
        let mut floors = self.floors.lock().unwrap_or_else(PoisonError::into_inner);
        for record in &round.records {
            if let Some(floor) = floors.get_mut(record.room.index()) {
                floor.get_or_insert(round.position);
            }
        }
    }
}
