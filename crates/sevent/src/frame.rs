//! Cuts a stream of octets into messages.
//!
//! ```text
//!  read from the socket ──▶ [ size │ content │ size │ cont… ]  ──▶ content, content, …
//!                             VarInt
//! ```
//!
//! * Only octets that have arrived take memory: a size says when a message is complete, never how
//!   much to allocate.
//! * A message is a view of the buffer it was read into, not a copy.
//! * A stream that cannot be cut is broken for good: where the next message begins is not known.
//!
//! Decided here: the size may be longer than it need be, as every VarInt. A broken frame is
//! answered with code 0, which no message has: its id may not have arrived.

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use crate::message::{Answer, ErrorCode};
use crate::primitive::peek_varint;

/// Free space [`Frames::buffer_mut`] offers at least.
const READ_BYTES: usize = 4 << 10;

/// A message from this size on takes its buffer with it, so that a session that was once busy does
/// not hold on to much.
const LARGE_BYTES: usize = 64 << 10;

/// Why a stream cannot be cut any further. The session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The size is not a VarInt, or its bits go beyond 32.
    #[error("the size of a message is not a VarInt")]
    BadSize,
    /// A message has at least an id and the end of its options; this one has size zero.
    #[error("a message of size zero")]
    Empty,
    /// Larger than the receiver takes.
    #[error("a message of {size} octets; at most {max} are taken")]
    TooLarge {
        /// What the message says.
        size: u32,
        /// What is taken.
        max: u32,
    },
}

impl From<FrameError> for Answer {
    fn from(error: FrameError) -> Self {
        Self::Error { last_id: 0, code: ErrorCode::FormatError, message: error.to_string() }
    }
}

/// The octets of a session on their way to becoming messages.
#[derive(Debug)]
pub struct Frames {
    buffer: BytesMut,
    max: u32,
    broken: Option<FrameError>,
}

impl Frames {
    /// Takes messages of at most `max` octets, their size prefix aside.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self { buffer: BytesMut::new(), max, broken: None }
    }

    /// Takes octets that have arrived. A broken stream forgets them.
    pub fn extend(&mut self, octets: &[u8]) {
        if self.broken.is_none() {
            self.buffer.extend_from_slice(octets);
        }
    }

    /// Where to read to: append what arrives, take nothing away. There is free space of a few KiB at
    /// least. What is appended to a broken stream is forgotten.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        if self.broken.is_some() {
            self.buffer.clear();
        }
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// Octets that have arrived and are not part of a message yet.
    ///
    /// More than none at the end of a stream means that it was cut inside a message.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The next message from its id on, if all of it is there.
    ///
    /// # Errors
    /// What broke the stream, at every call from then on.
    #[expect(clippy::should_implement_trait, reason = "None means not yet, an iterator would end")]
    pub fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        if let Some(error) = self.broken {
            return Err(error);
        }
        self.cut().inspect_err(|error| {
            self.broken = Some(*error);
            self.buffer = BytesMut::new();
        })
    }

    fn cut(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some((size, prefix)) = peek_varint(&self.buffer).map_err(|_| FrameError::BadSize)?
        else {
            return Ok(None);
        };
        if size == 0 {
            return Err(FrameError::Empty);
        }
        if size > self.max {
            return Err(FrameError::TooLarge { size, max: self.max });
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let end = prefix.saturating_add(size);
        if self.buffer.len() < end {
            return Ok(None);
        }
        let frame = self.buffer.split_to(end).freeze().slice(prefix..);
        // The copy is shorter than what it lets go of.
        if size >= LARGE_BYTES && self.buffer.len() < size {
            self.buffer = BytesMut::from(&*self.buffer);
        }
        Ok(Some(frame))
    }
}
