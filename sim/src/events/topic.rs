//! A topic as the events room knows it: it has what it took, by producer and sequence, whatever
//! becomes of the server.

use std::collections::BTreeMap;

use handoff_events::Publication;

use crate::driver::{Fault, ensure};

/// What was taken.
#[derive(Debug, Default)]
pub(super) struct Topic {
    stored: BTreeMap<(u128, u64), Publication>,
    /// The last sequence of each producer that came in its turn.
    last: BTreeMap<u128, u64>,
}

impl Topic {
    pub(super) fn has(&self, one: &Publication) -> bool {
        self.stored.contains_key(&(one.source.producer, one.handed.sequence))
    }

    /// Takes a message; false: it has it. One that is not a dead letter must come in its turn.
    pub(super) fn take(&mut self, one: &Publication, dead: bool) -> Result<bool, Fault> {
        let (producer, sequence) = (one.source.producer, one.handed.sequence);
        if let Some(before) = self.stored.get(&(producer, sequence)) {
            ensure(before == one, || {
                format!("the topic has {before:?}, and under its sequence comes {one:?}")
            })?;
            return Ok(false);
        }
        if !dead {
            let last = self.last.insert(producer, sequence).unwrap_or(0);
            ensure(sequence > last, || format!("{one:?} comes behind {last}"))?;
        }
        self.stored.insert((producer, sequence), one.clone());
        Ok(true)
    }
}
