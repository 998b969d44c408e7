//! Rooms and stores that are right but for one thing.

#![allow(dead_code, reason = "each test file twists something else")]

pub(crate) mod journal;
pub(crate) mod room;

use std::marker::PhantomData;

use bytes::Bytes;
use handoff_sim::dice::Dice;
use handoff_sim::room::{Action, Change, Command, Counter, Name, Reply, State};
use handoff_sim::store::{Commit, ConflictingStore, Load, Lock, Party, Port, Version, Write};
use handoff_store_embedded::Persist;
use handoff_types::{Decision, Entropy, Machine, Now, Steady};

pub(crate) type Decided = Decision<Reply, Change, Action>;

/// What a room does otherwise than the counter.
pub(crate) trait Twist {
    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        Counter::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut State, change: &Change) {
        Counter::evolve(state, change);
    }

    fn encode(change: &Change, out: &mut Vec<u8>) {
        change.encode(out);
    }

    fn snapshot(state: &State, from: &[u8], bytes_max: usize) -> (Bytes, Option<Bytes>) {
        Counter::snapshot(state, from, bytes_max)
    }
}

/// The counter room with a twist.
#[derive(Debug)]
pub(crate) struct Room<T>(PhantomData<T>);

impl<T: Twist> Machine for Room<T> {
    type State = State;
    type Command = Command;
    type Change = Change;
    type Reply = Reply;
    type Action = Action;

    fn decide(state: &State, command: &Command, now: Now, entropy: Entropy) -> Decided {
        T::decide(state, command, now, entropy)
    }

    fn evolve(state: &mut State, change: &Change) {
        T::evolve(state, change);
    }

    fn next_deadline(state: &State, now: Now) -> Option<Steady> {
        Counter::next_deadline(state, now)
    }
}

/// What a store does otherwise than the conflicting one.
pub(crate) trait Meddle: Sized {
    fn load(store: &mut Store<Self>, party: Party, keys: &[Name], lock: Lock) -> Load<Counter> {
        store.inner.load(party, keys, lock)
    }

    fn commit(
        store: &mut Store<Self>,
        party: Party,
        writes: &[Write<Counter>],
        bodies: &[(Name, Bytes)],
    ) -> Commit<Name> {
        store.inner.commit(party, writes, bodies)
    }

    fn read(store: &mut Store<Self>, key: Name, offset: u64, max_bytes: usize) -> Vec<Bytes> {
        store.inner.read(key, offset, max_bytes)
    }

    fn watch(store: &mut Store<Self>, seen: &[(Name, Version)]) -> Vec<Name> {
        store.inner.watch(seen)
    }
}

/// A store that somebody meddles with.
#[derive(Debug)]
pub(crate) struct Store<T> {
    pub(crate) inner: ConflictingStore<Counter>,
    /// What was last loaded, for a meddler that serves it again.
    pub(crate) before: State,
    dice: Dice,
    meddler: PhantomData<T>,
}

impl<T> Store<T> {
    pub(crate) fn new(inner: ConflictingStore<Counter>) -> Self {
        Self { inner, before: State::default(), dice: Dice::new(0), meddler: PhantomData }
    }

    /// Whether to meddle this time.
    pub(crate) fn now_and_then(&mut self) -> bool {
        self.dice.one_in(20)
    }
}

impl<T: Meddle> Port<Counter> for Store<T> {
    fn load(&mut self, party: Party, keys: &[Name], lock: Lock) -> Load<Counter> {
        T::load(self, party, keys, lock)
    }

    fn commit(
        &mut self,
        party: Party,
        writes: &[Write<Counter>],
        bodies: &[(Name, Bytes)],
    ) -> Commit<Name> {
        T::commit(self, party, writes, bodies)
    }

    fn read(&mut self, key: Name, offset: u64, max_bytes: usize) -> Vec<Bytes> {
        T::read(self, key, offset, max_bytes)
    }

    fn watch(&mut self, seen: &[(Name, Version)]) -> Vec<Name> {
        T::watch(self, seen)
    }

    fn now(&mut self) -> Now {
        self.inner.now()
    }

    fn underneath(&mut self) -> &mut ConflictingStore<Counter> {
        &mut self.inner
    }
}
