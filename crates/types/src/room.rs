//! The rooms of the house.

use std::fmt;

/// A room: one of the parties that write to the journal.
///
/// The number is part of the file formats: it is never reused and stays below [`Room::MAX`],
/// because every round of the journal counts the records of each room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Room {
    /// What belongs to no room: tokens, audit, settings.
    House = 0,
    /// Topics, partitions, consumer groups.
    Streams = 1,
    /// The two-phase mailbox between devices and an ERP database.
    Exchange = 2,
    /// Request and response that survive broken connections.
    Calls = 3,
    /// Timed events.
    Events = 4,
    /// Samples from the edge.
    Relay = 5,
    /// The counter that drives the log's own tests and benchmarks; never in a user's directory.
    Counter = 15,
}

impl Room {
    /// How many rooms the file formats have space for.
    pub const MAX: usize = 16;

    /// Every room there is.
    pub const ALL: [Self; 7] = [
        Self::House,
        Self::Streams,
        Self::Exchange,
        Self::Calls,
        Self::Events,
        Self::Relay,
        Self::Counter,
    ];

    /// The number the file formats know this room by.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The room's slot in a table of all rooms.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The room with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|room| room.number() == number)
    }

    /// The room's name as users write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::House => "house",
            Self::Streams => "streams",
            Self::Exchange => "exchange",
            Self::Calls => "calls",
            Self::Events => "events",
            Self::Relay => "relay",
            Self::Counter => "counter",
        }
    }
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Room;

    #[test]
    fn every_room_is_found_by_its_number_and_fits_the_tables() {
        for room in Room::ALL {
            assert_eq!(Room::from_number(room.number()), Some(room));
            assert!(room.index() < Room::MAX);
        }
        assert_eq!(Room::from_number(14), None);
    }
}
