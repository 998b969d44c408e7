//! Streams on PostgreSQL.
//!
//! Constraints first:
//!
//! * **No rule is here.** SQL knows keys, versions and bytes; what a change means is decided and
//!   folded by `handoff-streams`.
//! * **No row is updated.** An aggregate is its facts, one row a version; a message is part of a row
//!   of batches. A transaction that somebody holds open elsewhere therefore makes nothing slower.
//! * **A commit is one round trip.** Locks, comparison with the versions that were seen, facts,
//!   batches and `COMMIT` travel together:
//!
//! ```text
//!  broker                                   PostgreSQL
//!    │ BEGIN; advisory locks, in order ──▶  waits for whoever has one of them
//!    │ commit.sql                      ──▶  a new statement: its snapshot is younger than the locks
//!    │ COMMIT                          ──▶  nothing was inserted if a version differs
//!    │ ◀── keys that differ, or none; the database's clock; committed
//! ```
//!
//!   What was only looked at is locked shared, what is changed exclusively: two brokers that append
//!   to two partitions of a topic do not meet. Locks are numbers made of keys and taken in the order
//!   of the numbers, so that nobody waits in a circle.
//! * **What is not known is said.** A connection that breaks once the commit was sent leaves
//!   [`Outcome::Unknown`]; whatever PostgreSQL itself refuses was not done.
//! * **No `NOTIFY` in a transaction that appends.** Whoever waits is woken by a connection of its own,
//!   some milliseconds later and for many commits at once; should that fail, by looking (`wake`).
//! * **Time is the database's** (`clock`): brokers of one database share it.
//!
//! What is not here yet: retention (batches and facts are kept for ever), readable views, TLS.
//!
//! [`Outcome::Unknown`]: handoff_types::Outcome::Unknown

mod clock;
mod commit;
mod fold;
mod migrate;
mod pool;
mod store;
mod trouble;
mod wake;

pub use store::{Guard, Options, Postgres};
pub use trouble::OpenError;
