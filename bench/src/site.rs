//! Where a benchmark writes: a fresh directory on a disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;

use handoff_log::disk::Real;

use crate::Failed;
use crate::cleaner::Cleaner;
use crate::device::Flushes;

/// A directory that is gone when this is.
#[derive(Debug)]
pub(crate) struct Site {
    dir: PathBuf,
    /// How often the device flushed, if the system tells.
    pub(crate) flushes: Option<Flushes>,
    _cleaner: Cleaner,
}

impl Site {
    /// Makes a directory `handoff-bench-<pid>` in `parent`.
    pub(crate) fn make(parent: &Path, needed: u64) -> Result<Self, Failed> {
        let parent = parent.canonicalize().map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", parent.display()))
        })?;
        let disk = Real::new(&parent)?;
        if disk.on_memory_filesystem()? {
            return Err(Failed::InMemory { dir: parent });
        }
        let free = disk.free_bytes()?;
        if free < needed {
            return Err(Failed::NoSpace { dir: parent, free, needed });
        }
        let dir = parent.join(format!("handoff-bench-{}", process::id()));
        fs::create_dir(&dir)?;
        let cleaner = Cleaner::of(&dir);
        Ok(Self { flushes: Flushes::below(&dir), dir, _cleaner: cleaner })
    }

    /// A directory for one measurement.
    pub(crate) fn corner(&self, name: &str) -> io::Result<Corner> {
        let path = self.dir.join(name);
        let disk = Arc::new(Real::new(&path)?);
        Ok(Corner { path, disk })
    }
}

/// A directory of one measurement, gone when this is.
#[derive(Debug)]
pub(crate) struct Corner {
    path: PathBuf,
    pub(crate) disk: Arc<Real>,
}

impl Corner {
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Corner {
    fn drop(&mut self) {
        // The site goes too in the end; this only frees the space sooner.
        drop(fs::remove_dir_all(&self.path));
    }
}
