//! Deciding on aggregates that others may change too.
//!
//! ```text
//!        ┌──────────────── conflict: load what changed ◀──────────────┐
//!        ▼                                                            │
//!  needs ──load what is not cached──▶ decide ──▶ commit under the versions it saw ──▶ answer
//!                                                └─ after two conflicts: lock, then load
//! ```

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use handoff_types::{Decision, Entropy, Machine, Now, Outcome};

use crate::port::{CommitError, Failed, Hold, Loaded, Step, Store, Version};
use crate::{Action, Change, Command, Key, Reply, State, Streams, needs};

pub use reading::Records;

/// How many conflicts a command meets before it locks what it needs.
const CONFLICTS_FREE: usize = 2;

/// How many aggregates are cached. Beyond it the cache is begun anew.
const CACHED_MAX: usize = 100_000;

/// Decides commands on a store that others use too. It keeps what it loaded last and finds out by
/// conflicts that it is old.
#[derive(Debug)]
pub struct Broker<S, M = Streams> {
    store: S,
    cache: Mutex<Cache>,
    machine: std::marker::PhantomData<fn(M)>,
}

/// Aggregates and the versions they had.
#[derive(Debug, Default)]
struct Cache {
    state: State,
    versions: BTreeMap<Key, Version>,
}

/// A machine that speaks the room's language, and says what it must see.
pub trait Rules:
    Machine<State = State, Command = Command, Change = Change, Reply = Reply, Action = Action>
{
    /// The aggregates a command must see to be decided; more may follow once these are seen.
    fn needs(state: &State, command: &Command) -> Vec<Key>;

    /// Where to look for aggregates that a command is about and does not name. What is not found,
    /// because it was committed meanwhile, is left to a later command.
    fn finds(command: &Command, now: Now) -> Vec<(RangeInclusive<Key>, usize)> {
        needs::finds(command, now)
    }
}

impl Rules for Streams {
    fn needs(state: &State, command: &Command) -> Vec<Key> {
        Self::needs(state, command)
    }
}

impl<S: Store, M: Rules> Broker<S, M> {
    /// A broker that knows nothing yet.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self { store, cache: Mutex::default(), machine: std::marker::PhantomData }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Decides a command and makes it durable.
    ///
    /// # Errors
    /// [`Failed`]; after [`Outcome::Unknown`] it may have been done.
    ///
    /// # Cancel safety
    /// Dropped, it may be done all the same.
    pub async fn execute(
        &self,
        command: &Command,
        entropy: Entropy,
    ) -> Result<(Reply, Vec<Action>), Failed> {
        self.look_for(command).await?;
        let mut conflicts = 0;
        loop {
            let hold = if conflicts >= CONFLICTS_FREE { Hold::Locked } else { Hold::Free };
            let guard = self.see(command, hold).await?;
            let now = self.store.now();
            let (decision, steps) = self.decide(command, now, entropy);
            let keys: Vec<Key> = steps.iter().map(|step| step.key.clone()).collect();
            match self.store.commit(steps.clone(), now, guard).await {
                Ok(()) => {
                    self.advance(&steps);
                    return Ok((decision.reply, decision.actions));
                }
                Err(CommitError::Conflict(changed)) => {
                    conflicts += 1;
                    self.forget(&changed);
                }
                Err(CommitError::Failed(failed)) => {
                    if failed.outcome == Outcome::Unknown {
                        self.forget(&keys);
                    }
                    return Err(failed);
                }
            }
        }
    }

    /// Looks at what is cached, after loading what it does not have of it. It may be old; whatever is
    /// decided on it is looked at again when it is committed.
    ///
    /// # Errors
    /// [`Failed`], with nothing done.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn look<R>(
        &self,
        needs: impl Fn(&State) -> Vec<Key>,
        look: impl FnOnce(&State) -> R,
    ) -> Result<R, Failed> {
        loop {
            let wanted: Vec<Key> = {
                let cache = self.cache();
                let needed = needs(&cache.state).into_iter();
                needed.filter(|key| !cache.versions.contains_key(key)).collect()
            };
            if wanted.is_empty() {
                return Ok(look(&self.cache().state));
            }
            let (loaded, _) = self.store.load(&wanted, Hold::Free).await?;
            self.put(&wanted, loaded);
        }
    }

    /// The versions at which some aggregates are cached, to be watched: whoever waits for something
    /// to change looks at what it looked at.
    pub fn versions(&self, keys: &[Key]) -> Vec<(Key, Version)> {
        let cache = self.cache();
        let version = |key: &Key| Some((key.clone(), *cache.versions.get(key)?));
        keys.iter().filter_map(version).collect()
    }

    /// Loads what the command is about and does not name.
    async fn look_for(&self, command: &Command) -> Result<(), Failed> {
        for (range, limit) in M::finds(command, self.store.now()) {
            let mut found = self.store.find(range, limit).await?;
            found.retain(|key| !self.cache().versions.contains_key(key));
            if !found.is_empty() {
                let (loaded, _) = self.store.load(&found, Hold::Free).await?;
                self.put(&found, loaded);
            }
        }
        Ok(())
    }

    /// Loads what the command must see: what the cache does not have, or all of it under a lock.
    async fn see(&self, command: &Command, hold: Hold) -> Result<Option<S::Guard>, Failed> {
        loop {
            let needed: BTreeSet<Key> = self.needs(command);
            let wanted: Vec<Key> = match hold {
                Hold::Free => {
                    let cache = self.cache();
                    let cached = |key: &&Key| !cache.versions.contains_key(*key);
                    needed.iter().filter(cached).cloned().collect()
                }
                // In the order of keys and all at once, so that two who lock do not wait for each
                // other.
                Hold::Locked => needed.iter().cloned().collect(),
            };
            if wanted.is_empty() && hold == Hold::Free {
                return Ok(None);
            }
            let (loaded, guard) = self.store.load(&wanted, hold).await?;
            self.put(&wanted, loaded);
            // What was loaded may show that more is needed.
            if hold == Hold::Locked && self.needs(command).is_subset(&needed) {
                return Ok(guard);
            }
        }
    }

    fn needs(&self, command: &Command) -> BTreeSet<Key> {
        M::needs(&self.cache().state, command).into_iter().collect()
    }

    fn decide(
        &self,
        command: &Command,
        now: Now,
        entropy: Entropy,
    ) -> (Decision<Reply, Change, Action>, Vec<Step>) {
        let cache = self.cache();
        let decision = M::decide(&cache.state, command, now, entropy);
        let version = |key: &Key| cache.versions.get(key).copied().unwrap_or_default();
        let mut steps: BTreeMap<Key, Step> = BTreeMap::new();
        for key in M::needs(&cache.state, command) {
            let expected = version(&key);
            steps.insert(key.clone(), Step { key, expected, changes: Vec::new() });
        }
        for change in &decision.changes {
            let key = change.key();
            let expected = version(&key);
            let step = steps.entry(key.clone());
            let step = step.or_insert_with(|| Step { key, expected, changes: Vec::new() });
            step.changes.push(change.clone());
        }
        (decision, steps.into_values().collect())
    }

    /// What was committed is what the cache has from now on, unless somebody was faster: then it
    /// has something newer already, or will find out.
    fn advance(&self, steps: &[Step]) {
        let mut cache = self.cache();
        for step in steps.iter().filter(|step| !step.changes.is_empty()) {
            let known = cache.versions.get(&step.key).copied().unwrap_or_default();
            if known != step.expected {
                continue;
            }
            step.changes.iter().for_each(|change| M::evolve(&mut cache.state, change));
            cache.versions.insert(step.key.clone(), Version(step.expected.0 + 1));
        }
    }

    fn put(&self, keys: &[Key], loaded: Vec<Loaded>) {
        let mut cache = self.cache();
        if cache.versions.len() + keys.len() > CACHED_MAX {
            *cache = Cache::default();
        }
        for (key, loaded) in keys.iter().zip(loaded) {
            let known = cache.versions.get(key);
            if known.is_some_and(|known| *known > loaded.version) {
                continue;
            }
            cache.state.put(key, loaded.aggregate);
            cache.versions.insert(key.clone(), loaded.version);
        }
    }

    /// Forgets what is cached of some aggregates, because it is known to be old.
    pub fn forget(&self, keys: &[Key]) {
        let mut cache = self.cache();
        for key in keys {
            cache.state.put(key, None);
            cache.versions.remove(key);
        }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
