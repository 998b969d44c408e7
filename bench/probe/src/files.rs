//! One file for every message, by plain code: as a careful program makes it, and as fast as the
//! operating system makes files at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::{Load, drive};

/// Makes files of this many bytes durable: each is written under another name, synced and renamed,
/// and its folder synced. From a number of threads, each in a folder of its own, so that the
/// filesystem can join their syncs.
///
/// # Errors
/// Whatever the operating system answers.
pub fn durable_files(
    parent: &Path,
    callers: usize,
    bytes: usize,
    time: Duration,
) -> io::Result<Load> {
    let body = vec![b'x'; bytes];
    make(parent, callers, time, |handle, folder, number| {
        let (under, name) =
            (folder.join(format!(".{number}")), folder.join(format!("{number}.json")));
        let mut file = File::create(&under)?;
        file.write_all(&body)?;
        file.sync_all()?;
        fs::rename(&under, &name)?;
        handle.sync_all()
    })
}

/// Makes files of this many bytes and syncs nothing: whoever keeps a file for every message makes no
/// more of them than this.
///
/// # Errors
/// Whatever the operating system answers.
pub fn plain_files(
    parent: &Path,
    callers: usize,
    bytes: usize,
    time: Duration,
) -> io::Result<Load> {
    let body = vec![b'x'; bytes];
    make(parent, callers, time, |_, folder, number| {
        fs::write(folder.join(format!("{number}.json")), &body)
    })
}

/// Calls `one` with a folder, its handle and a number, each thread with a folder of its own.
fn make(
    parent: &Path,
    callers: usize,
    time: Duration,
    one: impl Fn(&File, &Path, u64) -> io::Result<()> + Sync,
) -> io::Result<Load> {
    let folders = (0..callers).map(|number| {
        let folder = parent.join(format!("folder-{number}"));
        fs::create_dir_all(&folder)?;
        Ok((File::open(&folder)?, folder))
    });
    let folders = folders.collect::<io::Result<Vec<_>>>()?;
    let made = AtomicU64::new(0);
    let taken = AtomicU64::new(0);
    thread_local! {
        static MINE: std::cell::OnceCell<usize> = const { std::cell::OnceCell::new() };
    }
    drive(callers, time, || {
        let take = || usize::try_from(taken.fetch_add(1, Ordering::Relaxed)).unwrap_or(0);
        let mine = MINE.with(|mine| *mine.get_or_init(take));
        let (handle, folder) = folders.get(mine).ok_or_else(|| io::Error::other("no folder"))?;
        one(handle, folder, made.fetch_add(1, Ordering::Relaxed))
    })
}
