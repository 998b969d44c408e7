//! What plain code gets from this disk: the floors Handoff is measured against.
//!
//! Nothing here but std, no checksums, no recovery, no admission. A floor shares the client
//! ([`drive`]) and the clock ([`now`]) with what is measured against it, so that a ratio compares
//! two ways to store and not two ways to look.

mod clients;
mod files;
mod group_commit;
mod moving;

pub use clients::{Load, drive};
pub use files::{durable_files, plain_files};
pub use group_commit::GroupCommit;
pub use moving::{Moved, Moving, recycle_and_move};

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What time it is. The only place of the benchmarks that asks.
#[expect(clippy::disallowed_methods, reason = "a benchmark asks how long things take")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Makes a file whose blocks are allocated and written, so that a sync after an overwrite need
/// not touch the filesystem's own journal.
///
/// # Errors
/// Whatever the operating system answers.
pub fn zero_filled(path: &Path, bytes: u64) -> io::Result<File> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        file.write_all_at(&zeros, at)?;
        at += zeros.len() as u64;
    }
    file.set_len(bytes)?;
    file.sync_all()?;
    Ok(file)
}

/// One thread overwrites a zero-filled file from its beginning to its end and over again, with a
/// `fdatasync` after each write: what the disk itself takes.
///
/// # Errors
/// Whatever the operating system answers.
pub fn overwrite(
    file: &File,
    file_bytes: u64,
    write_bytes: usize,
    time: Duration,
) -> io::Result<Load> {
    let bytes = vec![0x5a; write_bytes];
    let places = (file_bytes / write_bytes as u64).max(1);
    let writes = AtomicU64::new(0);
    drive(1, time, || {
        let place = writes.fetch_add(1, Ordering::Relaxed) % places;
        file.write_all_at(&bytes, place * write_bytes as u64)?;
        file.sync_data()
    })
}
