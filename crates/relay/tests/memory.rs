//! What a series takes of an agent's memory, all told, counted by the allocator and not by the
//! system.

#![allow(
    unsafe_code,
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "an allocator that counts can be written in no other way; a test fails by panicking"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use handoff_relay::codec::{CodecLimits, Encoder, Trailing, Workbench};
use handoff_relay::{Batch, BlockId, Sample, Sharder, Shards};

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

const SERIES: usize = 100_000;
const BATCH: usize = 2_000;
const BYTES_MAX: usize = 150;
const BLOCK: BlockId = BlockId([2; 16]);

/// Series as exporters have them: five labels, two of which say which one it is.
fn batch(from: usize) -> Batch {
    let mut batch = Batch::default();
    for at in from..from + BATCH {
        let labels = [
            ("__name__", format!("node_network_metric_{}_total", at % 200)),
            ("device", format!("eth{}", at % 4)),
            ("instance", format!("host-{}.example.com:9100", at / 200)),
            ("job", "node".to_owned()),
            ("mode", format!("m{}", at % 8)),
        ];
        let labels = labels.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        batch.push(labels, &[Sample::new(1_700_000_000_000, 5.0)]).unwrap();
    }
    batch
}

/// The only test of its process: nobody else allocates.
#[test]
fn a_series_fits_into_its_share_with_the_trailing_decoder() {
    let begin = IN_USE.load(Ordering::Relaxed);
    let mut bench = Workbench::new().unwrap();
    let mut encoder = Encoder::new(BLOCK, 0, CodecLimits::default());
    let mut trailing = Trailing::new(BLOCK, 0);
    for from in (0..SERIES).step_by(BATCH) {
        let batch = batch(from);
        encoder.add(&Sharder::new(Shards::ONE).shard(&batch)).unwrap();
        let segment = encoder.encode(&mut bench).unwrap();
        trailing.skip(&segment.bytes, &encoder, &mut bench).unwrap();
    }
    assert_eq!(encoder.series_len() as usize, SERIES);
    // The room for columns is shared by all shards and no part of a series.
    let with_columns = IN_USE.load(Ordering::Relaxed);
    drop(bench);
    let columns = with_columns - IN_USE.load(Ordering::Relaxed);
    let bytes = (IN_USE.load(Ordering::Relaxed) - begin) / SERIES;
    println!("{bytes} bytes a series; {columns} bytes of room for columns");
    assert!(bytes <= BYTES_MAX, "{bytes} bytes a series");
}
