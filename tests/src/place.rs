//! A directory of one's own, gone afterwards unless something went wrong in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A fresh directory. Dropping it removes it, except while a panic passes by or after
/// [`Place::keep`]: then somebody will want to look.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    keep: bool,
}

impl Place {
    /// Makes a directory below `parent` that nobody else has.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn below(parent: &Path) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("handoff-{}-{number}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self { path, keep: false })
    }

    /// Makes a directory where the system keeps what is temporary.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn temporary() -> io::Result<Self> {
        Self::below(&std::env::temp_dir())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is.
    pub fn keep(&mut self) -> &Path {
        self.keep = true;
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep || std::thread::panicking() {
            eprintln!("kept: {}", self.path.display());
        } else {
            // What cannot be removed is left for the system to clean up.
            drop(fs::remove_dir_all(&self.path));
        }
    }
}
