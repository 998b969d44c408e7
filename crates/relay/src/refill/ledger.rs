//! What is in a refill file, without the file.
//!
//! The frames of the file are its changes: [`Ledger::evolve`] is the only mutation, and reading a
//! file is nothing but that.

use super::frame::{Frame, Layout, Rejected};
use crate::ack::{AckStatus, DestinationId};
use crate::key::{BlockId, SegmentKey, ShardId};

/// What a piece of the file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// A key frame for a segment.
    Snapshot,
    /// A segment.
    Segment,
}

/// A piece of the file and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub stored: Stored,
    /// The segment it is, or is for.
    pub segment: u32,
    /// Where its frame begins.
    pub at: u64,
    /// The size of its frame's body.
    pub size: u32,
}

/// The books of one refill file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    layout: Layout,
    block: BlockId,
    acks: AckStatus,
    shards: Vec<ShardBook>,
    rejects: Vec<Rejected>,
}

/// What there is of a shard that can be decoded with what lies before it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShardBook {
    /// In the order of their segments; a snapshot before the segment it is for.
    entries: Vec<Entry>,
    /// The segment that may come next. None behind damage, until a snapshot.
    next: Option<u32>,
    unreachable: usize,
}

impl Ledger {
    /// The books of a file with nothing but its title and its names.
    #[must_use]
    pub fn new(layout: Layout, block: BlockId, acks: AckStatus) -> Self {
        let book = ShardBook { entries: Vec::new(), next: Some(0), unreachable: 0 };
        let shards = vec![book; usize::from(acks.shards().count())];
        Self { layout, block, acks, shards, rejects: Vec::new() }
    }

    /// How its frames lie.
    #[must_use]
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// The block it is about.
    #[must_use]
    pub const fn block(&self) -> BlockId {
        self.block
    }

    /// What was confirmed, with the destinations and the shards.
    #[must_use]
    pub const fn acks(&self) -> &AckStatus {
        &self.acks
    }

    /// What was rejected.
    #[must_use]
    pub fn rejects(&self) -> &[Rejected] {
        &self.rejects
    }

    /// The name of the block in a conversation with this destination: another one if it has the
    /// numbers of this block from somebody else.
    #[must_use]
    pub fn block_for(&self, destination: DestinationId) -> BlockId {
        let ahead = u32::try_from(destination).map(Rejected::ahead);
        let renamed = ahead.is_ok_and(|ahead| self.rejects.contains(&ahead));
        if renamed { self.block.again() } else { self.block }
    }

    /// The same file as if nobody had confirmed anything.
    #[must_use]
    pub fn unconfirmed(mut self) -> Self {
        self.acks = AckStatus::new(self.acks.names().iter().cloned(), self.acks.shards());
        self
    }

    /// What there is of a shard that can be decoded with what lies before it.
    #[must_use]
    pub fn entries(&self, shard: ShardId) -> &[Entry] {
        self.shards.get(usize::from(shard)).map_or(&[], |book| &book.entries)
    }

    /// The last segment of a shard.
    #[must_use]
    pub fn last_segment(&self, shard: ShardId) -> Option<u32> {
        let mut segments = self.entries(shard).iter().rev();
        segments.find(|entry| entry.stored == Stored::Segment).map(|entry| entry.segment)
    }

    /// Whether a segment may be written: the one before it is there, or a snapshot for it, or it
    /// is the first of its shard.
    #[must_use]
    pub fn admits(&self, key: SegmentKey) -> bool {
        let book = self.shards.get(usize::from(key.shard));
        book.is_some_and(|book| book.next == Some(key.segment))
    }

    /// Makes a frame true that stands at `at`. Title and names were there before the books.
    pub fn evolve(&mut self, frame: &Frame, at: u64) {
        let (stored, key, bytes) = match frame {
            Frame::Title { .. } | Frame::Names(_) => return,
            Frame::Statuses(numbers) => return self.acks.merge(numbers),
            Frame::Rejects(rejects) => return self.rejects.extend_from_slice(rejects),
            Frame::Snapshot { key, bytes } => (Stored::Snapshot, key, bytes),
            Frame::Segment { key, bytes } => (Stored::Segment, key, bytes),
        };
        let size = u32::try_from(bytes.len() + 4).unwrap_or(u32::MAX);
        let Some(book) = self.shards.get_mut(usize::from(key.shard)) else { return };
        let backwards = book.entries.last().is_some_and(|last| key.segment < last.segment);
        if backwards || stored == Stored::Segment && book.next != Some(key.segment) {
            book.next = None;
            book.unreachable += 1;
            return;
        }
        book.next = match stored {
            Stored::Snapshot => Some(key.segment),
            Stored::Segment => key.segment.checked_add(1),
        };
        book.entries.push(Entry { stored, segment: key.segment, at, size });
    }

    /// A segment, if it can be decoded with what lies before it in the file.
    #[must_use]
    pub fn segment(&self, key: SegmentKey) -> Option<Entry> {
        self.from(key.shard, key.segment).find(|entry| entry.segment == key.segment)
    }

    /// What brings a decoder before a segment: a snapshot, unless the shard is there from its first
    /// segment on, and the segments up to that one. None if the file cannot do that.
    #[must_use]
    pub fn restore(&self, key: SegmentKey) -> Option<Vec<Entry>> {
        let entries = self.entries(key.shard);
        // A snapshot for the segment itself is part of the way.
        let before = |entry: &Entry| {
            entry.segment < key.segment
                || entry.segment == key.segment && entry.stored == Stored::Snapshot
        };
        let (way, _) = entries.split_at_checked(entries.partition_point(before))?;
        let snapshot = way.iter().rposition(|entry| entry.stored == Stored::Snapshot);
        let way = way.get(snapshot.unwrap_or(0)..)?;
        let next = match way.last() {
            Some(Entry { stored: Stored::Segment, segment, .. }) => segment.checked_add(1)?,
            Some(Entry { stored: Stored::Snapshot, segment, .. }) => *segment,
            None => 0,
        };
        (next == key.segment).then(|| way.to_vec())
    }

    /// The first segment above `mark` that can be decoded with what lies before it.
    #[must_use]
    pub fn next_after(&self, shard: ShardId, mark: Option<u32>) -> Option<Entry> {
        self.from(shard, mark.map_or(Some(0), |mark| mark.checked_add(1))?).next()
    }

    /// Pieces of a shard that nothing in the file leads to: damage took what lay before them.
    #[must_use]
    pub fn unreachable(&self, shard: ShardId) -> usize {
        self.shards.get(usize::from(shard)).map_or(0, |book| book.unreachable)
    }

    /// The segments of a shard from a number on.
    fn from(&self, shard: ShardId, segment: u32) -> impl Iterator<Item = Entry> + '_ {
        let entries = self.entries(shard);
        let at = entries.partition_point(|entry| entry.segment < segment);
        let from = entries.get(at..).unwrap_or_default().iter().copied();
        from.filter(|entry| entry.stored == Stored::Segment)
    }

    /// Whether every destination has confirmed everything that can be sent.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.acks.shards().ids().all(|shard| {
            let all = 0..self.acks.names().len();
            let mut left = all.filter_map(|one| self.next_after(shard, self.acks.last(shard, one)));
            left.next().is_none()
        })
    }
}
