//! A store in memory: the port without a disk, for tests and simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use handoff_types::{Machine, Now};

use crate::port::{Batches, CommitError, Failed, Hold, Loaded, Step, Store, Version};
use crate::{Change, Key, PartitionId, State, Streams};

/// A store in memory. Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    state: State,
    versions: BTreeMap<Key, Version>,
    /// Batches by the first offset behind them.
    batches: BTreeMap<(PartitionId, u64), Bytes>,
    locked: BTreeSet<Key>,
    waiting: Vec<Waker>,
    now: Now,
}

/// Keys that others must not change.
#[derive(Debug)]
pub struct Locks {
    memory: Memory,
    keys: Vec<Key>,
}

impl Drop for Locks {
    fn drop(&mut self) {
        let mut inner = self.memory.inner();
        for key in &self.keys {
            inner.locked.remove(key);
        }
        inner.wake();
    }
}

impl Memory {
    /// Sets the clock.
    pub fn set_now(&self, now: Now) {
        self.inner().now = now;
    }

    /// Looks at everything that is committed.
    pub fn look<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&self.inner().state)
    }

    /// How often an aggregate was changed.
    #[must_use]
    pub fn version(&self, key: &Key) -> Version {
        self.inner().version(key)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn version(&self, key: &Key) -> Version {
        self.versions.get(key).copied().unwrap_or_default()
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn commit(&mut self, steps: &[Step]) -> Result<(), CommitError> {
        let stale = steps.iter().filter(|step| self.version(&step.key) != step.expected);
        let stale: Vec<Key> = stale.map(|step| step.key.clone()).collect();
        if !stale.is_empty() {
            return Err(CommitError::Conflict(stale));
        }
        for step in steps.iter().filter(|step| !step.changes.is_empty()) {
            for change in &step.changes {
                self.keep(change);
                Streams::evolve(&mut self.state, change);
            }
            self.versions.insert(step.key.clone(), Version(step.expected.0 + 1));
        }
        self.wake();
        Ok(())
    }

    fn keep(&mut self, change: &Change) {
        match change {
            Change::Appended { partition, base, count, batch, .. } => {
                self.batches.insert((*partition, base + u64::from(*count)), batch.clone());
            }
            Change::PartitionClosed(partition) => {
                self.batches.retain(|(of, _), _| of != partition);
            }
            Change::Trimmed { partition, start, .. } => {
                self.batches.retain(|(of, end), _| of != partition || end > start);
            }
            _ => {}
        }
    }

    fn read(&self, partition: PartitionId, offset: u64, max_bytes: usize) -> Batches {
        let Some(known) = self.state.partition(partition) else { return Batches::End { end: 0 } };
        if offset < known.start {
            return Batches::Trimmed { start: known.start };
        }
        if offset >= known.end {
            return Batches::End { end: known.end };
        }
        let mut bytes = 0;
        let from = (partition, offset.saturating_add(1));
        let all = self.batches.range(from..=(partition, u64::MAX)).map(|(_, batch)| batch.clone());
        let fits = |batch: &Bytes| {
            let first = bytes == 0;
            bytes += batch.len();
            first || bytes <= max_bytes
        };
        Batches::Some(all.take_while(fits).collect())
    }
}

impl Store for Memory {
    type Guard = Locks;

    async fn load(&self, keys: &[Key], hold: Hold) -> Result<(Vec<Loaded>, Option<Locks>), Failed> {
        Ok(poll_fn(|context| {
            let mut inner = self.inner();
            if hold == Hold::Locked {
                if keys.iter().any(|key| inner.locked.contains(key)) {
                    inner.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
                inner.locked.extend(keys.iter().cloned());
            }
            let loaded = keys.iter().map(|key| Loaded {
                version: inner.version(key),
                aggregate: inner.state.aggregate(key),
            });
            let loaded = loaded.collect();
            let locks = || Locks { memory: self.clone(), keys: keys.to_vec() };
            Poll::Ready((loaded, (hold == Hold::Locked).then(locks)))
        })
        .await)
    }

    async fn find(&self, range: RangeInclusive<Key>, limit: usize) -> Result<Vec<Key>, Failed> {
        let inner = self.inner();
        let keys = inner.state.keys_from(range.start());
        Ok(keys.take_while(|key| key <= range.end()).take(limit).collect())
    }

    async fn commit(
        &self,
        steps: Vec<Step>,
        _: Now,
        guard: Option<Locks>,
    ) -> Result<(), CommitError> {
        let own = |key: &Key| guard.as_ref().is_some_and(|guard| guard.keys.contains(key));
        poll_fn(|context| {
            let mut inner = self.inner();
            if steps.iter().any(|step| inner.locked.contains(&step.key) && !own(&step.key)) {
                inner.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(inner.commit(&steps))
        })
        .await
    }

    async fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Batches, Failed> {
        Ok(self.inner().read(partition, offset, max_bytes))
    }

    async fn watch(&self, keys: &[(Key, Version)]) {
        poll_fn(|context| {
            let mut inner = self.inner();
            if keys.iter().any(|(key, version)| inner.version(key) != *version) {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn now(&self) -> Now {
        self.inner().now
    }
}
