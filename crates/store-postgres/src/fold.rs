//! Rows become aggregates.

use handoff_streams::port::{Loaded, Version};
use handoff_streams::{Aggregate, Key, State, Streams, decode_aggregate, decode_change};
use handoff_types::Machine;
use tokio_postgres::Row;

/// One aggregate on its way from its rows.
pub(crate) struct Fold {
    key: Key,
    state: State,
    version: u64,
}

impl Fold {
    /// Goes on from what is known.
    pub(crate) fn from(key: Key, known: Loaded) -> Self {
        let mut state = State::default();
        state.put(&key, known.aggregate);
        Self { key, state, version: known.version.0 }
    }

    pub(crate) fn new(key: Key) -> Self {
        Self::from(key, Loaded { version: Version(0), aggregate: None })
    }

    /// Takes a row of `load.sql`, the next by version.
    pub(crate) fn take(&mut self, row: &Row) -> Result<(), String> {
        let version: i64 = row.get("version");
        let whole: bool = row.get("whole");
        let data: Option<&[u8]> = row.get("data");
        let bad = |why: String| {
            format!("version {version} of {:?} in PostgreSQL cannot be read: {why}", self.key)
        };
        match whole {
            true => {
                let aggregate = data.map(aggregate).transpose().map_err(bad)?;
                self.state.put(&self.key, aggregate);
            }
            false if u64::try_from(version) != Ok(self.version + 1) => {
                return Err(bad(format!("it follows version {}", self.version)));
            }
            false => changes(&mut self.state, data.unwrap_or_default()).map_err(bad)?,
        }
        self.version = u64::try_from(version).unwrap_or(0);
        Ok(())
    }

    pub(crate) fn finish(self) -> Loaded {
        let Self { key, state, version } = self;
        Loaded { version: Version(version), aggregate: state.aggregate(&key) }
    }
}

fn aggregate(bytes: &[u8]) -> Result<Aggregate, String> {
    let (_, aggregate, rest) = decode_aggregate(bytes).map_err(|bad| bad.0)?;
    match rest.is_empty() {
        true => Ok(aggregate),
        false => Err("something stands behind it".to_owned()),
    }
}

fn changes(state: &mut State, mut bytes: &[u8]) -> Result<(), String> {
    while !bytes.is_empty() {
        let (change, rest) = decode_change(bytes).map_err(|bad| bad.0)?;
        Streams::evolve(state, &change);
        bytes = rest;
    }
    Ok(())
}
