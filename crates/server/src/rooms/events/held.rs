//! Late occurrences that wait a while for whoever subscribes.
//!
//! After a start nobody is connected yet. What the catch-up policy tells is held, and given once to
//! each session whose filter comes to match it meanwhile.

use std::collections::HashMap;
use std::sync::Arc;

use handoff_events::{SessionId, Sessions};
use handoff_types::Steady;

use super::Told;

/// What is held, in the order it was told.
#[derive(Debug, Default)]
pub(super) struct Held {
    kept: Vec<Kept>,
    /// How many of the first are over.
    over: usize,
    /// Which each session has had, one bit each.
    had: HashMap<SessionId, Vec<u64>>,
}

#[derive(Debug)]
struct Kept {
    told: Arc<Told>,
    until: Steady,
}

impl Held {
    /// How many are held, those included that were over before others were.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Keeps an occurrence that these sessions have been told of.
    pub(super) fn keep(&mut self, told: Arc<Told>, until: Steady, had_by: &[SessionId]) {
        let index = self.kept.len();
        for session in had_by {
            mark(self.had.entry(*session).or_default(), index);
        }
        self.kept.push(Kept { told, until });
    }

    /// From now on everything that is held is held until then.
    pub(super) fn keep_all_until(&mut self, until: Steady) {
        self.kept.iter_mut().for_each(|kept| kept.until = until);
    }

    /// What a session has not had and its filter matches now. It counts as had.
    pub(super) fn give(&mut self, session: SessionId, sessions: &Sessions) -> Vec<Arc<Told>> {
        if self.over == self.kept.len() {
            return Vec::new();
        }
        let had = self.had.entry(session).or_default();
        let mut given = Vec::new();
        for (index, kept) in self.kept.iter().enumerate().skip(self.over) {
            if !is_marked(had, index) && sessions.matches(session, &kept.told.notification) {
                mark(had, index);
                given.push(Arc::clone(&kept.told));
            }
        }
        given
    }

    /// A session has ended.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.had.remove(&session);
    }

    /// Lets go of what was held long enough.
    pub(super) fn expire(&mut self, now: Steady) {
        let rest = self.kept.iter().skip(self.over);
        self.over += rest.take_while(|kept| kept.until <= now).count();
        if self.over == self.kept.len() && self.over > 0 {
            *self = Self::default();
        }
    }
}

fn mark(bits: &mut Vec<u64>, index: usize) {
    let word = index / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    if let Some(word) = bits.get_mut(word) {
        *word |= 1 << (index % 64);
    }
}

fn is_marked(bits: &[u64], index: usize) -> bool {
    bits.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
}
