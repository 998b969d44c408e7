//! What the world is built from, so that a test can put something broken in its place.

use std::fmt;
use std::sync::Arc;

use handoff_log::disk::Disk;
use handoff_log::journal::Journal;
use handoff_store_embedded::Persist;
use handoff_types::{Limits, Now, Steady, Wall, time};

use crate::brokers::Rules;
use crate::room::Counter;

/// The parts of a server that the world does not make up itself.
pub trait Parts: fmt::Debug + Sized + 'static {
    /// The room.
    type Room: Persist + Rules;

    /// The disk as the server sees it. Crashes happen below.
    fn disk(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        disk
    }

    /// The journal as the room sees it.
    fn journal(journal: Arc<dyn Journal>) -> Arc<dyn Journal> {
        journal
    }

    /// Where the steady clock goes on after a restart.
    fn resume(last: Now, wall: Wall) -> Steady {
        time::resume(last, wall)
    }
}

/// Everything as it is.
#[derive(Debug)]
pub struct Sound;

impl Parts for Sound {
    type Room = Counter;
}

/// Bounds so small that rolling, recycling, pieces, sealing and trimming happen all the time.
///
/// Admission counts what entries may take at most, and in the smallest files that is twice what
/// they take: the ring is large enough that a room is busy before the ring is full.
pub(super) fn limits() -> Limits {
    Limits {
        journal_file_bytes: 64 << 10,
        journal_bytes_max: 640 << 10,
        journal_reserve_bytes: 64 << 10,
        room_queue_bytes_max: 32 << 10,
        change_bytes_max: 64 << 10,
        segment_bytes: 16 << 10,
        segment_files_open_max: 8,
        poison_secs_max: 1,
        checkpoint_chunk_bytes: 300,
    }
}
