//! Records of the journal that were read a moment ago.
//!
//! A record is checked as a whole, so reading one body of it costs all of it. Whoever follows the
//! end of a lane reads what others have just read, and the bodies of one record stand in many
//! lanes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handoff_log::journal::{BodyAt, Journal, ReadError};
use handoff_types::Position;

/// What is kept at most.
const BYTES_MAX: usize = 8 << 20;
const RECORDS_MAX: usize = 64;

/// The bodies of one record.
pub(crate) type Record = Arc<[Bytes]>;

#[derive(Debug)]
pub(crate) struct Records {
    journal: Arc<dyn Journal>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first. A position never stands for another record.
    records: VecDeque<(Position, Record)>,
    bytes: usize,
}

impl Records {
    pub(crate) fn new(journal: Arc<dyn Journal>) -> Self {
        Self { journal, kept: Mutex::default() }
    }

    /// A body of a durable entry. If a part of the entry is damaged, the others can still be had.
    pub(crate) fn body(&self, at: BodyAt) -> Result<Bytes, ReadError> {
        let BodyAt { position, index } = at;
        match self.record(position) {
            Ok(record) => {
                let body = record.get(index as usize).cloned();
                body.ok_or(ReadError::NoSuchBody { position, index })
            }
            Err(ReadError::Corrupt(_)) => self.journal.body(at),
            Err(error) => Err(error),
        }
    }

    fn record(&self, position: Position) -> Result<Record, ReadError> {
        let found = self.lock().records.iter().find(|(at, _)| *at == position).cloned();
        if let Some((_, record)) = found {
            return Ok(record);
        }
        let record: Record = self.journal.bodies(position)?.into();
        self.lock().keep(position, &record);
        Ok(record)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn keep(&mut self, position: Position, record: &Record) {
        let bytes = bytes_of(record);
        if bytes > BYTES_MAX || self.records.iter().any(|(at, _)| *at == position) {
            return;
        }
        self.records.push_back((position, Arc::clone(record)));
        self.bytes += bytes;
        while self.bytes > BYTES_MAX || self.records.len() > RECORDS_MAX {
            let Some((_, oldest)) = self.records.pop_front() else { break };
            self.bytes -= bytes_of(&oldest);
        }
    }
}

fn bytes_of(record: &Record) -> usize {
    record.iter().map(Bytes::len).sum()
}
