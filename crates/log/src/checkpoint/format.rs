//! The bytes of a checkpoint file.

use handoff_types::{Now, Position, Room, Sequence, Steady, Wall};
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Mark;

const FILE_MAGIC: [u8; 8] = *b"HANDOFFC";
const CHUNK_MAGIC: [u8; 4] = *b"HCHK";
const FOOTER_MAGIC: [u8; 4] = *b"HCFT";
const VERSION: u16 = 1;

/// A key length that stands for "no key: up to the end".
const NO_KEY: u32 = u32::MAX;

pub(super) const FILE_HEADER: usize = size_of::<RawFileHeader>();
pub(super) const CHUNK_HEADER: usize = size_of::<RawChunkHeader>();
pub(super) const FOOTER: usize = size_of::<RawFooter>();

const _: () = assert!(FILE_HEADER == 64 && CHUNK_HEADER == 48 && FOOTER == 72);

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFileHeader {
    magic: [u8; 8],
    version: U16,
    room: u8,
    reserved: u8,
    crc: U32,
    number: U64,
    directory: [u8; 16],
    reserved_too: [u8; 24],
}

/// Why a header was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    Damaged,
    Newer(u16),
}

/// Whose checkpoint a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) room: Room,
    pub(super) number: u64,
    pub(super) directory: u128,
}

impl FileHeader {
    pub(super) fn encode(&self) -> [u8; FILE_HEADER] {
        let mut raw = RawFileHeader {
            magic: FILE_MAGIC,
            version: U16::new(VERSION),
            room: self.room.number(),
            reserved: 0,
            crc: U32::ZERO,
            number: U64::new(self.number),
            directory: self.directory.to_le_bytes(),
            reserved_too: [0; 24],
        };
        raw.crc = U32::new(crc32c::crc32c(raw.as_bytes()));
        zerocopy::transmute!(raw)
    }

    /// Accepts exactly this header.
    pub(super) fn check(&self, bytes: &[u8]) -> Result<(), Bad> {
        let (mut raw, _) = RawFileHeader::read_from_prefix(bytes).map_err(|_| Bad::Damaged)?;
        let crc = std::mem::take(&mut raw.crc).get();
        if raw.magic != FILE_MAGIC || crc32c::crc32c(raw.as_bytes()) != crc {
            return Err(Bad::Damaged);
        }
        if raw.version.get() != VERSION {
            return Err(Bad::Newer(raw.version.get()));
        }
        let same = raw.room == self.room.number()
            && raw.number.get() == self.number
            && raw.directory == self.directory.to_le_bytes();
        if same { Ok(()) } else { Err(Bad::Damaged) }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawChunkHeader {
    magic: [u8; 4],
    crc: U32,
    sequence: U64,
    position: U64,
    /// Number of the checkpoint, so that no chunk of another one is accepted.
    number: U64,
    from_bytes: U32,
    to_bytes: U32,
    state_bytes: U32,
    index: U32,
}

/// The head of a chunk: how long its parts are and when it is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub(super) number: u64,
    pub(super) index: u32,
    pub(super) mark: Mark,
    pub(super) from_bytes: u32,
    pub(super) to_bytes: Option<u32>,
    pub(super) state_bytes: u32,
}

impl ChunkHeader {
    /// Writes the header over the front of `chunk`, checksumming what stands behind it.
    pub(super) fn seal(&self, chunk: &mut [u8]) {
        let mut raw = RawChunkHeader {
            magic: CHUNK_MAGIC,
            crc: U32::ZERO,
            sequence: U64::new(self.mark.sequence.0),
            position: U64::new(self.mark.position.0),
            number: U64::new(self.number),
            from_bytes: U32::new(self.from_bytes),
            to_bytes: U32::new(self.to_bytes.unwrap_or(NO_KEY)),
            state_bytes: U32::new(self.state_bytes),
            index: U32::new(self.index),
        };
        if let Some((head, rest)) = chunk.split_at_mut_checked(CHUNK_HEADER) {
            let rest = rest.get(..self.rest_bytes()).unwrap_or_default();
            raw.crc = U32::new(crc32c::crc32c_append(crc32c::crc32c(raw.as_bytes()), rest));
            head.copy_from_slice(raw.as_bytes());
        }
    }

    /// Reads the header at the front of `bytes`, its checksum not looked at yet.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (raw, _) = RawChunkHeader::read_from_prefix(bytes).ok()?;
        (raw.magic == CHUNK_MAGIC).then(|| Self {
            number: raw.number.get(),
            index: raw.index.get(),
            mark: Mark {
                sequence: Sequence(raw.sequence.get()),
                position: Position(raw.position.get()),
            },
            from_bytes: raw.from_bytes.get(),
            to_bytes: Some(raw.to_bytes.get()).filter(|&bytes| bytes != NO_KEY),
            state_bytes: raw.state_bytes.get(),
        })
    }

    /// Whether the chunk at the front of `bytes` is what was written.
    pub(super) fn is_sound(bytes: &[u8], rest_bytes: usize) -> bool {
        let Ok((mut raw, rest)) = RawChunkHeader::read_from_prefix(bytes) else { return false };
        let crc = std::mem::take(&mut raw.crc).get();
        rest.get(..rest_bytes)
            .is_some_and(|rest| crc32c::crc32c_append(crc32c::crc32c(raw.as_bytes()), rest) == crc)
    }

    /// Bytes of keys and state behind the header.
    pub(super) fn rest_bytes(&self) -> usize {
        self.from_bytes as usize + self.to_bytes.unwrap_or(0) as usize + self.state_bytes as usize
    }

    /// Bytes of the whole chunk, padding included.
    pub(super) fn extent(&self) -> usize {
        (CHUNK_HEADER + self.rest_bytes()).next_multiple_of(8)
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFooter {
    magic: [u8; 4],
    crc: U32,
    number: U64,
    low_sequence: U64,
    low_position: U64,
    high_sequence: U64,
    high_position: U64,
    wall: I64,
    steady: U64,
    chunks: U32,
    reserved: [u8; 4],
}

/// The end of a checkpoint, and what recovery must know before it reads the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    pub(super) number: u64,
    pub(super) chunks: u32,
    pub(super) low: Mark,
    pub(super) high: Mark,
    pub(super) now: Now,
}

impl Footer {
    pub(super) fn encode(&self) -> [u8; FOOTER] {
        let mut raw = RawFooter {
            magic: FOOTER_MAGIC,
            crc: U32::ZERO,
            number: U64::new(self.number),
            low_sequence: U64::new(self.low.sequence.0),
            low_position: U64::new(self.low.position.0),
            high_sequence: U64::new(self.high.sequence.0),
            high_position: U64::new(self.high.position.0),
            wall: I64::new(self.now.wall.0),
            steady: U64::new(self.now.steady.0),
            chunks: U32::new(self.chunks),
            reserved: [0; 4],
        };
        raw.crc = U32::new(crc32c::crc32c(raw.as_bytes()));
        zerocopy::transmute!(raw)
    }

    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (mut raw, _) = RawFooter::read_from_prefix(bytes).ok()?;
        let crc = std::mem::take(&mut raw.crc).get();
        let sound = raw.magic == FOOTER_MAGIC && crc32c::crc32c(raw.as_bytes()) == crc;
        sound.then(|| Self {
            number: raw.number.get(),
            chunks: raw.chunks.get(),
            low: Mark {
                sequence: Sequence(raw.low_sequence.get()),
                position: Position(raw.low_position.get()),
            },
            high: Mark {
                sequence: Sequence(raw.high_sequence.get()),
                position: Position(raw.high_position.get()),
            },
            now: Now { wall: Wall(raw.wall.get()), steady: Steady(raw.steady.get()) },
        })
    }
}
