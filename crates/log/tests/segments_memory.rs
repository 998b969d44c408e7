//! What lanes take of memory, counted by the allocator: giving the segments back shows what they
//! held, because the disk in memory stays.

#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    reason = "an allocator that counts can be written in no other way; a test fails by panicking"
)]

use bytes::Bytes;
use handoff_log::disk::Memory;
use handoff_log::segments::{Frame, Lane, Options, Segments};
use handoff_types::Wall;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static IN_USE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const LANES: u64 = 10_000;

fn frame(base: u64, bytes: usize) -> Frame {
    Frame { base, count: 1, max_timestamp: Wall(0), body: Bytes::from(vec![7; bytes]) }
}

fn given_back(segments: Segments) -> usize {
    let before = IN_USE.load(Ordering::Relaxed);
    drop(segments);
    before - IN_USE.load(Ordering::Relaxed)
}

/// One test, because the count is one for all threads.
#[test]
fn a_lane_in_use_takes_some_hundred_bytes_and_its_index_and_none_of_its_frames() {
    let disk: Arc<Memory> = Arc::new(Memory::new());
    let options = Options { files_open_max: 16, ..Options::default() };
    let open = || Segments::open(Arc::clone(&disk) as _, options.clone()).unwrap();
    let segments = open();
    for round in 0..10 {
        for lane in 0..LANES {
            segments.append(Lane(lane), &[frame(round, 10)]).unwrap();
        }
    }
    let each = given_back(segments) / usize::try_from(LANES).unwrap();
    assert!(each < 700, "{each} bytes for each lane in use");

    let segments = open();
    for _ in 0..10 {
        segments.lanes().unwrap();
    }
    let idle = given_back(segments);
    assert!(idle < 64 << 10, "{idle} bytes for lanes that nobody uses");

    let dense = Options { index_bytes: 64, ..options };
    let kept = Arc::new(Memory::new());
    let segments = Segments::open(Arc::clone(&kept) as _, dense).unwrap();
    for base in 0..20_000 {
        segments.append(Lane(1), &[frame(base, 100)]).unwrap();
    }
    let one = given_back(segments);
    assert!(one < 14 << 10, "{one} bytes for a lane with an index as large as can be");
}
