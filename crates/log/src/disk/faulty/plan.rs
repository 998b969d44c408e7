//! The plan of a faulty disk: which call fails, and how.

use super::super::shared::Shared;
use super::super::{Disk, Open, read_full_at, write_all_at};
use std::io;
use std::sync::Arc;

/// The handle that makes and ends the faults of a [`super::Faulty`] disk, while it is in use.
///
/// A clone is the same handle. "The `n`-th" counts from the call that plans it and starts at 1.
#[derive(Clone, Debug)]
pub struct Faults {
    inner: Arc<dyn Disk>,
    plan: Shared<Plan>,
}

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Disk::open`]
    Open,
    /// [`Disk::list`] and [`Disk::walk`]
    List,
    /// [`Disk::create_dir`]
    CreateDir,
    /// [`Disk::rename`] and [`Disk::rename_new`]
    Rename,
    /// [`Disk::remove`] and [`Disk::remove_dir`]
    Remove,
    /// [`Disk::sync_dir`]
    SyncDir,
    /// [`Disk::sync_all`]
    SyncAll,
    /// [`super::super::File::len`]
    Len,
    /// [`super::super::File::read_at`]
    Read,
    /// [`super::super::File::write_at`]
    Write,
    /// [`super::super::File::set_len`]
    SetLen,
    /// [`super::super::File::sync`]
    Sync,
}

/// The calls a fault is meant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Every call.
    Any,
    /// Those of one kind.
    Only(Call),
    /// Those that make something durable: [`Call::Sync`], [`Call::SyncDir`], [`Call::SyncAll`].
    Syncs,
}

/// How much of a write is taken when it is short. Never nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Short {
    /// The first half, rounded up.
    Half,
    /// The first byte.
    OneByte,
}

#[derive(Debug, Default)]
struct Plan {
    failures: Vec<Failure>,
    short: Vec<(Turn, Short)>,
    /// `None` while the disk is as large as it needs to be.
    room: Option<u64>,
    struck: u64,
}

#[derive(Debug)]
struct Failure {
    calls: Calls,
    turn: Turn,
}

/// When it is a fault's turn, among the calls it is meant for.
#[derive(Debug)]
enum Turn {
    /// After so many more calls, once.
    Once { calls_left: u64 },
    /// At each multiple of `period`.
    Every { period: u64, seen: u64 },
}

impl Faults {
    pub(super) fn new(inner: Arc<dyn Disk>) -> Self {
        Self { inner, plan: Shared::default() }
    }

    /// Fails the `n`-th of these calls with `EIO`, once.
    pub fn fail_nth(&self, calls: Calls, n: u64) {
        let turn = Turn::Once { calls_left: n };
        self.plan.lock().failures.push(Failure { calls, turn });
    }

    /// Fails each of these calls with `EIO` until [`Faults::clear`].
    pub fn fail_all(&self, calls: Calls) {
        let turn = Turn::Every { period: 1, seen: 0 };
        self.plan.lock().failures.push(Failure { calls, turn });
    }

    /// Lets the `n`-th write take only part of its bytes, once.
    pub fn shorten_nth(&self, n: u64, short: Short) {
        self.plan.lock().short.push((Turn::Once { calls_left: n }, short));
    }

    /// Lets every `period`-th write take only part of its bytes, until [`Faults::clear`].
    pub fn shorten_every(&self, period: u64, short: Short) {
        self.plan.lock().short.push((Turn::Every { period: period.max(1), seen: 0 }, short));
    }

    /// Leaves room for `room` more bytes, then answers `StorageFull`, until [`Faults::clear`].
    /// With no room at all no file and no directory can be made either.
    pub fn fill(&self, room: u64) {
        self.plan.lock().room = Some(room);
    }

    /// Ends every fault: what is planned is forgotten and the disk has room again.
    pub fn clear(&self) {
        let mut plan = self.plan.lock();
        *plan = Plan { struck: plan.struck, ..Plan::default() };
    }

    /// How many calls have been failed, shortened or refused for want of room so far, so that a
    /// test can prove that its fault took place.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.plan.lock().struck
    }

    /// Flips one bit of what is stored, as a medium does at rest. Bit 0 is the lowest of the first
    /// byte. No planned fault sees it.
    ///
    /// It is a write to the disk below: over [`super::super::Crash`] it is one more that the next
    /// crash may lose unless it is synced.
    ///
    /// # Errors
    /// As [`Disk::open`], and `UnexpectedEof` if the file is shorter than that.
    pub fn flip(&self, path: &str, bit: u64) -> io::Result<()> {
        let file = self.inner.open(path, Open::Write)?;
        let mut byte = [0];
        if read_full_at(file.as_ref(), &mut byte, bit / 8)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let flipped = byte.map(|byte| byte ^ (1 << (bit % 8)));
        write_all_at(file.as_ref(), &flipped, bit / 8)
    }

    /// Counts a call and fails it if it is its turn.
    pub(super) fn strike(&self, call: Call) -> io::Result<()> {
        let mut plan = self.plan.lock();
        let mut fails = false;
        for failure in &mut plan.failures {
            // Each counts on its own, so none may be skipped once another has struck.
            fails |= failure.calls.include(call) && failure.turn.comes();
        }
        plan.failures.retain(|failure| !failure.turn.is_over());
        if !fails {
            return Ok(());
        }
        plan.struck += 1;
        Err(rustix::io::Errno::IO.into())
    }

    /// Counts a write and says how many of its bytes it may take.
    pub(super) fn shorten(&self, count: usize) -> usize {
        let mut plan = self.plan.lock();
        let mut taken = count;
        for (turn, short) in &mut plan.short {
            if turn.comes() {
                taken = taken.min(short.part_of(count));
            }
        }
        plan.short.retain(|(turn, _)| !turn.is_over());
        plan.struck += u64::from(taken < count);
        taken
    }

    /// Whether the disk has an end at all.
    pub(super) fn is_full(&self) -> bool {
        self.plan.lock().room.is_some()
    }

    /// Takes as much of `wanted` as there is and says how much that is.
    pub(super) fn take_room(&self, wanted: u64) -> u64 {
        let mut plan = self.plan.lock();
        let Some(room) = &mut plan.room else { return wanted };
        let granted = wanted.min(*room);
        *room -= granted;
        plan.struck += u64::from(granted < wanted);
        granted
    }

    pub(super) fn give_room(&self, freed: u64) {
        if let Some(room) = &mut self.plan.lock().room {
            *room = room.saturating_add(freed);
        }
    }

    /// Refuses a new name when there is no room at all.
    pub(super) fn need_any_room(&self) -> io::Result<()> {
        let mut plan = self.plan.lock();
        if plan.room != Some(0) {
            return Ok(());
        }
        plan.struck += 1;
        Err(no_room())
    }
}

/// What a full disk answers.
pub(super) fn no_room() -> io::Error {
    rustix::io::Errno::NOSPC.into()
}

impl Calls {
    fn include(self, call: Call) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == call,
            Self::Syncs => matches!(call, Call::Sync | Call::SyncDir | Call::SyncAll),
        }
    }
}

impl Short {
    fn part_of(self, count: usize) -> usize {
        match self {
            Self::Half => count.div_ceil(2),
            Self::OneByte => count.min(1),
        }
    }
}

impl Turn {
    /// Counts one call and says whether this is the one.
    fn comes(&mut self) -> bool {
        match self {
            Self::Once { calls_left } => {
                *calls_left = calls_left.saturating_sub(1);
                *calls_left == 0
            }
            Self::Every { period, seen } => {
                *seen += 1;
                seen.is_multiple_of(*period)
            }
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Once { calls_left: 0 })
    }
}
