//! An answer piece by piece.

use std::vec;

use bytes::{Buf, Bytes, BytesMut};

use super::{Answer, Selection};
use crate::primitive::{VARINT_BYTES_MAX, put_len, put_varint};

/// An answer that is written as its reader takes it.
///
/// The lists of the answer are all it holds: a million ids are 4 MB here and never 4 MB and an
/// encoded copy. How long the message will be is known before its first octet.
///
/// ```
/// use bytes::BytesMut;
/// use handoff_sevent::{Answer, Chunks};
///
/// let mut chunks = Chunks::new(Answer::ListedEvents { ids: (0..1_000_000).collect() });
/// let mut buffer = BytesMut::with_capacity(64 << 10);
/// let mut written = 0;
/// while chunks.remaining() > 0 {
///     buffer.clear();
///     chunks.fill(&mut buffer, 64 << 10);
///     written += buffer.len(); // write_all(&buffer)
/// }
/// assert_eq!(written, 2_983_502);
/// ```
#[derive(Debug)]
pub struct Chunks {
    remaining: usize,
    /// Goes out before anything else.
    ready: Bytes,
    /// And then this, a type's name.
    name: Bytes,
    ids: vec::IntoIter<i32>,
    middle: Bytes,
    types: vec::IntoIter<String>,
    tail: Bytes,
}

impl Chunks {
    /// Begins an answer.
    ///
    /// # Panics
    /// If it is 4 GiB or more.
    #[must_use]
    pub fn new(answer: Answer) -> Self {
        let outline = answer.outline();
        let lengths = outline.measure();
        let (mut head, mut middle, mut tail) = (BytesMut::new(), BytesMut::new(), BytesMut::new());
        outline.put_head(&lengths, &mut head);
        outline.put_middle(&lengths, &mut middle);
        outline.put_tail(&mut tail);
        let (ids, types) = lists(answer);
        Self {
            remaining: lengths.whole,
            ready: head.freeze(),
            name: Bytes::new(),
            ids: ids.into_iter(),
            middle: middle.freeze(),
            types: types.into_iter(),
            tail: tail.freeze(),
        }
    }

    /// Octets that are still to come; at first the whole message, its size included.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.remaining
    }

    /// Appends the next octets, exactly `max` of them or all that remain.
    pub fn fill(&mut self, out: &mut BytesMut, max: usize) {
        let mut left = max.min(self.remaining);
        self.remaining -= left;
        out.reserve(left);
        while left > 0 {
            if self.ready.is_empty() {
                if left >= VARINT_BYTES_MAX && self.name.is_empty() {
                    if let Some(id) = self.ids.next() {
                        let before = out.len();
                        put_varint(id, out);
                        left -= out.len() - before;
                        continue;
                    }
                }
                self.ready = self.advance();
                assert!(!self.ready.is_empty(), "a message is as long as it says");
            }
            let piece = self.ready.split_to(left.min(self.ready.len()));
            left -= piece.len();
            out.extend_from_slice(&piece);
        }
    }

    /// What comes after `ready`. Never empty while something remains.
    fn advance(&mut self) -> Bytes {
        if self.name.has_remaining() {
            return std::mem::take(&mut self.name);
        }
        if let Some(id) = self.ids.next() {
            let mut octets = BytesMut::with_capacity(VARINT_BYTES_MAX);
            put_varint(id, &mut octets);
            return octets.freeze();
        }
        if self.middle.has_remaining() {
            return std::mem::take(&mut self.middle);
        }
        if let Some(name) = self.types.next() {
            let mut octets = BytesMut::with_capacity(VARINT_BYTES_MAX);
            put_len(name.len(), &mut octets);
            self.name = Bytes::from(name);
            return octets.freeze();
        }
        std::mem::take(&mut self.tail)
    }
}

/// The lists of an answer. The rest of it is in head and tail.
fn lists(answer: Answer) -> (Vec<i32>, Vec<String>) {
    match answer {
        Answer::ListedEvents { ids } | Answer::DeletedEvents { ids } => (ids, Vec::new()),
        Answer::Filter(Selection { ids, types }) => (ids, types),
        Answer::EventInfo { types, .. } | Answer::Notify { types, .. } => (Vec::new(), types),
        Answer::Error { .. } | Answer::EventRegistration { .. } | Answer::FilterUpdated => {
            (Vec::new(), Vec::new())
        }
    }
}
