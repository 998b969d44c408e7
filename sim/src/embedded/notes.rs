//! What is known of bodies: which somebody was told of, which may be gone, which were lost.

use std::collections::{BTreeMap, BTreeSet};

use handoff_store_embedded::{BulkError, Host, Persist};

use crate::driver::{Fault, ensure};
use crate::oracle::Oracle;
use crate::room::{Name, State, note_frame};
use crate::server::Excuses;

/// The bodies of all keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// How many of each key somebody was told of.
    told: BTreeMap<Name, u64>,
    /// Those below this were given up to retention. It may have taken them or not.
    given_up: BTreeMap<Name, u64>,
    /// Those that the disk damaged and that were answered as such.
    damaged: BTreeSet<(Name, u64)>,
}

impl Notes {
    /// Somebody was told that a key has this many.
    pub(super) fn told(&mut self, key: Name, notes: u64) {
        let told = self.told.entry(key).or_default();
        *told = notes.max(*told);
    }

    /// A process goes on with this state and everybody is told of all of it.
    pub(super) fn goes_on_with(&mut self, state: &State) {
        self.told = state.keys().map(|key| (key, state.tally(key).notes)).collect();
    }

    /// Those below an offset are given up.
    pub(super) fn give_up(&mut self, key: Name, below: u64) {
        let given_up = self.given_up.entry(key).or_default();
        *given_up = below.max(*given_up);
    }

    /// How many of a key somebody was told of.
    pub(super) fn of(&self, key: Name) -> u64 {
        self.told.get(&key).copied().unwrap_or_default()
    }

    /// Reads a body that the state knows of and judges it. Says what became of it.
    ///
    /// # Errors
    /// [`Fault`] when it is not what it was, is not there, or is there too early.
    pub(super) fn judge<M: Persist>(
        &mut self,
        host: &Host<M>,
        (key, offset): (Name, u64),
        oracle: &mut Oracle,
        excuses: Excuses,
    ) -> Result<&'static str, Fault> {
        let found = host.body(note_frame(key, offset));
        let told = offset < self.of(key);
        let given_up = self.given_up.get(&key).is_some_and(|below| offset < *below);
        match found {
            Ok(found) if !told => {
                ensure(found.is_none(), || format!("note {offset} of {key} served too early"))?;
                Ok("body not durable yet")
            }
            Ok(None) if given_up => Ok("body not kept"),
            Ok(found) => {
                oracle.body(key, offset, found.as_deref())?;
                let moved = self.damaged.remove(&(key, offset));
                Ok(if moved { "damaged body read again" } else { "body read" })
            }
            Err(BulkError::Corrupt { .. }) if given_up => Ok("body not kept"),
            Err(BulkError::Corrupt { .. }) if excuses.damage => {
                self.damaged.insert((key, offset));
                Ok("body damaged")
            }
            Err(_) if excuses.fault => Ok("body read failed"),
            Err(error) => Err(Fault::Invariant(format!("note {offset} of {key}: {error}"))),
        }
    }

    /// Judges every body that somebody was told of.
    ///
    /// # Errors
    /// As [`Self::judge`].
    pub(super) fn judge_all<M: Persist>(
        &mut self,
        host: &Host<M>,
        oracle: &mut Oracle,
        excuses: Excuses,
    ) -> Result<(), Fault> {
        let all: Vec<(Name, u64)> =
            self.told.iter().flat_map(|(key, told)| (0..*told).map(|at| (*key, at))).collect();
        all.into_iter().try_for_each(|note| self.judge(host, note, oracle, excuses).map(drop))
    }
}
