//! The frames of a refill file.
//!
//! ```text
//! file        │ "HNDRFL" │ layout u8: 1 │ encoder version u8 │ frame …
//! frame       │ type u8 │ shard u16 │ segment u32 │ size u32 │ body │ CRC-32C u32 of all before
//! bare file   │ (type u8 │ shard u16 │ segment u32 │ size u32 │ body) …      no head, no checksums
//!
//! 1 title     │ power of two of the shards u8 │ block 16 bytes
//! 2 names     │ count u32 │ (begin i32 │ length i32) × count │ bytes u32 │ the names, sorted
//! 3 snapshot  │ length u32 │ a key frame for this segment
//! 4 segment   │ length u32 │ the segment
//! 5 statuses  │ count │ number × count      destination by destination: the last segment of each
//!             │                             shard that it has confirmed, 2³² − 1 for none
//! 6 rejects   │ count │ (destination │ segment │ shard) × count
//! ```
//!
//! Shard and segment are zero where they mean nothing.

use bytes::Bytes;

use crate::ack::{DESTINATIONS_MAX, put_numbers, take_numbers};
use crate::codec::ENCODER_VERSION;
use crate::key::{BlockId, NAME_BYTES_MAX, NO_SEGMENT, Name, SegmentKey, Shards};
use crate::wire::{self, Front, Malformed};

/// Bytes of a frame's header.
pub const FRAME_HEAD_BYTES: usize = 11;

/// Bytes of the checksum behind a frame.
pub const FRAME_CRC_BYTES: usize = 4;

/// Bytes in front of the first frame.
pub const FILE_HEAD_BYTES: usize = 8;

const MAGIC: [u8; 6] = *b"HNDRFL";
const LAYOUT: u8 = 1;

/// Bounds of the small frames; a snapshot and a segment are bounded by the reader.
const TITLE_BYTES: usize = 17;
const NAMES_BYTES_MAX: usize = 8 + DESTINATIONS_MAX * (8 + NAME_BYTES_MAX);
const STATUSES_BYTES_MAX: usize = 10 + (DESTINATIONS_MAX << crate::key::SHARD_POWER_MAX) * 5;

/// The most rejects of one frame.
pub(super) const REJECTS_MAX: usize = 4_096;
const REJECTS_BYTES_MAX: usize = 10 + REJECTS_MAX * 15;

/// How frames lie in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// With a head and checksums.
    Checked {
        /// The version of the codec whose segments are in it.
        encoder: u8,
    },
    /// As the first version of this design had it. Only read and finished, never begun.
    Bare,
}

impl Layout {
    /// What this program writes.
    pub const CURRENT: Self = Self::Checked { encoder: ENCODER_VERSION };

    /// The version of the codec whose segments are in it.
    #[must_use]
    pub const fn encoder(self) -> u8 {
        match self {
            Self::Checked { encoder } => encoder,
            // The only one there was.
            Self::Bare => 1,
        }
    }

    /// Bytes in front of the first frame.
    pub(super) const fn head_bytes(self) -> u64 {
        match self {
            Self::Checked { .. } => FILE_HEAD_BYTES as u64,
            Self::Bare => 0,
        }
    }

    /// Bytes behind the body of a frame.
    pub(super) const fn crc_bytes(self) -> usize {
        match self {
            Self::Checked { .. } => FRAME_CRC_BYTES,
            Self::Bare => 0,
        }
    }

    /// The head of a file.
    pub(super) fn put_head(self, out: &mut Vec<u8>) {
        if let Self::Checked { encoder } = self {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&[LAYOUT, encoder]);
        }
    }

    /// Reads the head of a file. A bare one begins with its title.
    pub(super) fn of(head: &[u8]) -> Result<Self, Malformed> {
        match head {
            [magic @ .., layout, encoder] if magic == MAGIC => match *layout {
                LAYOUT => Ok(Self::Checked { encoder: *encoder }),
                _ => Err(Malformed("has a layout of a later version")),
            },
            [kind, ..] if *kind == Type::Title as u8 => Ok(Self::Bare),
            _ => Err(Malformed("does not begin like a refill file")),
        }
    }
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Type {
    Title = 1,
    Names = 2,
    Snapshot = 3,
    Segment = 4,
    Statuses = 5,
    Rejects = 6,
}

/// A segment that a destination did not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Who did not take it: its place in the names of the file.
    pub destination: u32,
    /// What it did not take.
    pub key: SegmentKey,
}

impl Rejected {
    /// Not a segment but the whole block: the destination has its numbers from somebody else.
    #[must_use]
    pub const fn ahead(destination: u32) -> Self {
        Self { destination, key: SegmentKey { shard: 0, segment: NO_SEGMENT } }
    }
}

/// A frame of a refill file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// What the file is about.
    Title {
        /// How many shards the block has.
        shards: Shards,
        /// Which block it is.
        block: BlockId,
    },
    /// The destinations, sorted. Everything below names them by their place.
    Names(Vec<Name>),
    /// What a decoder needs to continue with this segment.
    Snapshot {
        /// The segment it continues with.
        key: SegmentKey,
        /// A key frame.
        bytes: Bytes,
    },
    /// A segment.
    Segment {
        /// Its name.
        key: SegmentKey,
        /// Its bytes.
        bytes: Bytes,
    },
    /// What was confirmed, as [`crate::AckStatus`] counts it.
    Statuses(Vec<u32>),
    /// What was rejected.
    Rejects(Vec<Rejected>),
}

/// The first eleven bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: Type,
    pub(super) key: SegmentKey,
    pub(super) size: usize,
}

impl Head {
    /// Reads a header and refuses a size that its type cannot have.
    pub(super) fn read(
        bytes: [u8; FRAME_HEAD_BYTES],
        payload_bytes_max: usize,
    ) -> Result<Self, Malformed> {
        let mut front = Front(&bytes);
        let kind = match front.byte()? {
            1 => Type::Title,
            2 => Type::Names,
            3 => Type::Snapshot,
            4 => Type::Segment,
            5 => Type::Statuses,
            6 => Type::Rejects,
            _ => return Err(Malformed("is of a type that does not exist")),
        };
        let key = SegmentKey { shard: front.u16()?, segment: front.u32()? };
        let size = usize::try_from(front.u32()?).unwrap_or(usize::MAX);
        let fits = match kind {
            Type::Title => size == TITLE_BYTES,
            Type::Names => size <= NAMES_BYTES_MAX,
            Type::Snapshot | Type::Segment => size >= 4 && size - 4 <= payload_bytes_max,
            Type::Statuses => size <= STATUSES_BYTES_MAX,
            Type::Rejects => size <= REJECTS_BYTES_MAX,
        };
        let bare = key == SegmentKey { shard: 0, segment: 0 };
        if !fits {
            return Err(Malformed("has a size that its type cannot have"));
        }
        if !bare && !matches!(kind, Type::Snapshot | Type::Segment) {
            return Err(Malformed("names a segment that it cannot be about"));
        }
        Ok(Self { kind, key, size })
    }
}

impl Frame {
    /// Appends the frame's bytes.
    pub(super) fn put(&self, layout: Layout, out: &mut Vec<u8>) {
        let from = out.len();
        let none = SegmentKey { shard: 0, segment: 0 };
        let (kind, key) = match self {
            Self::Title { .. } => (Type::Title, none),
            Self::Names(_) => (Type::Names, none),
            Self::Snapshot { key, .. } => (Type::Snapshot, *key),
            Self::Segment { key, .. } => (Type::Segment, *key),
            Self::Statuses(_) => (Type::Statuses, none),
            Self::Rejects(_) => (Type::Rejects, none),
        };
        out.push(kind as u8);
        out.extend_from_slice(&key.shard.to_le_bytes());
        out.extend_from_slice(&key.segment.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let body = out.len();
        self.put_body(out);
        let size = u32::try_from(out.len() - body).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(body - 4..body) {
            place.copy_from_slice(&size.to_le_bytes());
        }
        if layout != Layout::Bare {
            let crc = crc32c::crc32c(out.get(from..).unwrap_or_default());
            out.extend_from_slice(&crc.to_le_bytes());
        }
    }

    fn put_body(&self, out: &mut Vec<u8>) {
        match self {
            Self::Title { shards, block } => {
                out.push(shards.power());
                out.extend_from_slice(&block.0);
            }
            Self::Names(names) => put_names(out, names),
            Self::Snapshot { bytes, .. } | Self::Segment { bytes, .. } => {
                out.extend_from_slice(
                    &u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes(),
                );
                out.extend_from_slice(bytes);
            }
            Self::Statuses(numbers) => put_numbers(out, numbers),
            Self::Rejects(rejects) => {
                wire::put_len(out, rejects.len());
                for Rejected { destination, key } in rejects {
                    wire::put(out, (*destination).into());
                    wire::put(out, key.segment.into());
                    wire::put(out, key.shard.into());
                }
            }
        }
    }

    /// Reads a body of which the checksum was right, or that has none.
    pub(super) fn read(head: Head, body: &Bytes) -> Result<Self, Malformed> {
        let mut front = Front(body);
        let key = head.key;
        let frame = match head.kind {
            Type::Title => {
                let shards = Shards::from_power(front.byte()?);
                let shards = shards.ok_or(Malformed("has more shards than there can be"))?;
                Self::Title { shards, block: BlockId(front.array()?) }
            }
            Type::Names => Self::Names(take_names(&mut front)?),
            Type::Snapshot | Type::Segment => {
                let len = usize::try_from(front.u32()?).unwrap_or(usize::MAX);
                if len != front.left() {
                    return Err(Malformed("has two lengths that differ"));
                }
                let bytes = body.slice(4..);
                return Ok(match head.kind {
                    Type::Snapshot => Self::Snapshot { key, bytes },
                    _ => Self::Segment { key, bytes },
                });
            }
            Type::Statuses => Self::Statuses(take_numbers(&mut front)?),
            Type::Rejects => {
                let count = front.count()?;
                if count > REJECTS_MAX {
                    return Err(Malformed("has more rejects than there can be"));
                }
                let reject = |front: &mut Front<'_>| {
                    let (destination, segment) = (front.small()?, front.small()?);
                    let shard = u16::try_from(front.small()?);
                    let shard = shard.map_err(|_| Malformed("names no shard"))?;
                    Ok(Rejected { destination, key: SegmentKey { shard, segment } })
                };
                Self::Rejects((0..count).map(|_| reject(&mut front)).collect::<Result<_, _>>()?)
            }
        };
        front.end()?;
        Ok(frame)
    }
}

fn put_names(out: &mut Vec<u8>, names: &[Name]) {
    let len = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
    out.extend_from_slice(&len(names.len()));
    let mut begin = 0;
    for name in names {
        out.extend_from_slice(&len(begin));
        out.extend_from_slice(&len(name.as_str().len()));
        begin += name.as_str().len();
    }
    out.extend_from_slice(&len(begin));
    for name in names {
        out.extend_from_slice(name.as_str().as_bytes());
    }
}

fn take_names(front: &mut Front<'_>) -> Result<Vec<Name>, Malformed> {
    let count = usize::try_from(front.u32()?).unwrap_or(usize::MAX);
    if count > DESTINATIONS_MAX {
        return Err(Malformed("has more destinations than there can be"));
    }
    let mut places = Vec::with_capacity(count);
    for _ in 0..count {
        let place = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        places.push((place(front.u32()?), place(front.u32()?)));
    }
    let len = usize::try_from(front.u32()?).unwrap_or(usize::MAX);
    let data = front.bytes(len)?;
    let name = |(begin, len): (usize, usize)| {
        let bytes = data.get(begin..begin.checked_add(len)?)?;
        Name::try_from(std::str::from_utf8(bytes).ok()?).ok()
    };
    let names: Option<Vec<Name>> = places.into_iter().map(name).collect();
    let names = names.ok_or(Malformed("has a destination without a proper name"))?;
    if !names.is_sorted_by(|one, next| one < next) {
        return Err(Malformed("has destinations out of order"));
    }
    Ok(names)
}
