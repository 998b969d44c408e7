//! How records are compressed.
//!
//! Snappy is written as Kafka's Java clients write it (blocks behind a magic number, after the Java
//! library xerial/snappy-java), because every client reads that; raw Snappy is read as well, as
//! librdkafka and the Java library do. LZ4 is written with independent blocks: Kafka's Java
//! consumers read no others.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::{BadBatch, HEAD_BYTES};
use crate::Compression;

/// The magic number, a version and the oldest version that may read it.
const XERIAL: [u8; 16] = *b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";

/// The magic number alone.
const XERIAL_MAGIC_BYTES: usize = 8;

const XERIAL_BLOCK_BYTES: usize = 32 * 1024;

const ZSTD_LEVEL: i32 = 3;

/// The records, compressed, behind room for a head. None if they are not to be compressed, or
/// cannot be.
pub(super) fn compressed(records: &[u8], compression: Compression) -> Option<Vec<u8>> {
    let out = || {
        let mut out = Vec::with_capacity(HEAD_BYTES + records.len() / 2);
        out.resize(HEAD_BYTES, 0);
        out
    };
    match compression {
        Compression::None => None,
        Compression::Gzip => {
            let mut encoder = GzEncoder::new(out(), flate2::Compression::default());
            encoder.write_all(records).ok()?;
            encoder.finish().ok()
        }
        Compression::Snappy => snappy(out(), records),
        Compression::Lz4 => {
            let info =
                FrameInfo::new().block_mode(BlockMode::Independent).block_size(BlockSize::Max64KB);
            let mut encoder = FrameEncoder::with_frame_info(info, out());
            encoder.write_all(records).ok()?;
            encoder.finish().ok()
        }
        Compression::Zstd => {
            let mut encoder = zstd::Encoder::new(out(), ZSTD_LEVEL).ok()?;
            encoder.write_all(records).ok()?;
            encoder.finish().ok()
        }
    }
}

/// The records as they were, at most `bytes_max` bytes of them.
pub(super) fn decompressed(
    bytes: &Bytes,
    compression: Compression,
    bytes_max: usize,
) -> Result<Bytes, BadBatch> {
    match compression {
        Compression::None => Ok(bytes.clone()),
        Compression::Gzip => bounded(MultiGzDecoder::new(bytes.as_ref()), bytes_max),
        Compression::Snappy => unsnappy(bytes, bytes_max),
        Compression::Lz4 => bounded(FrameDecoder::new(bytes.as_ref()), bytes_max),
        Compression::Zstd => {
            let decoder = zstd::Decoder::new(bytes.as_ref()).map_err(broken)?;
            bounded(decoder, bytes_max)
        }
    }
}

fn bounded(decoder: impl Read, bytes_max: usize) -> Result<Bytes, BadBatch> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
    let mut out = Vec::new();
    decoder.take(limit.saturating_add(1)).read_to_end(&mut out).map_err(broken)?;
    if out.len() > bytes_max {
        return Err(too_large(bytes_max));
    }
    Ok(Bytes::from(out))
}

fn snappy(mut out: Vec<u8>, records: &[u8]) -> Option<Vec<u8>> {
    out.extend_from_slice(&XERIAL);
    let mut encoder = snap::raw::Encoder::new();
    for block in records.chunks(XERIAL_BLOCK_BYTES) {
        let len_at = out.len();
        let block_at = len_at + 4;
        out.resize(block_at + snap::raw::max_compress_len(block.len()), 0);
        let written = encoder.compress(block, out.get_mut(block_at..)?).ok()?;
        let len = u32::try_from(written).ok()?;
        out.get_mut(len_at..block_at)?.copy_from_slice(&len.to_be_bytes());
        out.truncate(block_at + written);
    }
    Some(out)
}

fn unsnappy(bytes: &[u8], bytes_max: usize) -> Result<Bytes, BadBatch> {
    let mut out = Vec::new();
    let magic = XERIAL.get(..XERIAL_MAGIC_BYTES).unwrap_or_default();
    if !bytes.starts_with(magic) {
        unsnappy_block(bytes, bytes_max, &mut out)?;
        return Ok(Bytes::from(out));
    }
    // Versions are not looked at: there has only ever been one.
    let mut rest = bytes.get(XERIAL.len()..).ok_or_else(|| BadBatch::new("ends within Snappy"))?;
    while let Some((len, behind)) = rest.split_first_chunk() {
        let (block, behind) = usize::try_from(u32::from_be_bytes(*len))
            .ok()
            .and_then(|len| behind.split_at_checked(len))
            .ok_or_else(|| BadBatch::new("ends within Snappy"))?;
        unsnappy_block(block, bytes_max, &mut out)?;
        rest = behind;
    }
    match rest.is_empty() {
        true => Ok(Bytes::from(out)),
        false => Err(BadBatch::new("ends within Snappy")),
    }
}

fn unsnappy_block(block: &[u8], bytes_max: usize, out: &mut Vec<u8>) -> Result<(), BadBatch> {
    let from = out.len();
    let len = snap::raw::decompress_len(block).map_err(broken)?;
    // A byte of Snappy yields at most 64 / 3 bytes: a length beyond that is not worth its memory.
    if len > bytes_max.saturating_sub(from) || len / 64 > block.len() {
        return Err(too_large(bytes_max));
    }
    out.resize(from + len, 0);
    let place = out.get_mut(from..).unwrap_or_default();
    let written = snap::raw::Decoder::new().decompress(block, place).map_err(broken)?;
    out.truncate(from + written);
    Ok(())
}

fn broken(error: impl std::fmt::Display) -> BadBatch {
    BadBatch::new(format!("cannot be decompressed: {error}"))
}

fn too_large(bytes_max: usize) -> BadBatch {
    BadBatch::new(format!("decompresses to more than {bytes_max} bytes"))
}
