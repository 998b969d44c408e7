//! A commit round: what one sync makes durable.

use handoff_types::{Now, Position, Room, Sequence};

use super::entry::Payload;
use super::format::{
    Counts, Place, RECORD_HEADER, ROUND_HEADER, RecordHeader, RoundHeader, round_extent,
};
use super::ticket::{Committed, Promise};

/// A record on its way to the disk.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) room: Room,
    pub(crate) sequence: u64,
    pub(crate) now: Now,
    pub(crate) payload: Payload,
    /// What its room gets back of its admission once this is durable.
    pub(crate) admitted: u64,
    /// Whoever waits for the entry this record completes.
    pub(crate) promise: Option<Promise>,
}

/// The records of one round, each with its place. Where a record stands does not depend on the
/// file, so a round that a disk refused is written elsewhere as it is.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) position: u64,
    /// How many records each room has before this round.
    pub(crate) counts: Counts,
    pub(crate) now: Now,
    pub(crate) records: Vec<Queued>,
}

impl Round {
    /// Bytes the round takes in its file.
    pub(crate) fn extent(&self) -> u64 {
        round_extent(self.body_bytes())
    }

    /// Each record with its position.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (u64, &Queued)> {
        let mut at = self.position + ROUND_HEADER as u64;
        self.records.iter().map(move |record| {
            let position = at;
            at += record.payload.extent() as u64;
            (position, record)
        })
    }

    /// The round's bytes in a file with this salt that took over from `follows`, padding included.
    pub(crate) fn encode(&self, salt: u64, follows: u64, out: &mut Vec<u8>) {
        out.clear();
        let header = RoundHeader {
            position: self.position,
            body_bytes: u32::try_from(self.body_bytes()).unwrap_or(u32::MAX),
            records: u32::try_from(self.records.len()).unwrap_or(u32::MAX),
            mark: false,
            follows,
            now: self.now,
            counts: self.counts,
        };
        out.extend_from_slice(&header.encode(salt));
        for (position, record) in self.placed() {
            let start = out.len();
            out.resize(start + RECORD_HEADER, 0);
            record.payload.encode(out);
            let header = RecordHeader {
                kind: record.payload.kind(),
                room: record.room,
                bytes: u32::try_from(record.payload.bytes()).unwrap_or(u32::MAX),
                sequence: record.sequence,
            };
            header.seal(Place { salt, position }, out.get_mut(start..).unwrap_or_default());
            out.resize(start + record.payload.extent(), 0);
        }
        out.resize(usize::try_from(self.extent()).unwrap_or(usize::MAX), 0);
    }

    /// Tells everyone who waits that the round is durable.
    pub(crate) fn fulfil(self) {
        let mut position = self.position + ROUND_HEADER as u64;
        for record in self.records {
            let extent = record.payload.extent() as u64;
            if let Some(promise) = record.promise {
                let sequence = Sequence(record.sequence);
                promise.fulfil(Ok(Committed { position: Position(position), sequence }));
            }
            position += extent;
        }
    }

    fn body_bytes(&self) -> usize {
        self.records.iter().map(|record| record.payload.extent()).sum()
    }
}
