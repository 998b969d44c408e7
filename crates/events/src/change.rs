//! What becomes true.

use handoff_types::Wall;

use crate::{Due, Event, Handed, Id, Letter, Outlet, Totals};

/// Why an event is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Somebody deleted it.
    Deleted,
    /// It has occurred as often as it should.
    Finished,
}

/// A change. Each touches one aggregate and no other: one event, its outlet, one dead letter, or the
/// totals. A checkpoint takes
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
    /// The totals grow by this much. The number of registrations is also the next id, and the
    /// number of dead letters the next one's.
    Counted(Totals),
    /// An event is published from now on.
    Opened {
        /// The event.
        id: Id,
        /// Its outlet.
        outlet: Box<Outlet>,
    },
    /// Occurrences wait for their topic.
    Handed {
        /// Whose.
        id: Id,
        /// Which, in order. May be empty: those that there were are dead letters.
        handed: Vec<Handed>,
        /// The next sequence.
        next: u64,
    },
    /// The topic has answered, or the occurrence became a dead letter.
    Answered {
        /// Whose.
        id: Id,
        /// Which.
        sequence: u64,
    },
    /// The event of an outlet is gone, and something of it is still there.
    Ended {
        /// The event.
        id: Id,
    },
    /// Nothing of an event is left to be published.
    Closed {
        /// The event.
        id: Id,
    },
    /// A letter is dead.
    Died {
        /// Its number.
        number: u64,
        /// The letter.
        letter: Box<Letter>,
    },
    /// A dead letter is handed over again.
    Retried {
        /// Its number.
        number: u64,
    },
    /// A dead letter was refused again.
    RefusedAgain {
        /// Its number.
        number: u64,
        /// Why.
        why: Box<str>,
    },
    /// A dead letter is gone: published, deleted, or dropped for a newer one.
    LetterGone {
        /// Its number.
        number: u64,
    },
}
