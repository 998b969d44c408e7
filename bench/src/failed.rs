//! Why there are no figures.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A benchmark that was refused or broke off.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failed {
    /// The directory is on a filesystem in memory.
    InMemory {
        /// The directory.
        dir: PathBuf,
    },
    /// The filesystem has too little space.
    NoSpace {
        /// The directory.
        dir: PathBuf,
        /// What is free, in bytes.
        free: u64,
        /// What is needed, in bytes.
        needed: u64,
    },
    /// The disk, or what was measured, answered with an error.
    Broke(io::Error),
}

impl Failed {
    /// Whether nothing was begun, because of something the caller can change.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Broke(_))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InMemory { dir } => write!(
                f,
                "{} is on a filesystem in memory, where a sync means nothing; \
                 name a directory on a disk with --dir",
                dir.display()
            ),
            Self::NoSpace { dir, free, needed } => write!(
                f,
                "{} has {} MiB free and the benchmark needs {}; name another directory with --dir",
                dir.display(),
                free >> 20,
                needed >> 20
            ),
            Self::Broke(error) => write!(f, "the benchmark broke off: {error}"),
        }
    }
}

impl Error for Failed {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Broke(error) => Some(error),
            Self::InMemory { .. } | Self::NoSpace { .. } => None,
        }
    }
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Self {
        Self::Broke(error)
    }
}
