//! Whoever waits for a commit is woken.
//!
//! ```text
//!  commit here ──────────────▶ watchers here, at once
//!       └─ its keys ─(5 ms, for many commits)─▶ NOTIFY ──▶ brokers that listen look at those keys
//!                                                          every broker looks at all that is
//!                                                          watched from time to time
//! ```
//!
//! One connection of its own listens, notifies and looks. `NOTIFY` inside a transaction that appends
//! would make all of them wait for one lock; sent apart it may be lost with the broker that owes it,
//! so that looking is what watchers can rely on.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use handoff_streams::Key;
use handoff_streams::port::Version;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use crate::clock::{Clock, moment};
use crate::commit::lock_of;
use crate::pool::Pool;
use crate::trouble::{OpenError, words};

/// How long commits are collected before others are told.
const TELL: Duration = Duration::from_millis(5);

/// How often everything that is watched is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// How long a broken connection is left alone, at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Of how many keys others are told at once: a notification has at most 8,000 bytes. More, and they
/// look at everything.
const TOLD_MAX: usize = 300;

/// How many notifications wait. More, and everything is looked at.
const HEARD_MAX: usize = 256;

/// How many keys one request looks at.
const LOOKED_MAX: usize = 10_000;

const CHANNEL: &str = "handoff";

const EVERYTHING: &str = "*";

/// Keys that are watched here, and what others are still to be told.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    watched: Mutex<BTreeMap<Key, Watched>>,
    /// A key is watched whose version is not known yet.
    fresh: Notify,
    owed: Mutex<Owed>,
    tell: Notify,
}

/// What others are still to be told: the locks of these keys, or that anything may be new.
#[derive(Debug, Default)]
struct Owed {
    locks: BTreeSet<i64>,
    everything: bool,
}

#[derive(Debug, Default)]
struct Watched {
    version: Option<Version>,
    watchers: Vec<Arc<Notify>>,
}

/// Somebody who watches; dropped, not any more.
struct Watching<'a> {
    wakes: &'a Wakes,
    keys: &'a [(Key, Version)],
    notify: Arc<Notify>,
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut watched = self.wakes.watched();
        for (key, _) in self.keys {
            if let Some(one) = watched.get_mut(key) {
                one.watchers.retain(|other| !Arc::ptr_eq(other, &self.notify));
                if one.watchers.is_empty() {
                    watched.remove(key);
                }
            }
        }
    }
}

impl Wakes {
    /// Ready when one of these has a newer version.
    pub(crate) async fn watch(&self, keys: &[(Key, Version)]) {
        let notify = Arc::new(Notify::new());
        let watching = Watching { wakes: self, keys, notify };
        {
            let mut watched = self.watched();
            for (key, _) in keys {
                let one = watched.entry(key.clone()).or_default();
                one.watchers.push(Arc::clone(&watching.notify));
            }
        }
        self.fresh.notify_one();
        loop {
            // A wake-up between the look and the wait is kept.
            let woken = watching.notify.notified();
            if self.is_newer(keys) {
                return;
            }
            woken.await;
        }
    }

    /// Versions were committed here.
    pub(crate) fn committed(&self, made: &[(Key, Version)]) {
        made.iter().for_each(|(key, version)| self.learn(key, *version));
        let mut owed = self.owed();
        if !owed.everything {
            owed.locks.extend(made.iter().map(|(key, _)| lock_of(&key.to_bytes())));
        }
        if owed.locks.len() > TOLD_MAX {
            *owed = Owed { locks: BTreeSet::new(), everything: true };
        }
        drop(owed);
        self.tell.notify_one();
    }

    fn learn(&self, key: &Key, version: Version) {
        let mut watched = self.watched();
        let Some(one) = watched.get_mut(key) else { return };
        if one.version.is_none_or(|known| known < version) {
            one.version = Some(version);
            one.watchers.iter().for_each(|watcher| watcher.notify_one());
        }
    }

    fn is_newer(&self, keys: &[(Key, Version)]) -> bool {
        let watched = self.watched();
        keys.iter().any(|(key, seen)| {
            watched.get(key).and_then(|one| one.version).is_some_and(|version| version > *seen)
        })
    }

    /// Keys that are watched, those that fit.
    fn keys(&self, fits: impl Fn(&Key, &Watched) -> bool) -> Vec<Key> {
        let watched = self.watched();
        watched.iter().filter(|(key, one)| fits(key, one)).map(|(key, _)| key.clone()).collect()
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<Key, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Listens, tells and looks until nobody has the wakes any more.
pub(crate) async fn run(wakes: Weak<Wakes>, pool: Arc<Pool>, clock: Arc<Clock>) {
    let mut pause = RETRY.0;
    while wakes.strong_count() > 0 {
        match Line::open(&pool, Arc::clone(&clock)).await {
            Ok(line) => {
                pause = RETRY.0;
                let why = line.serve(&wakes).await;
                if wakes.strong_count() > 0 {
                    tracing::warn!(place = pool.place, why, "the line for wake-ups broke");
                }
            }
            Err(error) => tracing::warn!(%error, "no line for wake-ups"),
        }
        sleep(pause).await;
        pause = RETRY.1.min(pause * 2);
    }
}

/// The connection for wake-ups.
struct Line {
    client: Client,
    versions: Statement,
    heard: mpsc::Receiver<String>,
    clock: Arc<Clock>,
}

impl Line {
    async fn open(pool: &Pool, clock: Arc<Clock>) -> Result<Self, OpenError> {
        let bad = |error| OpenError::of(&pool.place, &error);
        let (client, mut connection) = pool.config().connect(NoTls).await.map_err(bad)?;
        let (hear, heard) = mpsc::channel(HEARD_MAX);
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await
            {
                let AsyncMessage::Notification(note) = message else { continue };
                // Full: whoever empties it looks at everything then.
                drop(hear.try_send(note.payload().to_owned()));
            }
        });
        // Nothing rests on what is written here.
        let session = format!("SET synchronous_commit = off; LISTEN {CHANNEL}");
        client.batch_execute(&session).await.map_err(bad)?;
        let versions = client.prepare(include_str!("../sql/versions.sql")).await.map_err(bad)?;
        Ok(Self { client, versions, heard, clock })
    }

    /// Serves until the connection breaks, or nobody needs it. Says why.
    async fn serve(mut self, wakes: &Weak<Wakes>) -> String {
        let mut look = interval_at(Instant::now() + LOOK, LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // What was missed while there was no line.
        let mut all = true;
        loop {
            let Some(wakes) = wakes.upgrade() else { return String::new() };
            let done = match std::mem::take(&mut all) {
                true => self.look(&wakes, |_, _| true).await,
                // All of these may be dropped while they wait: nothing is taken before it is ready.
                false => tokio::select! {
                    note = self.heard.recv() => match note {
                        Some(note) => self.hear(&wakes, note).await,
                        None => return "it was closed".to_owned(),
                    },
                    () = wakes.fresh.notified() => {
                        self.look(&wakes, |_, one| one.version.is_none()).await
                    }
                    () = wakes.tell.notified() => {
                        sleep(TELL).await;
                        self.tell(&wakes).await
                    }
                    _ = look.tick() => self.look(&wakes, |_, _| true).await,
                },
            };
            if let Err(error) = done {
                return words(&error);
            }
        }
    }

    /// Others committed.
    async fn hear(&mut self, wakes: &Wakes, first: String) -> Result<(), tokio_postgres::Error> {
        let full = self.heard.len() + 1 >= HEARD_MAX;
        let mut locks = BTreeSet::new();
        let mut everything = full;
        let mut next = Some(first);
        while let Some(note) = next {
            everything |= note == EVERYTHING;
            locks.extend(note.split(',').filter_map(|lock| lock.parse::<i64>().ok()));
            next = self.heard.try_recv().ok();
        }
        self.look(wakes, |key, _| everything || locks.contains(&lock_of(&key.to_bytes()))).await
    }

    /// Tells others what was committed here.
    async fn tell(&self, wakes: &Wakes) -> Result<(), tokio_postgres::Error> {
        let Owed { locks, everything } = std::mem::take(&mut *wakes.owed());
        if locks.is_empty() && !everything {
            return Ok(());
        }
        let words: Vec<String> = locks.iter().map(i64::to_string).collect();
        let note = if everything { EVERYTHING.to_owned() } else { words.join(",") };
        let notify = format!("SELECT pg_notify('{CHANNEL}', '{note}')");
        self.client.batch_execute(&notify).await
    }

    async fn look(
        &self,
        wakes: &Wakes,
        fits: impl Fn(&Key, &Watched) -> bool,
    ) -> Result<(), tokio_postgres::Error> {
        for keys in wakes.keys(fits).chunks(LOOKED_MAX) {
            let bytes: Vec<Vec<u8>> = keys.iter().map(|key| key.to_bytes().to_vec()).collect();
            let before = moment();
            let rows = self.client.query(&self.versions, &[&bytes]).await?;
            if let Some(row) = rows.first() {
                self.clock.learn(before, row.get("now"));
            }
            for row in rows {
                let (number, version): (i64, i64) = (row.get("number"), row.get("version"));
                let key = usize::try_from(number - 1).ok().and_then(|at| keys.get(at));
                if let (Some(key), Ok(version)) = (key, u64::try_from(version)) {
                    wakes.learn(key, Version(version));
                }
            }
        }
        Ok(())
    }
}
