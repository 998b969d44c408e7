//! Plain group commit: blocked writers, one committer thread, one write and one sync per round.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};

/// A committer thread over a zero-filled file, which it overwrites round after round.
#[derive(Debug)]
pub struct GroupCommit {
    shared: Arc<Shared>,
    committer: JoinHandle<io::Result<u64>>,
}

#[derive(Debug, Default)]
struct Shared {
    open: Mutex<Round>,
    work: Condvar,
    /// Rounds up to this one are on disk.
    durable: AtomicU64,
    failed: AtomicBool,
}

/// The round that writers join while the one before it is written.
#[derive(Debug, Default)]
struct Round {
    /// How many rounds came before.
    before: u64,
    bytes: Vec<u8>,
    writers: Vec<Thread>,
    idle: bool,
    closing: bool,
}

impl GroupCommit {
    /// Starts the committer.
    #[must_use]
    pub fn start(file: File, file_bytes: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let of_committer = Arc::clone(&shared);
        let committer = thread::spawn(move || {
            let rounds = of_committer.commit_all(&file, file_bytes);
            if rounds.is_err() {
                of_committer.failed.store(true, Ordering::Release);
                of_committer.open().writers.iter().for_each(Thread::unpark);
            }
            rounds
        });
        Self { shared, committer }
    }

    /// Blocks until the payload is on disk.
    ///
    /// # Errors
    /// When the disk failed; the committer has its answer.
    pub fn append(&self, payload: &[u8]) -> io::Result<()> {
        let mut open = self.shared.open();
        open.bytes.extend_from_slice(payload);
        open.writers.push(thread::current());
        let round = open.before + 1;
        let wake = mem::take(&mut open.idle);
        drop(open);
        if wake {
            self.shared.work.notify_one();
        }
        while self.shared.durable.load(Ordering::Acquire) < round {
            if self.shared.failed.load(Ordering::Acquire) {
                return Err(io::Error::other("the disk failed the committer"));
            }
            thread::park();
        }
        Ok(())
    }

    /// Stops the committer and says how many rounds it wrote.
    ///
    /// # Errors
    /// What the disk answered.
    pub fn stop(self) -> io::Result<u64> {
        self.shared.open().closing = true;
        self.shared.work.notify_one();
        self.committer.join().unwrap_or_else(|_| Err(io::Error::other("the committer panicked")))
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Round> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit_all(&self, file: &File, file_bytes: u64) -> io::Result<u64> {
        let mut bytes = Vec::new();
        let mut writers = Vec::new();
        let mut at = 0;
        loop {
            let mut open = self.open();
            while open.bytes.is_empty() {
                if open.closing {
                    return Ok(open.before);
                }
                open.idle = true;
                open = self.work.wait(open).unwrap_or_else(PoisonError::into_inner);
            }
            mem::swap(&mut open.bytes, &mut bytes);
            mem::swap(&mut open.writers, &mut writers);
            open.before += 1;
            let round = open.before;
            drop(open);
            if at + bytes.len() as u64 > file_bytes {
                at = 0;
            }
            file.write_all_at(&bytes, at).and_then(|()| file.sync_data()).inspect_err(|_| {
                self.failed.store(true, Ordering::Release);
                writers.iter().for_each(Thread::unpark);
            })?;
            at += bytes.len() as u64;
            bytes.clear();
            self.durable.store(round, Ordering::Release);
            writers.drain(..).for_each(|writer| writer.unpark());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::GroupCommit;
    use std::{env, fs, process, thread};

    #[test]
    fn what_was_appended_is_in_the_file_and_writers_share_rounds() {
        let path = env::temp_dir().join(format!("handoff-probe-{}", process::id()));
        let file = crate::zero_filled(&path, 64 << 10).unwrap();
        let probe = GroupCommit::start(file, 64 << 10);
        thread::scope(|scope| {
            for writer in 1..=8 {
                let probe = &probe;
                scope.spawn(move || (0..4).for_each(|_| probe.append(&[writer; 100]).unwrap()));
            }
        });
        let rounds = probe.stop().unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert!((4..=32).contains(&rounds), "{rounds}");
        for writer in 1..=8 {
            assert_eq!(bytes.iter().filter(|byte| **byte == writer).count(), 400);
        }
    }
}
