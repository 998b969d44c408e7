//! What can go wrong with a request, by what is known afterwards.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use handoff_sevent::ErrorCode;

use crate::Outcome;

/// Why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server refused it.
    #[error("refused: {message} ({code:?})")]
    Refused {
        /// Why.
        code: ErrorCode,
        /// For people.
        message: String,
    },
    /// It was sent and no answer came: it may have been carried out or not.
    #[error("it is not known whether the request was carried out: {0}")]
    Unknown(Trouble),
    /// The server did not get it.
    #[error("the request was not sent: {0}")]
    NotSent(Trouble),
    /// It is longer than a server takes, which would end the session. It was not sent.
    #[error("the request is too large: at most {max} octets are taken")]
    TooLarge {
        /// What is taken.
        max: u32,
    },
}

impl Error {
    /// Whether the request may have been carried out all the same. After
    /// [`ErrorCode::InternalError`] the server itself may not know.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unknown(_) | Self::Refused { code: ErrorCode::InternalError, .. } => {
                Outcome::Unknown
            }
            Self::Refused { .. } | Self::NotSent(_) | Self::TooLarge { .. } => Outcome::NotApplied,
        }
    }

    /// Why the server refused, if it did.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// What came between a request and its answer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Trouble {
    /// Its time was over. The session goes on.
    #[error("no answer within {} s", .0.as_secs_f64())]
    Timeout(Duration),
    /// The session is over.
    #[error("{0}")]
    Ended(Ended),
}

/// Why a session is over.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Ended {
    /// The server closed the connection, between two messages.
    #[error("the server closed the session")]
    Closed,
    /// The connection ended inside a message.
    #[error("the connection was cut inside a message")]
    Cut,
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Failed(Arc<io::Error>),
    /// Nothing was heard from the server, though it was asked.
    #[error("the server was silent for {} s", .0.as_secs_f64())]
    Silent(Duration),
    /// The server ended the session with an error that answers no request.
    #[error("the server ended the session: {message} ({code:?})")]
    Dismissed {
        /// Why.
        code: ErrorCode,
        /// For people.
        message: String,
    },
    /// What came is not what a sevent server sends.
    #[error("the server does not speak sevent as it should: {0}")]
    Protocol(String),
    /// Session and notifications were dropped, or their runtime has stopped.
    #[error("the session was dropped")]
    Stopped,
}

impl Ended {
    pub(super) fn protocol(why: impl Into<String>) -> Self {
        Self::Protocol(why.into())
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // TLS without a farewell.
            io::ErrorKind::UnexpectedEof => Self::Cut,
            _ => Self::Failed(Arc::new(error)),
        }
    }
}
