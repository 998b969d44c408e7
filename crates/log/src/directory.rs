//! The data directory: what is in it, whose it is, and that one process uses it at a time.
//!
//! ```text
//! VERSION       format of the directory and its id; written first, replaced only as a whole
//! LOCK          held by the process that uses the directory
//! journal/      the ring of journal files
//! checkpoints/  the latest state of each room
//! segments/     bulk data that left the journal
//! exchange/     files that devices and the ERP exchange
//! spool/        what waits for a way out
//! quarantine/   damaged ranges set aside by repair
//! history/      what happened, for people
//! ```

mod lock;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handoff_types::{Code, Entropy};
use thiserror::Error;

pub use self::lock::Lock;
use crate::disk::{Disk, Real, read_small, replace_small};

/// The directories of a data directory. All on one filesystem.
pub const DIRS: [&str; 7] =
    ["journal", "checkpoints", "segments", "exchange", "spool", "quarantine", "history"];

/// The format this version writes and the newest it reads.
const FORMAT: u32 = 1;

const VERSION: &str = "VERSION";
const VERSION_BYTES_MAX: usize = 4096;
const TITLE: &str = "handoff data directory";

/// A data directory, ready for its journal to be opened.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Where its files are.
    pub disk: Arc<dyn Disk>,
    /// Its own id, made when it was first opened. Files of another directory are refused.
    pub id: u128,
}

/// Why a data directory cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Another process holds the lock.
    #[error(
        "data directory {path} is in use by {holder}; stop it, or choose another directory with --data-dir"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds it, as far as it is known.
        holder: String,
    },
    /// A later version made it.
    #[error(
        "the data directory has format {found} and this version reads up to {FORMAT}; start a newer version"
    )]
    Newer {
        /// The format found.
        found: u32,
    },
    /// It is not one of ours, or its VERSION is gone.
    #[error("{why}; check --data-dir, or restore the directory from a backup")]
    Unreadable {
        /// What is wrong.
        why: String,
    },
    /// Its parts are on different filesystems, and one sync would not cover them.
    #[error("data directory {path} spans several filesystems; keep it on one")]
    SeveralFilesystems {
        /// The directory.
        path: PathBuf,
    },
    /// The disk answered with an error.
    #[error("the disk failed data directory {path}: {fault}")]
    Disk {
        /// The file or directory.
        path: String,
        /// What the disk answered.
        #[source]
        fault: io::Error,
    },
}

impl Error {
    /// The stable code of this error.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::InUse { .. } => Code::DirectoryInUse,
            Self::Newer { .. } => Code::DirectoryNewer,
            Self::Unreadable { .. } | Self::SeveralFilesystems { .. } => Code::DirectoryUnreadable,
            Self::Disk { .. } => Code::DiskFault,
        }
    }
}

impl Directory {
    /// Opens a directory on the real disk and keeps every other process out until the lock is
    /// dropped. A directory that does not exist is made.
    ///
    /// # Errors
    /// [`Error::InUse`] names the other process; see [`enum@Error`] for the rest.
    pub fn open_locked(path: &Path, entropy: Entropy) -> Result<(Self, Lock), Error> {
        let disk_error = |fault| Error::Disk { path: path.display().to_string(), fault };
        let disk = Real::new(path).map_err(disk_error)?;
        let lock = Lock::take(path)?;
        let disk = Arc::new(disk);
        let directory = Self::open(Arc::clone(&disk) as Arc<dyn Disk>, entropy)?;
        if !disk.same_filesystem(&DIRS).map_err(disk_error)? {
            return Err(Error::SeveralFilesystems { path: path.to_owned() });
        }
        Ok((directory, lock))
    }

    /// Opens a directory on any disk; an empty one becomes a data directory with a fresh id.
    ///
    /// # Errors
    /// See [`enum@Error`].
    pub fn open(disk: Arc<dyn Disk>, entropy: Entropy) -> Result<Self, Error> {
        let id = match read_version(&*disk)? {
            Some(id) => id,
            None => {
                refuse_orphans(&*disk)?;
                let id = u128::from(entropy.word(0)) << 64 | u128::from(entropy.word(1));
                let text = format!("{TITLE}\nformat {FORMAT}\nid {id:032x}\n");
                replace_small(&*disk, VERSION, text.as_bytes()).map_err(disk_fault(VERSION))?;
                id
            }
        };
        let make = || {
            DIRS.iter().try_for_each(|dir| disk.create_dir(dir))?;
            disk.sync_dir("")
        };
        make().map_err(disk_fault("."))?;
        Ok(Self { disk, id })
    }
}

fn disk_fault(path: &str) -> impl FnOnce(io::Error) -> Error + '_ {
    move |fault| Error::Disk { path: path.to_owned(), fault }
}

fn read_version(disk: &dyn Disk) -> Result<Option<u128>, Error> {
    let bytes = read_small(disk, VERSION, VERSION_BYTES_MAX).map_err(disk_fault(VERSION))?;
    bytes.map(|bytes| parse_version(&bytes)).transpose()
}

fn parse_version(bytes: &[u8]) -> Result<u128, Error> {
    let unreadable = |why: &str| Error::Unreadable { why: format!("VERSION {why}") };
    let text = str::from_utf8(bytes).map_err(|_| unreadable("is not text"))?;
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return Err(unreadable("does not say that this is a handoff data directory"));
    }
    let format = lines.next().and_then(|line| line.strip_prefix("format ")?.parse::<u32>().ok());
    match format {
        Some(FORMAT) => {}
        Some(found) if found > FORMAT => return Err(Error::Newer { found }),
        _ => return Err(unreadable("names no format")),
    }
    let id = lines.next().and_then(|line| line.strip_prefix("id "));
    id.and_then(|id| u128::from_str_radix(id, 16).ok()).ok_or_else(|| unreadable("has no id"))
}

/// A directory without VERSION is new only if it holds nothing of ours.
fn refuse_orphans(disk: &dyn Disk) -> Result<(), Error> {
    let names = match disk.list("journal") {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(disk_fault("journal")(error)),
    };
    match names.iter().find(|name| name.ends_with(".journal")) {
        Some(name) => Err(Error::Unreadable {
            why: format!("VERSION is missing but journal/{name} is there"),
        }),
        None => Ok(()),
    }
}
