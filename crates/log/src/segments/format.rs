//! The bytes of a segment file and of its index file. The byte map stands in [`super`].

use super::{Frame, Lane};
use handoff_types::Wall;
use zerocopy::byteorder::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Where the first frame of a segment file stands.
pub(super) const FRAMES_AT: u64 = FILE_HEADER_BYTES as u64;

/// The bytes of a segment file before its first frame.
pub(super) const FILE_HEADER_BYTES: usize = size_of::<FileHeader>();

/// The bytes of a frame before its body.
pub(super) const FRAME_HEADER_BYTES: usize = size_of::<FrameHeader>();

/// Frames begin at multiples of this, so that a search for the next one may step by it.
pub(super) const ALIGN: usize = 8;

const FILE_MAGIC: [u8; 8] = *b"HOSEGMNT";
const FILE_VERSION: u16 = 1;
const FRAME_MAGIC: [u8; 4] = *b"HOFR";
const FRAME_VERSION: u16 = 1;

/// A segment file as its headers and checksums know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SegmentName {
    pub(super) lane: Lane,
    pub(super) base: u64,
}

/// What the first bytes of a segment file say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// This format, this lane, this base.
    Ours,
    /// A sound header of a version this program does not know.
    Newer(u16),
    /// Torn or damaged. The frames speak for themselves.
    Unreadable,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FileHeader {
    magic: [u8; 8],
    version: U16,
    flags: U16,
    crc: U32,
    lane: U64,
    base: U64,
}

/// The first bytes of a segment file.
pub(super) fn file_header(name: SegmentName) -> [u8; FILE_HEADER_BYTES] {
    let mut header = FileHeader {
        magic: FILE_MAGIC,
        version: U16::new(FILE_VERSION),
        flags: U16::ZERO,
        crc: U32::ZERO,
        lane: U64::new(name.lane.0),
        base: U64::new(name.base),
    };
    header.crc = U32::new(crc32c::crc32c(header.as_bytes()));
    zerocopy::transmute!(header)
}

/// Judges the first bytes of a segment file.
pub(super) fn read_file_header(name: SegmentName, bytes: &[u8]) -> Opening {
    let Ok((header, _)) = FileHeader::read_from_prefix(bytes) else {
        return Opening::Unreadable;
    };
    let unsummed = FileHeader { crc: U32::ZERO, ..header };
    let sound = header.magic == FILE_MAGIC
        && header.crc.get() == crc32c::crc32c(unsummed.as_bytes())
        && header.lane.get() == name.lane.0
        && header.base.get() == name.base;
    match header.version.get() {
        _ if !sound => Opening::Unreadable,
        FILE_VERSION => Opening::Ours,
        version => Opening::Newer(version),
    }
}

/// A frame without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) base: u64,
    pub(super) count: u32,
    pub(super) max_timestamp: Wall,
    pub(super) body_bytes: u32,
    body_crc: u32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FrameHeader {
    magic: [u8; 4],
    version: U16,
    flags: U16,
    body_bytes: U32,
    count: U32,
    base: U64,
    max_timestamp: I64,
    body_crc: U32,
    /// Last, so that it sums all bytes before it.
    header_crc: U32,
}

impl Head {
    /// The head of a frame, or nothing if the frame has no offsets, has offsets past the last
    /// one there can be, or has a body whose length does not fit.
    pub(super) fn of(frame: &Frame) -> Option<Self> {
        frame.base.checked_add(u64::from(frame.count)).filter(|_| frame.count > 0)?;
        Some(Self {
            base: frame.base,
            count: frame.count,
            max_timestamp: frame.max_timestamp,
            body_bytes: u32::try_from(frame.body.len()).ok()?,
            body_crc: crc32c::crc32c(&frame.body),
        })
    }

    /// Reads the head of a frame at `position` of a segment file. Nothing, unless every byte of
    /// it is as it was written, for this lane, this segment and this position.
    pub(super) fn read(name: SegmentName, position: u64, bytes: &[u8]) -> Option<Self> {
        let (header, _) = FrameHeader::read_from_prefix(bytes).ok()?;
        let sound = header.magic == FRAME_MAGIC
            && header.version.get() == FRAME_VERSION
            && header.header_crc.get() == header_crc(name, position, &header);
        let head = Self {
            base: header.base.get(),
            count: header.count.get(),
            max_timestamp: Wall(header.max_timestamp.get()),
            body_bytes: header.body_bytes.get(),
            body_crc: header.body_crc.get(),
        };
        (sound && head.base.checked_add(u64::from(head.count)).is_some()).then_some(head)
    }

    /// Appends head, body and padding to what will be written at `position`.
    pub(super) fn write(self, name: SegmentName, position: u64, body: &[u8], to: &mut Vec<u8>) {
        let mut header = FrameHeader {
            magic: FRAME_MAGIC,
            version: U16::new(FRAME_VERSION),
            flags: U16::ZERO,
            body_bytes: U32::new(self.body_bytes),
            count: U32::new(self.count),
            base: U64::new(self.base),
            max_timestamp: I64::new(self.max_timestamp.0),
            body_crc: U32::new(self.body_crc),
            header_crc: U32::ZERO,
        };
        header.header_crc = U32::new(header_crc(name, position, &header));
        to.extend_from_slice(header.as_bytes());
        to.extend_from_slice(body);
        to.resize(to.len().next_multiple_of(ALIGN), 0);
    }

    /// Whether these are the bytes the frame was written with.
    pub(super) fn owns(self, body: &[u8]) -> bool {
        body.len() as u64 == u64::from(self.body_bytes) && crc32c::crc32c(body) == self.body_crc
    }

    /// The first offset after the frame.
    pub(super) const fn end(self) -> u64 {
        self.base + self.count as u64
    }

    /// What the frame takes in the file: header, body and padding.
    pub(super) const fn stored_bytes(self) -> u64 {
        (FRAME_HEADER_BYTES as u64 + self.body_bytes as u64).next_multiple_of(ALIGN as u64)
    }
}

/// Sums a frame header together with its place, so that a frame of another lane, another segment
/// or another position is never taken for one of this place.
fn header_crc(name: SegmentName, position: u64, header: &FrameHeader) -> u32 {
    let place = [U64::new(name.lane.0), U64::new(name.base), U64::new(position)];
    let summed = size_of::<FrameHeader>() - size_of::<U32>();
    let bytes = header.as_bytes().get(..summed).unwrap_or_default();
    crc32c::crc32c_append(crc32c::crc32c(place.as_bytes()), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NAME: SegmentName = SegmentName { lane: Lane(7), base: 100 };

    fn written() -> (Head, Vec<u8>) {
        let body = Bytes::from_static(b"thirteen byte");
        let frame = Frame { base: 120, count: 3, max_timestamp: Wall(-5), body };
        let head = Head::of(&frame).unwrap();
        let mut bytes = Vec::new();
        head.write(NAME, 64, &frame.body, &mut bytes);
        (head, bytes)
    }

    #[test]
    fn headers_have_the_sizes_of_the_byte_map() {
        assert_eq!((FILE_HEADER_BYTES, FRAME_HEADER_BYTES), (32, 40));
        let (head, bytes) = written();
        assert_eq!((head.stored_bytes(), bytes.len()), (56, 56));
    }

    #[test]
    fn a_head_reads_back_only_at_its_own_place() {
        let (head, bytes) = written();
        assert_eq!(Head::read(NAME, 64, &bytes), Some(head));
        assert_eq!(Head::read(NAME, 72, &bytes), None);
        assert_eq!(Head::read(SegmentName { lane: Lane(8), ..NAME }, 64, &bytes), None);
        assert_eq!(Head::read(SegmentName { base: 99, ..NAME }, 64, &bytes), None);
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_seen() {
        let (_, bytes) = written();
        for bit in 0..FRAME_HEADER_BYTES * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::read(NAME, 64, &flipped), None, "bit {bit}");
        }
        let sound = file_header(NAME);
        assert_eq!(read_file_header(NAME, &sound), Opening::Ours);
        for bit in 0..sound.len() * 8 {
            let mut flipped = sound;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_file_header(NAME, &flipped), Opening::Unreadable, "bit {bit}");
        }
    }

    #[test]
    fn a_sound_header_of_another_version_is_told_from_damage() {
        let mut header = FileHeader::read_from_bytes(&file_header(NAME)).unwrap();
        header.version = U16::new(2);
        header.crc = U32::ZERO;
        header.crc = U32::new(crc32c::crc32c(header.as_bytes()));
        assert_eq!(read_file_header(NAME, header.as_bytes()), Opening::Newer(2));
    }

    #[test]
    fn a_frame_without_offsets_or_past_the_last_one_has_no_head() {
        let frame = |base, count| Frame { base, count, max_timestamp: Wall(0), body: Bytes::new() };
        assert_eq!(Head::of(&frame(0, 0)), None);
        assert_eq!(Head::of(&frame(u64::MAX, 1)), None);
        assert!(Head::of(&frame(u64::MAX - 1, 1)).is_some());
    }
}
