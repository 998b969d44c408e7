//! A walk from frame header to frame header through a segment file.
//!
//! Bodies are not read, so a walk costs little more than the headers; whether a body is sound is
//! for the reader who asks for it. Where no frame stands although one should, the walk looks for
//! the next one at every eighth byte: a header sums its own place, so what it finds there is
//! truly a frame of this segment and not, say, a segment file that someone stored as a message.

use super::format::{ALIGN, FRAME_HEADER_BYTES, Head, SegmentName};
use super::index::{Entry, Index};
use crate::disk::{File, read_full_at};
use std::io;

/// How much of the file is read at a time.
const WINDOW_BYTES: usize = 16 << 10;

/// What comes next in a segment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A frame.
    Frame { position: u64, head: Head },
    /// No frame holds these offsets. The walk goes on at `to`.
    Hole { from: u64, to: u64 },
    /// No frame follows. `next` is the offset it would have begun with.
    Done { next: u64 },
}

/// A walk through the frames of a segment file.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    file: &'a dyn File,
    name: SegmentName,
    position: u64,
    next: u64,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Walk<'a> {
    /// Begins at an index entry and looks at nothing at or past `limit`.
    pub(super) fn new(file: &'a dyn File, name: SegmentName, from: Entry, limit: u64) -> Self {
        let (position, next) = (from.position, from.offset);
        Self { file, name, position, next, limit, window: Vec::new(), window_at: 0 }
    }

    /// The next frame, hole or end.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub(super) fn step(&mut self) -> io::Result<Step> {
        let Some((position, head)) = self.find()? else {
            return Ok(Step::Done { next: self.next });
        };
        if head.base > self.next {
            let from = self.next;
            (self.position, self.next) = (position, head.base);
            return Ok(Step::Hole { from, to: head.base });
        }
        (self.position, self.next) = (position + head.stored_bytes(), head.end());
        Ok(Step::Frame { position, head })
    }

    /// The first whole frame at or after the walk's position that does not go back.
    fn find(&mut self) -> io::Result<Option<(u64, Head)>> {
        let name = self.name;
        let mut position = self.position;
        while let Some(bytes) = self.header_at(position)? {
            if let Some(head) = Head::read(name, position, bytes)
                && head.base >= self.next
                && position + head.stored_bytes() <= self.limit
            {
                return Ok(Some((position, head)));
            }
            position += ALIGN as u64;
        }
        Ok(None)
    }

    /// The bytes of a header, as far as limit and file go.
    fn header_at(&mut self, position: u64) -> io::Result<Option<&[u8]>> {
        if self.limit.saturating_sub(position) < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        if self.windowed(position).is_none() {
            self.window.resize(WINDOW_BYTES, 0);
            let filled = read_full_at(self.file, &mut self.window, position)?;
            self.window.truncate(filled);
            self.window_at = position;
        }
        Ok(self.windowed(position))
    }

    fn windowed(&self, position: u64) -> Option<&[u8]> {
        let at = usize::try_from(position.checked_sub(self.window_at)?).ok()?;
        self.window.get(at..at.checked_add(FRAME_HEADER_BYTES)?)
    }
}

/// What a walk through a whole segment file finds.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) index: Index,
    /// The first offset after the last frame.
    pub(super) next: u64,
    /// The length of the file, whatever stands after the last frame included.
    pub(super) file_bytes: u64,
}

/// Indexes a segment file by walking through it.
///
/// # Errors
/// Whatever the disk answers.
pub(super) fn index_whole(file: &dyn File, name: SegmentName, stride: u64) -> io::Result<Indexed> {
    let mut index = Index::new(name.base, stride);
    let file_bytes = file.len()?;
    let mut walk = Walk::new(file, name, index.before_offset(name.base), file_bytes);
    loop {
        match walk.step()? {
            Step::Frame { position, head } => index.note(position, head),
            Step::Hole { .. } => {}
            Step::Done { next } => return Ok(Indexed { index, next, file_bytes }),
        }
    }
}
