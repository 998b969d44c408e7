//! The port on PostgreSQL.
//!
//! Every call is a task of its own that owns its connection: whoever drops the future of a commit
//! does not leave a transaction half done on a connection that somebody else is lent next.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, mem};

use bytes::Bytes;
use handoff_streams::port::{Batches, CommitError, Failed, Hold, Loaded, Step, Store, Version};
use handoff_streams::{Aggregate, Key, PartitionId, encode_aggregate};
use handoff_types::{Now, Outcome};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_postgres::config::Host;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row};

use crate::clock::{Clock, moment};
use crate::commit::{self, Locks, Rows, Share, lock_of, taking};
use crate::fold::Fold;
use crate::migrate::migrate;
use crate::pool::{Connection, Lent, Pool};
use crate::trouble::{OpenError, failed, not_done};
use crate::wake::{self, Wakes};

/// After how many versions an aggregate is kept whole.
const SNAPSHOT_EVERY: u64 = 1_000;

/// Of how many partitions it is remembered where they begin and end.
const REMEMBERED_MAX: usize = 100_000;

/// A read that lost a race with retention is tried so often.
const READS_MAX: usize = 3;

/// What the operator decides.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How many connections at most, besides one for wake-ups.
    pub connections_max: usize,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { connections_max: 16, connect_timeout: Duration::from_secs(5) }
    }
}

/// Streams on PostgreSQL. Clones are the same store.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    pool: Arc<Pool>,
    clock: Arc<Clock>,
    wakes: Arc<Wakes>,
    /// Where partitions begin and end, as far as they were read.
    partitions: Mutex<BTreeMap<PartitionId, Loaded>>,
    runtime: Handle,
    waking: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.waking.abort();
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("place", &self.inner.pool.place).finish_non_exhaustive()
    }
}

/// Keeps others away from what was loaded: a transaction that has the locks.
pub struct Guard {
    lent: Option<Lent>,
    locks: Locks,
    runtime: Handle,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("locks", &self.locks.len()).finish_non_exhaustive()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(lent) = self.lent.take() else { return };
        self.runtime.spawn(async move {
            if lent.client.batch_execute("ROLLBACK").await.is_ok() {
                lent.give_back();
            }
        });
    }
}

impl Postgres {
    /// Connects, and brings the schema to the version this program knows. Must be called inside a
    /// tokio runtime; the store may be used from anywhere as long as that runs.
    ///
    /// # Errors
    /// [`OpenError`]
    ///
    /// # Cancel safety
    /// Dropped, the schema is complete or as it was.
    pub async fn open(url: &str, options: Options) -> Result<Self, OpenError> {
        let (config, place) = configured(url, options)?;
        let pool = Arc::new(Pool::new(config, place, options.connections_max.max(1)));
        let mut client = pool.connect().await?;
        migrate(&mut client, &pool.place).await?;
        let clock = Arc::new(Clock::new());
        for _ in 0..3 {
            let ask = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint";
            let before = moment();
            let row = client.query_one(ask, &[]).await;
            let row = row.map_err(|error| OpenError::of(&pool.place, &error))?;
            clock.learn(before, row.get(0));
        }
        let wakes = Arc::new(Wakes::default());
        let waking =
            tokio::spawn(wake::run(Arc::downgrade(&wakes), Arc::clone(&pool), Arc::clone(&clock)));
        let inner = Inner {
            pool,
            clock,
            wakes,
            partitions: Mutex::default(),
            runtime: Handle::current(),
            waking: waking.abort_handle(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs a request as a task of its own.
    async fn task<T: Send + 'static, E: From<Failed> + Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E> {
        let done = self.inner.runtime.spawn(work).await;
        done.unwrap_or_else(|_| {
            let why = "the server stops; nobody waits for PostgreSQL any more".to_owned();
            Err(Failed { outcome: Outcome::Unknown, why }.into())
        })
    }
}

/// The settings of an address, and what it is called for people: without the password.
fn configured(url: &str, options: Options) -> Result<(Config, String), OpenError> {
    // What the parser says may repeat the password.
    let bad = |_| OpenError::Address("the address of PostgreSQL cannot be read".to_owned());
    let mut config: Config = url.parse().map_err(bad)?;
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => return Err(OpenError::Address("the address names no host".to_owned())),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or("postgres").to_owned();
    if config.get_application_name().is_none() {
        config.application_name("handoff");
    }
    config.connect_timeout(options.connect_timeout);
    config.keepalives_idle(Duration::from_secs(10));
    config.tcp_user_timeout(Duration::from_secs(30));
    Ok((config, format!("PostgreSQL at {host}:{port}, database {database}")))
}

impl Inner {
    async fn lend(&self) -> Result<Lent, Failed> {
        self.pool.lend().await.map_err(|error| not_done(error.to_string()))
    }

    fn failed(&self, error: &tokio_postgres::Error) -> Failed {
        failed(&self.pool.place, error)
    }

    /// Rows of aggregates behind the versions that are known.
    async fn rows(
        &self,
        connection: &Connection,
        keys: &[Key],
        known: &[i64],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_bytes().to_vec()).collect();
        let before = moment();
        let rows = connection.client.query(&connection.load, &[&keys, &known]).await?;
        if let Some(row) = rows.first() {
            self.clock.learn(before, row.get("now"));
        }
        Ok(rows)
    }

    async fn load(&self, keys: &[Key], hold: Hold) -> Result<(Vec<Loaded>, Option<Guard>), Failed> {
        let lent = self.lend().await?;
        let known = vec![0; keys.len()];
        let (rows, guard) = match hold {
            Hold::Free => {
                let rows = self.rows(&lent, keys, &known).await;
                let rows = rows.map_err(|error| self.failed(&error))?;
                lent.give_back();
                (rows, None)
            }
            Hold::Locked => {
                let lock = |key: &Key| (lock_of(&key.to_bytes()), Share::Changed);
                let locks: Locks = keys.iter().map(lock).collect();
                let begin = format!("BEGIN;{}", taking(&locks));
                let (begun, rows) = tokio::join!(
                    biased;
                    lent.client.batch_execute(&begin),
                    self.rows(&lent, keys, &known),
                );
                begun.map_err(|error| self.failed(&error))?;
                let rows = rows.map_err(|error| self.failed(&error))?;
                let runtime = self.runtime.clone();
                (rows, Some(Guard { lent: Some(lent), locks, runtime }))
            }
        };
        let mut folds: Vec<Fold> = keys.iter().cloned().map(Fold::new).collect();
        for row in &rows {
            let number: i64 = row.get("number");
            let fold = usize::try_from(number - 1).ok().and_then(|at| folds.get_mut(at));
            fold.map_or(Ok(()), |fold| fold.take(row)).map_err(not_done)?;
        }
        Ok((folds.into_iter().map(Fold::finish).collect(), guard))
    }

    async fn find(&self, range: &RangeInclusive<Key>, limit: usize) -> Result<Vec<Key>, Failed> {
        let lent = self.lend().await?;
        let (from, to) = (range.start().to_bytes().to_vec(), range.end().to_bytes().to_vec());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = lent.client.query(&lent.find, &[&from, &to, &limit]).await;
        let rows = rows.map_err(|error| self.failed(&error))?;
        lent.give_back();
        Ok(rows.iter().filter_map(|row| Key::from_bytes(row.get(0))).collect())
    }

    async fn commit(&self, steps: &[Step], mut guard: Option<Guard>) -> Result<(), CommitError> {
        let rows = Rows::of(steps)?;
        let (lent, held) = match &mut guard {
            Some(guard) => (guard.lent.take(), Some(mem::take(&mut guard.locks))),
            None => (Some(self.lend().await?), None),
        };
        let Some(lent) = lent else { unreachable!("a guard has its connection until here") };
        commit::commit(lent, &self.pool.place, &self.clock, &rows, held.as_ref()).await?;
        let changed = steps.iter().filter(|step| !step.changes.is_empty());
        let made: Vec<(Key, Version)> =
            changed.map(|step| (step.key.clone(), Version(step.expected.0 + 1))).collect();
        self.wakes.committed(&made);
        Ok(())
    }

    /// Keeps an aggregate whole. A snapshot that is not made costs time at loading, nothing else.
    async fn snapshot(&self, key: &Key) -> Result<(), Failed> {
        let (loaded, _) = self.load(std::slice::from_ref(key), Hold::Free).await?;
        let Some(Loaded { version, aggregate }) = loaded.into_iter().next() else { return Ok(()) };
        let bytes = aggregate.map(|aggregate| {
            let mut bytes = Vec::new();
            encode_aggregate(key, &aggregate, &mut bytes);
            bytes
        });
        let lent = self.lend().await?;
        let version = i64::try_from(version.0).unwrap_or(i64::MAX);
        let key = key.to_bytes().to_vec();
        let row: [&(dyn ToSql + Sync); 3] = [&key, &version, &bytes];
        let kept = lent.client.execute(&lent.snapshot, &row).await;
        kept.map_err(|error| self.failed(&error))?;
        lent.give_back();
        Ok(())
    }

    async fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Batches, Failed> {
        let wide = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (topic, number) = (i64::from(partition.topic.0), i64::from(partition.number));
        let (at, bytes) = (wide(offset), wide(max_bytes as u64));
        for _ in 0..READS_MAX {
            let key = Key::Partition(partition);
            let known = self.known(partition);
            let lent = self.lend().await?;
            let version = [wide(known.version.0)];
            let place: [&(dyn ToSql + Sync); 4] = [&topic, &number, &at, &bytes];
            let (facts, rows) = tokio::join!(
                biased;
                self.rows(&lent, std::slice::from_ref(&key), &version),
                lent.client.query(&lent.read, &place),
            );
            let facts = facts.map_err(|error| self.failed(&error))?;
            let rows = rows.map_err(|error| self.failed(&error))?;
            lent.give_back();
            let mut fold = Fold::from(key, known);
            facts.iter().try_for_each(|row| fold.take(row)).map_err(not_done)?;
            let loaded = fold.finish();
            self.remember(partition, &loaded);
            let Some(Aggregate::Partition(known)) = loaded.aggregate else {
                return Ok(Batches::End { end: 0 });
            };
            if offset < known.start {
                return Ok(Batches::Trimmed { start: known.start });
            }
            if offset >= known.end {
                return Ok(Batches::End { end: known.end });
            }
            // What was taken away meanwhile is known by the next look.
            if !rows.is_empty() {
                let data = |row: &Row| Bytes::copy_from_slice(row.get("data"));
                return Ok(Batches::Some(rows.iter().map(data).collect()));
            }
        }
        let next = "SELECT base FROM handoff.batch WHERE topic = $1 AND partition = $2 AND base > $3 \
                    ORDER BY base LIMIT 1";
        let lent = self.lend().await?;
        let row = lent.client.query_opt(next, &[&topic, &number, &at]).await;
        let row = row.map_err(|error| self.failed(&error))?;
        lent.give_back();
        let end = match self.known(partition).aggregate {
            Some(Aggregate::Partition(known)) => known.end,
            _ => offset.saturating_add(1),
        };
        let to = row.and_then(|row| u64::try_from(row.get::<_, i64>(0)).ok()).unwrap_or(end);
        Ok(Batches::Corrupt { from: offset, to })
    }

    fn known(&self, partition: PartitionId) -> Loaded {
        let none = Loaded { version: Version(0), aggregate: None };
        self.partitions().get(&partition).cloned().unwrap_or(none)
    }

    fn remember(&self, partition: PartitionId, loaded: &Loaded) {
        let mut partitions = self.partitions();
        if partitions.len() >= REMEMBERED_MAX {
            partitions.clear();
        }
        let place = partitions.entry(partition).or_insert_with(|| loaded.clone());
        if place.version < loaded.version {
            *place = loaded.clone();
        }
    }

    fn partitions(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Loaded>> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Postgres {
    type Guard = Guard;

    async fn load(&self, keys: &[Key], hold: Hold) -> Result<(Vec<Loaded>, Option<Guard>), Failed> {
        let (inner, keys) = (Arc::clone(&self.inner), keys.to_vec());
        self.task(async move { inner.load(&keys, hold).await }).await
    }

    async fn find(&self, range: RangeInclusive<Key>, limit: usize) -> Result<Vec<Key>, Failed> {
        let inner = Arc::clone(&self.inner);
        self.task(async move { inner.find(&range, limit).await }).await
    }

    async fn commit(
        &self,
        steps: Vec<Step>,
        _: Now,
        guard: Option<Guard>,
    ) -> Result<(), CommitError> {
        let inner = Arc::clone(&self.inner);
        self.task(async move {
            inner.commit(&steps, guard).await?;
            for Step { key, expected, changes } in steps {
                if !changes.is_empty() && (expected.0 + 1).is_multiple_of(SNAPSHOT_EVERY) {
                    let inner = Arc::clone(&inner);
                    tokio::spawn(async move {
                        if let Err(error) = inner.snapshot(&key).await {
                            tracing::warn!(?key, %error, "no snapshot was made");
                        }
                    });
                }
            }
            Ok(())
        })
        .await
    }

    async fn read(
        &self,
        partition: PartitionId,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Batches, Failed> {
        let inner = Arc::clone(&self.inner);
        self.task(async move { inner.read(partition, offset, max_bytes).await }).await
    }

    async fn watch(&self, keys: &[(Key, Version)]) {
        self.inner.wakes.watch(keys).await;
    }

    fn now(&self) -> Now {
        self.inner.clock.now()
    }
}

#[cfg(test)]
mod tests {
    use super::{Options, configured};

    #[test]
    fn what_people_are_told_of_an_address_has_no_password_in_it() {
        let (_, place) =
            configured("postgres://me:s3cret@db.example:6000/x", Options::default()).unwrap();
        assert_eq!(place, "PostgreSQL at db.example:6000, database x");
        let bad = configured("postgres://me:s3cret@[", Options::default()).unwrap_err().to_string();
        assert!(!bad.contains("s3cret") && bad.contains("postgres://user:password@host"), "{bad}");
    }
}
