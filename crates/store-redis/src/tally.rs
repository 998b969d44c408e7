//! What became of the calls that a client ran.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts that whoever holds a client may look at while its session works.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    stored: AtomicU64,
    late: AtomicU64,
    unfinished: AtomicUsize,
}

impl Tally {
    pub(crate) fn count(&self, taken: bool) {
        let which = if taken { &self.stored } else { &self.late };
        which.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn has(&self, calls: usize) {
        self.unfinished.store(calls, Ordering::Relaxed);
    }

    pub(crate) fn stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    pub(crate) fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.load(Ordering::Relaxed)
    }
}
