//! Rooms whose state is a set of small aggregates, each with a key.
//!
//! That is all a store needs to know of a room: which keys a command touches, which key a change
//! belongs to, and how to cut one aggregate out of a state.

use bytes::Bytes;
use handoff_types::Machine;

use crate::room;

/// A state made of aggregates.
pub trait Aggregates: Clone + Default {
    /// What an aggregate is found by.
    type Key: Copy + Ord + std::fmt::Debug + std::fmt::Display;

    /// Takes over one aggregate, or its absence, from another state.
    fn adopt(&mut self, key: Self::Key, from: &Self);

    /// A number that is equal for equal states.
    fn hash(&self) -> u64;
}

/// A command that touches aggregates.
pub trait Touches {
    /// What an aggregate is found by.
    type Key;

    /// The keys its answer depends on, or `None` if it depends on all there are.
    fn keys(&self) -> Option<Vec<Self::Key>>;
}

/// A change that belongs to one aggregate and can be written down.
pub trait Fact: Sized + Clone + std::fmt::Debug {
    /// What an aggregate is found by.
    type Key;

    /// The aggregate it belongs to.
    fn key(&self) -> Self::Key;

    /// Appends its bytes.
    fn encode(&self, out: &mut Vec<u8>);

    /// Takes one from the front and gives what follows it; `None` for bytes that are none.
    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])>;
}

/// What the aggregates of a room are found by.
pub type KeyOf<M> = <<M as Machine>::State as Aggregates>::Key;

/// A room whose state is a set of aggregates.
pub trait Keyed:
    Machine<State: Aggregates, Command: Touches<Key = KeyOf<Self>>, Change: Fact<Key = KeyOf<Self>>>
{
}

impl<M> Keyed for M where
    M: Machine<State: Aggregates, Command: Touches<Key = KeyOf<M>>, Change: Fact<Key = KeyOf<M>>>
{
}

/// A body and the aggregate in whose lane it is kept.
pub type Body<M> = (KeyOf<M>, Bytes);

impl Aggregates for room::State {
    type Key = room::Name;

    fn adopt(&mut self, key: room::Name, from: &Self) {
        if from.keys().any(|known| known == key) {
            self.set(key, from.tally(key).clone());
        } else {
            self.remove(key);
        }
    }

    fn hash(&self) -> u64 {
        Self::hash(self)
    }
}

impl Touches for room::Command {
    type Key = room::Name;

    fn keys(&self) -> Option<Vec<room::Name>> {
        Self::keys(self)
    }
}

impl Fact for room::Change {
    type Key = room::Name;

    fn key(&self) -> room::Name {
        Self::key(self)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Self::encode(self, out);
    }

    fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        Self::decode(bytes).ok()
    }
}
