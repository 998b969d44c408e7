//! What is around a segment and around a key frame: who it follows, how large it is inside, and
//! whether it is whole.
//!
//! ```text
//!  0  version u8      1
//!  1  kind u8         1 segment │ 2 key frame
//!  2  packing u8      0 as it is │ 1 zstd
//!  3  segment u32     of a segment its number, of a key frame the number of the one that continues it
//!  7  before u32      the CRC of the segment before, or the seal of the block and the shard
//! 11  inside u32      bytes of what is inside, unpacked
//! 15  crc u32         CRC-32C of the fifteen bytes before and of what follows
//! 19  inside
//! ```
//!
//! The CRC is made where the samples are encoded and checked where they are decoded. What goes wrong
//! in between, on any disk or wire, is found; and a segment is taken only behind the very one it was
//! made to follow.

use bytes::Bytes;
use thiserror::Error;

use super::Workbench;
use crate::key::{BlockId, ShardId};
use crate::wire::{Front, Malformed};

/// Bytes in front of what is inside.
pub const HEAD_BYTES: usize = 19;

/// The version of this format. Goes into titles and greetings.
pub const ENCODER_VERSION: u8 = 1;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Segment = 1,
    KeyFrame = 2,
}

/// Where a chain of segments stands: what comes next and what it must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) next: u32,
    pub(crate) before: u32,
}

impl Chain {
    /// The chain of a shard before its first segment. Segments of another block or shard do not
    /// follow it.
    pub(crate) fn new(block: BlockId, shard: ShardId) -> Self {
        let seal = crc32c::crc32c_append(crc32c::crc32c(&block.0), &shard.to_le_bytes());
        Self { next: 0, before: seal }
    }
}

/// Why bytes are not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes are damaged or were never sound.
    #[error("the segment is damaged: it {0}")]
    Malformed(#[from] Malformed),
    /// Sound, but this decoder is not where it continues. A key frame helps.
    #[error("a key frame is needed: the decoder stands before segment {expected}, not {found}")]
    NeedKeyFrame {
        /// The segment the decoder could take.
        expected: u32,
        /// The segment it was given.
        found: u32,
    },
    /// Of a version this program does not know.
    #[error("encoder version {0} is not known")]
    Version(u8),
}

/// What is inside, its kind and its place, checked and unpacked.
pub(super) struct Opened<'a> {
    pub(super) chain: Chain,
    pub(super) crc: u32,
    pub(super) inside: &'a [u8],
}

/// Closes what lies in the workbench's `inside` up.
pub(super) fn close(kind: Kind, chain: Chain, bench: &mut Workbench) -> Bytes {
    let is_smaller = bench.pack();
    let (packing, body) = if is_smaller { (ZSTD, &bench.packed) } else { (PLAIN, &bench.inside) };
    let inside = u32::try_from(bench.inside.len()).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(HEAD_BYTES + body.len());
    out.extend_from_slice(&[ENCODER_VERSION, kind as u8, packing]);
    out.extend_from_slice(&chain.next.to_le_bytes());
    out.extend_from_slice(&chain.before.to_le_bytes());
    out.extend_from_slice(&inside.to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&out), body);
    out.extend_from_slice(&crc.to_le_bytes());
    out.extend_from_slice(body);
    Bytes::from(out)
}

/// The CRC of something closed, which the next one names.
pub(super) fn crc_of(bytes: &[u8]) -> u32 {
    let crc = bytes.get(HEAD_BYTES - 4..HEAD_BYTES).and_then(<[u8]>::first_chunk).copied();
    u32::from_le_bytes(crc.unwrap_or_default())
}

/// The number of the segment that bytes say they are, whether or not that is true.
#[must_use]
pub fn segment_number(bytes: &[u8]) -> Option<u32> {
    bytes.get(3..)?.first_chunk().copied().map(u32::from_le_bytes)
}

/// Checks bytes and unpacks what is inside them.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    wanted: Kind,
    inside_bytes_max: usize,
    bench: &'a mut Workbench,
) -> Result<Opened<'a>, DecodeError> {
    let mut front = Front(bytes);
    let [version, kind, packing] = front.array()?;
    let chain = Chain { next: front.u32()?, before: front.u32()? };
    let inside = usize::try_from(front.u32()?).unwrap_or(usize::MAX);
    let crc = front.u32()?;
    let head = bytes.get(..HEAD_BYTES - 4).unwrap_or_default();
    if crc32c::crc32c_append(crc32c::crc32c(head), front.0) != crc {
        return Err(Malformed("does not have its checksum").into());
    }
    if version != ENCODER_VERSION {
        return Err(DecodeError::Version(version));
    }
    if kind != wanted as u8 {
        return Err(Malformed("is of another kind").into());
    }
    if inside > inside_bytes_max {
        return Err(Malformed("is larger inside than allowed").into());
    }
    let inside = match packing {
        PLAIN if front.left() == inside => front.0,
        ZSTD => bench.unpack(front.0, inside)?,
        _ => return Err(Malformed("is not packed as it says").into()),
    };
    Ok(Opened { chain, crc, inside })
}
