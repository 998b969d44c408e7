//! The bytes of a journal file. `docs/formats.md` draws them.
//!
//! ```text
//! file    │ header block 4096 │ round │ round │ …                          │ stale or zero │
//! round   │ header 192 │ record │ record │ … │ zeros up to the next 4096 boundary          │
//! record  │ header 24 │ payload │ zeros up to the next 8 boundary │
//! ```
//!
//! Rules the layout rests on:
//! * A round is written only when everything before it has been synced. So a readable round (or
//!   mark) at position `p` is itself the witness that everything below `p` was durable.
//! * A block that holds an acknowledged byte is never written again until its file is recycled.
//! * Every use of a file has its own random salt. It is part of each round header and of each
//!   record's checksum together with the position, so neither an earlier use of the file nor bytes
//!   a user chose can be taken for a round or a record.

use handoff_types::limits::{RECORD_BYTES_MAX, ROUND_BULK_BYTES_MAX};
use handoff_types::{Now, Room, Steady, Wall};
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Unit of placement: file header and rounds begin on multiples of it.
pub const BLOCK: u64 = BLOCK_BYTES as u64;

pub(crate) const BLOCK_BYTES: usize = 4096;

/// Bytes of a round's header.
pub const ROUND_HEADER: usize = size_of::<RawRoundHeader>();

/// Bytes of a record's header.
pub const RECORD_HEADER: usize = size_of::<RawRecordHeader>();

/// What small records of one room may take of a round before bulk is considered.
const ROUND_SMALL_BYTES_MAX: usize = 64 << 10;

/// No round is larger than this, its header and padding included.
pub const ROUND_BYTES_MAX: usize =
    BLOCK_BYTES + Room::MAX * ROUND_SMALL_BYTES_MAX + ROUND_BULK_BYTES_MAX;

/// The bounds of records and rounds in files of one size.
///
/// Files of 8 MiB and more have the bounds of the format. Smaller ones, as tests use them, have
/// them in proportion, so that a round always fits a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Length of a file, its header block included.
    pub(crate) file_bytes: u64,
    /// The largest record, its header included.
    pub(crate) record_bytes: usize,
    /// What a round takes of bulk.
    pub(crate) bulk_bytes: usize,
    /// What a round takes of small records of one room.
    pub(crate) small_bytes: usize,
}

impl Geometry {
    /// The smallest file that holds a round of every kind.
    pub(crate) const FILE_BYTES_MIN: u64 = 64 << 10;

    pub(crate) fn of_files(file_bytes: u64) -> Self {
        let file_bytes = file_bytes.max(Self::FILE_BYTES_MIN).next_multiple_of(BLOCK);
        let share = |parts: u64| usize::try_from(file_bytes / parts).unwrap_or(usize::MAX);
        Self {
            file_bytes,
            record_bytes: RECORD_BYTES_MAX.min(share(8)),
            bulk_bytes: ROUND_BULK_BYTES_MAX.min(share(8)),
            small_bytes: ROUND_SMALL_BYTES_MAX.min(share(64)),
        }
    }

    /// The largest round, padding included.
    pub(crate) const fn round_bytes(&self) -> u64 {
        round_extent(Room::MAX * self.small_bytes + self.bulk_bytes)
    }

    /// What a file takes of rounds whatever their sizes: between the header and the block that is
    /// left for a mark, less what the last round may not fit into.
    pub(crate) const fn file_rounds_bytes(&self) -> u64 {
        self.file_bytes - 2 * BLOCK - self.round_bytes()
    }

    /// What an entry takes of the ring at most, when no round has anything else in it.
    pub(crate) const fn entry_bytes_at_most(&self, bytes: u64) -> u64 {
        let records = bytes.div_ceil(self.payload_bytes() as u64) + 1;
        bytes + records * (BLOCK + (ROUND_HEADER + RECORD_HEADER + 8) as u64)
    }

    /// The largest payload of one record.
    pub(crate) const fn payload_bytes(&self) -> usize {
        self.record_bytes - RECORD_HEADER
    }
}

// The sizes are part of the format.
const _: () = assert!(ROUND_HEADER == 192 && RECORD_HEADER == 24);

const FILE_MAGIC: [u8; 8] = *b"HANDOFFJ";
const ROUND_MAGIC: [u8; 4] = *b"HRND";
const VERSION: u16 = 1;

/// Where the second copy of the file header stands, so that one bad sector does not cost a file.
const FILE_HEADER_COPY: usize = 2048;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawFileHeader {
    magic: [u8; 8],
    version: U16,
    reserved: [u8; 2],
    crc: U32,
    number: U64,
    salt: U64,
    directory: [u8; 16],
    bytes: U64,
}

/// What a journal file says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    /// Grows with every use of any file of the ring.
    pub(crate) number: u64,
    /// Random, fresh for every use.
    pub(crate) salt: u64,
    /// The data directory the file belongs to.
    pub(crate) directory: u128,
    /// The length the file was zero-filled to.
    pub(crate) bytes: u64,
}

/// What the header block of a file turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderBlock {
    /// Readable; `healed` when only one of the two copies was.
    Read { header: FileHeader, healed: bool },
    /// Written by a newer version.
    Newer(u16),
    /// Neither copy can be read.
    Unreadable,
}

impl FileHeader {
    /// The header block, both copies in it.
    pub(crate) fn block(&self) -> Vec<u8> {
        let mut raw = RawFileHeader {
            magic: FILE_MAGIC,
            version: U16::new(VERSION),
            reserved: [0; 2],
            crc: U32::ZERO,
            number: U64::new(self.number),
            salt: U64::new(self.salt),
            directory: self.directory.to_le_bytes(),
            bytes: U64::new(self.bytes),
        };
        raw.crc = U32::new(crc32c::crc32c(raw.as_bytes()));
        let mut block = vec![0; BLOCK_BYTES];
        for at in [0, FILE_HEADER_COPY] {
            if let Some(place) = block.get_mut(at..at + size_of::<RawFileHeader>()) {
                place.copy_from_slice(raw.as_bytes());
            }
        }
        block
    }

    /// Reads a header block; of two readable copies the one of the later use counts.
    pub(crate) fn read(block: &[u8]) -> HeaderBlock {
        let copies = [0, FILE_HEADER_COPY].map(|at| Self::read_copy(block.get(at..)));
        match copies {
            [Ok(a), Ok(b)] => {
                let header = if a.number >= b.number { a } else { b };
                HeaderBlock::Read { header, healed: a != b }
            }
            [Ok(header), Err(_)] | [Err(_), Ok(header)] => {
                HeaderBlock::Read { header, healed: true }
            }
            [Err(Some(version)), _] | [_, Err(Some(version))] => HeaderBlock::Newer(version),
            [Err(None), Err(None)] => HeaderBlock::Unreadable,
        }
    }

    fn read_copy(bytes: Option<&[u8]>) -> Result<Self, Option<u16>> {
        let (mut raw, _) =
            RawFileHeader::read_from_prefix(bytes.unwrap_or_default()).map_err(|_| None::<u16>)?;
        let crc = std::mem::take(&mut raw.crc).get();
        if raw.magic != FILE_MAGIC || crc32c::crc32c(raw.as_bytes()) != crc {
            return Err(None);
        }
        if raw.version.get() != VERSION {
            return Err(Some(raw.version.get()));
        }
        Ok(Self {
            number: raw.number.get(),
            salt: raw.salt.get(),
            directory: u128::from_le_bytes(raw.directory),
            bytes: raw.bytes.get(),
        })
    }
}

/// How many records each room has written, by the room's index.
pub(crate) type Counts = [u64; Room::MAX];

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRoundHeader {
    magic: [u8; 4],
    version: U16,
    kind: u8,
    reserved: u8,
    crc: U32,
    body_bytes: U32,
    salt: U64,
    position: U64,
    wall: I64,
    steady: U64,
    records: U32,
    reserved_too: [u8; 4],
    follows: U64,
    counts: [U64; Room::MAX],
}

const KIND_ROUND: u8 = 1;
const KIND_MARK: u8 = 2;

/// The head of a round, or a mark: a round without records that only bears witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundHeader {
    /// The position of this header. Everything below it is durable.
    pub(crate) position: u64,
    /// Bytes of records that follow, padding of the last record included.
    pub(crate) body_bytes: u32,
    /// How many records follow.
    pub(crate) records: u32,
    /// A mark is written without sync while the journal is idle, and gives way to the next round.
    pub(crate) mark: bool,
    /// The number of the file that this one took over from.
    pub(crate) follows: u64,
    /// The latest time a record up to here was decided at.
    pub(crate) now: Now,
    /// How many records each room has before this round.
    pub(crate) counts: Counts,
}

impl RoundHeader {
    /// The header's bytes under a file's salt.
    pub(crate) fn encode(&self, salt: u64) -> [u8; ROUND_HEADER] {
        let mut raw = RawRoundHeader {
            magic: ROUND_MAGIC,
            version: U16::new(VERSION),
            kind: if self.mark { KIND_MARK } else { KIND_ROUND },
            reserved: 0,
            crc: U32::ZERO,
            body_bytes: U32::new(self.body_bytes),
            salt: U64::new(salt),
            position: U64::new(self.position),
            wall: I64::new(self.now.wall.0),
            steady: U64::new(self.now.steady.0),
            records: U32::new(self.records),
            reserved_too: [0; 4],
            follows: U64::new(self.follows),
            counts: self.counts.map(U64::new),
        };
        raw.crc = U32::new(crc32c::crc32c(raw.as_bytes()));
        let mut bytes = [0; ROUND_HEADER];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Reads a header of this use of the file; `None` for anything else.
    pub(crate) fn read(bytes: &[u8], salt: u64) -> Option<Self> {
        let (mut raw, _) = RawRoundHeader::read_from_prefix(bytes).ok()?;
        if raw.magic != ROUND_MAGIC || raw.salt.get() != salt {
            return None;
        }
        let crc = std::mem::take(&mut raw.crc).get();
        if crc32c::crc32c(raw.as_bytes()) != crc || raw.version.get() != VERSION {
            return None;
        }
        let mark = match raw.kind {
            KIND_ROUND => false,
            KIND_MARK => true,
            _ => return None,
        };
        if raw.body_bytes.get() as usize > ROUND_BYTES_MAX - ROUND_HEADER {
            return None;
        }
        Some(Self {
            position: raw.position.get(),
            body_bytes: raw.body_bytes.get(),
            records: raw.records.get(),
            mark,
            follows: raw.follows.get(),
            now: Now { wall: Wall(raw.wall.get()), steady: Steady(raw.steady.get()) },
            counts: raw.counts.map(|count| count.get()),
        })
    }

    /// Bytes from this header to where the next round begins.
    pub(crate) fn extent(&self) -> u64 {
        round_extent(self.body_bytes as usize)
    }
}

/// Bytes a round with this body takes in its file.
pub(crate) const fn round_extent(body_bytes: usize) -> u64 {
    ((ROUND_HEADER + body_bytes) as u64).next_multiple_of(BLOCK)
}

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A whole change with its bodies.
    Whole,
    /// A piece of a change too large for one record.
    Piece,
    /// The record that makes the pieces before it count.
    Commit,
}

impl Kind {
    const fn number(self) -> u8 {
        match self {
            Self::Whole => 1,
            Self::Piece => 2,
            Self::Commit => 3,
        }
    }

    const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Whole),
            2 => Some(Self::Piece),
            3 => Some(Self::Commit),
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRecordHeader {
    kind: u8,
    room: u8,
    version: U16,
    bytes: U32,
    sequence: U64,
    crc: U32,
    reserved: [u8; 4],
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    pub(crate) kind: Kind,
    pub(crate) room: Room,
    /// Payload bytes, padding not included.
    pub(crate) bytes: u32,
    /// The record's number in its room.
    pub(crate) sequence: u64,
}

/// A file's salt and a record's place, as the seed of the record's checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) salt: u64,
    pub(crate) position: u64,
}

impl RecordHeader {
    /// Writes the header over `record[..RECORD_HEADER]`, checksumming the payload behind it.
    pub(crate) fn seal(&self, place: Place, record: &mut [u8]) {
        let mut raw = RawRecordHeader {
            kind: self.kind.number(),
            room: self.room.number(),
            version: U16::new(VERSION),
            bytes: U32::new(self.bytes),
            sequence: U64::new(self.sequence),
            crc: U32::ZERO,
            reserved: [0; 4],
        };
        if let Some((head, payload)) = record.split_at_mut_checked(RECORD_HEADER) {
            let payload = payload.get(..self.bytes as usize).unwrap_or_default();
            raw.crc = U32::new(checksum(place, raw.as_bytes(), payload));
            head.copy_from_slice(raw.as_bytes());
        }
    }

    /// Reads the record that begins at `bytes` and checks it against its place. Gives the header
    /// and the payload, or `None` if there is no such record there.
    pub(crate) fn read(place: Place, bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, crc, raw) = Self::read_unchecked(bytes)?;
        let payload = bytes.get(RECORD_HEADER..RECORD_HEADER + header.bytes as usize)?;
        (checksum(place, raw.as_bytes(), payload) == crc).then_some((header, payload))
    }

    /// Reads only the length a record claims, to know how much to fetch before [`Self::read`].
    pub(crate) fn claimed_bytes(bytes: &[u8]) -> Option<usize> {
        Self::read_unchecked(bytes).map(|(header, ..)| RECORD_HEADER + header.bytes as usize)
    }

    /// Whether the header is one that `plausible` accepts, before its payload is checksummed.
    pub(crate) fn looks_like(bytes: &[u8], plausible: impl Fn(&Self) -> bool) -> bool {
        Self::read_unchecked(bytes).is_some_and(|(header, ..)| plausible(&header))
    }

    fn read_unchecked(bytes: &[u8]) -> Option<(Self, u32, RawRecordHeader)> {
        let (mut raw, _) = RawRecordHeader::read_from_prefix(bytes).ok()?;
        let crc = std::mem::take(&mut raw.crc).get();
        if raw.version.get() != VERSION || raw.bytes.get() as usize > RECORD_BYTES_MAX {
            return None;
        }
        let header = Self {
            kind: Kind::from_number(raw.kind)?,
            room: Room::from_number(raw.room)?,
            bytes: raw.bytes.get(),
            sequence: raw.sequence.get(),
        };
        Some((header, crc, raw))
    }
}

/// Bytes a record with this payload takes in its round.
pub(crate) const fn record_extent(payload_bytes: usize) -> usize {
    (RECORD_HEADER + payload_bytes).next_multiple_of(8)
}

fn checksum(place: Place, header: &[u8], payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&place.salt.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &place.position.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, header);
    crc32c::crc32c_append(crc, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader { number: 7, salt: 99, directory: 5, bytes: 1 << 20 }
    }

    #[test]
    fn a_file_header_survives_the_loss_of_either_copy() {
        for hit in [3, FILE_HEADER_COPY + 3] {
            let mut block = header().block();
            block[hit] ^= 1;
            assert_eq!(
                FileHeader::read(&block),
                HeaderBlock::Read { header: header(), healed: true }
            );
        }
        let mut block = header().block();
        block[3] ^= 1;
        block[FILE_HEADER_COPY + 3] ^= 1;
        assert_eq!(FileHeader::read(&block), HeaderBlock::Unreadable);
    }

    #[test]
    fn every_flipped_bit_of_a_round_header_is_noticed() {
        let round = RoundHeader {
            position: 8192,
            body_bytes: 64,
            records: 2,
            mark: false,
            follows: 6,
            now: Now { wall: Wall(-3), steady: Steady(9) },
            counts: [4; Room::MAX],
        };
        let bytes = round.encode(99);
        assert_eq!(RoundHeader::read(&bytes, 99), Some(round));
        assert_eq!(RoundHeader::read(&bytes, 98), None);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RoundHeader::read(&bad, 99), None, "bit {bit}");
        }
    }

    #[test]
    fn a_record_is_valid_only_at_its_own_place() {
        let place = Place { salt: 99, position: 4096 };
        let mut record = vec![0; record_extent(5)];
        record[RECORD_HEADER..RECORD_HEADER + 5].copy_from_slice(b"hello");
        let header = RecordHeader { kind: Kind::Whole, room: Room::Events, bytes: 5, sequence: 3 };
        header.seal(place, &mut record);
        assert_eq!(RecordHeader::read(place, &record), Some((header, &b"hello"[..])));
        assert!(RecordHeader::read(Place { position: 4104, ..place }, &record).is_none());
        assert!(RecordHeader::read(Place { salt: 98, ..place }, &record).is_none());
    }
}
