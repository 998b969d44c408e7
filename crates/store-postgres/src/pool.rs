//! Connections, lent one at a time.
//!
//! Whoever has one in the middle of something and drops it closes it: a connection comes back only
//! by [`Lent::give_back`], so that nobody is lent one inside a transaction.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Client, Config, NoTls, Statement};

use crate::trouble::OpenError;

/// What every session begins with.
const SESSION: &str = include_str!("../sql/session.sql");

/// A connection and what is prepared on it.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) commit: Statement,
    pub(crate) find: Statement,
    pub(crate) load: Statement,
    pub(crate) read: Statement,
    pub(crate) snapshot: Statement,
}

/// Connections to one database.
pub(crate) struct Pool {
    config: Config,
    pub(crate) place: String,
    free: Mutex<Vec<Connection>>,
    permits: Arc<Semaphore>,
}

/// A connection that nobody else has.
pub(crate) struct Lent {
    connection: Connection,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl std::ops::Deref for Lent {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Lent {
    /// Nothing is under way on it any more.
    pub(crate) fn give_back(self) {
        let Self { connection, pool, _permit } = self;
        pool.free().push(connection);
    }
}

impl Pool {
    pub(crate) fn new(config: Config, place: String, connections_max: usize) -> Self {
        let permits = Arc::new(Semaphore::new(connections_max));
        Self { config, place, free: Mutex::default(), permits }
    }

    /// A connection, once one is free.
    pub(crate) async fn lend(self: &Arc<Self>) -> Result<Lent, OpenError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let Ok(permit) = permit else { unreachable!("nobody closes it") };
        let free = || {
            let mut free = self.free();
            while let Some(connection) = free.pop() {
                if !connection.client.is_closed() {
                    return Some(connection);
                }
            }
            None
        };
        let connection = match free() {
            Some(connection) => connection,
            None => self.prepared().await?,
        };
        Ok(Lent { connection, pool: Arc::clone(self), _permit: permit })
    }

    async fn prepared(&self) -> Result<Connection, OpenError> {
        let client = self.connect().await?;
        let prepared = tokio::try_join!(
            client.prepare(include_str!("../sql/commit.sql")),
            client.prepare(include_str!("../sql/find.sql")),
            client.prepare(include_str!("../sql/load.sql")),
            client.prepare(include_str!("../sql/read.sql")),
            client.prepare(include_str!("../sql/snapshot.sql")),
        );
        let (commit, find, load, read, snapshot) =
            prepared.map_err(|error| OpenError::of(&self.place, &error))?;
        Ok(Connection { client, commit, find, load, read, snapshot })
    }

    /// A connection of one's own.
    pub(crate) async fn connect(&self) -> Result<Client, OpenError> {
        let bad = |error| OpenError::of(&self.place, &error);
        let (client, connection) = self.config.connect(NoTls).await.map_err(bad)?;
        // It ends with its client, or when the server does; whoever uses the client learns why.
        tokio::spawn(async move { drop(connection.await) });
        client.batch_execute(SESSION).await.map_err(bad)?;
        Ok(client)
    }

    /// The settings, for a connection that is driven otherwise.
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
