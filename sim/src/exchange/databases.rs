//! The databases behind the ERPs, as they really are: which transaction committed is a fact of this
//! world, and nobody can ask the message server for it.

use std::collections::BTreeMap;

use handoff_exchange::{DatabaseNo, ProcessId, Seq};

use super::Violation;

/// What became of a transaction. Nothing comes after the last two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Somebody works in it.
    Open,
    Committed,
    /// Also if it never was: whoever looked left a marker, and it cannot begin any more.
    RolledBack,
}

/// All databases there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Databases {
    transactions: BTreeMap<(DatabaseNo, ProcessId), Fate>,
    /// By which transactions a message was processed.
    processed: BTreeMap<Seq, Vec<ProcessId>>,
    /// How often an administrator wanted a message to be processed once more.
    once_more: BTreeMap<Seq, usize>,
}

impl Databases {
    /// A transaction begins, with its marker in it.
    pub(super) fn open(&mut self, database: DatabaseNo, id: ProcessId) {
        self.transactions.entry((database, id)).or_insert(Fate::Open);
    }

    /// Commits. Gives whether it could: somebody may have been told already that it never will.
    pub(super) fn commit(
        &mut self,
        database: DatabaseNo,
        id: ProcessId,
        processed: &[Seq],
    ) -> Result<bool, Violation> {
        let Some(fate @ Fate::Open) = self.transactions.get_mut(&(database, id)) else {
            return Ok(false);
        };
        *fate = Fate::Committed;
        for seq in processed {
            self.processed.entry(*seq).or_default().push(id);
            self.check_once(*seq)?;
        }
        Ok(true)
    }

    /// Rolls back whatever is open.
    pub(super) fn roll_back(&mut self, database: DatabaseNo, id: ProcessId) {
        if let Some(fate @ Fate::Open) = self.transactions.get_mut(&(database, id)) {
            *fate = Fate::RolledBack;
        }
    }

    /// Reads the marker, and leaves one where there is none. Says whether it committed; nothing
    /// while it is open.
    pub(super) fn fence(&mut self, database: DatabaseNo, id: ProcessId) -> Option<bool> {
        match self.transactions.entry((database, id)).or_insert(Fate::RolledBack) {
            Fate::Open => None,
            fate => Some(*fate == Fate::Committed),
        }
    }

    /// What became of a transaction, if there was one.
    pub(super) fn fate(&self, database: DatabaseNo, id: ProcessId) -> Option<Fate> {
        self.transactions.get(&(database, id)).copied()
    }

    /// An administrator puts a message back into its queue, wherever it was.
    pub(super) fn wish_once_more(&mut self, seq: Seq) {
        *self.once_more.entry(seq).or_default() += 1;
    }

    /// Whether a message was processed as often as anybody wanted.
    pub(super) fn is_processed(&self, seq: Seq) -> bool {
        self.times(seq) > self.once_more.get(&seq).copied().unwrap_or(0)
    }

    /// How often a message was processed.
    pub(super) fn times(&self, seq: Seq) -> usize {
        self.processed.get(&seq).map_or(0, Vec::len)
    }

    fn check_once(&self, seq: Seq) -> Result<(), Violation> {
        let most = 1 + self.once_more.get(&seq).copied().unwrap_or(0);
        let times = self.times(seq);
        if times <= most {
            return Ok(());
        }
        let by = self.processed.get(&seq).into_iter().flatten().map(|id| id.number).collect();
        Err(Violation::ProcessedTwice { seq: seq.0, by })
    }
}
