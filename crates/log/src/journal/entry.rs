//! What a room appends, and how it becomes records.
//!
//! ```text
//! Whole    │ bodies u32 │ length u32 × bodies │ change length u32 │ change │ body │ body │ …
//! Piece    │ bytes of a body, or of the change
//! Commit   │ parts u32 │ (length u64, pieces u32) × parts │ position u64 × all pieces │
//! ```
//!
//! A change that does not fit one record is written as pieces followed by a commit record. Its
//! parts are its bodies, then the change itself. Pieces without their commit record do not count.

use bytes::{Buf, Bytes};
use handoff_types::{Now, Position, Room};

use super::format::{Geometry, Kind, record_extent};

/// One durable step of one room: its change and the bulk data that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Whose step it is.
    pub room: Room,
    /// When it was decided.
    pub now: Now,
    /// The encoded change.
    pub change: Bytes,
    /// Bulk data, found again by the entry's position and its number here.
    pub bodies: Vec<Bytes>,
}

/// A body of an entry: the entry's position and the body's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BodyAt {
    /// The entry's position.
    pub position: Position,
    /// The body's number in the entry.
    pub index: u32,
}

impl Entry {
    /// What the entry counts for in its room's admission.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let bodies: usize = self.bodies.iter().map(Bytes::len).sum();
        (self.change.len() + bodies + 64 + 16 * self.bodies.len()) as u64
    }

    /// The records of the entry, in the order they are written.
    pub(crate) fn into_payloads(self, geometry: &Geometry) -> Vec<Payload> {
        let payload_max = geometry.payload_bytes();
        if whole_bytes(&self) <= payload_max {
            return vec![Payload::Whole(self)];
        }
        let mut payloads = Vec::new();
        let mut parts = Vec::new();
        for part in self.parts() {
            let pieces = u32::try_from(part.len().div_ceil(payload_max)).unwrap_or(u32::MAX);
            parts.push(Part { bytes: part.len() as u64, pieces });
            let mut rest = part.clone();
            while !rest.is_empty() {
                payloads.push(Payload::Piece(rest.split_to(rest.len().min(payload_max))));
            }
        }
        payloads.push(Payload::Commit { parts, positions: Vec::new() });
        payloads
    }

    fn parts(&self) -> impl Iterator<Item = &Bytes> {
        self.bodies.iter().chain([&self.change])
    }
}

fn whole_bytes(entry: &Entry) -> usize {
    let bodies: usize = entry.bodies.iter().map(Bytes::len).sum();
    8 + 4 * entry.bodies.len() + entry.change.len() + bodies
}

/// One part of a large change: its length and in how many pieces it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    pub(crate) pieces: u32,
}

/// The content of one record, not yet in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Whole(Entry),
    Piece(Bytes),
    /// `positions` is filled when the record's round is formed.
    Commit {
        parts: Vec<Part>,
        positions: Vec<u64>,
    },
    /// A record taken from a journal file as it was.
    Raw(Kind, Bytes),
}

impl Payload {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Whole(_) => Kind::Whole,
            Self::Piece(_) => Kind::Piece,
            Self::Commit { .. } => Kind::Commit,
            Self::Raw(kind, _) => *kind,
        }
    }

    /// Bytes of the payload once written; known before positions are.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole(entry) => whole_bytes(entry),
            Self::Piece(bytes) | Self::Raw(_, bytes) => bytes.len(),
            Self::Commit { parts, .. } => {
                let pieces: usize = parts.iter().map(|part| part.pieces as usize).sum();
                4 + 12 * parts.len() + 8 * pieces
            }
        }
    }

    /// Bytes the record takes in its round.
    pub(crate) fn extent(&self) -> usize {
        record_extent(self.bytes())
    }

    /// Appends the payload's bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Whole(entry) => {
                put_u32(out, entry.bodies.len());
                for body in &entry.bodies {
                    put_u32(out, body.len());
                }
                put_u32(out, entry.change.len());
                out.extend_from_slice(&entry.change);
                for body in &entry.bodies {
                    out.extend_from_slice(body);
                }
            }
            Self::Piece(bytes) | Self::Raw(_, bytes) => out.extend_from_slice(bytes),
            Self::Commit { parts, positions } => {
                put_u32(out, parts.len());
                for part in parts {
                    out.extend_from_slice(&part.bytes.to_le_bytes());
                    out.extend_from_slice(&part.pieces.to_le_bytes());
                }
                for position in positions {
                    out.extend_from_slice(&position.to_le_bytes());
                }
            }
        }
    }
}

fn put_u32(out: &mut Vec<u8>, value: usize) {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A `Whole` record read back: the change and its bodies, sharing the record's memory.
pub(crate) fn read_whole(mut payload: Bytes) -> Option<(Bytes, Vec<Bytes>)> {
    let count = payload.try_get_u32_le().ok()? as usize;
    if count > payload.len() / 4 {
        return None;
    }
    let mut lengths = Vec::with_capacity(count);
    for _ in 0..count {
        lengths.push(payload.try_get_u32_le().ok()? as usize);
    }
    let change_bytes = payload.try_get_u32_le().ok()? as usize;
    let change = take(&mut payload, change_bytes)?;
    let mut bodies = Vec::with_capacity(count);
    for length in lengths {
        bodies.push(take(&mut payload, length)?);
    }
    payload.is_empty().then_some((change, bodies))
}

fn take(from: &mut Bytes, bytes: usize) -> Option<Bytes> {
    (bytes <= from.len()).then(|| from.split_to(bytes))
}

/// A `Commit` record read back: for each part its length and the positions of its pieces.
pub(crate) fn read_commit(mut payload: Bytes) -> Option<Vec<(u64, Vec<u64>)>> {
    let count = payload.try_get_u32_le().ok()? as usize;
    if count > payload.len() / 12 {
        return None;
    }
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = payload.try_get_u64_le().ok()?;
        let pieces = payload.try_get_u32_le().ok()?;
        parts.push(Part { bytes, pieces });
    }
    let read_positions = |part: &Part, payload: &mut Bytes| {
        if part.pieces as usize > payload.len() / 8 {
            return None;
        }
        (0..part.pieces).map(|_| payload.try_get_u64_le().ok()).collect::<Option<Vec<u64>>>()
    };
    let parts = parts
        .iter()
        .map(|part| Some((part.bytes, read_positions(part, &mut payload)?)))
        .collect::<Option<Vec<_>>>()?;
    (payload.is_empty() && !parts.is_empty()).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: Geometry =
        Geometry { file_bytes: 1 << 16, record_bytes: 8192, bulk_bytes: 8192, small_bytes: 1024 };
    const PAYLOAD_MAX: usize = GEOMETRY.payload_bytes();

    fn entry(change: usize, bodies: &[usize]) -> Entry {
        Entry {
            room: Room::Counter,
            now: Now::default(),
            change: Bytes::from(vec![1; change]),
            bodies: bodies.iter().map(|&bytes| Bytes::from(vec![2; bytes])).collect(),
        }
    }

    fn encoded(payload: &Payload) -> Bytes {
        let mut out = Vec::new();
        payload.encode(&mut out);
        assert_eq!(out.len(), payload.bytes());
        Bytes::from(out)
    }

    #[test]
    fn a_small_change_and_its_bodies_are_one_record() {
        for entry in [entry(10, &[]), entry(0, &[0, 3]), entry(PAYLOAD_MAX - 12, &[0])] {
            let payloads = entry.clone().into_payloads(&GEOMETRY);
            assert_eq!(payloads.len(), 1);
            let (change, bodies) = read_whole(encoded(&payloads[0])).unwrap();
            assert_eq!((change, bodies), (entry.change, entry.bodies));
        }
    }

    #[test]
    fn a_large_change_is_pieces_and_a_commit_record_none_above_a_record() {
        for entry in [entry(10, &[PAYLOAD_MAX]), entry(30 << 10, &[1, 50 << 10, 0])] {
            let payloads = entry.clone().into_payloads(&GEOMETRY);
            assert!(payloads.iter().all(|payload| payload.bytes() <= PAYLOAD_MAX));
            assert_eq!(payloads.last().map(Payload::kind), Some(Kind::Commit));
        }
    }

    #[test]
    fn a_commit_record_names_its_pieces() {
        let parts = vec![Part { bytes: 9, pieces: 2 }, Part { bytes: 0, pieces: 0 }];
        let commit = Payload::Commit { parts, positions: vec![4096, 8192] };
        assert_eq!(read_commit(encoded(&commit)), Some(vec![(9, vec![4096, 8192]), (0, vec![])]));
    }

    #[test]
    fn cut_payloads_are_refused() {
        let whole = encoded(&Payload::Whole(entry(5, &[3])));
        let commit = encoded(&Payload::Commit {
            parts: vec![Part { bytes: 9, pieces: 1 }],
            positions: vec![4096],
        });
        for cut in 0..whole.len() {
            assert_eq!(read_whole(whole.slice(..cut)), None, "whole cut at {cut}");
        }
        for cut in 0..commit.len() {
            assert_eq!(read_commit(commit.slice(..cut)), None, "commit cut at {cut}");
        }
    }
}
