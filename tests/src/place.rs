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
    /// Makes a directory below `parent` that nobody else has. Process ids come back, and what an
    /// earlier process of this id kept or was killed over still lies there: that is passed by.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn below(parent: &Path) -> io::Result<Self> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        fs::create_dir_all(parent)?;
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("handoff-{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path, keep: false }),
                Err(taken) if taken.kind() == io::ErrorKind::AlreadyExists => {}
                Err(refused) => return Err(refused),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::Place;
    use std::fs;

    #[test]
    fn what_an_earlier_process_of_the_same_id_left_is_passed_by() {
        let parent = Place::temporary().unwrap();
        for number in 0..100 {
            let left = parent.path().join(format!("handoff-{}-{number}", std::process::id()));
            fs::create_dir_all(left.join("data")).unwrap();
        }
        let place = Place::below(parent.path()).unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0, "somebody's files");
    }
}
