//! Steps become rows, and rows become true.

use std::collections::BTreeMap;
use std::fmt::Write;

use handoff_streams::port::{CommitError, Step};
use handoff_streams::{Change, Key, encode_change};
use handoff_types::Outcome;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;

use crate::clock::{Clock, moment};
use crate::pool::Lent;
use crate::trouble::{failed, not_done, words};

/// Numbers of locks, and whether others may have them too.
pub(crate) type Locks = BTreeMap<i64, Share>;

/// Whether others may look meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Share {
    /// They may look, not change.
    Looked,
    /// They wait.
    Changed,
}

/// The number of a key's lock, the same for every broker of every version: FNV-1a. Two keys may
/// share one and then wait for each other, no more.
pub(crate) fn lock_of(key: &[u8]) -> i64 {
    let hash = b"handoff".iter().chain(key).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.cast_signed()
}

/// What takes locks in the order of their numbers; nothing if there are none.
pub(crate) fn taking(locks: &Locks) -> String {
    if locks.is_empty() {
        return String::new();
    }
    let mut sql = "SELECT CASE WHEN looked THEN pg_advisory_xact_lock_shared(lock) \
                   ELSE pg_advisory_xact_lock(lock) END FROM unnest('{"
        .to_owned();
    let comma = |n| if n == 0 { "" } else { "," };
    for (n, lock) in locks.keys().enumerate() {
        let written = write!(sql, "{}{lock}", comma(n));
        debug_assert!(written.is_ok(), "a text takes everything");
    }
    sql.push_str("}'::bigint[], '{");
    for (n, share) in locks.values().enumerate() {
        sql.push_str(comma(n));
        sql.push(if *share == Share::Looked { 't' } else { 'f' });
    }
    sql.push_str("}'::boolean[]) AS l(lock, looked);");
    sql
}

/// What a commit consists of, column by column.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    looked: Vec<Vec<u8>>,
    seen: Vec<i64>,
    keys: Vec<Vec<u8>>,
    versions: Vec<i64>,
    changes: Vec<Vec<u8>>,
    gone: Vec<bool>,
    batches: Batches,
    pub(crate) locks: Locks,
}

#[derive(Debug, Default)]
struct Batches {
    topics: Vec<i64>,
    partitions: Vec<i64>,
    bases: Vec<i64>,
    counts: Vec<i32>,
    lasts: Vec<i64>,
    bytes: Vec<i32>,
    data: Vec<bytes::Bytes>,
}

impl Rows {
    /// # Errors
    /// When a number does not fit into what PostgreSQL counts with.
    pub(crate) fn of(steps: &[Step]) -> Result<Self, CommitError> {
        let mut rows = Self::default();
        for Step { key, expected, changes } in steps {
            let key = key.to_bytes().to_vec();
            let share = if changes.is_empty() { Share::Looked } else { Share::Changed };
            let strongest = rows.locks.entry(lock_of(&key)).or_insert(share);
            *strongest = share.max(*strongest);
            let seen = signed(expected.0)?;
            if let Some(last) = changes.last() {
                rows.keys.push(key.clone());
                rows.versions.push(seen.saturating_add(1));
                let mut bytes = Vec::new();
                changes.iter().for_each(|change| encode_change(change, &mut bytes));
                rows.changes.push(bytes);
                rows.gone.push(last.ends());
            }
            rows.looked.push(key);
            rows.seen.push(seen);
            changes.iter().try_for_each(|change| rows.batches.take(change))?;
        }
        Ok(rows)
    }
}

impl Batches {
    fn take(&mut self, change: &Change) -> Result<(), CommitError> {
        let Change::Appended { partition, base, count, last, bytes, batch } = change else {
            return Ok(());
        };
        self.topics.push(partition.topic.0.into());
        self.partitions.push(partition.number.into());
        self.bases.push(signed(*base)?);
        self.counts.push(small(*count)?);
        self.lasts.push(last.0);
        self.bytes.push(small(*bytes)?);
        self.data.push(batch.clone());
        Ok(())
    }
}

fn signed(number: u64) -> Result<i64, CommitError> {
    i64::try_from(number).map_err(|_| not_done(format!("{number} does not fit")).into())
}

fn small(number: u32) -> Result<i32, CommitError> {
    i32::try_from(number).map_err(|_| not_done(format!("{number} does not fit")).into())
}

/// Commits, on a connection that is inside a transaction if locks are `held`.
pub(crate) async fn commit(
    lent: Lent,
    place: &str,
    clock: &Clock,
    rows: &Rows,
    held: Option<&Locks>,
) -> Result<(), CommitError> {
    let missing = |(lock, _): &(&i64, &Share)| held.is_none_or(|held| !held.contains_key(*lock));
    let missing: Locks =
        rows.locks.iter().filter(missing).map(|(lock, share)| (*lock, *share)).collect();
    let begin = if held.is_none() { "BEGIN;" } else { "" };
    let locking = format!("{begin}{}", taking(&missing));
    let data: Vec<&[u8]> = rows.batches.data.iter().map(|batch| &**batch).collect();
    let Batches { topics, partitions, bases, counts, lasts, bytes, .. } = &rows.batches;
    let client = &lent.client;
    let row: [&(dyn ToSql + Sync); 13] = [
        &rows.looked,
        &rows.seen,
        &rows.keys,
        &rows.versions,
        &rows.changes,
        &rows.gone,
        topics,
        partitions,
        bases,
        counts,
        lasts,
        bytes,
        &data,
    ];
    let before = moment();
    // In this order, all of it at once: requests are sent when they are first polled.
    let (locked, made, committed) = tokio::join!(
        biased;
        client.batch_execute(&locking),
        client.query_one(&lent.commit, &row),
        client.batch_execute("COMMIT"),
    );
    locked.map_err(|error| refused(place, &error, rows))?;
    let row = made.map_err(|error| refused(place, &error, rows))?;
    committed.map_err(|error| unknown(place, &error))?;
    let stale: Vec<&[u8]> = row.get("stale");
    let stale: Vec<Key> = stale.into_iter().filter_map(Key::from_bytes).collect();
    clock.learn(before, row.get("now"));
    lent.give_back();
    match stale.is_empty() {
        true => Ok(()),
        false => Err(CommitError::Conflict(stale)),
    }
}

/// A request before the commit failed. If PostgreSQL says so, that ended the transaction.
fn refused(place: &str, error: &tokio_postgres::Error, rows: &Rows) -> CommitError {
    match error.code() {
        // Somebody else holds what this one waits for and waits for what this one holds, or wrote
        // the same version: it must look again.
        Some(&(SqlState::T_R_DEADLOCK_DETECTED | SqlState::UNIQUE_VIOLATION)) => {
            let keys = rows.looked.iter().filter_map(|key| Key::from_bytes(key));
            CommitError::Conflict(keys.collect())
        }
        Some(_) => failed(place, error).into(),
        // The commit was sent along.
        None => unknown(place, error),
    }
}

fn unknown(place: &str, error: &tokio_postgres::Error) -> CommitError {
    let why = format!(
        "the connection to {place} broke while it committed, and nobody knows whether it did: {}",
        words(error)
    );
    CommitError::Failed(handoff_streams::port::Failed { outcome: Outcome::Unknown, why })
}

#[cfg(test)]
mod tests {
    use super::{Share, lock_of, taking};

    #[test]
    fn the_number_of_a_lock_never_changes() {
        assert_eq!(lock_of(b"c"), LOCK_OF_COUNTERS);
    }

    /// Written down: brokers of two versions must wait for each other.
    const LOCK_OF_COUNTERS: i64 = 7_092_279_668_059_471_026;

    #[test]
    fn locks_are_taken_in_the_order_of_their_numbers() {
        let locks = [(7, Share::Changed), (-3, Share::Looked)].into_iter().collect();
        let sql = taking(&locks);
        assert!(sql.contains("unnest('{-3,7}'::bigint[], '{t,f}'::boolean[])"), "{sql}");
        assert_eq!(taking(&[].into_iter().collect()), "");
    }
}
