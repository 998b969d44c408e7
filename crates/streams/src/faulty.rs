//! A store that fails every so many calls, before or after doing what it was asked. Which ones is
//! drawn, always the same: strictly every n-th would be every commit of whoever makes n − 1 loads
//! before it.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};

use handoff_types::{Entropy, Now, Outcome};

use crate::port::{Batches, CommitError, Failed, Hold, Loaded, Step, Store, Version};
use crate::{Key, PartitionId};

/// When a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fails {
    /// Before anything is done.
    Before,
    /// After it was done: only the answer is lost.
    After,
}

/// A store of whose calls every n-th fails, on average. Whoever commits does not learn what became of it.
#[derive(Debug)]
pub struct Faulty<S> {
    store: S,
    every: u64,
    fails: Fails,
    calls: AtomicU64,
}

impl<S> Faulty<S> {
    /// Lets one of n calls fail; 0: none.
    #[must_use]
    pub fn new(store: S, every: u64, fails: Fails) -> Self {
        Self { store, every, fails, calls: AtomicU64::new(0) }
    }

    /// The store underneath.
    pub fn underneath(&self) -> &S {
        &self.store
    }

    fn is_hit(&self) -> bool {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.every > 0 && Entropy(0).word(call).is_multiple_of(self.every)
    }
}

fn failed(outcome: Outcome) -> Failed {
    Failed { outcome, why: "the store did not answer".to_owned() }
}

impl<S: Store> Store for Faulty<S> {
    type Guard = S::Guard;

    async fn load(
        &self,
        keys: &[Key],
        hold: Hold,
    ) -> Result<(Vec<Loaded>, Option<S::Guard>), Failed> {
        if self.is_hit() {
            return Err(failed(Outcome::NotApplied));
        }
        self.store.load(keys, hold).await
    }

    async fn find(&self, range: RangeInclusive<Key>, limit: usize) -> Result<Vec<Key>, Failed> {
        if self.is_hit() {
            return Err(failed(Outcome::NotApplied));
        }
        self.store.find(range, limit).await
    }

    async fn commit(
        &self,
        steps: Vec<Step>,
        now: Now,
        guard: Option<S::Guard>,
    ) -> Result<(), CommitError> {
        let hit = self.is_hit();
        if hit && self.fails == Fails::Before {
            return Err(failed(Outcome::Unknown).into());
        }
        let answer = self.store.commit(steps, now, guard).await;
        match hit {
            true => Err(failed(Outcome::Unknown).into()),
            false => answer,
        }
    }

    async fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Batches, Failed> {
        if self.is_hit() {
            return Err(failed(Outcome::NotApplied));
        }
        self.store.read(partition, offset, max_bytes).await
    }

    async fn watch(&self, keys: &[(Key, Version)]) {
        self.store.watch(keys).await;
    }

    fn now(&self) -> Now {
        self.store.now()
    }
}
