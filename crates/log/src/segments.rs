//! Segments: where bulk data rests, one ordered lane of frames beside the other.
//!
//! # Constraints
//!
//! * Nothing here is synced frame by frame. The [`Mover`] writes without a sync, the journal
//!   keeps every body until one [`Segments::sync`] after the copy succeeded.
//! * A lane that nobody uses costs a directory on disk and nothing else: no open file, no
//!   thread. A lane in use costs some hundred bytes and at most 12 KiB of sparse index; no
//!   memory grows with the number of frames.
//! * At most [`Options::files_open_max`] files are open, those in use by readers included.
//! * Every body is checked before it is served. Damage is answered as [`Read::Corrupt`], with the
//!   offsets it hit, and everything else is served.
//! * Readers run beside one writer per lane and see whole frames below the published end.
//!
//! # Files
//!
//! ```text
//! segments/<lane: 16 hex digits>/<base offset: 20 decimal digits>.segment
//! segments/<lane: 16 hex digits>/<base offset: 20 decimal digits>.index     once it is sealed
//! ```
//!
//! All numbers are little-endian. A segment file is one file header, then frames back to back,
//! each at a multiple of 8:
//!
//! ```text
//! file header                             frame
//!  at  size                                at  size
//!   0     8  magic "HOSEGMNT"               0     4  magic "HOFR"
//!   8     2  version, 1                     4     2  version, 1
//!  10     2  flags, 0                       6     2  flags, 0
//!  12     4  CRC-32C of these 32 bytes,     8     4  length of the body
//!            itself taken as 0             12     4  count of offsets, at least 1
//!  16     8  lane                          16     8  base offset
//!  24     8  base offset                   24     8  max timestamp, µs since 1970, signed
//!  32                                      32     4  CRC-32C of the body
//!                                          36     4  CRC-32C of lane, base offset of the file,
//!                                                    position in the file (8 bytes each), then
//!                                                    bytes 0..36
//!                                          40     n  body, verbatim
//!                                        40+n  0..7  zeros up to a multiple of 8
//! ```
//!
//! The header's sum covers the body's sum, so a frame is bound to its lane and its place as a
//! whole; and as the header has its own, a walk from frame to frame need not read the bodies, and
//! damage in a body costs that frame alone.
//!
//! The index file of a sealed segment has entries for frames 32 KiB apart, or more if they would
//! be too many:
//!
//! ```text
//! index header                            entry, from byte 64 on
//!  at  size                                at  size
//!   0     8  magic "HOSEGIDX"               0     8  base offset of a frame
//!   8     2  version, 1                     8     8  its position in the segment file
//!  10     2  flags, 0                      16     8  max timestamp of all frames before it
//!  12     4  CRC-32C of header (itself     24
//!            taken as 0) and entries
//!  16     8  lane
//!  24     8  base offset
//!  32     8  bytes of the segment file
//!  40     8  max timestamp of all frames
//!  48     8  least distance of entries
//!  56     8  number of entries, 0..=512
//!  64
//! ```
//!
//! An index that is missing or not sound to the last bit is made again from the segment.
//!
//! # Recovery
//!
//! After a crash the moves since the last successful sync are made again, in order:
//!
//! ```text
//!  offsets of a lane   ├──────── synced ────────┤├──── written, not synced ────┤
//!                                                ▲ o: the first move made again
//!  after the crash     sound, or truly damaged   any subset of any sector, any file
//! ```
//!
//! [`Segments::resume`] cuts the lane at `o`, whatever state the files from there on are in, and
//! the moves write them anew. Nothing below `o` is touched: what is not sound there is damage and
//! is told as such.
//!
//! A failed sync poisons: changes are refused until the segments are opened again, and `resume`
//! rewrites all that was not synced. A failed write costs its file handle; the tail is cut back
//! to the last whole frame before the next attempt.

mod error;
mod format;
mod index;
mod lane;
mod mover;
mod open_files;
mod reader;
mod retention;
mod walk;
mod warm;
mod writer;

pub use error::{ReadError, SyncError, WriteError};
pub use mover::{Bodies, BodyError, CopyError, Mark, Move, MoveError, Mover};

use crate::disk::{Disk, Open};
use bytes::Bytes;
use format::SegmentName;
use handoff_types::{Limits, Wall};
use lane::{LaneCell, State, Turn, segment_path};
use open_files::{Instance, OpenFiles};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warm::Warm;

/// One ordered sequence of frames with dense offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(pub u64);

impl fmt::Display for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A body and the offsets it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The first offset.
    pub base: u64,
    /// How many offsets; at least one.
    pub count: u32,
    /// The largest timestamp inside.
    pub max_timestamp: Wall,
    /// What is stored, verbatim.
    pub body: Bytes,
}

impl Frame {
    /// The first offset after the frame.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.base.saturating_add(self.count as u64)
    }
}

/// The bounds of segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The size at which a segment is sealed and the next begun. A larger frame has a segment of
    /// its own.
    pub segment_bytes: u64,
    /// How far apart the entries of the sparse index are at least.
    pub index_bytes: u64,
    /// How many files are open at once at most.
    pub files_open_max: usize,
    /// How much of what was written last the operating system keeps in memory for readers.
    pub warm_bytes: u64,
}

impl From<&Limits> for Options {
    fn from(limits: &Limits) -> Self {
        Self {
            segment_bytes: limits.segment_bytes,
            index_bytes: 32 << 10,
            files_open_max: limits.segment_files_open_max,
            warm_bytes: limits.segment_warm_bytes,
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::from(&Limits::default())
    }
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Frames in order without a gap, at least one; the first holds the offset asked for.
    Frames(Vec<Frame>),
    /// Nothing is stored at this offset yet.
    End {
        /// The offset the next frame will have.
        end: u64,
    },
    /// The offset has been removed already.
    Trimmed {
        /// The first offset that is kept.
        start: u64,
    },
    /// The disk lost what was stored at this offset. Reading at `to` goes on behind it.
    Corrupt {
        /// The first offset lost.
        from: u64,
        /// The first offset after the damage.
        to: u64,
    },
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Frames written now.
    pub written: usize,
    /// Frames the lane had already.
    pub already: usize,
}

/// How a lane goes on after a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The offset the next frame has.
    pub end: u64,
    /// Offsets that were synced once and are gone: the disk lost the end of the lane. They are
    /// answered as [`Read::Corrupt`].
    pub lost: Option<Range<u64>>,
}

/// All lanes of a data directory.
#[derive(Debug)]
pub struct Segments {
    disk: Arc<dyn Disk>,
    options: Options,
    files: OpenFiles,
    lanes: Mutex<HashMap<Lane, Arc<LaneCell>>>,
    warm: Mutex<Warm>,
    /// Set by a failed sync, never cleared.
    poisoned: AtomicBool,
    instances: AtomicU64,
    syncs_begun: AtomicU64,
    /// The highest number of a sync that succeeded.
    synced: AtomicU64,
}

impl Segments {
    /// Opens the segments of a data directory. Looks at no lane yet.
    ///
    /// # Errors
    /// [`WriteError::Disk`] if the directory for them cannot be made.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Self, WriteError> {
        disk.create_dir(lane::ROOT)
            .map_err(|source| WriteError::Disk { path: lane::ROOT.to_owned(), source })?;
        Ok(Self {
            files: OpenFiles::new(options.files_open_max),
            warm: Mutex::new(Warm::new(options.warm_bytes)),
            disk,
            options,
            lanes: Mutex::default(),
            poisoned: AtomicBool::new(false),
            instances: AtomicU64::new(0),
            syncs_begun: AtomicU64::new(0),
            synced: AtomicU64::new(0),
        })
    }

    /// The same segments, opened again: the way on after a failed sync.
    ///
    /// # Errors
    /// As [`Segments::open`].
    pub fn reopen(&self) -> Result<Self, WriteError> {
        Self::open(Arc::clone(&self.disk), self.options.clone())
    }

    /// Appends frames to a lane, and publishes them to readers. Durable after [`Self::sync`].
    ///
    /// Frames the lane has already are passed over, so an append may be repeated; the others must
    /// join its end without a gap.
    ///
    /// # Errors
    /// [`WriteError::Gap`] and [`WriteError::Unstorable`] change nothing. After a
    /// [`WriteError::Disk`] the lane ends with a whole frame, perhaps after some of these.
    pub fn append(&self, lane: Lane, frames: &[Frame]) -> Result<Appended, WriteError> {
        self.change(lane, |turn| turn.append(frames))
    }

    /// Cuts every frame at or above an offset. Durable after [`Self::sync`].
    ///
    /// # Errors
    /// [`WriteError::InsideFrame`] changes nothing. After a [`WriteError::Disk`] some frames above
    /// the offset may be left; cut again.
    pub fn truncate(&self, lane: Lane, offset: u64) -> Result<(), WriteError> {
        self.change(lane, |turn| turn.truncate(offset))
    }

    /// Makes a lane ready for the first frame that is moved again after a restart: everything at
    /// or above its offset may be torn and is cut, everything below was synced.
    ///
    /// A lane that ends before the offset has lost its end to damage; the offsets between are
    /// answered as [`Read::Corrupt`] and the lane goes on behind them. A lane that starts above
    /// the offset starts at it again: that its first segments were trimmed cannot be told from
    /// that they never reached the disk, so they are written anew and may be trimmed again.
    ///
    /// # Errors
    /// As [`Self::truncate`].
    pub fn resume(&self, lane: Lane, offset: u64) -> Result<Resumed, WriteError> {
        self.change(lane, |turn| turn.resume(offset))
    }

    /// Removes segments that hold only offsets below this one, and returns the lane's new start.
    /// Whole files go; the one that is written to stays.
    ///
    /// # Errors
    /// After a [`WriteError::Disk`] some of the segments may be left; trim again.
    pub fn trim(&self, lane: Lane, below: u64) -> Result<u64, WriteError> {
        self.change(lane, |turn| turn.trim(below))
    }

    /// Removes the oldest segments while the rest still has `keep_bytes`, or while all they hold
    /// is from before `older_than`, and returns the lane's new start. Whole files go; the one
    /// that is written to stays.
    ///
    /// # Errors
    /// As [`Self::trim`].
    pub fn retain(
        &self,
        lane: Lane,
        keep_bytes: Option<u64>,
        older_than: Option<Wall>,
    ) -> Result<u64, WriteError> {
        self.change(lane, |turn| turn.retain(keep_bytes, older_than))
    }

    /// Removes a lane and all it holds. A removal not followed by [`Self::sync`] may be undone by
    /// a crash, in whole or in part; remove again.
    ///
    /// # Errors
    /// After a [`WriteError::Disk`] some of it may be left; remove again.
    pub fn remove_lane(&self, lane: Lane) -> Result<(), WriteError> {
        self.change(lane, |turn| turn.remove())
    }

    /// Makes every change made so far durable, with one sync for all lanes.
    ///
    /// # Errors
    /// After an error changes are refused until the segments are opened again.
    pub fn sync(&self) -> Result<(), SyncError> {
        if self.is_poisoned() {
            return Err(SyncError::Poisoned);
        }
        let written = lock(&self.warm).syncing();
        let number = self.syncs_begun.fetch_add(1, Ordering::AcqRel) + 1;
        if let Err(source) = self.disk.sync_all() {
            self.poisoned.store(true, Ordering::Release);
            return Err(SyncError::Disk { source });
        }
        self.synced.fetch_max(number, Ordering::AcqRel);
        let old = lock(&self.warm).synced(written);
        for (name, range) in old {
            self.let_go(name, range);
        }
        Ok(())
    }

    /// Frees the memory of a range. A file that cannot be opened has none to free, or says so to
    /// whoever needs it.
    fn let_go(&self, name: SegmentName, range: Range<u64>) {
        self.files.with_place(self.new_instance(), || {
            if let Ok(file) = self.disk.open(&segment_path(name), Open::Read) {
                file.let_go(range);
            }
        });
    }

    /// Whether a sync has failed, so that changes are refused until the segments are
    /// [opened again](Self::reopen).
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    /// The first offset the lane keeps; its end if it keeps none.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn start(&self, lane: Lane) -> Result<u64, ReadError> {
        self.look(lane, |state| state.start())
    }

    /// Whether the lane has files, be it that they have lost every frame.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn has_files(&self, lane: Lane) -> Result<bool, ReadError> {
        self.look(lane, |state| !state.segments.is_empty())
    }

    /// The offset the lane's next frame will have.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn end(&self, lane: Lane) -> Result<u64, ReadError> {
        self.look(lane, |state| state.end)
    }

    fn change<R>(
        &self,
        lane: Lane,
        act: impl FnOnce(&Turn<'_>) -> Result<R, WriteError>,
    ) -> Result<R, WriteError> {
        if self.is_poisoned() {
            return Err(WriteError::Poisoned);
        }
        act(&Turn::take(self, &self.cell(lane)))
    }

    /// Looks at a lane without waiting for its writer, unless it must be loaded first.
    fn look<R>(&self, lane: Lane, act: impl FnOnce(&mut State) -> R) -> Result<R, ReadError> {
        let cell = self.cell(lane);
        if let Some(state) = cell.state().as_mut() {
            return Ok(act(state));
        }
        Turn::take(self, &cell).with(act)
    }

    fn cell(&self, lane: Lane) -> Arc<LaneCell> {
        let mut lanes = lock(&self.lanes);
        Arc::clone(lanes.entry(lane).or_insert_with(|| Arc::new(LaneCell::new(lane))))
    }

    fn new_instance(&self) -> Instance {
        Instance(self.instances.fetch_add(1, Ordering::Relaxed))
    }
}

/// What a lock guards here is changed in single steps, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
