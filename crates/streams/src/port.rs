//! What the room needs of a store, whatever it is: six verbs and no rule.
//!
//! ```text
//!  load    keys                      ──▶ aggregates at their versions
//!  find    first to last key         ──▶ keys of what is there, ascending
//!  commit  (key, version, changes) … ──▶ all of it, or a conflict and nothing
//!  read    partition, offset         ──▶ whole batches, durable ones only
//!  watch   (key, version) …          ──▶ ready when one of them has another version
//!  now                               ──▶ the store's clock: brokers of one store share it
//! ```
//!
//! An aggregate's version grows by one with every commit that names changes for it; one that never
//! was has version 0. A commit names every aggregate its decision looked at, those that it does not
//! change too, so that what was decided on an old look conflicts. Batches travel inside the changes
//! ([`Change::Appended`]) and come back from `read`, never from `load`.
//!
//! [`Broker`](crate::Broker) is the one user of the port. `conformance` is what every store passes.

use std::fmt;
use std::ops::RangeInclusive;

use bytes::Bytes;
use handoff_types::{Now, Outcome};
use thiserror::Error;

use crate::{Aggregate, Change, Key, PartitionId};

/// How often an aggregate was changed; 0 if it never was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// An aggregate as a store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// How often it was changed.
    pub version: Version,
    /// What it is; none if it is not there, or not any more.
    pub aggregate: Option<Aggregate>,
}

/// What one aggregate is to become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which.
    pub key: Key,
    /// The version it was decided on.
    pub expected: Version,
    /// Its changes, in order; none if the decision only looked at it.
    pub changes: Vec<Change>,
}

/// Whether others may change what is loaded before it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// They may; the commit finds out.
    Free,
    /// They wait until the commit, or until the guard is dropped.
    Locked,
}

/// What a read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Batches {
    /// Whole batches without a gap; the first holds the offset asked for.
    Some(Vec<Bytes>),
    /// Nothing is stored at this offset yet.
    End {
        /// The offset the next message will have.
        end: u64,
    },
    /// What stood there is not kept any more.
    Trimmed {
        /// The first offset that is.
        start: u64,
    },
    /// The disk lost it. Reading at `to` goes on behind it.
    Corrupt {
        /// The first offset lost.
        from: u64,
        /// The first offset after the damage.
        to: u64,
    },
}

/// Why a commit was not made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// These aggregates have other versions. Nothing was committed: load them and decide again.
    #[error("{} aggregates were changed meanwhile", .0.len())]
    Conflict(Vec<Key>),
    /// The store did not do it, or nobody knows.
    #[error(transparent)]
    Failed(#[from] Failed),
}

/// A store that did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Failed {
    /// Whether it may have been done all the same.
    pub outcome: Outcome,
    /// What happened, for people.
    pub why: String,
}

/// A store of streams.
///
/// # Cancel safety
/// A commit that is dropped may be made all the same, as one whose answer is lost. The rest changes
/// nothing.
pub trait Store: fmt::Debug + Send + Sync {
    /// What keeps others away; dropped, it lets them in.
    type Guard: Send;

    /// Aggregates at their newest versions, in the order of the keys, and what keeps others away if
    /// that was asked for.
    ///
    /// # Errors
    /// [`Failed`], with [`Outcome::NotApplied`].
    fn load(
        &self,
        keys: &[Key],
        hold: Hold,
    ) -> impl Future<Output = Result<(Vec<Loaded>, Option<Self::Guard>), Failed>> + Send;

    /// Keys of aggregates that are there, from one to another, ascending, the first so many. What is
    /// committed meanwhile may be missing.
    ///
    /// # Errors
    /// [`Failed`], with [`Outcome::NotApplied`].
    fn find(
        &self,
        range: RangeInclusive<Key>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Key>, Failed>> + Send;

    /// Makes all steps true, durably, or none. The guard is the one of the load it rests on.
    ///
    /// # Errors
    /// [`CommitError`]
    fn commit(
        &self,
        steps: Vec<Step>,
        now: Now,
        guard: Option<Self::Guard>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send;

    /// Batches from the one that holds `offset` on, about `max_bytes` and at least one.
    ///
    /// # Errors
    /// [`Failed`]
    fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Batches, Failed>> + Send;

    /// Ready when one of these has another version than the one named. It may be ready too often,
    /// never too seldom.
    fn watch(&self, keys: &[(Key, Version)]) -> impl Future<Output = ()> + Send;

    /// What time it is.
    fn now(&self) -> Now;
}

/// A store that is lent is the store.
impl<S: Store> Store for &S {
    type Guard = S::Guard;

    fn load(
        &self,
        keys: &[Key],
        hold: Hold,
    ) -> impl Future<Output = Result<(Vec<Loaded>, Option<S::Guard>), Failed>> + Send {
        S::load(self, keys, hold)
    }

    fn find(
        &self,
        range: RangeInclusive<Key>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Key>, Failed>> + Send {
        S::find(self, range, limit)
    }

    fn commit(
        &self,
        steps: Vec<Step>,
        now: Now,
        guard: Option<S::Guard>,
    ) -> impl Future<Output = Result<(), CommitError>> + Send {
        S::commit(self, steps, now, guard)
    }

    fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> impl Future<Output = Result<Batches, Failed>> + Send {
        S::read(self, partition, offset, max_bytes)
    }

    fn watch(&self, keys: &[(Key, Version)]) -> impl Future<Output = ()> + Send {
        S::watch(self, keys)
    }

    fn now(&self) -> Now {
        S::now(self)
    }
}
