//! Who may be asked already, and why not.

use std::sync::Arc;

use handoff_types::Room;
use tokio::sync::watch;

/// Where the server is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It cannot be asked yet; what it is doing, in words.
    Starting(String),
    /// It can.
    Ready,
    /// It finishes what was begun and takes nothing new.
    Stopping,
}

/// How one room is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomStatus {
    /// It is being read.
    Starting,
    /// It works.
    Open,
    /// It is switched off.
    Off,
    /// It stays closed, and why.
    Closed(String),
}

/// The server and its rooms at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Board {
    /// The server.
    pub phase: Phase,
    /// What keeps every room from taking anything for the moment, if something does.
    pub trouble: Option<String>,
    /// Its rooms, in the order they were named.
    pub rooms: Vec<(Room, RoomStatus)>,
}

impl Board {
    /// What keeps the server from being ready, in words; none if nothing does. A room that was
    /// switched off does not; one that is closed does.
    #[must_use]
    pub fn obstacle(&self) -> Option<String> {
        match &self.phase {
            Phase::Starting(what) => return Some(format!("starting: {what}")),
            Phase::Stopping => return Some("stopping".to_owned()),
            Phase::Ready => {}
        }
        if let Some(trouble) = &self.trouble {
            return Some(trouble.clone());
        }
        let words = |(room, status): &(Room, RoomStatus)| match status {
            RoomStatus::Open | RoomStatus::Off => None,
            RoomStatus::Starting => Some(format!("{room} is starting")),
            RoomStatus::Closed(why) => Some(format!("{room} is closed: {why}")),
        };
        let closed: Vec<String> = self.rooms.iter().filter_map(words).collect();
        (!closed.is_empty()).then(|| closed.join("; "))
    }

    /// How a room is; off if nobody named it.
    #[must_use]
    pub fn room(&self, room: Room) -> RoomStatus {
        let found = self.rooms.iter().find(|(named, _)| *named == room);
        found.map_or(RoomStatus::Off, |(_, status)| status.clone())
    }
}

/// The board everybody can look at and wait for. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Readiness {
    board: Arc<watch::Sender<Board>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl Readiness {
    /// The board of a server that has just begun.
    #[must_use]
    pub fn new() -> Self {
        let phase = Phase::Starting("opening the data directory".to_owned());
        Self {
            board: Arc::new(watch::Sender::new(Board { phase, trouble: None, rooms: Vec::new() })),
        }
    }

    /// The board as it is now.
    #[must_use]
    pub fn board(&self) -> Board {
        self.board.borrow().clone()
    }

    /// Whether requests are taken. A closed room does not keep the others from it.
    #[must_use]
    pub fn takes_requests(&self) -> bool {
        self.board.borrow().phase == Phase::Ready
    }

    /// Every change of the board from now on.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Board> {
        self.board.subscribe()
    }

    /// The server is somewhere else in its life. Stopping is not taken back.
    pub fn set_phase(&self, phase: Phase) {
        self.board.send_modify(|board| {
            if board.phase != Phase::Stopping {
                board.phase = phase;
            }
        });
    }

    /// Nothing can be taken for the moment, and why; or it can again.
    pub fn set_trouble(&self, trouble: Option<String>) {
        self.board.send_if_modified(|board| {
            let differs = board.trouble != trouble;
            board.trouble = trouble;
            differs
        });
    }

    /// A room is otherwise than before.
    pub fn set_room(&self, room: Room, status: RoomStatus) {
        self.board.send_modify(|board| {
            match board.rooms.iter_mut().find(|(named, _)| *named == room) {
                Some((_, known)) => *known = status,
                None => board.rooms.push((room, status)),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, Readiness, RoomStatus};
    use handoff_types::Room;

    #[test]
    fn a_closed_room_is_named_and_the_others_are_asked() {
        let readiness = Readiness::new();
        assert!(readiness.board().obstacle().unwrap().starts_with("starting: "));
        readiness.set_room(Room::House, RoomStatus::Open);
        readiness.set_room(Room::Events, RoomStatus::Closed("records are lost".to_owned()));
        readiness.set_room(Room::Calls, RoomStatus::Off);
        readiness.set_phase(Phase::Ready);
        let board = readiness.board();
        assert_eq!(board.obstacle().unwrap(), "events is closed: records are lost");
        assert!(readiness.takes_requests());
        readiness.set_room(Room::Events, RoomStatus::Open);
        assert_eq!(readiness.board().obstacle(), None);
    }

    #[test]
    fn trouble_is_an_obstacle_as_long_as_it_lasts_and_requests_are_answered_meanwhile() {
        let readiness = Readiness::new();
        readiness.set_phase(Phase::Ready);
        readiness.set_trouble(Some("the disk failed the journal".to_owned()));
        assert_eq!(readiness.board().obstacle().unwrap(), "the disk failed the journal");
        assert!(readiness.takes_requests());
        readiness.set_trouble(None);
        assert_eq!(readiness.board().obstacle(), None);
    }

    #[test]
    fn a_server_that_stops_is_never_ready_again() {
        let readiness = Readiness::new();
        readiness.set_phase(Phase::Stopping);
        readiness.set_phase(Phase::Ready);
        assert_eq!(readiness.board().obstacle().unwrap(), "stopping");
        assert!(!readiness.takes_requests());
    }
}
