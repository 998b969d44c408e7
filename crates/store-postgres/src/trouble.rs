//! What goes wrong, for people.

use std::error::Error;

use handoff_streams::port::Failed;
use handoff_types::Outcome;
use thiserror::Error;
use tokio_postgres::Error as PgError;
use tokio_postgres::error::SqlState;

/// Why a database cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The address is none.
    #[error("{0}; it should look like postgres://user:password@host:5432/database")]
    Address(String),
    /// Nobody answers there, or not for long.
    #[error("cannot reach {place}: {why}. Is it running, and does it listen there?")]
    Unreachable {
        /// Where.
        place: String,
        /// What the system says.
        why: String,
    },
    /// It does not let this user in.
    #[error(
        "{place} does not let this user in: {why}. Check user and password, and pg_hba.conf there"
    )]
    NotLetIn {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// The database is not there.
    #[error("{place}: {why}. Make it with createdb, or name another")]
    NoDatabase {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// The user may not do what is needed.
    #[error(
        "{place}: {why}. The user must own schema handoff, or may make it: GRANT CREATE ON DATABASE"
    )]
    NotAllowed {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// Nothing can be written there.
    #[error("{place} is read-only, as a replica is: name the server that takes writes")]
    ReadOnly {
        /// Where.
        place: String,
    },
    /// A newer program was here.
    #[error(
        "schema handoff at {place} has version {found}, and this program knows up to {known}: run a \
         version at least as new as the one that made it"
    )]
    Newer {
        /// Where.
        place: String,
        /// The version found.
        found: i32,
        /// The newest one known.
        known: i32,
    },
    /// A connection that this program cannot make.
    #[error(
        "{place} wants an encrypted connection, which this version does not make to PostgreSQL"
    )]
    Tls {
        /// Where.
        place: String,
    },
    /// Anything else.
    #[error("{place}: {why}")]
    Other {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
}

impl OpenError {
    pub(crate) fn of(place: &str, error: &PgError) -> Self {
        let (place, why) = (place.to_owned(), words(error));
        let Some(code) = error.code() else {
            return match why.contains("TLS") {
                true => Self::Tls { place },
                false => Self::Unreachable { place, why },
            };
        };
        match code {
            &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                Self::NotLetIn { place, why }
            }
            &SqlState::INVALID_CATALOG_NAME => Self::NoDatabase { place, why },
            &SqlState::INSUFFICIENT_PRIVILEGE => Self::NotAllowed { place, why },
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly { place },
            _ => Self::Other { place, why },
        }
    }
}

/// What PostgreSQL says, or else the deepest reason there is.
pub(crate) fn words(error: &PgError) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

/// It was not done.
pub(crate) fn not_done(why: String) -> Failed {
    Failed { outcome: Outcome::NotApplied, why }
}

/// A request that changes nothing went wrong.
pub(crate) fn failed(place: &str, error: &PgError) -> Failed {
    not_done(match error.code() {
        Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            format!("{place}: others held what was needed for too long; try again")
        }
        Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => {
            format!("{place} is read-only now, as a replica is")
        }
        Some(_) => format!("{place}: {}", words(error)),
        None => format!("the connection to {place} broke: {}", words(error)),
    })
}
