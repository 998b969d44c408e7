//! What the disk gives when everything is written twice: synced into a ring, then copied to where
//! it rests.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use crate::now;

/// How much is written and how it is copied.
#[derive(Clone, Copy, Debug)]
pub struct Moving {
    /// One write and one sync take this.
    pub round_bytes: usize,
    /// The length of the zero-filled file that is written over and over.
    pub ring_bytes: u64,
    /// The copy is made durable each time it has grown by this.
    pub sync_bytes: u64,
    /// The copy may be this far behind.
    pub behind_bytes: u64,
    /// No more than this is written.
    pub bytes_max: u64,
    /// Nor for longer than this.
    pub time: Duration,
}

/// What was written, copied and durable at both places, and how long that took.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Bytes, counted once.
    pub bytes: u64,
    /// From the first write to the end of the last sync.
    pub elapsed: Duration,
}

impl Moved {
    /// Bytes per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.bytes as f64 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }
}

/// Writes synced rounds into `ring` on this thread while another copies them to a new file at
/// `rest`. `sync_all` makes the filesystem durable; std has no name for that.
///
/// # Errors
/// Whatever the operating system answers.
pub fn recycle_and_move(
    plan: &Moving,
    ring: &File,
    rest: &Path,
    sync_all: impl Fn() -> io::Result<()> + Sync,
) -> io::Result<Moved> {
    let rest = File::create_new(rest)?;
    let round = plan.round_bytes as u64;
    let behind = usize::try_from(plan.behind_bytes / round).unwrap_or(1);
    let bytes = vec![0x5a; plan.round_bytes];
    let begun = now();
    let written = thread::scope(|scope| {
        let (written, to_copy) = sync_channel(behind);
        let mover = scope.spawn(|| copy(plan, ring, &rest, to_copy, &sync_all));
        let mut total = 0;
        while total < plan.bytes_max && begun.elapsed() < plan.time {
            let at = (total / round % (plan.ring_bytes / round)) * round;
            ring.write_all_at(&bytes, at)?;
            ring.sync_data()?;
            total += round;
            if written.send(at).is_err() {
                break;
            }
        }
        drop(written);
        mover.join().unwrap_or_else(|_| Err(io::Error::other("the mover panicked")))?;
        Ok::<_, io::Error>(total)
    })?;
    Ok(Moved { bytes: written, elapsed: begun.elapsed() })
}

fn copy(
    plan: &Moving,
    ring: &File,
    rest: &File,
    to_copy: Receiver<u64>,
    sync_all: impl Fn() -> io::Result<()>,
) -> io::Result<()> {
    let mut bytes = vec![0; plan.round_bytes];
    let mut copied = 0;
    let mut synced = 0;
    for at in to_copy {
        ring.read_exact_at(&mut bytes, at)?;
        rest.write_all_at(&bytes, copied)?;
        copied += bytes.len() as u64;
        if copied - synced >= plan.sync_bytes {
            sync_all()?;
            synced = copied;
        }
    }
    sync_all()
}
