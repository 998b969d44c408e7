//! What an input does to files.
//!
//! ```text
//! edit   │ kind 1 │ file 1 │ offset 3, little-endian │ length 1 │ bytes, for `put` only │
//! ```
//!
//! [`damage`] flips, zeroes, fills and cuts. It cannot write bytes of the input's choice: a fuzzer
//! that sees a checksum compared puts the right one in, and then nothing tells damage from a write.
//! [`forge`] can, and is followed by making checksums right.

use handoff_log::disk::Memory;

/// More edits than this tell nothing new.
const EDITS_MAX: usize = 32;

/// Flips, zeroes, fills, turns around and cuts.
pub fn damage(disk: &Memory, paths: &[String], input: &[u8]) {
    each(disk, paths, input, |kind, contents, offset, length, _| {
        let end = contents.len().min(offset + 1 + usize::from(length) * 16);
        match (kind % 5, contents.get_mut(offset..end)) {
            (0, Some([first, ..])) => *first ^= 1 << (length % 8),
            (1, Some(range)) => range.fill(0),
            (2, Some(range)) => range.fill(length),
            (3, Some(range)) => range.reverse(),
            (4, _) => contents.truncate(offset),
            _ => {}
        }
        0
    });
}

/// Puts bytes of the input's choice in.
pub fn forge(disk: &Memory, paths: &[String], input: &[u8]) {
    each(disk, paths, input, |kind, contents, offset, length, rest| match kind % 4 {
        3 => {
            contents.truncate(offset);
            0
        }
        _ => {
            let bytes = &rest[..usize::from(length % 32).min(rest.len())];
            let fits = contents.len().saturating_sub(offset).min(bytes.len());
            if let Some(place) = contents.get_mut(offset..offset + fits) {
                place.copy_from_slice(&bytes[..fits]);
            }
            bytes.len()
        }
    });
}

/// Carries out each edit. `act` says how many bytes it took beyond the edit's own.
fn each(
    disk: &Memory,
    paths: &[String],
    mut input: &[u8],
    act: impl Fn(u8, &mut Vec<u8>, usize, u8, &[u8]) -> usize,
) {
    for _ in 0..EDITS_MAX {
        let Some((&[kind, file, a, b, c, length], rest)) = input.split_first_chunk() else {
            return;
        };
        let path = &paths[usize::from(file) % paths.len()];
        let mut contents = disk.contents(path).expect("the file is there");
        let offset = u32::from_le_bytes([a, b, c, 0]) as usize % (contents.len() + 1);
        let taken = act(kind, &mut contents, offset, length, rest);
        disk.overwrite(path, contents).expect("memory does not fail");
        input = &rest[taken..];
    }
}

/// CRC-32C of parts, one behind the other.
pub fn crc(parts: &[&[u8]]) -> [u8; 4] {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part)).to_le_bytes()
}

/// A little-endian number in a file.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A longer one.
pub fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Makes the checksum at `at` right, which is over all of `bytes` with itself taken as zero.
pub fn seal(bytes: &mut [u8], at: usize) {
    bytes[at..at + 4].fill(0);
    let crc = crc(&[bytes]);
    bytes[at..at + 4].copy_from_slice(&crc);
}
