//! Reading lanes from beside a room, wherever their frames are.
//!
//! ```text
//!  offsets of a lane   ├── in segments, synced ──┤├── durable in the journal ──┤├── expected ──┤
//!                                                 ▲ until                       ▲ end
//! ```
//!
//! Below `until` segments are read, from there on the journal. While a read is under way the mover
//! may carry `until` past it and the journal may forget what was to be read there: then the place
//! is looked up again and found in segments. After a failed sync the segments are others, and what
//! the old ones said does not count.

use std::sync::Arc;

use handoff_log::journal::ReadError;
use handoff_log::segments::{Frame, Lane, Read, Segments};
use handoff_types::{Position, Wall};

use crate::books::{Found, Place, Shared};
use crate::bulk::BulkError;

/// What a frame counts besides its body, and what its bytes are rounded up to, as in a segment.
const FRAME_BYTES: u64 = 40;
const FRAME_ALIGN: u64 = 8;

/// Reads the lanes of a room. May block for the disk, never for the room.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// What a read has so far.
struct Reading {
    frames: Vec<Frame>,
    /// The next offset.
    at: u64,
    /// Bytes there is room for.
    room: u64,
    /// A record that was to be in the journal and was not.
    missed: Option<Position>,
}

impl Reading {
    /// Takes a frame, unless there is no room for it. The first is always taken.
    fn take(&mut self, frame: Frame) -> bool {
        let cost = (frame.body.len() as u64 + FRAME_BYTES).next_multiple_of(FRAME_ALIGN);
        if cost > self.room && !self.frames.is_empty() {
            return false;
        }
        self.room = self.room.saturating_sub(cost);
        self.at = frame.end();
        self.frames.push(frame);
        true
    }

    /// What was read, or else this.
    fn or(self, read: Read) -> Read {
        if self.frames.is_empty() { read } else { Read::Frames(self.frames) }
    }
}

/// How a read goes on.
enum Next {
    /// There may be more.
    More,
    /// There is no more room.
    Full,
    /// This stands where it would go on.
    Stop(Read),
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Reads whole frames in order without a gap, from the one that holds `offset` on, as many as
    /// there is room for in `max_bytes` and at least one. Nothing that is not durable.
    ///
    /// That a lane ends too early cannot be told from its files: use [`Self::read_below`] if its
    /// end is known.
    ///
    /// # Errors
    /// Whatever the disk answers. Damage is an answer, not an error.
    pub fn read(&self, lane: Lane, offset: u64, max_bytes: u64) -> Result<Read, BulkError> {
        let mut reading = Reading { frames: Vec::new(), at: offset, room: max_bytes, missed: None };
        loop {
            let next = match self.shared.find(lane, reading.at) {
                Found::Journal(places) => self.read_journal(&mut reading, &places)?,
                Found::Segments { segments, until } => {
                    self.read_segments(&mut reading, lane, &segments, until)?
                }
                Found::End { end } => Next::Stop(Read::End { end }),
                Found::Hole { from, to } => Next::Stop(Read::Corrupt { from, to }),
            };
            match next {
                Next::More if reading.room > 0 || reading.frames.is_empty() => {}
                Next::More | Next::Full => return Ok(Read::Frames(reading.frames)),
                Next::Stop(read) => return Ok(reading.or(read)),
            }
        }
    }

    /// Reads as [`Self::read`], of a lane of which is known that everything below `end` was durable
    /// once. What is missing there is told as damage, and nothing from `end` on is given.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_below(
        &self,
        lane: Lane,
        offset: u64,
        end: u64,
        max_bytes: u64,
    ) -> Result<Read, BulkError> {
        if offset >= end {
            return Ok(Read::End { end });
        }
        Ok(match self.read(lane, offset, max_bytes)? {
            Read::Frames(mut frames) => {
                frames.retain(|frame| frame.base < end);
                Read::Frames(frames)
            }
            Read::End { .. } => Read::Corrupt { from: offset, to: end },
            Read::Corrupt { from, to } => Read::Corrupt { from, to: to.min(end) },
            Read::Trimmed { start } => Read::Trimmed { start: start.min(end) },
        })
    }

    /// The base offset of the first frame with a timestamp at or after this one; nothing if all are
    /// older. The offset with that timestamp is in that frame.
    ///
    /// # Errors
    /// Whatever the disk answers.
    pub fn find_time(&self, lane: Lane, time: Wall) -> Result<Option<u64>, BulkError> {
        loop {
            let (segments, until, in_journal) = self.shared.find_time(lane, time);
            let found = segments.find_time(lane, time);
            if !self.shared.is_current(&segments) {
                continue;
            }
            let below = |base: &u64| until.is_none_or(|until| *base < until);
            return Ok(found?.filter(below).or(in_journal));
        }
    }

    fn read_journal(&self, reading: &mut Reading, places: &[Place]) -> Result<Next, BulkError> {
        for place in places {
            let Place { base, count, max_timestamp, at, .. } = *place;
            if base > reading.at {
                return Ok(Next::More);
            }
            let body = match self.shared.records.body(at) {
                Ok(body) => body,
                Err(ReadError::Corrupt(_)) => {
                    return Ok(Next::Stop(Read::Corrupt { from: base, to: place.end() }));
                }
                // The journal forgets only what segments have: look there.
                Err(ReadError::Trimmed(gone)) if reading.missed != Some(gone) => {
                    reading.missed = Some(gone);
                    return Ok(Next::More);
                }
                Err(error) => return Err(error.into()),
            };
            if !reading.take(Frame { base, count, max_timestamp, body }) {
                return Ok(Next::Full);
            }
        }
        Ok(Next::More)
    }

    fn read_segments(
        &self,
        reading: &mut Reading,
        lane: Lane,
        segments: &Arc<Segments>,
        until: Option<u64>,
    ) -> Result<Next, BulkError> {
        let read = segments.read(lane, reading.at, reading.room);
        let has_files = segments.has_files(lane);
        if !self.shared.is_current(segments) {
            return Ok(Next::More);
        }
        let below = until.unwrap_or(u64::MAX);
        Ok(match read? {
            Read::Frames(frames) => {
                let last = frames.last().map_or(reading.at, Frame::end).min(below);
                for frame in frames.into_iter().filter(|frame| frame.base < below) {
                    if !reading.take(frame) {
                        return Ok(Next::Full);
                    }
                }
                match until {
                    Some(until) if last < until => Next::Full,
                    Some(_) if reading.frames.is_empty() => {
                        Next::Stop(Read::Corrupt { from: reading.at, to: below })
                    }
                    Some(_) => Next::More,
                    None => Next::Full,
                }
            }
            Read::Corrupt { from, to } => Next::Stop(Read::Corrupt { from, to: to.min(below) }),
            Read::Trimmed { start } => Next::Stop(Read::Trimmed { start: start.min(below) }),
            Read::End { end } => Next::Stop(match until {
                None => Read::End { end },
                // The lane has lost its end, be it all that it had, or it begins in the journal.
                Some(until) if has_files? => Read::Corrupt { from: end, to: until },
                Some(until) => Read::Trimmed { start: until },
            }),
        })
    }
}
