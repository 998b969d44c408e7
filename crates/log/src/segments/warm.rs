//! What the operating system holds in memory of the segments.
//!
//! Readers are mostly at the end of a lane, so what was written last stays in the page cache.
//! Without a bound every byte ever written would, until the kernel has no page left; and a page
//! that was never used before is far dearer than one that was let go just now: on a virtual
//! machine, whose memory comes from its host page by page, by eight times.
//!
//! What is written in large pieces is on its way to the disk at once: a sync that finds all of
//! it still in memory keeps the disk from the journal for as long as that takes to write.
//!
//! And what is older than the newest [`Options::warm_bytes`](super::Options::warm_bytes) is
//! let go once it is on disk. What comes in crumbs is left to the kernel: a call for each would cost
//! more than the page it frees.

use super::format::SegmentName;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The shortest range worth a call.
const RANGE_BYTES_MIN: u64 = 256 << 10;

/// How many segments with crumbs are known; with more they are left to the kernel.
const CRUMBS_MAX: usize = 4096;

/// Ranges of segment files that may be in memory.
#[derive(Debug)]
pub(super) struct Warm {
    bytes_max: u64,
    /// Written, and not synced or too short.
    fresh: HashMap<SegmentName, Range<u64>>,
    /// Synced, oldest first.
    kept: VecDeque<(SegmentName, Range<u64>)>,
    kept_bytes: u64,
}

impl Warm {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self { bytes_max, fresh: HashMap::new(), kept: VecDeque::new(), kept_bytes: 0 }
    }

    /// A range was written.
    pub(super) fn wrote(&mut self, name: SegmentName, range: Range<u64>) {
        if self.fresh.len() >= CRUMBS_MAX && !self.fresh.contains_key(&name) {
            self.fresh.retain(|_, fresh| is_worth_a_call(fresh));
        }
        let known = self.fresh.entry(name).or_insert(range.start..range.start);
        if known.end == range.start {
            known.end = range.end;
        } else {
            *known = range;
        }
    }

    /// Takes what a sync that begins now will have made durable.
    pub(super) fn syncing(&mut self) -> Vec<(SegmentName, Range<u64>)> {
        self.fresh.extract_if(|_, range| is_worth_a_call(range)).collect()
    }

    /// The sync succeeded; gives what is old enough to be let go.
    pub(super) fn synced(
        &mut self,
        synced: Vec<(SegmentName, Range<u64>)>,
    ) -> Vec<(SegmentName, Range<u64>)> {
        for (name, range) in synced {
            self.kept_bytes += range.end - range.start;
            self.kept.push_back((name, range));
        }
        let mut old = Vec::new();
        while self.kept_bytes > self.bytes_max
            && let Some((name, range)) = self.kept.pop_front()
        {
            self.kept_bytes -= range.end - range.start;
            old.push((name, range));
        }
        old
    }
}

/// Whether a range is long enough for a hint about it.
pub(super) fn is_worth_a_call(range: &Range<u64>) -> bool {
    range.end - range.start >= RANGE_BYTES_MIN
}
