//! The sparse index of one segment: where to begin looking for an offset or a time.
//!
//! An entry stands for a frame and says which timestamps lie *before* it, so one search answers
//! both questions. There are at most [`ENTRIES_MAX`] entries: when they run out every second one
//! is dropped and the distance between entries doubles. A full index therefore takes 12 KiB in
//! memory, whatever the size of the segment, and a look-up walks over 1/256 of it at most.

use super::format::{FRAMES_AT, Head, SegmentName};
use handoff_types::Wall;
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// How many entries an index holds at most.
const ENTRIES_MAX: usize = 512;

/// How long an index file can be.
pub(super) const INDEX_BYTES_MAX: usize =
    size_of::<IndexHeader>() + ENTRIES_MAX * size_of::<StoredEntry>();

const MAGIC: [u8; 8] = *b"HOSEGIDX";
const VERSION: u16 = 1;

/// A frame to begin a walk at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) position: u64,
    /// The largest timestamp of all frames of the segment before this one.
    max_before: Wall,
}

/// The sparse index of the first [`bytes`](Self::bytes) of a segment file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Index {
    /// Where the first frame stands; not stored.
    first: Entry,
    entries: Vec<Entry>,
    /// How far apart entries are at least.
    stride: u64,
    /// How much of the file is indexed: the end of the last frame.
    bytes: u64,
    /// The largest timestamp of all frames.
    max_timestamp: Wall,
}

impl Index {
    /// The index of a segment without frames.
    pub(super) fn new(base: u64, stride: u64) -> Self {
        let max_before = Wall(i64::MIN);
        let first = Entry { offset: base, position: FRAMES_AT, max_before };
        Self { first, entries: Vec::new(), stride, bytes: FRAMES_AT, max_timestamp: max_before }
    }

    /// How much of the file is indexed.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The largest timestamp of all frames.
    pub(super) const fn max_timestamp(&self) -> Wall {
        self.max_timestamp
    }

    /// Takes notice of a frame at `position`. Frames come in the order of the file.
    pub(super) fn note(&mut self, position: u64, head: Head) {
        debug_assert!(position >= self.bytes, "frames come in order");
        if self.is_due(position) && self.entries.len() == ENTRIES_MAX {
            self.thin();
        }
        if self.is_due(position) {
            let max_before = self.max_timestamp;
            self.entries.push(Entry { offset: head.base, position, max_before });
        }
        self.bytes = position + head.stored_bytes();
        self.max_timestamp = self.max_timestamp.max(head.max_timestamp);
    }

    /// The last entry at or before an offset.
    pub(super) fn before_offset(&self, offset: u64) -> Entry {
        self.last_where(|entry| entry.offset <= offset)
    }

    /// The last entry with only smaller timestamps before it.
    pub(super) fn before_time(&self, time: Wall) -> Entry {
        self.last_where(|entry| entry.max_before < time)
    }

    /// Forgets the frames from the last entry at or before an offset on, and says where they
    /// begin.
    pub(super) fn rewind(&mut self, offset: u64) -> Entry {
        let entry = self.before_offset(offset);
        self.entries.retain(|kept| kept.position < entry.position);
        self.bytes = entry.position;
        self.max_timestamp = entry.max_before;
        entry
    }

    fn last_where(&self, holds: impl Fn(&Entry) -> bool) -> Entry {
        let after = self.entries.partition_point(holds);
        after.checked_sub(1).and_then(|at| self.entries.get(at)).copied().unwrap_or(self.first)
    }

    fn is_due(&self, position: u64) -> bool {
        position - self.entries.last().unwrap_or(&self.first).position >= self.stride
    }

    fn thin(&mut self) {
        let mut dropped = false;
        self.entries.retain(|_| {
            dropped = !dropped;
            !dropped
        });
        self.stride = self.stride.saturating_mul(2);
    }
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct IndexHeader {
    magic: [u8; 8],
    version: U16,
    flags: U16,
    crc: U32,
    lane: U64,
    base: U64,
    bytes: U64,
    max_timestamp: I64,
    stride: U64,
    entries: U64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct StoredEntry {
    offset: U64,
    position: U64,
    max_before: I64,
}

impl Index {
    /// The index as its file holds it.
    pub(super) fn encode(&self, name: SegmentName) -> Vec<u8> {
        let mut header = IndexHeader {
            magic: MAGIC,
            version: U16::new(VERSION),
            flags: U16::ZERO,
            crc: U32::ZERO,
            lane: U64::new(name.lane.0),
            base: U64::new(name.base),
            bytes: U64::new(self.bytes),
            max_timestamp: I64::new(self.max_timestamp.0),
            stride: U64::new(self.stride),
            entries: U64::new(self.entries.len() as u64),
        };
        let entries: Vec<StoredEntry> = self.entries.iter().map(StoredEntry::from).collect();
        header.crc = U32::new(crc(&header, entries.as_bytes()));
        [header.as_bytes(), entries.as_bytes()].concat()
    }

    /// Reads an index file. Nothing, unless every byte of it is as it was written, for this
    /// segment: a torn index would decode as entries of zeros.
    pub(super) fn decode(name: SegmentName, file: &[u8]) -> Option<Self> {
        let (mut header, rest) = IndexHeader::read_from_prefix(file).ok()?;
        let stored = <[StoredEntry]>::ref_from_bytes(rest).ok()?;
        let summed = header.crc.get();
        header.crc = U32::ZERO;
        let sound = header.magic == MAGIC
            && header.version.get() == VERSION
            && header.lane.get() == name.lane.0
            && header.base.get() == name.base
            && header.entries.get() == stored.len() as u64
            && summed == crc(&header, rest);
        sound.then(|| Self {
            entries: stored.iter().map(Entry::from).collect(),
            bytes: header.bytes.get(),
            max_timestamp: Wall(header.max_timestamp.get()),
            ..Self::new(name.base, header.stride.get())
        })
    }
}

fn crc(unsummed: &IndexHeader, entries: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(unsummed.as_bytes()), entries)
}

impl From<&Entry> for StoredEntry {
    fn from(entry: &Entry) -> Self {
        Self {
            offset: U64::new(entry.offset),
            position: U64::new(entry.position),
            max_before: I64::new(entry.max_before.0),
        }
    }
}

impl From<&StoredEntry> for Entry {
    fn from(stored: &StoredEntry) -> Self {
        Self {
            offset: stored.offset.get(),
            position: stored.position.get(),
            max_before: Wall(stored.max_before.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segments::{Frame, Lane};
    use bytes::Bytes;

    const NAME: SegmentName = SegmentName { lane: Lane(3), base: 10 };

    /// Frames of 64 bytes, one offset each, timestamps 0, 10, 20, …
    fn index_of(frames: u32, stride: u64) -> Index {
        let mut index = Index::new(NAME.base, stride);
        for n in 0..frames {
            let (base, max_timestamp) = (NAME.base + u64::from(n), Wall(i64::from(n) * 10));
            let body = Bytes::from_static(&[0; 24]);
            let head = Head::of(&Frame { base, count: 1, max_timestamp, body }).unwrap();
            index.note(index.bytes(), head);
        }
        index
    }

    #[test]
    fn the_size_in_memory_is_bounded_whatever_comes() {
        let index = index_of(100_000, 64);
        assert!(index.entries.len() <= ENTRIES_MAX);
        assert!(index.entries.len() > ENTRIES_MAX / 2 - 2);
        let distance = |pair: &[Entry]| pair[1].position - pair[0].position;
        assert!(index.entries.windows(2).all(|pair| distance(pair) == index.stride));
        assert!(index.encode(NAME).len() <= INDEX_BYTES_MAX);
    }

    #[test]
    fn looking_up_never_begins_after_the_answer_and_hardly_before_it() {
        let index = index_of(5_000, 256);
        for n in 0..5_000u64 {
            let entry = index.before_offset(NAME.base + n);
            assert!(entry.offset <= NAME.base + n);
            assert!(NAME.base + n - entry.offset <= index.stride / 64);
            let entry = index.before_time(Wall(i64::try_from(n).unwrap() * 10));
            assert!(entry.offset <= NAME.base + n);
            assert!(NAME.base + n - entry.offset <= index.stride / 64);
        }
    }

    #[test]
    fn a_rewound_index_is_the_index_of_what_is_left() {
        let mut index = index_of(100, 256);
        let from = index.rewind(NAME.base + 50);
        let left = u32::try_from(from.offset - NAME.base).unwrap();
        assert_eq!(index, index_of(left, 256));
    }

    #[test]
    fn a_file_decodes_only_if_every_bit_is_right() {
        let index = index_of(20, 256);
        let file = index.encode(NAME);
        assert_eq!(Index::decode(NAME, &file), Some(index));
        assert_eq!(Index::decode(SegmentName { base: 11, ..NAME }, &file), None);
        assert_eq!(Index::decode(SegmentName { lane: Lane(4), ..NAME }, &file), None);
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Index::decode(NAME, &flipped), None, "bit {bit}");
        }
        for len in 0..file.len() {
            assert_eq!(Index::decode(NAME, &file[..len]), None, "cut to {len}");
        }
    }
}
