//! What a room appends, and how it becomes records.
//!
//! ```text
//! Whole    │ bodies u32 │ length u32 × bodies │ change length u32 │ change │ body │ body │ …
//! Piece    │ the next bytes of what would be a whole record, were it smaller
//! Commit   │ bytes u64 │ bytes of a piece u32 │ pieces u32 │ position u64 × pieces │
//! ```
//!
//! A change that does not fit one record is cut into pieces, all of one size but the last, and a
//! commit record behind them. Pieces without their commit record do not count.

use std::ops::Range;

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
        let piece_bytes = geometry.payload_bytes();
        let bytes = whole_bytes(&self);
        if bytes <= piece_bytes {
            return vec![Payload::Whole(self)];
        }
        let mut table = Vec::new();
        put_table(&mut table, &self);
        let parts = [table.into(), self.change].into_iter().chain(self.bodies);
        let mut payloads: Vec<Payload> = cut(parts, piece_bytes).map(Payload::Piece).collect();
        payloads.push(Payload::Commit(Commit {
            bytes: bytes as u64,
            piece_bytes: u32::try_from(piece_bytes).unwrap_or(u32::MAX),
            pieces: u32::try_from(payloads.len()).unwrap_or(u32::MAX),
            positions: Vec::new(),
        }));
        payloads
    }
}

/// Cuts a row of parts into runs of `bytes` bytes each, the last one shorter, without copying.
fn cut(parts: impl Iterator<Item = Bytes>, bytes: usize) -> impl Iterator<Item = Vec<Bytes>> {
    let mut runs: Vec<Vec<Bytes>> = Vec::new();
    let mut open = 0;
    for mut part in parts {
        while !part.is_empty() {
            if open == 0 {
                runs.push(Vec::new());
                open = bytes;
            }
            let taken = part.split_to(part.len().min(open));
            open -= taken.len();
            if let Some(run) = runs.last_mut() {
                run.push(taken);
            }
        }
    }
    runs.into_iter()
}

fn whole_bytes(entry: &Entry) -> usize {
    let bodies: usize = entry.bodies.iter().map(Bytes::len).sum();
    8 + 4 * entry.bodies.len() + entry.change.len() + bodies
}

/// What a commit record says of the pieces before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// Bytes of all pieces together.
    pub(crate) bytes: u64,
    /// Bytes of each piece but the last.
    pub(crate) piece_bytes: u32,
    pub(crate) pieces: u32,
    /// Where the pieces are; filled when the record's round is formed.
    pub(crate) positions: Vec<u64>,
}

/// The content of one record, not yet in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Payload {
    Whole(Entry),
    Piece(Vec<Bytes>),
    Commit(Commit),
    /// A record taken from a journal file as it was.
    Raw(Kind, Bytes),
}

impl Payload {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Whole(_) => Kind::Whole,
            Self::Piece(_) => Kind::Piece,
            Self::Commit(_) => Kind::Commit,
            Self::Raw(kind, _) => *kind,
        }
    }

    /// Bytes of the payload once written; known before positions are.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole(entry) => whole_bytes(entry),
            Self::Piece(run) => run.iter().map(Bytes::len).sum(),
            Self::Commit(commit) => 16 + 8 * commit.pieces as usize,
            Self::Raw(_, bytes) => bytes.len(),
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
                put_table(out, entry);
                out.extend_from_slice(&entry.change);
                entry.bodies.iter().for_each(|body| out.extend_from_slice(body));
            }
            Self::Piece(run) => run.iter().for_each(|part| out.extend_from_slice(part)),
            Self::Commit(Commit { bytes, piece_bytes, pieces, positions }) => {
                out.extend_from_slice(&bytes.to_le_bytes());
                out.extend_from_slice(&piece_bytes.to_le_bytes());
                out.extend_from_slice(&pieces.to_le_bytes());
                for position in positions {
                    out.extend_from_slice(&position.to_le_bytes());
                }
            }
            Self::Raw(_, bytes) => out.extend_from_slice(bytes),
        }
    }
}

fn put_table(out: &mut Vec<u8>, entry: &Entry) {
    put_u32(out, entry.bodies.len());
    for body in &entry.bodies {
        put_u32(out, body.len());
    }
    put_u32(out, entry.change.len());
}

fn put_u32(out: &mut Vec<u8>, value: usize) {
    let value = u32::try_from(value).unwrap_or(u32::MAX);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Where the parts of an entry are in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) change: Range<u64>,
    lengths: Vec<u32>,
}

impl Table {
    /// Bytes of the table of an entry with this many bodies.
    pub(crate) const fn bytes(bodies: u32) -> u64 {
        8 + 4 * bodies as u64
    }

    /// Reads the table at the front of an entry of `bytes` bytes; `None` unless its parts fill
    /// the entry exactly.
    pub(crate) fn read(mut front: Bytes, bytes: u64) -> Option<Self> {
        let count = front.try_get_u32_le().ok()?;
        if count as usize > front.len() / 4 {
            return None;
        }
        let lengths = (0..count).map(|_| front.try_get_u32_le().ok());
        let lengths = lengths.collect::<Option<Vec<u32>>>()?;
        let start = Self::bytes(count);
        let change = start..start + u64::from(front.try_get_u32_le().ok()?);
        let end = change.end + lengths.iter().map(|length| u64::from(*length)).sum::<u64>();
        (end == bytes).then_some(Self { change, lengths })
    }

    pub(crate) fn bodies(&self) -> u32 {
        u32::try_from(self.lengths.len()).unwrap_or(u32::MAX)
    }

    /// Where each body is.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.lengths.iter().scan(self.change.end, |end, length| {
            let start = *end;
            *end += u64::from(*length);
            Some(start..*end)
        })
    }

    /// Where a body is.
    pub(crate) fn body(&self, index: u32) -> Option<Range<u64>> {
        let length = u64::from(*self.lengths.get(index as usize)?);
        let before = self.lengths.iter().take(index as usize);
        let start = self.change.end + before.map(|length| u64::from(*length)).sum::<u64>();
        Some(start..start + length)
    }
}

impl Commit {
    /// Reads a commit record; `None` unless its pieces can hold what it says.
    pub(crate) fn read(mut payload: Bytes) -> Option<Self> {
        let bytes = payload.try_get_u64_le().ok()?;
        let piece_bytes = payload.try_get_u32_le().ok()?;
        let pieces = payload.try_get_u32_le().ok()?;
        let whole = payload.len() == 8 * pieces as usize
            && piece_bytes > 0
            && bytes.div_ceil(u64::from(piece_bytes)) == u64::from(pieces);
        let positions = (0..pieces).map(|_| payload.try_get_u64_le().ok());
        let positions = whole.then(|| positions.collect::<Option<Vec<u64>>>()).flatten()?;
        Some(Self { bytes, piece_bytes, pieces, positions })
    }
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

    fn check(entry: &Entry, bytes: &Bytes) {
        let table = Table::read(bytes.clone(), bytes.len() as u64).unwrap();
        let part = |range: Range<u64>| {
            bytes.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
        };
        assert_eq!(part(table.change.clone()), entry.change);
        assert_eq!(table.bodies() as usize, entry.bodies.len());
        for (index, body) in (0..).zip(&entry.bodies) {
            assert_eq!(part(table.body(index).unwrap()), body);
        }
        assert_eq!(table.body(table.bodies()), None);
        let each: Vec<_> = (0..table.bodies()).filter_map(|index| table.body(index)).collect();
        assert_eq!(table.ranges().collect::<Vec<_>>(), each);
    }

    #[test]
    fn a_small_change_and_its_bodies_are_one_record() {
        for entry in [entry(10, &[]), entry(0, &[0, 3]), entry(PAYLOAD_MAX - 12, &[0])] {
            let payloads = entry.clone().into_payloads(&GEOMETRY);
            assert_eq!(payloads.len(), 1);
            check(&entry, &encoded(&payloads[0]));
        }
    }

    #[test]
    fn a_large_change_is_pieces_and_a_commit_record_none_above_a_record() {
        let many = vec![2; 5000];
        for entry in [
            entry(10, &[PAYLOAD_MAX]),
            entry(30 << 10, &[1, 50 << 10, 0]),
            entry(0, &[PAYLOAD_MAX * 2 - 12]),
            entry(3, &many),
        ] {
            let mut payloads = entry.clone().into_payloads(&GEOMETRY);
            assert!(payloads.iter().all(|payload| payload.bytes() <= PAYLOAD_MAX));
            let Some(Payload::Commit(commit)) = payloads.pop() else { panic!("no commit record") };
            assert_eq!(commit.pieces as usize, payloads.len());
            let pieces: Vec<Bytes> = payloads.iter().map(encoded).collect();
            let (last, full) = pieces.split_last().unwrap();
            assert!(full.iter().all(|piece| piece.len() == commit.piece_bytes as usize));
            assert!(!last.is_empty());
            check(&entry, &pieces.concat().into());
        }
    }

    #[test]
    fn a_commit_record_names_its_pieces() {
        let commit = Commit { bytes: 9, piece_bytes: 5, pieces: 2, positions: vec![4096, 8192] };
        let bytes = encoded(&Payload::Commit(commit.clone()));
        assert_eq!(Commit::read(bytes.clone()), Some(commit));
        for cut in 0..bytes.len() {
            assert_eq!(Commit::read(bytes.slice(..cut)), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_table_that_does_not_fill_its_entry_is_refused() {
        let bytes = encoded(&Payload::Whole(entry(5, &[3, 4])));
        for len in (0..bytes.len() as u64).chain([bytes.len() as u64 + 1]) {
            assert_eq!(Table::read(bytes.clone(), len), None, "{len}");
        }
        for cut in 0..16 {
            assert_eq!(Table::read(bytes.slice(..cut), bytes.len() as u64), None, "cut at {cut}");
        }
    }
}
