//! How a refill file is read, whatever happened to it.
//!
//! ```text
//!  sound frames …│ what is this? │ sound frames …│ what is that?
//!                 └ damage: noted,                └ all zeros: a file that was longer than what was
//!                   the rest goes on                written. Anything else: a frame that was being
//!                                                   written, or damage to the last one
//! ```
//!
//! Nothing is thrown away here. Whoever opens the file cuts the tail off and keeps a copy of it.

use std::io;

use bytes::Bytes;
use handoff_log::disk::{File, read_full_at};

use super::frame::{FILE_HEAD_BYTES, FRAME_HEAD_BYTES, Frame, Head, Layout, Type};
use super::ledger::Ledger;
use crate::ack::AckStatus;
use crate::wire::Malformed;

/// How much is looked at in one piece in search of the next sound frame.
const WINDOW_BYTES: usize = 1 << 16;

/// A part of a file that is not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Its first byte.
    pub from: u64,
    /// The byte behind its last.
    pub to: u64,
}

/// How a file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tail {
    /// With its last frame.
    Clean,
    /// With zeros from here on: they were never written.
    Zeros(u64),
    /// With something from here on that is no frame: torn, or damaged at its very end.
    Torn(u64),
}

/// What was found in a file.
#[derive(Clone, Debug)]
pub struct Found {
    /// The books. None if there is no title or there are no names to begin with.
    pub ledger: Option<Ledger>,
    /// Parts in the middle that could not be read.
    pub damage: Vec<Damage>,
    /// How it ends.
    pub tail: Tail,
    /// Where the next frame would be written.
    pub end: u64,
}

/// Reads a file from front to back.
///
/// # Errors
/// Whatever the disk answers; and `InvalidData` for a file of a later version, which is not touched.
pub fn scan(file: &dyn File, payload_bytes_max: usize) -> io::Result<Found> {
    let len = file.len()?;
    let mut head = [0; FILE_HEAD_BYTES];
    let read = read_full_at(file, &mut head, 0)?;
    let layout = match Layout::of(head.get(..read).unwrap_or_default()) {
        Ok(layout) => layout,
        Err(Malformed(words)) if head.starts_with(b"HNDRFL") && read == head.len() => {
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        Err(_) => return headless(file, len),
    };
    let mut reader = Reader { file, len, layout, payload_bytes_max };
    let mut at = layout.head_bytes();
    let opening = reader.opening(&mut at)?;
    let Some(mut ledger) = opening else { return headless(file, len) };
    let mut damage = Vec::new();
    while at < len {
        if let Some((frame, end)) = reader.frame(at)? {
            ledger.evolve(&frame, at);
            at = end;
            continue;
        }
        match reader.resume(at, &ledger)? {
            Some(next) => {
                damage.push(Damage { from: at, to: next });
                at = next;
            }
            None => break,
        }
    }
    Ok(Found { ledger: Some(ledger), damage, tail: tail(file, at, len)?, end: at })
}

/// A file without a beginning: nothing was ever promised of it, or nobody can tell what.
fn headless(file: &dyn File, len: u64) -> io::Result<Found> {
    Ok(Found { ledger: None, damage: Vec::new(), tail: tail(file, 0, len)?, end: 0 })
}

fn tail(file: &dyn File, at: u64, len: u64) -> io::Result<Tail> {
    if at >= len {
        return Ok(Tail::Clean);
    }
    let mut window = vec![0; WINDOW_BYTES];
    let mut from = at;
    while from < len {
        let read = read_full_at(file, &mut window, from)?;
        if read == 0 {
            break;
        }
        if window.iter().take(read).any(|byte| *byte != 0) {
            return Ok(Tail::Torn(at));
        }
        from += read as u64;
    }
    Ok(Tail::Zeros(at))
}

/// Reads one frame that is known to be at a place.
pub(super) fn read_frame(
    file: &dyn File,
    layout: Layout,
    at: u64,
    payload_bytes_max: usize,
) -> io::Result<Option<Frame>> {
    let reader = Reader { file, len: file.len()?, layout, payload_bytes_max };
    Ok(reader.frame(at)?.map(|(frame, _)| frame))
}

struct Reader<'a> {
    file: &'a dyn File,
    len: u64,
    layout: Layout,
    payload_bytes_max: usize,
}

impl Reader<'_> {
    /// The title and the names, without which nothing else has a meaning.
    fn opening(&mut self, at: &mut u64) -> io::Result<Option<Ledger>> {
        let Some((Frame::Title { shards, block }, end)) = self.frame(*at)? else { return Ok(None) };
        let Some((Frame::Names(names), end)) = self.frame(end)? else { return Ok(None) };
        *at = end;
        Ok(Some(Ledger::new(self.layout, block, AckStatus::new(names, shards))))
    }

    /// The frame at a place, and where it ends. None if no sound one is there.
    fn frame(&self, at: u64) -> io::Result<Option<(Frame, u64)>> {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        if read_full_at(self.file, &mut bytes, at)? < bytes.len() {
            return Ok(None);
        }
        let Ok(head) = Head::read(bytes, self.payload_bytes_max) else { return Ok(None) };
        let behind = head.size + self.layout.crc_bytes();
        let from = at + bytes.len() as u64;
        let end = from + behind as u64;
        if end > self.len {
            return Ok(None);
        }
        let mut body = vec![0; behind];
        if read_full_at(self.file, &mut body, from)? < behind {
            return Ok(None);
        }
        if self.layout != Layout::Bare {
            let crc = body.split_off(head.size);
            let found = crc32c::crc32c_append(crc32c::crc32c(&bytes), &body);
            if crc != found.to_le_bytes() {
                return Ok(None);
            }
        }
        Ok(Frame::read(head, &Bytes::from(body)).ok().map(|frame| (frame, end)))
    }

    /// The next place behind `at` where a sound frame begins. Without checksums nobody can tell.
    fn resume(&self, at: u64, ledger: &Ledger) -> io::Result<Option<u64>> {
        if self.layout == Layout::Bare {
            return Ok(None);
        }
        let mut window = vec![0; WINDOW_BYTES + FRAME_HEAD_BYTES + 4];
        let mut from = at + 1;
        while from < self.len {
            let read = read_full_at(self.file, &mut window, from)?;
            let seen = window.get(..read).unwrap_or_default();
            for (offset, bytes) in seen.windows(FRAME_HEAD_BYTES + 4).enumerate() {
                if offset >= WINDOW_BYTES {
                    break;
                }
                let place = from + offset as u64;
                if self.is_likely(bytes, ledger) && self.frame(place)?.is_some() {
                    return Ok(Some(place));
                }
            }
            // The shortest frame has a body of one byte and its checksum.
            if read < window.len() {
                break;
            }
            from += WINDOW_BYTES as u64;
        }
        Ok(None)
    }

    /// Whether a frame may begin with these bytes. Spares a checksum over what is none.
    fn is_likely(&self, bytes: &[u8], ledger: &Ledger) -> bool {
        let Some((head, body)) = bytes.split_first_chunk() else { return false };
        let Ok(head) = Head::read(*head, self.payload_bytes_max) else { return false };
        match head.kind {
            Type::Title | Type::Names => false,
            Type::Statuses | Type::Rejects => head.size > 0,
            Type::Snapshot | Type::Segment => {
                let len = body.first_chunk().copied().map(u32::from_le_bytes);
                ledger.acks().shards().has(head.key.shard)
                    && len.is_some_and(|len| len as usize + 4 == head.size)
            }
        }
    }
}
