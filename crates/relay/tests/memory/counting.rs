//! An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes in use, as a common allocator spends them: a word of its own for each piece, pieces in
/// steps of sixteen bytes, none below thirty-two (glibc).
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// The most there were since somebody asked.
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn spent(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator as it came. `realloc` is left to its
// default: a new piece, a copy, and the old one given back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let spent = spent(layout);
        let now = IN_USE.fetch_add(spent, Ordering::Relaxed) + spent;
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(spent(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Nobody else allocates for as long as this is held, but for whoever runs tests.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are in use.
pub(crate) fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// What something took above what was in use before it, at most.
pub(crate) fn most_of(work: impl FnOnce()) -> usize {
    let before = in_use();
    MOST.store(before, Ordering::Relaxed);
    work();
    MOST.load(Ordering::Relaxed) - before
}
