//! A store shared by several brokers that refuses, forgets and fails to answer: PostgreSQL as
//! the simulator sees it.
//!
//! It knows aggregates, versions, facts and bodies. It has no rules: all it does with a change is
//! to keep it and to fold it.
//!
//! # What it may do to a broker
//!
//! * A commit whose expected versions are not the current ones is a conflict, and so is one that
//!   touches a key another broker has locked. Now and then one is a conflict for no reason.
//! * A commit may fail without having been applied and say so, or fail without a word: then it
//!   was applied or it was not, and the broker cannot tell.
//! * A commit that failed without a word may still be on its way. It lands later, if the versions
//!   it expects are still current by then, or never.
//! * A load may fail.
//!
//! Who has locked its keys meets no conflict on them, not even one for no reason.

use std::collections::BTreeMap;

use bytes::Bytes;
use handoff_types::{Now, Outcome, Position, Span, Wall};

use crate::dice::Dice;
use crate::keyed::{Aggregates, Body, Fact, KeyOf, Keyed};

/// How often an aggregate was written to.
pub type Version = u64;

/// Who is connected to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Party(pub u8);

/// What a broker asks of a store.
pub trait Port<M: Keyed> {
    /// The aggregates of these keys and their versions, all of one moment. With [`Lock::Taken`]
    /// the keys are locked for the party until its next commit.
    fn load(&mut self, party: Party, keys: &[KeyOf<M>], lock: Lock) -> Load<M>;

    /// Makes the changes true, all or none, if every key still has the version expected. A write
    /// without changes only checks that. Whatever the answer, the party's locks are gone.
    fn commit(&mut self, party: Party, writes: &[Write<M>], bodies: &[Body<M>])
    -> Commit<KeyOf<M>>;

    /// Bodies of a key from a number on: as many as fit, and at least one if there is one.
    fn read(&mut self, key: KeyOf<M>, offset: u64, max_bytes: usize) -> Vec<Bytes>;

    /// Which of these keys are no longer at these versions.
    fn watch(&mut self, seen: &[(KeyOf<M>, Version)]) -> Vec<KeyOf<M>>;

    /// What time it is for every broker.
    fn now(&mut self) -> Now;

    /// The store itself, for the hand that moves its clock and for whoever checks it.
    fn underneath(&mut self) -> &mut ConflictingStore<M>;
}

/// Whether a load locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// It does not.
    None,
    /// It does.
    Taken,
}

/// The answer to a load.
#[derive(Debug)]
pub enum Load<M: Keyed> {
    /// Here they are.
    Loaded {
        /// The aggregates.
        state: M::State,
        /// Their versions.
        versions: Vec<(KeyOf<M>, Version)>,
    },
    /// Another party has one of the keys locked.
    Busy,
    /// The store did not answer.
    Failed,
}

/// What one commit does to one key.
#[derive(Debug)]
pub struct Write<M: Keyed> {
    /// The key.
    pub key: KeyOf<M>,
    /// The version the changes were decided at.
    pub expected: Version,
    /// The changes; none if the decision only rested on the key.
    pub changes: Vec<M::Change>,
}

impl<M: Keyed> Clone for Write<M> {
    fn clone(&self) -> Self {
        Self { key: self.key, expected: self.expected, changes: self.changes.clone() }
    }
}

/// The answer to a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commit<Key> {
    /// Done and durable, as is everything before this position.
    Committed(Position),
    /// Not done: these keys were not as expected.
    Conflict(Vec<Key>),
    /// The store failed. Perhaps after it was done.
    Failed(Outcome),
}

/// A fault that the store put in a broker's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Injected {
    /// A load failed.
    LoadFailed,
    /// A commit was called a conflict for no reason.
    SpuriousConflict,
    /// A commit failed, was not applied and said so.
    NotApplied,
    /// A commit failed without a word and was not applied.
    SilentBefore,
    /// A commit failed without a word and was applied.
    SilentAfter,
    /// A commit failed without a word and may still be applied.
    Delayed,
}

impl Injected {
    /// Every one there is.
    pub const ALL: [Self; 6] = [
        Self::LoadFailed,
        Self::SpuriousConflict,
        Self::NotApplied,
        Self::SilentBefore,
        Self::SilentAfter,
        Self::Delayed,
    ];

    /// Its name, for counting.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LoadFailed => "load failed",
            Self::SpuriousConflict => "conflict for no reason",
            Self::NotApplied => "commit not applied",
            Self::SilentBefore => "commit unknown, not applied",
            Self::SilentAfter => "commit unknown, applied",
            Self::Delayed => "commit unknown, delayed",
        }
    }

    /// Once in how many calls it happens.
    const fn one_in(self) -> u64 {
        match self {
            Self::LoadFailed => 20,
            Self::SpuriousConflict => 12,
            Self::NotApplied | Self::SilentBefore | Self::SilentAfter | Self::Delayed => 25,
        }
    }
}

/// A memory store for several brokers.
#[derive(Debug)]
pub struct ConflictingStore<M: Keyed> {
    now: Now,
    state: M::State,
    versions: BTreeMap<KeyOf<M>, Version>,
    facts: Vec<Stored<KeyOf<M>>>,
    bodies: BTreeMap<KeyOf<M>, Vec<Bytes>>,
    locks: BTreeMap<KeyOf<M>, Party>,
    delayed: Option<Delayed<M>>,
    dice: Dice,
    injected: Vec<Injected>,
}

/// A commit on its way whose sender has given up on it.
#[derive(Debug)]
struct Delayed<M: Keyed> {
    writes: Vec<Write<M>>,
    bodies: Vec<Body<M>>,
}

/// What one commit did to one key, as it would lie in a table.
#[derive(Debug)]
struct Stored<Key> {
    key: Key,
    version: Version,
    changes: Vec<u8>,
}

impl<M: Keyed> Port<M> for ConflictingStore<M> {
    fn load(&mut self, party: Party, keys: &[KeyOf<M>], lock: Lock) -> Load<M> {
        if self.injects(Injected::LoadFailed) {
            return Load::Failed;
        }
        if lock == Lock::Taken {
            if keys.iter().any(|key| self.locked_by_another(Some(party), *key)) {
                return Load::Busy;
            }
            self.locks.extend(keys.iter().map(|key| (*key, party)));
        }
        let mut state = M::State::default();
        keys.iter().for_each(|key| state.adopt(*key, &self.state));
        Load::Loaded {
            state,
            versions: keys.iter().map(|key| (*key, self.version(*key))).collect(),
        }
    }

    fn commit(
        &mut self,
        party: Party,
        writes: &[Write<M>],
        bodies: &[Body<M>],
    ) -> Commit<KeyOf<M>> {
        let locked = writes.iter().all(|write| self.locks.get(&write.key) == Some(&party));
        self.unlock(party);
        if self.injects(Injected::NotApplied) {
            return Commit::Failed(Outcome::NotApplied);
        }
        if self.injects(Injected::SilentBefore) {
            return Commit::Failed(Outcome::Unknown);
        }
        if self.delayed.is_none() && self.injects(Injected::Delayed) {
            let (writes, bodies) = (writes.to_vec(), bodies.to_vec());
            self.delayed = Some(Delayed { writes, bodies });
            return Commit::Failed(Outcome::Unknown);
        }
        let conflicts = self.conflicts(Some(party), writes);
        if !conflicts.is_empty() {
            return Commit::Conflict(conflicts);
        }
        if !locked && self.injects(Injected::SpuriousConflict) {
            return Commit::Conflict(writes.iter().map(|write| write.key).collect());
        }
        self.apply(writes, bodies);
        if self.injects(Injected::SilentAfter) {
            return Commit::Failed(Outcome::Unknown);
        }
        Commit::Committed(Position(self.facts.len() as u64))
    }

    fn read(&mut self, key: KeyOf<M>, offset: u64, max_bytes: usize) -> Vec<Bytes> {
        let mut room = max_bytes;
        let mut taken = Vec::new();
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for body in self.bodies(key).iter().skip(skipped) {
            if !taken.is_empty() && body.len() > room {
                break;
            }
            room = room.saturating_sub(body.len());
            taken.push(body.clone());
        }
        taken
    }

    fn watch(&mut self, seen: &[(KeyOf<M>, Version)]) -> Vec<KeyOf<M>> {
        let moved = seen.iter().filter(|(key, version)| self.version(*key) != *version);
        moved.map(|(key, _)| *key).collect()
    }

    fn now(&mut self) -> Now {
        self.now
    }

    fn underneath(&mut self) -> &mut Self {
        self
    }
}

impl<M: Keyed> ConflictingStore<M> {
    /// An empty store whose faults come from these dice.
    #[must_use]
    pub fn new(dice: Dice) -> Self {
        Self {
            now: Now::default(),
            state: M::State::default(),
            versions: BTreeMap::new(),
            facts: Vec::new(),
            bodies: BTreeMap::new(),
            locks: BTreeMap::new(),
            delayed: None,
            dice,
            injected: Vec::new(),
        }
    }

    /// Lets time pass on both clocks.
    pub fn pass(&mut self, span: Span) {
        self.now = Now { wall: self.now.wall + span, steady: self.now.steady + span };
    }

    /// Sets the operator's clock. Steady time does not notice.
    pub const fn set_wall(&mut self, wall: Wall) {
        self.now.wall = wall;
    }

    /// Ends what a party had begun, as when its connection is gone.
    pub fn unlock(&mut self, party: Party) {
        self.locks.retain(|_, holder| *holder != party);
    }

    /// Whether a commit is still on its way.
    #[must_use]
    pub const fn delays(&self) -> bool {
        self.delayed.is_some()
    }

    /// Ends the delay of the commit on its way: it arrives, or never does. Says whether it was
    /// applied. It comes over a connection that is no longer its sender's: a lock keeps it out
    /// whoever has it.
    pub fn end_delay(&mut self, arrives: bool) -> bool {
        let Some(delayed) = self.delayed.take().filter(|_| arrives) else { return false };
        let lands = self.conflicts(None, &delayed.writes).is_empty();
        if lands {
            self.apply(&delayed.writes, &delayed.bodies);
        }
        lands
    }

    /// The faults injected since this was last asked.
    pub fn take_injected(&mut self) -> Vec<Injected> {
        std::mem::take(&mut self.injected)
    }

    /// The state that all facts together make.
    #[must_use]
    pub const fn state(&self) -> &M::State {
        &self.state
    }

    /// The version of a key; 0 if nobody wrote to it.
    #[must_use]
    pub fn version(&self, key: KeyOf<M>) -> Version {
        self.versions.get(&key).copied().unwrap_or(0)
    }

    /// The version of every key that was written to.
    #[must_use]
    pub const fn versions(&self) -> &BTreeMap<KeyOf<M>, Version> {
        &self.versions
    }

    /// The bodies of a key.
    #[must_use]
    pub fn bodies(&self, key: KeyOf<M>) -> &[Bytes] {
        self.bodies.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Builds the state anew from the bytes of the facts and compares, hash for hash. The versions
    /// of a key's facts must be 1, 2, 3, …
    ///
    /// # Errors
    /// What does not agree.
    pub fn check_facts(&self) -> Result<(), String> {
        let mut state = M::State::default();
        let mut versions = BTreeMap::new();
        for fact in &self.facts {
            let version: &mut Version = versions.entry(fact.key).or_default();
            *version += 1;
            if fact.version != *version {
                let Stored { key, version: found, .. } = fact;
                return Err(format!("fact {found} of {key} stands where {version} should"));
            }
            let mut rest = fact.changes.as_slice();
            while !rest.is_empty() {
                let (change, after) = M::Change::decode(rest)
                    .ok_or_else(|| format!("fact {version} of {} cannot be read", fact.key))?;
                M::evolve(&mut state, &change);
                rest = after;
            }
        }
        if versions != self.versions {
            return Err("the facts lead to other versions than the store has".to_owned());
        }
        let (folded, live) = (state.hash(), self.state.hash());
        if folded != live {
            return Err(format!("the facts make state {folded:016x}, the store has {live:016x}"));
        }
        Ok(())
    }

    fn conflicts(&self, party: Option<Party>, writes: &[Write<M>]) -> Vec<KeyOf<M>> {
        let stale = |write: &&Write<M>| {
            write.expected != self.version(write.key) || self.locked_by_another(party, write.key)
        };
        writes.iter().filter(stale).map(|write| write.key).collect()
    }

    fn apply(&mut self, writes: &[Write<M>], bodies: &[Body<M>]) {
        writes.iter().for_each(|write| self.apply_write(write));
        for (key, body) in bodies {
            self.bodies.entry(*key).or_default().push(body.clone());
        }
    }

    fn apply_write(&mut self, write: &Write<M>) {
        if write.changes.is_empty() {
            return;
        }
        let mut bytes = Vec::new();
        for change in &write.changes {
            change.encode(&mut bytes);
            M::evolve(&mut self.state, change);
        }
        let version = self.versions.entry(write.key).or_default();
        *version += 1;
        self.facts.push(Stored { key: write.key, version: *version, changes: bytes });
    }

    fn locked_by_another(&self, party: Option<Party>, key: KeyOf<M>) -> bool {
        self.locks.get(&key).is_some_and(|holder| Some(*holder) != party)
    }

    fn injects(&mut self, fault: Injected) -> bool {
        let injects = self.dice.one_in(fault.one_in());
        if injects {
            self.injected.push(fault);
        }
        injects
    }
}

#[cfg(test)]
mod tests {
    use super::{Commit, ConflictingStore, Load, Lock, Party, Port, Version, Write};
    use crate::dice::Dice;
    use crate::room::{Change, Counter, Name};
    use bytes::Bytes;
    use handoff_types::{Outcome, Span, Wall};

    const A: fn() -> Name = || Name::numbered(0);
    const B: fn() -> Name = || Name::numbered(1);
    const US: Party = Party(0);
    const THEM: Party = Party(1);

    type Store = ConflictingStore<Counter>;

    fn write(key: Name, expected: Version, by: i64) -> Write<Counter> {
        Write { key, expected, changes: vec![Change::MovedIn { key, by }] }
    }

    /// A store that has not injected anything in answering `ask`.
    fn calm<T>(ask: impl Fn(&mut Store) -> T) -> (Store, T) {
        (0..)
            .find_map(|seed| {
                let mut store = Store::new(Dice::new(seed));
                let answer = ask(&mut store);
                store.take_injected().is_empty().then_some((store, answer))
            })
            .unwrap()
    }

    /// A store that has delayed a commit.
    fn delaying() -> Store {
        (0..)
            .find_map(|seed| {
                let mut store = Store::new(Dice::new(seed));
                store.commit(US, &[write(A(), 0, 1)], &[]);
                store.delays().then_some(store)
            })
            .unwrap()
    }

    #[test]
    fn a_commit_of_current_versions_is_done_whole() {
        let (store, answer) =
            calm(|store| store.commit(US, &[write(A(), 0, 1), write(B(), 0, 2)], &[]));
        assert!(matches!(answer, Commit::Committed(_)));
        assert_eq!((store.version(A()), store.version(B())), (1, 1));
        assert_eq!((store.state().tally(A()).value, store.state().tally(B()).value), (1, 2));
        store.check_facts().unwrap();
    }

    #[test]
    fn a_commit_with_one_stale_version_changes_nothing_and_names_it() {
        let (store, answer) = calm(|store| {
            store.commit(US, &[write(A(), 0, 1)], &[]);
            store.commit(THEM, &[write(A(), 0, 1), write(B(), 0, 2)], &[])
        });
        assert_eq!(answer, Commit::Conflict(vec![A()]));
        assert_eq!((store.version(A()), store.version(B())), (1, 0));
    }

    #[test]
    fn a_write_without_changes_checks_its_version_and_leaves_it() {
        let check = |expected| [Write { key: A(), expected, changes: Vec::new() }];
        let (store, answers) = calm(|store| {
            store.commit(US, &[write(A(), 0, 1)], &[]);
            [store.commit(US, &check(0), &[]), store.commit(US, &check(1), &[])]
        });
        assert!(matches!(answers, [Commit::Conflict(_), Commit::Committed(_)]));
        assert_eq!(store.version(A()), 1);
    }

    #[test]
    fn a_lock_keeps_others_out_until_the_next_commit_or_a_lost_connection() {
        let (_, ()) = calm(|store| {
            let taken = |load: &Load<Counter>| matches!(load, Load::Loaded { .. });
            let us = store.load(US, &[A()], Lock::Taken);
            let them = store.load(THEM, &[A(), B()], Lock::Taken);
            if !store.injected.is_empty() {
                return;
            }
            assert!(taken(&us) && matches!(them, Load::Busy));
            let refused = store.commit(THEM, &[write(A(), 0, 1)], &[]);
            let done = store.commit(US, &[write(A(), 0, 1)], &[]);
            let them = store.load(THEM, &[A()], Lock::Taken);
            store.unlock(THEM);
            let us = store.load(US, &[A()], Lock::Taken);
            if !store.injected.is_empty() {
                return;
            }
            assert_eq!(refused, Commit::Conflict(vec![A()]));
            assert!(matches!(done, Commit::Committed(_)) && taken(&them) && taken(&us));
        });
    }

    #[test]
    fn a_watch_tells_which_keys_have_moved() {
        let (_, moved) = calm(|store| {
            store.commit(US, &[write(A(), 0, 1)], &[]);
            store.watch(&[(A(), 0), (B(), 0)])
        });
        assert_eq!(moved, [A()]);
    }

    #[test]
    fn a_read_gives_what_fits_and_at_least_one() {
        let body = |size| (A(), Bytes::from(vec![0; size]));
        let (mut store, _) =
            calm(|store| store.commit(US, &[write(A(), 0, 1)], &[body(10), body(20), body(30)]));
        let mut sizes = |offset, max| -> Vec<usize> {
            store.read(A(), offset, max).iter().map(Bytes::len).collect()
        };
        assert_eq!(sizes(0, 30), [10, 20]);
        assert_eq!(sizes(1, 1), [20]);
        assert_eq!(sizes(3, 100), [0; 0]);
    }

    #[test]
    fn steady_time_does_not_follow_the_operators_clock() {
        let mut store = Store::new(Dice::new(0));
        store.pass(Span(10));
        store.set_wall(Wall(-5));
        assert_eq!((store.now().wall.0, store.now().steady.0), (-5, 10));
    }

    #[test]
    fn a_delayed_commit_lands_only_on_the_versions_it_expects() {
        let mut store = delaying();
        assert_eq!(store.version(A()), 0);
        assert!(store.end_delay(true) && !store.end_delay(true));
        assert_eq!(store.version(A()), 1);
        let mut store = delaying();
        while store.version(A()) == 0 {
            store.commit(THEM, &[write(A(), 0, 2)], &[]);
        }
        assert!(!store.end_delay(true));
        assert_eq!((store.version(A()), store.state().tally(A()).value), (1, 2));
        assert!(!delaying().end_delay(false));
    }

    /// Seed 500692: a broker gave up on a commit, locked the same keys for its next one, and the
    /// first landed under that lock.
    #[test]
    fn a_delayed_commit_does_not_pass_its_own_senders_later_lock() {
        let mut store = delaying();
        while !matches!(store.load(US, &[A()], Lock::Taken), Load::Loaded { .. }) {}
        assert!(!store.end_delay(true));
        assert_eq!(store.version(A()), 0);
    }

    #[test]
    fn a_commit_of_unknown_outcome_was_applied_or_was_not() {
        let applied: Vec<bool> = (0..400)
            .filter_map(|seed| {
                let mut store = Store::new(Dice::new(seed));
                let answer = store.commit(US, &[write(A(), 0, 1)], &[]);
                (answer == Commit::Failed(Outcome::Unknown) && !store.delays())
                    .then(|| store.version(A()) == 1)
            })
            .collect();
        assert!(applied.contains(&true) && applied.contains(&false));
    }
}
