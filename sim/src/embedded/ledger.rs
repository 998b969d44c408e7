//! What must come back: the state after each record, and how much of it somebody was told of.

use std::collections::BTreeMap;

use handoff_types::Sequence;

use super::clock::Moment;
use crate::driver::{Fault, ensure};
use crate::room::State;

/// The states the room went through, by the record that led to each.
#[derive(Debug)]
pub(super) struct Ledger {
    lines: BTreeMap<Sequence, Line>,
    /// The last record whose effect somebody was told of.
    told: Sequence,
}

/// The room after a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    hash: u64,
    pub(super) moment: Moment,
}

impl Ledger {
    pub(super) fn new() -> Self {
        let empty = Line { hash: State::default().hash(), moment: Moment::default() };
        Self { lines: BTreeMap::from([(Sequence::NONE, empty)]), told: Sequence::NONE }
    }

    /// A record was appended.
    pub(super) fn appended(&mut self, sequence: Sequence, state: &State, moment: Moment) {
        self.lines.insert(sequence, Line { hash: state.hash(), moment });
    }

    /// Somebody was told of everything up to a record.
    pub(super) fn told(&mut self, through: Sequence) {
        self.told = self.told.max(self.last_through(through).0);
    }

    /// Judges a state that was read back up to a record.
    ///
    /// # Errors
    /// When something is missing that somebody was told of, or the state is not what it was.
    pub(super) fn check(&self, state: &State, through: Sequence) -> Result<Line, Fault> {
        let (sequence, line) = self.last_through(through);
        ensure(sequence >= self.told, || {
            format!("only {sequence} came back and {} was told of", self.told)
        })?;
        let hash = state.hash();
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
    pub(super) fn goes_on_after(&mut self, through: Sequence) {
        self.lines.split_off(&Sequence(through.0 + 1));
        self.told = self.last();
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
