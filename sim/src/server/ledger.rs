//! What must come back: the state after each record, and how much of it somebody was told of.

use std::collections::BTreeMap;

use handoff_types::Sequence;

use super::clock::Moment;
use crate::driver::{Fault, ensure};

/// The states the room went through, by the record that led to each.
#[derive(Debug)]
pub(crate) struct Ledger {
    lines: BTreeMap<Sequence, Line>,
    /// The last record whose effect somebody was told of.
    told: Sequence,
}

/// The room after a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    hash: u64,
    pub(crate) moment: Moment,
}

impl Ledger {
    /// Begins with the hash of an empty room.
    pub(crate) fn new(hash: u64) -> Self {
        let empty = Line { hash, moment: Moment::default() };
        Self { lines: BTreeMap::from([(Sequence::NONE, empty)]), told: Sequence::NONE }
    }

    /// A record was appended and led to a state with this hash.
    pub(crate) fn appended(&mut self, sequence: Sequence, hash: u64, moment: Moment) {
        self.lines.insert(sequence, Line { hash, moment });
    }

    /// Somebody was told of everything up to a record. Says whether of more than ever before.
    pub(crate) fn told(&mut self, through: Sequence) -> bool {
        let before = self.told;
        self.told = before.max(self.last_through(through).0);
        self.told > before
    }

    /// Judges a state that was read back up to a record.
    ///
    /// # Errors
    /// When something is missing that somebody was told of, or the state is not what it was.
    pub(crate) fn check(&self, hash: u64, through: Sequence) -> Result<Line, Fault> {
        let (sequence, line) = self.last_through(through);
        ensure(sequence >= self.told, || {
            format!("only {sequence} came back and {} was told of", self.told)
        })?;
        ensure(hash == line.hash, || {
            format!(
                "the state read back to {sequence} is {hash:016x} and was {:016x}, of {} records",
                line.hash,
                self.last()
            )
        })?;
        Ok(line)
    }

    /// A process goes on behind this record; what came after it never happened.
    pub(crate) fn goes_on_after(&mut self, through: Sequence) {
        self.lines.split_off(&Sequence(through.0 + 1));
        self.told = self.last();
    }

    /// Whether this is the last record there is.
    pub(crate) fn is_last(&self, through: Sequence) -> bool {
        through >= self.last()
    }

    fn last(&self) -> Sequence {
        self.lines.keys().next_back().copied().unwrap_or_default()
    }

    /// The last entry up to a record: pieces without their commit record count and change
    /// nothing.
    fn last_through(&self, through: Sequence) -> (Sequence, Line) {
        let line = self.lines.range(..=through).next_back();
        let Some((sequence, line)) = line else { unreachable!("a ledger begins with nothing") };
        (*sequence, *line)
    }
}
