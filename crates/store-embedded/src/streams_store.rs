//! The port of streams on embedded storage.
//!
//! The state is in memory and one process has it, so versions are counted here and begin anew with
//! it. What decides in place ([`Host::apply_made`]) never conflicts; this is for whoever decides on
//! a look at it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use bytes::Bytes;
use handoff_log::journal::{Purpose, Ticket};
use handoff_log::segments::{Lane, Read};
use handoff_streams::port::{Batches, CommitError, Failed, Hold, Loaded, Step, Store, Version};
use handoff_streams::{Change, Key, PartitionId, Streams};
use handoff_types::{Now, Outcome};

use crate::host::Host;
use crate::reader::Reader;

/// What a change takes at most beside its batch, as far as admission is concerned.
const CHANGE_BYTES: u64 = 512;

/// Streams on embedded storage, for whoever decides elsewhere. Clones are the same store.
#[derive(Clone)]
pub struct StreamsStore {
    inner: Arc<Mutex<Inner>>,
    reader: Reader,
    clock: Arc<dyn Fn() -> Now + Send + Sync>,
}

struct Inner {
    host: Host<Streams>,
    /// Of what was changed in this life.
    versions: BTreeMap<Key, Version>,
    locked: BTreeSet<Key>,
    waiting: Vec<Waker>,
}

/// Keys that others must not change.
pub struct Locks {
    inner: Arc<Mutex<Inner>>,
    keys: Vec<Key>,
}

impl fmt::Debug for StreamsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamsStore").finish_non_exhaustive()
    }
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locks").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let mut inner = lock(&self.inner);
        for key in &self.keys {
            inner.locked.remove(key);
        }
        inner.wake();
    }
}

impl StreamsStore {
    /// A room that others decide for. `clock` tells the time.
    #[must_use]
    pub fn new(host: Host<Streams>, clock: Arc<dyn Fn() -> Now + Send + Sync>) -> Self {
        let reader = host.reader();
        let inner =
            Inner { host, versions: BTreeMap::new(), locked: BTreeSet::new(), waiting: Vec::new() };
        Self { inner: Arc::new(Mutex::new(inner)), reader, clock }
    }
}

impl Inner {
    fn version(&self, key: &Key) -> Version {
        let there = || Version(self.host.state().aggregate(key).is_some().into());
        self.versions.get(key).copied().unwrap_or_else(there)
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }

    fn commit(&mut self, steps: &[Step], now: Now) -> Result<Ticket, CommitError> {
        let stale = steps.iter().filter(|step| self.version(&step.key) != step.expected);
        let stale: Vec<Key> = stale.map(|step| step.key.clone()).collect();
        if !stale.is_empty() {
            return Err(CommitError::Conflict(stale));
        }
        let changes: Vec<Change> = steps.iter().flat_map(|step| step.changes.clone()).collect();
        let body = |change: &Change| match change {
            Change::Appended { batch, .. } => CHANGE_BYTES + batch.len() as u64,
            _ => CHANGE_BYTES,
        };
        let bytes = changes.iter().map(body).sum();
        let ticket = self.host.append_made(&changes, bytes, Purpose::Accept, now);
        let ticket = ticket
            .map_err(|refused| Failed { outcome: Outcome::NotApplied, why: refused.to_string() })?;
        for step in steps.iter().filter(|step| !step.changes.is_empty()) {
            self.versions.insert(step.key.clone(), Version(step.expected.0 + 1));
        }
        Ok(ticket)
    }
}

impl Store for StreamsStore {
    type Guard = Locks;

    async fn load(&self, keys: &[Key], hold: Hold) -> Result<(Vec<Loaded>, Option<Locks>), Failed> {
        Ok(poll_fn(|context| {
            let mut inner = lock(&self.inner);
            if hold == Hold::Locked {
                if keys.iter().any(|key| inner.locked.contains(key)) {
                    inner.waiting.push(context.waker().clone());
                    return Poll::Pending;
                }
                inner.locked.extend(keys.iter().cloned());
            }
            let state = inner.host.state();
            let loaded = keys
                .iter()
                .map(|key| Loaded { version: inner.version(key), aggregate: state.aggregate(key) });
            let loaded = loaded.collect();
            let locks = || Locks { inner: Arc::clone(&self.inner), keys: keys.to_vec() };
            Poll::Ready((loaded, (hold == Hold::Locked).then(locks)))
        })
        .await)
    }

    async fn find(&self, range: RangeInclusive<Key>, limit: usize) -> Result<Vec<Key>, Failed> {
        let inner = lock(&self.inner);
        let keys = inner.host.state().keys_from(range.start());
        Ok(keys.take_while(|key| key <= range.end()).take(limit).collect())
    }

    async fn commit(
        &self,
        steps: Vec<Step>,
        now: Now,
        guard: Option<Locks>,
    ) -> Result<(), CommitError> {
        let own = |key: &Key| guard.as_ref().is_some_and(|guard| guard.keys.contains(key));
        let ticket = poll_fn(|context| {
            let mut inner = lock(&self.inner);
            if steps.iter().any(|step| inner.locked.contains(&step.key) && !own(&step.key)) {
                inner.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(inner.commit(&steps, now))
        })
        .await?;
        let durable = ticket.await;
        lock(&self.inner).wake();
        durable.map(drop).map_err(|lost| {
            CommitError::Failed(Failed { outcome: lost.outcome, why: lost.to_string() })
        })
    }

    async fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Batches, Failed> {
        let kept = lock(&self.inner).host.state().partition(partition).copied();
        let Some(kept) = kept else { return Ok(Batches::End { end: 0 }) };
        if offset < kept.start {
            return Ok(Batches::Trimmed { start: kept.start });
        }
        let read = self.reader.read(Lane(partition.lane()), offset, max_bytes as u64);
        let failed = |error: crate::BulkError| Failed {
            outcome: Outcome::NotApplied,
            why: error.to_string(),
        };
        Ok(match read.map_err(failed)? {
            Read::Frames(frames) => {
                let batches: Vec<Bytes> = frames.into_iter().map(|frame| frame.body).collect();
                Batches::Some(batches)
            }
            Read::End { end } => Batches::End { end: end.max(kept.start) },
            Read::Trimmed { start } => Batches::Trimmed { start },
            Read::Corrupt { from, to } => Batches::Corrupt { from, to },
        })
    }

    async fn watch(&self, keys: &[(Key, Version)]) {
        poll_fn(|context| {
            let mut inner = lock(&self.inner);
            if keys.iter().any(|(key, version)| inner.version(key) != *version) {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn now(&self) -> Now {
        (self.clock)()
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}
