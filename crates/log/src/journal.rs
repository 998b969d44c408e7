//! The journal: one write-ahead log for every room, with group commit.
//!
//! # Constraints
//! * What a [`Ticket`] reports is on disk. One sync covers whatever arrived while the one before
//!   ran; there is no timer.
//! * A record is at most 1 MiB, a round takes at most 1 MiB of bulk. Larger changes are pieces
//!   and a commit record.
//! * The files are a bounded ring, zero-filled once, recycled under a fresh salt.
//! * Bytes are admitted per room before work begins. What was admitted is written.
//! * After a failed write or sync the file is sealed at its last durable position and the journal
//!   goes on in a fresh file. No sync is ever repeated.
//! * Nothing that was durable is skipped in silence ([`Recovery`]).
//!
//! # Path of an entry
//! ```text
//!  admit ──▶ decide ──▶ append ──▶ Desk ──form──▶ Round ──▶ Writer: write, sync ──▶ Ticket
//!    ▲                             one line        one         │ fails
//!    └── Gate: bytes per room,     per room        position    └──▶ same round, fresh file
//!        reserve, poison, damage
//! ```
//!
//! The port is [`Journal`]. [`Inline`] commits when told and is what simulations drive;
//! [`Threaded`] has a committer thread and is what a server runs.

mod ahead;
mod desk;
mod entry;
mod error;
mod floors;
pub mod format;
mod gate;
mod inline;
mod recovery;
mod ring;
mod round;
mod shelf;
mod stats;
mod threaded;
mod ticket;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use handoff_types::{Entropy, Limits, Position, Room, Sequence};

use self::desk::Desk;
use self::floors::Floors;
use self::format::Geometry;
use self::ring::Ring;
use self::round::Round;
use self::shelf::Shelf;
use crate::disk::Disk;

pub use self::ahead::Ahead;
pub use self::entry::{BodyAt, Entry};
pub use self::error::{Lost, OpenError, ReadError, Refused};
pub use self::gate::{Permit, Purpose};
pub use self::inline::{Inline, Stalled};
pub use self::recovery::{
    Damage, LostRecords, Recovery, RepairError, Repaired, Replayed, Report, Start, Tail, excused,
    repair,
};
pub use self::stats::{SYNC_BOUNDS_MICROS, Stats};
pub use self::threaded::Threaded;
pub use self::ticket::{Committed, Receipt, Ticket};

/// The journal as rooms see it: append, read, trim. Nothing in it says where it is kept.
pub trait Journal: Send + Sync + fmt::Debug {
    /// Takes bytes of a room's allowance, before the room decides.
    ///
    /// # Errors
    /// [`Refused`], with words; nothing was taken.
    fn admit(&self, room: Room, bytes: u64, purpose: Purpose) -> Result<Permit, Refused>;

    /// Appends an entry. Entries of one room become durable in the order of their appends.
    fn append(&self, permit: Permit, entry: Entry) -> (Sequence, Ticket);

    /// More of the room follows at once: what it appends until [`Self::let_go`] need not be written
    /// one by one. Nothing waits for long; whoever holds does nothing but append.
    fn hold(&self, _room: Room) {}

    /// What the room has appended is to be written now.
    fn let_go(&self, _room: Room) {}

    /// A ticket for everything the room has appended so far. Whoever answers with state, a
    /// refusal included, waits for it.
    fn barrier(&self, room: Room) -> Ticket;

    /// A body of a durable entry.
    ///
    /// # Errors
    /// [`ReadError`]; damage is answered as such.
    fn body(&self, at: BodyAt) -> Result<Bytes, ReadError>;

    /// All bodies of a durable entry. An entry is checked as a whole, so this costs no more than
    /// one of them.
    ///
    /// # Errors
    /// [`ReadError`]; damage is answered as such. [`Self::body`] may still give bodies that it did
    /// not hit.
    fn bodies(&self, position: Position) -> Result<Vec<Bytes>, ReadError> {
        let mut bodies = Vec::new();
        for index in 0.. {
            match self.body(BodyAt { position, index }) {
                Ok(body) => bodies.push(body),
                Err(ReadError::NoSuchBody { .. }) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(bodies)
    }

    /// The same for whoever goes through entries in the order of their positions: what one read
    /// brought of the entries behind is in `ahead` and not read again.
    ///
    /// # Errors
    /// As [`Self::bodies`].
    fn bodies_ahead(&self, position: Position, ahead: &mut Ahead) -> Result<Vec<Bytes>, ReadError> {
        ahead.forget();
        self.bodies(position)
    }

    /// The room needs nothing below this position any more.
    fn trim(&self, room: Room, below: Position);

    /// Everything below this is on disk.
    fn durable(&self) -> Position;
}

/// How a journal is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes and bounds.
    pub limits: Limits,
    /// The data directory's own id; files of another are refused.
    pub directory: u128,
    /// Fresh for every open; salts are drawn from it.
    pub entropy: Entropy,
}

/// A journal that has been read back and can be continued, [`Inline`] or [`Threaded`].
#[derive(Debug)]
pub struct Opened {
    disk: Arc<dyn Disk>,
    limits: Limits,
    geometry: Geometry,
    ring: Arc<Mutex<Ring>>,
    shelf: Arc<Shelf>,
    desk: Desk,
    /// The number of the last file that holds rounds.
    last_number: u64,
    /// The last round, if nothing bears witness that it was durable.
    unsure: Option<Round>,
    floors: Floors,
    damaged: [Option<Position>; Room::MAX],
}
