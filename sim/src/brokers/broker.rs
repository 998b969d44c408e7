//! One broker: decides on cached aggregates, compares and sets, and decides again on a conflict.
//!
//! ```text
//!            ┌─────────── key not cached ───────────┐
//!            ▼                                      │
//!  begin ─▶ load ─▶ decide ─▶ commit ─▶ answered    │
//!            ▲        ▲ │        │                  │
//!            │        │ └ held and patient ─▶ wait ─┤ the key moved, or time is up
//!            │        │          │                  │
//!            │        └── failed, not applied       │
//!            └── conflict; from the second on the load locks
//! ```
//!
//! Each arrow is one turn; the other broker may have any number of turns in between. A decision
//! without changes is committed like any other: that is what makes sure that the versions it
//! rests on are current, so that no answer, and no refusal, comes from a stale cache.

use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;

use handoff_types::{Decision, Entropy, Now, Outcome, Steady};

use super::Rules;
use crate::keyed::Aggregates;
use crate::room::{Action, Change, Command, Name, Refusal, Reply, State, Tally};
use crate::store::{Commit, Load, Lock, Party, Port, Version, Write};

/// After this many conflicts a broker locks before it decides.
const CONFLICTS_BEFORE_LOCK: u32 = 2;

/// A stateless server: whatever it has, it can load again.
#[derive(Debug)]
pub(super) struct Broker<M> {
    party: Party,
    /// Every key a tick looks at.
    directory: Vec<Name>,
    cache: State,
    versions: BTreeMap<Name, Version>,
    job: Option<Job>,
    rules: PhantomData<M>,
}

/// What became of a turn.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is more to do.
    Underway(&'static str),
    /// Done, durable, and the actions performed.
    Answered { command: Command, now: Now, reply: Reply, actions: Vec<Action> },
    /// The broker does not know whether it is done.
    Lost { command: Command, now: Now },
    /// The store broke its word.
    Broken(String),
}

/// A command on its way.
#[derive(Debug)]
struct Job {
    command: Command,
    keys: Vec<Name>,
    /// Until when the caller waits for a hold to end.
    patience: Option<Steady>,
    conflicts: u32,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    Load,
    Decide,
    Commit { now: Now, decision: Decision<Reply, Change, Action> },
    Wait { until: Steady },
}

impl Job {
    const fn lock(&self) -> Lock {
        if self.conflicts < CONFLICTS_BEFORE_LOCK { Lock::None } else { Lock::Taken }
    }
}

impl<M: Rules> Broker<M> {
    pub(super) fn new(party: Party, directory: &[Name]) -> Self {
        Self {
            party,
            directory: directory.to_vec(),
            cache: State::default(),
            versions: BTreeMap::new(),
            job: None,
            rules: PhantomData,
        }
    }

    pub(super) const fn idle(&self) -> bool {
        self.job.is_none()
    }

    pub(super) fn command(&self) -> Option<&Command> {
        self.job.as_ref().map(|job| &job.command)
    }

    /// What it has cached.
    pub(super) fn cached(&self) -> impl Iterator<Item = (Name, Version, &Tally)> {
        self.versions.iter().map(|(key, version)| (*key, *version, self.cache.tally(*key)))
    }

    /// Takes a command on.
    pub(super) fn begin(&mut self, command: Command, patience: Option<Steady>) {
        let keys: BTreeSet<Name> =
            command.keys().unwrap_or_else(|| self.directory.clone()).into_iter().collect();
        let keys = keys.into_iter().collect();
        self.job = Some(Job { command, keys, patience, conflicts: 0, phase: Phase::Decide });
    }

    /// Loses everything, and gives back what it was doing and when that was decided.
    pub(super) fn restart(&mut self, store: &mut impl Port<M>) -> Option<(Command, Option<Now>)> {
        store.underneath().unlock(self.party);
        self.cache = State::default();
        self.versions.clear();
        let job = self.job.take()?;
        let decided_at = match job.phase {
            Phase::Commit { now, .. } => Some(now),
            _ => None,
        };
        Some((job.command, decided_at))
    }

    /// Does the next bit of its command.
    pub(super) fn advance(&mut self, store: &mut impl Port<M>, entropy: Entropy) -> Progress {
        let Some(mut job) = self.job.take() else { return Progress::Underway("idle") };
        let phase = std::mem::replace(&mut job.phase, Phase::Load);
        let (next, what) = match phase {
            Phase::Load => self.load(&job, store),
            Phase::Decide => self.decide(&job, store.now(), entropy),
            Phase::Wait { until } => self.wait(&job, until, store),
            Phase::Commit { now, decision } => return self.commit(job, now, decision, store),
        };
        self.job = Some(Job { phase: next, ..job });
        Progress::Underway(what)
    }

    fn load(&mut self, job: &Job, store: &mut impl Port<M>) -> (Phase, &'static str) {
        match store.load(self.party, &job.keys, job.lock()) {
            Load::Loaded { state, versions } => {
                for (key, version) in versions {
                    self.cache.adopt(key, &state);
                    self.versions.insert(key, version);
                }
                let locked = job.lock() == Lock::Taken;
                (Phase::Decide, if locked { "loaded and locked" } else { "loaded" })
            }
            Load::Busy => (Phase::Load, "waits for a lock"),
            Load::Failed => (Phase::Load, "could not load"),
        }
    }

    fn decide(&self, job: &Job, now: Now, entropy: Entropy) -> (Phase, &'static str) {
        if !job.keys.iter().all(|key| self.versions.contains_key(key)) {
            return (Phase::Load, "has to load");
        }
        let decision = M::decide(&self.cache, &job.command, now, entropy);
        match (&decision.reply, job.patience) {
            (Reply::Refused(Refusal::Held { by, .. }), Some(patience))
                if now.steady < patience && job.lock() == Lock::None =>
            {
                (Phase::Wait { until: by.until.min(patience) }, "waits for a hold to end")
            }
            _ => (Phase::Commit { now, decision }, "decided"),
        }
    }

    /// A request that waits is a watch that decides again.
    fn wait(
        &mut self,
        job: &Job,
        until: Steady,
        store: &mut impl Port<M>,
    ) -> (Phase, &'static str) {
        let moved = store.watch(&self.seen(&job.keys));
        if !moved.is_empty() {
            self.forget(&moved);
            return (Phase::Decide, "was woken by a commit");
        }
        if until <= store.now().steady {
            return (Phase::Decide, "was woken by time");
        }
        (Phase::Wait { until }, "goes on waiting")
    }

    fn commit(
        &mut self,
        mut job: Job,
        now: Now,
        decision: Decision<Reply, Change, Action>,
        store: &mut impl Port<M>,
    ) -> Progress {
        let writes: Vec<Write<M>> = self
            .seen(&job.keys)
            .into_iter()
            .map(|(key, expected)| {
                let changes = decision.changes.iter().filter(|change| change.key() == key);
                Write { key, expected, changes: changes.copied().collect() }
            })
            .collect();
        let bodies: Vec<_> = decision
            .changes
            .iter()
            .filter(|change| change.bulk().is_some())
            .filter_map(|change| Some((change.key(), job.command.body()?.clone())))
            .collect();
        match store.commit(self.party, &writes, &bodies) {
            Commit::Committed(_) => {
                for write in writes.iter().filter(|write| !write.changes.is_empty()) {
                    write.changes.iter().for_each(|change| M::evolve(&mut self.cache, change));
                    self.versions.insert(write.key, write.expected + 1);
                }
                let Decision { reply, actions, .. } = decision;
                Progress::Answered { command: job.command, now, reply, actions }
            }
            Commit::Conflict(keys) if job.lock() == Lock::Taken => {
                Progress::Broken(format!("{:?} conflicted while locked by {:?}", keys, self.party))
            }
            Commit::Conflict(keys) => {
                self.forget(&keys);
                job.conflicts += 1;
                self.job = Some(Job { phase: Phase::Load, ..job });
                Progress::Underway("met a conflict")
            }
            Commit::Failed(Outcome::NotApplied) => {
                let phase = if job.lock() == Lock::Taken { Phase::Load } else { Phase::Decide };
                self.job = Some(Job { phase, ..job });
                Progress::Underway("tries again")
            }
            Commit::Failed(Outcome::Unknown) => {
                self.forget(&job.keys);
                Progress::Lost { command: job.command, now }
            }
        }
    }

    fn seen(&self, keys: &[Name]) -> Vec<(Name, Version)> {
        keys.iter().filter_map(|key| Some((*key, *self.versions.get(key)?))).collect()
    }

    fn forget(&mut self, keys: &[Name]) {
        for key in keys {
            self.cache.remove(*key);
            self.versions.remove(key);
        }
    }
}
