//! The files readers find positions in.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};
use handoff_types::Position;

use super::ahead::{AHEAD_BYTES, Ahead};
use super::entry::{BodyAt, Commit, Table};
use super::error::ReadError;
use super::format::{BLOCK, Kind, Place, RECORD_HEADER, RecordHeader};
use crate::disk::{File, read_full_at};

/// Most records fit this, so that one read fetches them.
const FIRST_READ: usize = 4096;

/// Files with durable rounds, by the position of their first, and how far they are durable.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    files: RwLock<Vec<Shelved>>,
    durable: AtomicU64,
    low: AtomicU64,
}

/// One file on the shelf. It holds positions from its base up to the base of the next.
#[derive(Clone, Debug)]
pub(crate) struct Shelved {
    pub(crate) base: u64,
    pub(crate) salt: u64,
    pub(crate) file: Arc<dyn File>,
}

impl Shelf {
    /// Everything below this is on disk.
    pub(crate) fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    /// Publishes a new durable end.
    pub(crate) fn advance(&self, end: u64) {
        self.durable.store(end, Ordering::Release);
    }

    /// Adds a file that has its first durable round. It takes over from its base on.
    pub(crate) fn put(&self, shelved: Shelved) {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| file.base < shelved.base);
        files.push(shelved);
    }

    /// Nobody needs anything below this.
    fn low(&self) -> u64 {
        self.low.load(Ordering::Acquire)
    }

    /// Removes the files that hold nothing at or above `low`. Called before any of them can be
    /// recycled.
    pub(crate) fn trim(&self, low: u64) {
        self.low.fetch_max(low, Ordering::AcqRel);
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        let gone =
            files.windows(2).take_while(|pair| matches!(pair, [_, next] if next.base <= low));
        let gone = gone.count();
        files.drain(..gone);
    }

    /// A body of an entry, checked against its checksum.
    pub(crate) fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        let BodyAt { position, index } = at;
        let missing = || ReadError::NoSuchBody { position, index };
        let (header, payload) = self.record(position)?;
        let entry = Stored::new(header.kind, position, payload).ok_or_else(missing)?;
        let range = self.table(&entry)?.body(index).ok_or_else(missing)?;
        self.part(&entry, range)
    }

    /// All bodies of an entry. Each of its records is read once.
    pub(crate) fn bodies(&self, position: Position) -> Result<Vec<Bytes>, ReadError> {
        self.bodies_of(position, self.record(position)?)
    }

    /// All bodies of an entry, perhaps from what was read before.
    pub(crate) fn bodies_ahead(
        &self,
        position: Position,
        ahead: &mut Ahead,
    ) -> Result<Vec<Bytes>, ReadError> {
        self.bodies_of(position, self.record_ahead(position, ahead)?)
    }

    fn bodies_of(
        &self,
        position: Position,
        (header, payload): (RecordHeader, Bytes),
    ) -> Result<Vec<Bytes>, ReadError> {
        let missing = || ReadError::NoSuchBody { position, index: 0 };
        let entry = Stored::new(header.kind, position, payload).ok_or_else(missing)?;
        let payload = self.part(&entry, 0..entry.bytes())?;
        let whole = Stored::Whole { position, payload };
        self.table(&whole)?.ranges().map(|range| self.part(&whole, range)).collect()
    }

    /// The change of an entry and how many bodies it has.
    pub(crate) fn change(
        &self,
        kind: Kind,
        position: Position,
        payload: Bytes,
    ) -> Result<(Bytes, u32), ReadError> {
        let entry = Stored::new(kind, position, payload).ok_or(ReadError::Corrupt(position))?;
        let table = self.table(&entry)?;
        Ok((self.part(&entry, table.change.clone())?, table.bodies()))
    }

    fn table(&self, entry: &Stored) -> Result<Table, ReadError> {
        let corrupt = || ReadError::Corrupt(entry.position());
        let count = self.part(entry, 0..4)?;
        let count = count.as_ref().try_into().map(u32::from_le_bytes).map_err(|_| corrupt())?;
        let front = self.part(entry, 0..Table::bytes(count))?;
        Table::read(front, entry.bytes()).ok_or_else(corrupt)
    }

    /// A part of an entry's bytes, from as few pieces as hold it.
    fn part(&self, entry: &Stored, range: Range<u64>) -> Result<Bytes, ReadError> {
        let corrupt = || ReadError::Corrupt(entry.position());
        if range.end > entry.bytes() {
            return Err(corrupt());
        }
        let within = |range: Range<u64>| {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).ok());
            Some(start?..end?)
        };
        match entry {
            Stored::Whole { payload, .. } => Ok(payload.slice(within(range).ok_or_else(corrupt)?)),
            Stored::Pieces { commit, .. } => {
                let mut bytes = BytesMut::new();
                let piece_bytes = u64::from(commit.piece_bytes);
                let mut at = range.start;
                while at < range.end {
                    let nth = usize::try_from(at / piece_bytes).map_err(|_| corrupt())?;
                    let position = commit.positions.get(nth).copied().map(Position);
                    let position = position.ok_or_else(corrupt)?;
                    let (header, piece) = self.record(position)?;
                    let from = at % piece_bytes;
                    let to = (range.end - (at - from)).min(piece_bytes);
                    let inside = within(from..to).filter(|_| header.kind == Kind::Piece);
                    let part = inside.and_then(|inside| piece.get(inside));
                    bytes.extend_from_slice(part.ok_or(ReadError::Corrupt(position))?);
                    at += to - from;
                }
                Ok(bytes.freeze())
            }
        }
    }

    /// The record at a position, checked against its checksum.
    fn record(&self, position: Position) -> Result<(RecordHeader, Bytes), ReadError> {
        if position >= self.durable() {
            return Err(ReadError::NotYet(position));
        }
        let shelved = self.find(position).ok_or(ReadError::Trimmed(position))?;
        let found = shelved.record(position);
        if matches!(found, Err(ReadError::Corrupt(_))) && position.0 < self.low() {
            // The file was recycled, perhaps while we read it.
            return Err(ReadError::Trimmed(position));
        }
        found
    }

    /// The record at a position, from what was read before if it is whole in there. Whatever is odd
    /// is read again by itself.
    fn record_ahead(
        &self,
        position: Position,
        ahead: &mut Ahead,
    ) -> Result<(RecordHeader, Bytes), ReadError> {
        let found = |ahead: &Ahead| {
            let (salt, bytes) = ahead.from(position.0)?;
            let claimed = RecordHeader::claimed_bytes(&bytes).filter(|len| *len <= bytes.len())?;
            let bytes = bytes.slice(..claimed);
            let (header, payload) =
                RecordHeader::read(Place { salt, position: position.0 }, &bytes)?;
            let end = RECORD_HEADER + payload.len();
            Some((header, bytes.slice(RECORD_HEADER..end)))
        };
        if let Some(record) = found(ahead) {
            return Ok(record);
        }
        *ahead = self.read_ahead(position).unwrap_or_default();
        found(ahead).map_or_else(|| self.record(position), Ok)
    }

    /// Reads what is durable from a position on, as far as its file goes. None if it cannot be.
    fn read_ahead(&self, position: Position) -> Option<Ahead> {
        let durable = self.durable().0;
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let nth = files.iter().rposition(|file| file.base <= position.0)?;
        let file = files.get(nth)?.clone();
        let next = files.get(nth + 1).map_or(durable, |next| next.base);
        drop(files);
        let end = durable.min(next).min(position.0.saturating_add(AHEAD_BYTES));
        let len = usize::try_from(end.checked_sub(position.0)?).ok()?;
        let mut bytes = BytesMut::zeroed(len);
        let offset = BLOCK + (position.0 - file.base);
        let read = read_full_at(&*file.file, &mut bytes, offset).ok()?;
        bytes.truncate(read);
        Some(Ahead::new(position.0, file.salt, bytes.freeze()))
    }

    fn find(&self, position: Position) -> Option<Shelved> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.iter().rev().find(|file| file.base <= position.0).cloned()
    }
}

/// An entry as the journal holds it.
enum Stored {
    Whole { position: Position, payload: Bytes },
    Pieces { position: Position, commit: Commit },
}

impl Stored {
    /// The entry that a record completes; a piece completes none.
    fn new(kind: Kind, position: Position, payload: Bytes) -> Option<Self> {
        match kind {
            Kind::Whole => Some(Self::Whole { position, payload }),
            Kind::Commit => Some(Self::Pieces { position, commit: Commit::read(payload)? }),
            Kind::Piece => None,
        }
    }

    fn position(&self) -> Position {
        match self {
            Self::Whole { position, .. } | Self::Pieces { position, .. } => *position,
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Whole { payload, .. } => payload.len() as u64,
            Self::Pieces { commit, .. } => commit.bytes,
        }
    }
}

impl Shelved {
    fn record(&self, position: Position) -> Result<(RecordHeader, Bytes), ReadError> {
        let disk = |fault| ReadError::Disk { position, fault };
        let corrupt = || ReadError::Corrupt(position);
        let offset = BLOCK + (position.0 - self.base);
        let mut bytes = BytesMut::zeroed(FIRST_READ);
        let read = read_full_at(&*self.file, &mut bytes, offset).map_err(disk)?;
        bytes.truncate(read);
        let claimed = RecordHeader::claimed_bytes(&bytes).ok_or_else(corrupt)?;
        if claimed > bytes.len() {
            bytes.resize(claimed, 0);
            let rest = bytes.get_mut(read..).unwrap_or_default();
            read_full_at(&*self.file, rest, offset + read as u64).map_err(disk)?;
        }
        let bytes = bytes.freeze();
        let place = Place { salt: self.salt, position: position.0 };
        let (header, payload) = RecordHeader::read(place, &bytes).ok_or_else(corrupt)?;
        let end = RECORD_HEADER + payload.len();
        Ok((header, bytes.slice(RECORD_HEADER..end)))
    }
}
