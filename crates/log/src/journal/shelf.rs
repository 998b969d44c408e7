//! The files readers find positions in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::{Bytes, BytesMut};
use handoff_types::Position;

use super::entry::{BodyAt, read_commit, read_whole};
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

    /// Removes the files that hold nothing at or above `low`.
    pub(crate) fn trim(&self, low: u64) {
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
        match header.kind {
            Kind::Whole => {
                let (_, bodies) = read_whole(payload).ok_or(ReadError::Corrupt(position))?;
                bodies.into_iter().nth(index as usize).ok_or_else(missing)
            }
            Kind::Commit => {
                let mut parts = read_commit(payload).ok_or(ReadError::Corrupt(position))?;
                // The last part is the change itself.
                parts.pop();
                let part = parts.into_iter().nth(index as usize).ok_or_else(missing)?;
                self.assemble(part)
            }
            Kind::Piece => Err(missing()),
        }
    }

    /// The change of an entry and how many bodies it has.
    pub(crate) fn change(
        &self,
        kind: Kind,
        position: Position,
        payload: Bytes,
    ) -> Result<(Bytes, u32), ReadError> {
        let corrupt = || ReadError::Corrupt(position);
        let count = |bodies: usize| u32::try_from(bodies).unwrap_or(u32::MAX);
        match kind {
            Kind::Whole => {
                let (change, bodies) = read_whole(payload).ok_or_else(corrupt)?;
                Ok((change, count(bodies.len())))
            }
            Kind::Commit => {
                let mut parts = read_commit(payload).ok_or_else(corrupt)?;
                let change = parts.pop().ok_or_else(corrupt)?;
                Ok((self.assemble(change)?, count(parts.len())))
            }
            Kind::Piece => Err(corrupt()),
        }
    }

    fn assemble(&self, (bytes, positions): (u64, Vec<u64>)) -> Result<Bytes, ReadError> {
        let mut whole = BytesMut::with_capacity(usize::try_from(bytes).unwrap_or(0));
        for position in positions.into_iter().map(Position) {
            let (header, piece) = self.record(position)?;
            if header.kind != Kind::Piece || (whole.len() + piece.len()) as u64 > bytes {
                return Err(ReadError::Corrupt(position));
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.freeze())
    }

    /// The record at a position, checked against its checksum.
    fn record(&self, position: Position) -> Result<(RecordHeader, Bytes), ReadError> {
        if position >= self.durable() {
            return Err(ReadError::NotYet(position));
        }
        let shelved = self.find(position).ok_or(ReadError::Trimmed(position))?;
        let found = shelved.record(position);
        if matches!(found, Err(ReadError::Corrupt(_))) && self.find(position).is_none() {
            // The file was recycled while we read it.
            return Err(ReadError::Trimmed(position));
        }
        found
    }

    fn find(&self, position: Position) -> Option<Shelved> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.iter().rev().find(|file| file.base <= position.0).cloned()
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
