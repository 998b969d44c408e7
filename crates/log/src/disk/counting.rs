//! A disk that counts what is asked of it.

use super::{Disk, File, Open, Walk};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the calls to another disk and passes each on unchanged.
///
/// A clone counts into the same numbers. Figures such as "syncs per batch" are tests with this.
#[derive(Clone, Debug)]
pub struct Counting {
    inner: Arc<dyn Disk>,
    tally: Arc<Tally>,
}

/// How often each kind of call was made, whether it succeeded or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls to [`Disk::open`].
    pub opens: u64,
    /// Calls to [`File::read_at`].
    pub reads: u64,
    /// Calls to [`File::write_at`].
    pub writes: u64,
    /// Bytes the disk said it took.
    pub bytes_written: u64,
    /// Calls to [`File::sync`].
    pub syncs: u64,
    /// Calls to [`Disk::sync_dir`].
    pub dir_syncs: u64,
    /// Calls to [`Disk::sync_all`].
    pub sync_alls: u64,
    /// Calls to [`Disk::rename`] and [`Disk::rename_new`].
    pub renames: u64,
    /// Calls to [`Disk::remove`] and [`Disk::remove_dir`].
    pub removes: u64,
}

impl Counting {
    /// Counts from zero what is asked of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Disk>) -> Self {
        Self { inner, tally: Arc::default() }
    }

    /// The counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            opens: read(&self.tally.opens),
            reads: read(&self.tally.reads),
            writes: read(&self.tally.writes),
            bytes_written: read(&self.tally.bytes_written),
            syncs: read(&self.tally.syncs),
            dir_syncs: read(&self.tally.dir_syncs),
            sync_alls: read(&self.tally.sync_alls),
            renames: read(&self.tally.renames),
            removes: read(&self.tally.removes),
        }
    }
}

impl Disk for Counting {
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>> {
        add(&self.tally.opens, 1);
        let inner = self.inner.open(path, how)?;
        Ok(Arc::new(CountingFile { inner, tally: Arc::clone(&self.tally) }))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn walk(&self, dir: &str) -> io::Result<Walk> {
        self.inner.walk(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.inner.create_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        add(&self.tally.renames, 1);
        self.inner.rename(from, to)
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        add(&self.tally.renames, 1);
        self.inner.rename_new(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        add(&self.tally.removes, 1);
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        add(&self.tally.removes, 1);
        self.inner.remove_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        add(&self.tally.dir_syncs, 1);
        self.inner.sync_dir(dir)
    }

    fn sync_all(&self) -> io::Result<()> {
        add(&self.tally.sync_alls, 1);
        self.inner.sync_all()
    }
}

#[derive(Debug)]
struct CountingFile {
    inner: Arc<dyn File>,
    tally: Arc<Tally>,
}

impl File for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        add(&self.tally.reads, 1);
        self.inner.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        add(&self.tally.writes, 1);
        let written = self.inner.write_at(bytes, offset)?;
        add(&self.tally.bytes_written, written as u64);
        Ok(written)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        add(&self.tally.syncs, 1);
        self.inner.sync()
    }

    fn write_back(&self, range: Range<u64>) {
        self.inner.write_back(range);
    }

    fn let_go(&self, range: Range<u64>) {
        self.inner.let_go(range);
    }
}

#[derive(Debug, Default)]
struct Tally {
    opens: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    syncs: AtomicU64,
    dir_syncs: AtomicU64,
    sync_alls: AtomicU64,
    renames: AtomicU64,
    removes: AtomicU64,
}

/// Relaxed: each number stands alone and orders nothing.
fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::super::Memory;
    use super::{Counting, Counts, Disk, Open};
    use std::sync::Arc;

    #[test]
    fn counts_each_call_by_its_kind() {
        let disk = Counting::new(Arc::new(Memory::new()));
        let file = disk.open("a", Open::Create).unwrap();
        disk.open("missing", Open::Read).unwrap_err();
        file.write_at(b"hello", 0).unwrap();
        file.write_at(b"!", 5).unwrap();
        file.read_at(&mut [0; 6], 0).unwrap();
        file.sync().unwrap();
        disk.rename("a", "b").unwrap();
        disk.sync_dir("").unwrap();
        disk.rename_new("b", "c").unwrap();
        disk.clone().remove("c").unwrap();
        disk.remove_dir("missing").unwrap_err();
        disk.sync_all().unwrap();
        let expected = Counts {
            opens: 2,
            reads: 1,
            writes: 2,
            bytes_written: 6,
            syncs: 1,
            dir_syncs: 1,
            sync_alls: 1,
            renames: 2,
            removes: 2,
        };
        assert_eq!(disk.counts(), expected);
    }
}
