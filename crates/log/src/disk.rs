//! The disk as the log needs it, and nothing more.
//!
//! # What a disk may do to us
//!
//! * A crash may keep any subset of the writes not yet synced, including part of one write, in
//!   units of 512-byte sectors.
//! * File length and content survive independently.
//! * A rename, a creation or a removal not followed by a [`Disk::sync_dir`] may be undone.
//! * A disk may be full, may return an error from any call, may write less than asked, may flip
//!   bits at rest.
//! * After a failed write or sync nobody knows what the file holds. The handle is not used again
//!   and the sync is not repeated: a second `fsync` may report success for pages the kernel has
//!   dropped (Rebello et al., "Can Applications Recover from fsync Failures?", 2020).
//!
//! [`Crash`] is that text as code. [`Real`] is the operating system, [`Memory`] a disk that never
//! fails, [`Faulty`] and [`Counting`] wrap any other.
//!
//! Paths are relative to the data directory and written with `/`; none leaves it. The empty path
//! is the data directory itself, where a directory is asked for. Whoever adds a method here pays
//! for it in every twin.

mod contents;
mod counting;
mod crash;
mod faulty;
mod memory;
mod path;
mod real;
mod shared;
mod tree;

pub use counting::{Counting, Counts};
pub use crash::{Coverage, Crash, When};
pub use faulty::{Call, Calls, Faults, Faulty, Short};
pub use memory::Memory;
pub use real::Real;

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// A directory tree on one filesystem.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens a file. [`Open::Create`] makes an empty one and fails if the name is taken.
    ///
    /// # Errors
    /// Whatever the disk answers; `NotFound` and `AlreadyExists` as in [`std::fs`], and `InvalidInput`
    /// for what is neither a file nor a directory.
    fn open(&self, path: &str, how: Open) -> io::Result<Arc<dyn File>>;

    /// The names in a directory, sorted, without `.` and `..`.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;

    /// The same one by one, in no order, for a directory of which not all names are ours or which
    /// has too many of them to be held. What is made or removed meanwhile is given or not.
    ///
    /// # Errors
    /// As [`Self::list`].
    fn walk(&self, dir: &str) -> io::Result<Walk>;

    /// Makes a directory and those above it; one that exists already is fine.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn create_dir(&self, dir: &str) -> io::Result<()>;

    /// Moves a file to a name in the same tree, replacing what is there.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Moves a file to a name in the same tree that nothing has, also if somebody takes it at the
    /// same moment.
    ///
    /// # Errors
    /// `NotFound` if there is no such file, `AlreadyExists` if the name is taken; both are then as
    /// they were.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// `NotFound` if there is no such file.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Removes a directory in which nothing is.
    ///
    /// # Errors
    /// `NotFound` if there is no such directory, `DirectoryNotEmpty` if something is in it.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;

    /// Makes the names of a directory durable.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Makes everything durable that was written to any file or directory of this tree.
    ///
    /// # Errors
    /// Whatever the disk answers; what was written since the last success is then unknown.
    fn sync_all(&self) -> io::Result<()>;
}

/// An open file. Reads and writes name their place; there is no cursor to share.
#[expect(clippy::len_without_is_empty, reason = "nobody asks whether a file is empty")]
pub trait File: Send + Sync + fmt::Debug {
    /// The file's length in bytes.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn len(&self) -> io::Result<u64>;

    /// Reads at most `buffer.len()` bytes at `offset`; fewer at the end of the file.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes at most `bytes.len()` bytes at `offset`, growing the file if needed, and says how
    /// many it wrote. Use [`write_all_at`].
    ///
    /// # Errors
    /// Whatever the disk answers; what the range holds is then unknown.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Cuts the file, or grows it with zeros.
    ///
    /// # Errors
    /// Whatever the disk answers.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// Whatever the disk answers; what was written since the last success is then unknown.
    fn sync(&self) -> io::Result<()>;

    /// Begins to bring a range to the disk and does not wait for it, so that the next sync finds
    /// little to do. A hint: nothing is durable by it.
    fn write_back(&self, _range: Range<u64>) {}

    /// Says that a range, synced before, is not read soon, so that the operating system can use
    /// its memory for something else. A hint: it changes nothing that anybody can read.
    fn let_go(&self, _range: Range<u64>) {}
}

/// The names in a directory, one by one.
pub type Walk = Box<dyn Iterator<Item = io::Result<Found>> + Send>;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The name. If it is not UTF-8, what can be shown of it.
    pub name: String,
    /// What it stands for.
    pub what: FoundWhat,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FoundWhat {
    /// A file.
    File,
    /// A directory.
    Dir,
    /// Something that is never opened: a link, a pipe, or anything whose name is not UTF-8.
    Other,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// It must be there; reading only.
    Read,
    /// It must be there; reading and writing.
    Write,
    /// It must not be there; reading and writing.
    Create,
}

impl Open {
    /// Refuses to change a file opened for reading, with the answer of the operating system.
    fn check_writable(self) -> io::Result<()> {
        match self {
            Self::Read => Err(rustix::io::Errno::BADF.into()),
            Self::Write | Self::Create => Ok(()),
        }
    }
}

/// Writes all of `bytes` at `offset`, however many calls that takes.
///
/// # Errors
/// Whatever the disk answers, and `WriteZero` when it takes nothing more.
pub fn write_all_at(file: &dyn File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = bytes.get(written..).unwrap_or_default();
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `buffer` from `offset` as far as the file goes, and says how far.
///
/// # Errors
/// Whatever the disk answers.
pub fn read_full_at(file: &dyn File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a small file whole; `None` if there is none. A longer one is cut at `bytes_max`.
///
/// # Errors
/// Whatever the disk answers.
pub fn read_small(disk: &dyn Disk, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX).min(bytes_max);
    let mut bytes = vec![0; len];
    let read = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Puts a small file in place as a whole: after a crash it is the old one or this one.
///
/// # Errors
/// Whatever the disk answers. Either may then be in place.
pub fn replace_small(disk: &dyn Disk, path: &str, bytes: &[u8]) -> io::Result<()> {
    let writing = format!("{path}.writing");
    remove_if_there(disk, &writing)?;
    let file = disk.open(&writing, Open::Create)?;
    write_all_at(&*file, bytes, 0)?;
    file.sync()?;
    disk.rename(&writing, path)?;
    disk.sync_dir(path.rsplit_once('/').map_or("", |(dir, _)| dir))
}

/// Removes a file that an earlier attempt may have left.
///
/// # Errors
/// Whatever the disk answers, except that there is no such file.
pub fn remove_if_there(disk: &dyn Disk, path: &str) -> io::Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
