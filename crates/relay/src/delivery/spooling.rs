//! The refill loop: what is written to the file, and what that settles.

use handoff_types::{Span, Steady};

use super::DeliveryManager;
use crate::ack::AckStatus;
use crate::codec::Workbench;
use crate::key::SegmentKey;
use crate::promise::Settled;
use crate::refill::Frame;

/// The most rejects that wait for the file; more of them say nothing new.
pub(super) const REJECTS_KEPT: usize = 1_024;

/// Segments that are written at once. One may be above it: what is little finds room in a spool that is
/// nearly full, and a file that is nearly full.
const AT_ONCE_BYTES: usize = 1 << 20;

/// What is to be appended to the refill file, durably and at once.
#[derive(Clone, Debug)]
pub struct Spooling {
    /// The frames, in their order.
    pub frames: Vec<Frame>,
    keys: Vec<SegmentKey>,
    acks: AckStatus,
    rejects: usize,
}

/// What the file has of a shard.
#[derive(Debug, Default)]
pub(super) struct InFile {
    /// The segment that could be appended without a snapshot.
    next: u32,
    /// Bytes since the last snapshot, and when that was.
    bytes: u64,
    since: Option<Steady>,
}

impl InFile {
    fn wants_snapshot(&self, first: u32, now: Steady, bytes: u64, age: Span) -> bool {
        // A decoder needs nothing before the first segment of a block.
        let old = self.since.is_some_and(|since| now.since(since) >= age);
        first != self.next || first > 0 && (self.bytes >= bytes || old)
    }
}

impl DeliveryManager {
    /// What is to be written now: segments that were rejected or are here for too long, with the
    /// snapshots they need, and what was confirmed. None if there is nothing.
    pub fn spooling(&mut self, now: Steady, bench: &mut Workbench) -> Option<Spooling> {
        let keys = self.exchange.rejected(now);
        if keys.is_empty() && !self.owes_file_a_name() {
            // Nobody asks for room any more.
            self.spool_full = false;
            return None;
        }
        let (mut frames, mut written, mut bytes_left) = (Vec::new(), Vec::new(), AT_ONCE_BYTES);
        for run in keys.chunk_by(|one, next| one.shard == next.shard) {
            let Some(first) = run.first().filter(|_| bytes_left > 0) else { continue };
            let Some(lane) = self.lanes.get(usize::from(first.shard)) else { continue };
            // What is in the file already may still be here for others: then the next one follows it.
            let oldest = lane.trailing.next_segment() == first.segment;
            debug_assert!(oldest || lane.file.next == first.segment, "the file goes on or begins");
            let rules = &self.rules;
            if oldest
                && lane.file.wants_snapshot(
                    first.segment,
                    now,
                    rules.key_frame_bytes,
                    rules.key_frame_age,
                )
            {
                let bytes = lane.trailing.key_frame(&lane.encoder, bench);
                frames.push(Frame::Snapshot { key: *first, bytes });
            }
            let segments = self.exchange.segments(first.shard);
            let segments = segments.filter(|(key, _)| *key >= *first).take(run.len());
            for (key, bytes) in segments.take_while(|(_, bytes)| {
                let fits = bytes_left > 0;
                bytes_left = bytes_left.saturating_sub(bytes.len());
                fits
            }) {
                frames.push(Frame::Segment { key, bytes: bytes.clone() });
                written.push(key);
            }
        }
        let keys = written;
        if !self.rejects.is_empty() {
            frames.push(Frame::Rejects(self.rejects.clone()));
        }
        if self.acks != self.written {
            frames.push(Frame::Statuses(self.acks.numbers().to_vec()));
        }
        let (acks, rejects) = (self.acks.clone(), self.rejects.len());
        Some(Spooling { frames, keys, acks, rejects })
    }

    /// That was written and is durable.
    pub fn spooled(&mut self, spooling: Spooling, now: Steady, bench: &mut Workbench) {
        for frame in &spooling.frames {
            let (Frame::Snapshot { key, bytes } | Frame::Segment { key, bytes }) = frame else {
                continue;
            };
            let Some(lane) = self.lanes.get_mut(usize::from(key.shard)) else { continue };
            let file = &mut lane.file;
            if matches!(frame, Frame::Snapshot { .. }) {
                (file.next, file.bytes, file.since) = (key.segment, 0, Some(now));
            } else {
                file.next = key.segment.saturating_add(1);
                file.bytes += bytes.len() as u64;
                file.since.get_or_insert(now);
            }
        }
        self.spool_full = false;
        self.written = spooling.acks;
        self.rejects.drain(..spooling.rejects.min(self.rejects.len()));
        if !self.exchange.is_parted() {
            let left = self.exchange.remove(&spooling.keys);
            return self.left(&left, Settled::Spooled, bench);
        }
        for key in &spooling.keys {
            let ended = self.promises.settle(*key, Settled::Spooled);
            self.ended.extend(ended);
        }
        let mut left = self.exchange.store(&spooling.keys);
        left.extend(self.exchange.expire(now));
        left.sort_by_key(|(key, _)| *key);
        self.left(&left, Settled::Spooled, bench);
    }

    /// What is written from now on goes to another file: the one that was written so far is complete
    /// as it is, and on its way. All that is still here goes to the next one, behind snapshots.
    pub fn begin_file(&mut self) {
        self.exchange.unstore();
        self.lanes.iter_mut().for_each(|lane| lane.file = InFile::default());
        self.written = AckStatus::new(self.rules.destinations.iter().cloned(), self.rules.shards);
        let renamed = self.renamed.iter().filter(|ahead| !self.rejects.contains(ahead));
        let renamed: Vec<_> = renamed.copied().collect();
        self.rejects.extend(renamed);
    }

    /// Whether there is a file that does not say yet under which name its block goes to somebody.
    pub(super) fn owes_file_a_name(&self) -> bool {
        let filed = self.lanes.iter().any(|lane| lane.file.since.is_some());
        filed && self.renamed.iter().any(|ahead| self.rejects.contains(ahead))
    }

    /// The spool had no room: nothing new is taken until it has.
    pub const fn spool_is_full(&mut self) {
        self.spool_full = true;
    }

    /// Whether the spool had no room when it was asked last.
    #[must_use]
    pub const fn needs_spool(&self) -> bool {
        self.spool_full
    }
}
