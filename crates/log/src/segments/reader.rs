//! Reading frames, and finding the first frame of a time.
//!
//! A reader copies what is published of one segment, then reads without holding a lock. Meanwhile
//! the lane may be cut or trimmed; what then looks like damage is none, and what stands behind a
//! cut is not published yet. So what was read counts only if nothing was taken away since.

use super::format::{ALIGN, FRAME_HEADER_BYTES, Head};
use super::lane::{Located, Seek, View, segment_path};
use super::open_files::OpenSegment;
use super::walk::{Step, Walk};
use super::{Frame, Lane, Read, ReadError, Segments};
use crate::disk::read_full_at;
use bytes::Bytes;
use handoff_types::Wall;
use std::io;

/// What one segment has to say about an offset.
enum Part {
    /// As many frames as there is room for, in order.
    Frames(Vec<Frame>),
    Corrupt {
        from: u64,
        to: u64,
    },
}

impl Segments {
    /// Reads frames from the one that holds `offset` on, as many as `max_bytes` of the files
    /// hold, but at least one. Every body is checked.
    ///
    /// # Errors
    /// Whatever the disk answers. Damage is an answer, not an error.
    pub fn read(&self, lane: Lane, offset: u64, max_bytes: u64) -> Result<Read, ReadError> {
        let mut frames = Vec::new();
        let mut at = offset;
        let mut room = max_bytes;
        loop {
            let view = match self.look(lane, |state| state.locate(lane, at, Seek::Offset(at)))? {
                Located::In(view) => view,
                _ if !frames.is_empty() => return Ok(Read::Frames(frames)),
                Located::End { end } => return Ok(Read::End { end }),
                Located::Trimmed { start } => return Ok(Read::Trimmed { start }),
            };
            let part = self.read_segment(&view, at, room, frames.is_empty());
            if self.look(lane, |state| state.generation)? != view.generation {
                continue;
            }
            match part? {
                Part::Frames(more) => {
                    room = more.iter().fold(room, |room, frame| room.saturating_sub(cost(frame)));
                    at = more.last().map_or(at, Frame::end);
                    frames.extend(more);
                    if at < view.to {
                        return Ok(Read::Frames(frames));
                    }
                }
                Part::Corrupt { from, to } if frames.is_empty() => {
                    return Ok(Read::Corrupt { from, to });
                }
                Part::Corrupt { .. } => return Ok(Read::Frames(frames)),
            }
        }
    }

    /// The base offset of the first frame with a timestamp at or after this one; nothing if all
    /// are older. The offset with that timestamp is in that frame.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn find_time(&self, lane: Lane, time: Wall) -> Result<Option<u64>, ReadError> {
        let mut at = self.start(lane)?;
        loop {
            let view = match self.look(lane, |state| state.locate(lane, at, Seek::Time(time)))? {
                Located::In(view) => view,
                Located::Trimmed { start } => {
                    at = start;
                    continue;
                }
                Located::End { .. } => return Ok(None),
            };
            if view.size.is_none_or(|size| size.max_timestamp >= time)
                && let Some(base) = self.find_time_in(&view, time)?
            {
                return Ok(Some(base));
            }
            at = view.to;
        }
    }

    fn find_time_in(&self, view: &View, time: Wall) -> Result<Option<u64>, ReadError> {
        let open = match view.open(self) {
            Err(error) if error.is_missing() => return Ok(None),
            open => open?,
        };
        let (from, limit) = view.bounds(&open, Seek::Time(time));
        let mut walk = Walk::new(&*open.file, view.name, from, limit);
        loop {
            match walk.step().map_err(ReadError::disk(segment_path(view.name)))? {
                Step::Frame { head, .. } if head.max_timestamp >= time => {
                    return Ok(Some(head.base));
                }
                Step::Frame { .. } | Step::Hole { .. } => {}
                Step::Done { .. } => return Ok(None),
            }
        }
    }

    /// Reads frames of one segment. `must` asks for one frame even if there is no room for it.
    fn read_segment(&self, view: &View, at: u64, room: u64, must: bool) -> Result<Part, ReadError> {
        let open = match view.open(self) {
            Err(error) if error.is_missing() => {
                return Ok(Part::Corrupt { from: view.name.base, to: view.to });
            }
            open => open?,
        };
        frames_from(view, &open, at, room, must).map_err(ReadError::disk(segment_path(view.name)))
    }
}

fn frames_from(
    view: &View,
    open: &OpenSegment,
    at: u64,
    room: u64,
    must: bool,
) -> io::Result<Part> {
    let (from, limit) = view.bounds(open, Seek::Offset(at));
    let mut walk = Walk::new(&*open.file, view.name, from, limit);
    let (position, head) = loop {
        match walk.step()? {
            Step::Frame { position, head } if head.end() > at => break (position, head),
            Step::Hole { from, to } if to > at => return Ok(Part::Corrupt { from, to }),
            Step::Done { next } => return Ok(Part::Corrupt { from: next, to: view.to }),
            Step::Frame { .. } | Step::Hole { .. } => {}
        }
    };
    if head.stored_bytes() > room && !must {
        return Ok(Part::Frames(Vec::new()));
    }
    let wanted = head.stored_bytes().max(room.min(limit.saturating_sub(position)));
    let mut buffer = vec![0; usize::try_from(wanted).map_err(io::Error::other)?];
    let filled = read_full_at(&*open.file, &mut buffer, position)?;
    buffer.truncate(filled);
    let frames = parse(view, position, head.base, &Bytes::from(buffer));
    if frames.is_empty() {
        return Ok(Part::Corrupt { from: head.base, to: head.end() });
    }
    Ok(Part::Frames(frames))
}

/// The sound frames at the beginning of what was read at `position`. They share its memory.
fn parse(view: &View, position: u64, first: u64, read: &Bytes) -> Vec<Frame> {
    let mut frames = Vec::new();
    let (mut at, mut next) = (0, first);
    while let Some(bytes) = read.get(at..)
        && let Some(head) = Head::read(view.name, position + at as u64, bytes)
        && head.base == next
        && head.end() <= view.to
        && let Some(end) = FRAME_HEADER_BYTES.checked_add(head.body_bytes as usize)
        && let Some(body) = bytes.get(FRAME_HEADER_BYTES..end)
        && head.owns(body)
    {
        let Head { base, count, max_timestamp, .. } = head;
        frames.push(Frame { base, count, max_timestamp, body: read.slice_ref(body) });
        next = head.end();
        at = at.saturating_add(end.next_multiple_of(ALIGN));
    }
    frames
}

/// What a frame takes of a reader's room.
fn cost(frame: &Frame) -> u64 {
    (FRAME_HEADER_BYTES + frame.body.len()).next_multiple_of(ALIGN) as u64
}
