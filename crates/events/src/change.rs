//! What becomes true.

use handoff_types::Wall;

use crate::{Due, Event, Id, Totals};

/// Why an event is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Somebody deleted it.
    Deleted,
    /// It has occurred as often as it should.
    Finished,
}

/// A change. Each touches one aggregate and no other: one event, or the totals. A checkpoint takes
/// the room piece by piece, and replay decides for each piece which changes it already has; a
/// change that touched two pieces could not be had by one and not by the other.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// An event is there.
    Registered {
        /// The id: always the next one. That it is used is in the [`Change::Counted`] beside it.
        id: Id,
        /// The event.
        event: Box<Event>,
    },
    /// One or several occurrences have happened, told or missed.
    Occurred {
        /// The event.
        id: Id,
        /// How many; at least 1.
        count: u64,
        /// Of those, missed and not told.
        skipped: u64,
        /// The last of them, by the operator's clock: the event's new last update.
        updated: Wall,
        /// When the next is due. The event is still there.
        due: Due,
    },
    /// An event is gone.
    Gone {
        /// The event.
        id: Id,
        /// Why.
        why: Gone,
        /// Occurrences that happened with it, as in [`Change::Occurred`]; 0 for a deletion.
        count: u64,
        /// Of those, missed and not told.
        skipped: u64,
    },
    /// The event waits for another time than before.
    Rescheduled {
        /// The event.
        id: Id,
        /// When it is due now.
        due: Due,
    },
    /// The totals grow by this much. The number of registrations is also the next id.
    Counted(Totals),
}
