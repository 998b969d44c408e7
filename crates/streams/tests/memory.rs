//! What a partition takes of memory, all told, counted by the allocator and not by the system.

#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an allocator that counts can be written in no other way; a test fails by panicking"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use handoff_streams::{Change, PartitionId, State, Streams, TopicId};
use handoff_types::{Machine, Wall};

/// Bytes in use, as a common allocator spends them: a word of its own for each piece, pieces in
/// steps of sixteen bytes, none below thirty-two (glibc).
static IN_USE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn spent(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator as it came. `realloc` is left to its
// default: a new piece, a copy, and the old one given back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(spent(layout), Ordering::Relaxed);
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

const PARTITIONS: u32 = 100_000;
const BYTES_MAX: usize = 120;

/// The only test of its process: nobody else allocates.
#[test]
fn a_partition_takes_at_most_a_hundred_and_twenty_bytes() {
    let begin = IN_USE.load(Ordering::Relaxed);
    let each = |when: &str| {
        let bytes = (IN_USE.load(Ordering::Relaxed) - begin) / PARTITIONS as usize;
        println!("{bytes} bytes a partition {when}");
        assert!(bytes <= BYTES_MAX, "{bytes} bytes a partition {when}");
    };
    let id = |number| PartitionId { topic: TopicId(1), number };
    let mut state = State::default();
    for number in 0..PARTITIONS {
        Streams::evolve(&mut state, &Change::PartitionOpened(id(number)));
    }
    each("once they are there");
    // Their order by bytes is turned over and over.
    for round in 0..4u64 {
        for number in 0..PARTITIONS {
            let spread = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15 >> round) >> 40;
            let appended = Change::Appended {
                partition: id(number),
                base: round,
                count: 1,
                last: Wall(0),
                bytes: u32::try_from(spread).unwrap(),
                batch: Bytes::new(),
            };
            Streams::evolve(&mut state, &appended);
        }
        each("after all of them were used");
    }
    assert_eq!(state.counts().partitions, PARTITIONS as usize);
}
