//! What the world is built from, so that a test can put something broken in its place.

use std::fmt;
use std::sync::Arc;

use handoff_log::disk::Disk;
use handoff_log::journal::Journal;
use handoff_types::{Limits, Now, Steady, Wall, time};

use super::flat::Lodger;
use crate::dice::Dice;

/// The parts of a server that the world does not make up itself.
pub trait Parts: fmt::Debug + Sized + 'static {
    /// The rooms, their callers and their judges.
    type Rooms: Rooms;

    /// The disk as the server sees it. Crashes happen below.
    fn disk(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        disk
    }

    /// The journal as the rooms see it.
    fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
        journal
    }

    /// Where the steady clock goes on after a restart.
    fn resume(last: Now, wall: Wall) -> Steady {
        time::resume(last, wall)
    }
}

/// Who lives in a server, and in what climate.
pub trait Rooms {
    /// The rooms of a seed.
    fn move_in(dice: &mut Dice) -> Household;

    /// What the operator's clock shows at the beginning.
    fn wall_start(_dice: &mut Dice) -> Wall {
        Wall(1_700_000_000_000_000)
    }

    /// By how many microseconds the operator sets the clock.
    fn wall_step(dice: &mut Dice) -> i64 {
        dice.around(86_400) * 1_000_000
    }
}

/// The rooms of one server.
#[derive(Debug)]
pub struct Household {
    pub(crate) rooms: Vec<Box<dyn Lodger>>,
    /// How often each act comes. Seeds differ in how busy, how lazy and how unlucky they are.
    pub(crate) temper: Vec<(u64, Act)>,
}

/// What may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// A room does something. Rooms count from 0.
    Room(usize, Deed),
    /// The journal makes durable what was appended.
    Commit,
    /// A fault of the disk begins.
    Strike,
    /// It ends.
    Mend,
    /// The machine will stop at one of the next syncs.
    Halt,
    /// The server ends and the next one begins.
    Restart,
}

/// What a room may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Somebody asks for something.
    Command,
    /// Time passes up to the room's next deadline.
    Tick,
    /// Some steps of a checkpoint.
    Checkpoint,
    /// Bodies go to segments.
    Copy,
    /// The segments become durable.
    Sync,
    /// Somebody looks.
    Read,
    /// Old bodies are given up.
    Retain,
    /// What was decided is done outside of the journal.
    Settle,
}

/// Bounds so small that rolling, recycling, pieces, sealing and trimming happen all the time.
///
/// Admission counts what entries may take at most, and in the smallest files that is twice what
/// they take: the ring is large enough that a room is busy before the ring is full.
pub(crate) fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 640 << 10,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 32 << 10,
        change_bytes_max: 64 << 10,
        segment_bytes: 16 << 10,
        segment_files_open_max: 8,
        segment_warm_bytes: 8 << 10,
        poison_secs_max: 1,
        checkpoint_chunk_bytes: 300,
    }
}
