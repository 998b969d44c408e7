//! The schema, brought to the version this program knows.
//!
//! Numbered, applied in order under a lock, all missing ones in one transaction. One that was
//! published is never changed: what is to be otherwise is another.

use tokio_postgres::Client;

use crate::trouble::OpenError;

/// The migrations there are, from number 1 on.
const MIGRATIONS: &[&str] = &[include_str!("../migrations/0001_streams.sql")];

/// The lock of whoever migrates.
const LOCK: i64 = 0x6861_6e64_6f66_6600;

/// Migrates, if there is something to be done.
pub(crate) async fn migrate(client: &mut Client, place: &str) -> Result<(), OpenError> {
    let bad = |error| OpenError::of(place, &error);
    let known = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    // Who may not make a schema can still use one that is complete.
    let there = "SELECT to_regclass('handoff.migration') IS NOT NULL, pg_is_in_recovery()";
    let row = client.query_one(there, &[]).await.map_err(bad)?;
    if row.get(1) {
        return Err(OpenError::ReadOnly { place: place.to_owned() });
    }
    let newest = "SELECT coalesce(max(number), 0) FROM handoff.migration";
    let complete = |found: i32| match found > known {
        true => Err(OpenError::Newer { place: place.to_owned(), found, known }),
        false => Ok(found == known),
    };
    if row.get(0) && complete(client.query_one(newest, &[]).await.map_err(bad)?.get(0))? {
        return Ok(());
    }
    let transaction = client.transaction().await.map_err(bad)?;
    let lock = format!("SELECT pg_advisory_xact_lock({LOCK})");
    transaction.batch_execute(&lock).await.map_err(bad)?;
    let begin = "CREATE SCHEMA IF NOT EXISTS handoff;
        CREATE TABLE IF NOT EXISTS handoff.migration (
          number integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT clock_timestamp())";
    transaction.batch_execute(begin).await.map_err(bad)?;
    let found: i32 = transaction.query_one(newest, &[]).await.map_err(bad)?.get(0);
    // Somebody else may have been faster.
    if complete(found)? {
        return transaction.commit().await.map_err(bad);
    }
    for (number, migration) in (1..).zip(MIGRATIONS) {
        if number > found {
            transaction.batch_execute(migration).await.map_err(bad)?;
            let note = "INSERT INTO handoff.migration (number) VALUES ($1)";
            transaction.execute(note, &[&number]).await.map_err(bad)?;
        }
    }
    transaction.commit().await.map_err(bad)
}
