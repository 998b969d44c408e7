//! A disk that fails when told to.
//!
//! Nothing here is left to chance: the same plan over the same calls gives the same faults.
//!
//! * A call that is made to fail with `EIO` does not reach the disk below. Over [`super::Crash`]
//!   what was not synced therefore stays unsynced.
//! * After a failed [`File::sync`] the same handle reports success for every later one and does
//!   nothing, as Linux does once it has dropped the dirty pages. Whoever repeats a sync is caught
//!   by the next crash; whoever opens the file again is not lied to.
//! * A full disk takes what fits, then refuses whatever needs more room. Writing inside a file's
//!   length needs none; removing, replacing and cutting give room back.
//! * For a write that fails halfway, make one write short and the next one fail.

mod plan;

pub use plan::{Call, Calls, Faults, Short};

use super::{Disk, File, Open, Walk};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Passes calls on to another disk, except for those its [`Faults`] spoil.
#[derive(Clone, Debug)]
pub struct Faulty {
    inner: Arc<dyn Disk>,
    faults: Faults,
}

impl Faulty {
    /// A disk without faults, and the handle that makes them.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> (Self, Faults) {
        let faults = Faults::new(Arc::clone(&inner));
        (Self { inner, faults: faults.clone() }, faults)
    }

    /// The length of a file that is about to go, or 0 if there is none.
    fn room_of(&self, path: &str) -> io::Result<u64> {
        match self.inner.open(path, Open::Read) {
            Ok(file) => file.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl Disk for Faulty {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        self.faults.strike(Call::Open)?;
        if how == Open::Create {
            self.faults.need_any_room()?;
        }
        let inner = self.inner.open(path, how)?;
        Ok(Arc::new(FaultyFile {
            inner,
            faults: self.faults.clone(),
            sync_failed: AtomicBool::new(false),
        }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.faults.strike(Call::List)?;
        self.inner.list(dir)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.faults.strike(Call::List)?;
        self.inner.walk(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.faults.strike(Call::CreateDir)?;
        if self.faults.is_full() && self.inner.list(dir).is_err() {
            self.faults.need_any_room()?;
        }
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.faults.strike(Call::Rename)?;
        let room = if self.faults.is_full() && from != to { self.room_of(to)? } else { 0 };
        self.inner.rename(from, to)?;
        self.faults.give_room(room);
        Ok(())
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        self.faults.strike(Call::Rename)?;
        self.inner.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.faults.strike(Call::Remove)?;
        let room = if self.faults.is_full() { self.room_of(path)? } else { 0 };
        self.inner.remove(path)?;
        self.faults.give_room(room);
        Ok(())
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.faults.strike(Call::Remove)?;
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.faults.strike(Call::SyncDir)?;
        self.inner.sync_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        self.faults.strike(Call::SyncAll)?;
        self.inner.sync_all()
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Arc<dyn File>,
    faults: Faults,
    sync_failed: AtomicBool,
}

impl File for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.faults.strike(Call::Len)?;
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.faults.strike(Call::Read)?;
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.faults.strike(Call::Write)?;
        let (bytes, _) = bytes.split_at(self.faults.shorten(bytes.len()));
        if !self.faults.is_full() {
            return self.inner.write_at(bytes, offset);
        }
        // The room goes from the end of the file, so a gap before the write counts as well.
        let len = self.inner.len()?;
        let growth = offset.saturating_add(bytes.len() as u64).saturating_sub(len);
        let granted = self.faults.take_room(growth);
        let refused = usize::try_from(growth - granted).unwrap_or(usize::MAX);
        let (fitting, _) = bytes.split_at(bytes.len().saturating_sub(refused));
        if fitting.is_empty() && !bytes.is_empty() {
            self.faults.give_room(granted);
            return Err(plan::no_room());
        }
        self.inner.write_at(fitting, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.strike(Call::SetLen)?;
        if !self.faults.is_full() {
            return self.inner.set_len(len);
        }
        let before = self.inner.len()?;
        let growth = len.saturating_sub(before);
        let granted = self.faults.take_room(growth);
        if granted < growth {
            self.faults.give_room(granted);
            return Err(plan::no_room());
        }
        self.inner.set_len(len)?;
        self.faults.give_room(before.saturating_sub(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        if let Err(error) = self.faults.strike(Call::Sync) {
            self.sync_failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
        if self.sync_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.inner.sync()
    }

    fn write_back(&self, range: Range<u64>) {
        self.inner.write_back(range);
    }

    fn let_go(&self, range: Range<u64>) {
        self.inner.let_go(range);
    }
}
