//! Limits that more than one room keeps. Each has a name here, a config key, a metric of its
//! fill and a refusal with words.

/// The bounds of the journal and of what goes through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `log.journal_bytes_max`: what the ring of journal files may take on disk.
    pub journal_bytes_max: u64,
    /// `log.journal_file_bytes`: the size of one file of the ring.
    pub journal_file_bytes: u64,
    /// `log.journal_reserve_bytes`: what of the ring is kept for records that finish what was
    /// promised, when new messages are refused already.
    pub journal_reserve_bytes: u64,
    /// `log.room_queue_bytes_max`: what one room may have admitted and not yet durable.
    pub room_queue_bytes_max: u64,
    /// `log.change_bytes_max`: the largest single change, bodies included.
    pub change_bytes_max: u64,
    /// `log.segment_bytes`: the size at which a segment is closed and the next begun.
    pub segment_bytes: u64,
    /// `log.segment_files_open_max`: segment files held open at once.
    pub segment_files_open_max: usize,
    /// `log.segment_warm_bytes`: what of the segments written last the operating system keeps in
    /// memory for readers.
    pub segment_warm_bytes: u64,
    /// `log.poison_secs_max`: how long the journal tries to go on after the disk failed it,
    /// before it stops for good.
    pub poison_secs_max: u64,
    /// `log.checkpoint_chunk_bytes`: how much of a room's state one checkpoint step takes.
    pub checkpoint_chunk_bytes: usize,
}

/// The largest record of the journal, its header included. Part of the file format.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// What one commit round takes of bulk at most. Part of the file format's bounds.
pub const ROUND_BULK_BYTES_MAX: usize = 1 << 20;

impl Default for Limits {
    fn default() -> Self {
        Self {
            journal_bytes_max: 1 << 30,
            journal_file_bytes: 64 << 20,
            journal_reserve_bytes: 64 << 20,
            room_queue_bytes_max: 16 << 20,
            change_bytes_max: 64 << 20,
            segment_bytes: 64 << 20,
            segment_files_open_max: 512,
            segment_warm_bytes: 256 << 20,
            poison_secs_max: 30,
            checkpoint_chunk_bytes: 64 << 10,
        }
    }
}
