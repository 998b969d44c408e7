//! What can go wrong, by what the caller must do.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use handoff_store_redis::Trouble;
use serde::{Deserialize, Serialize};

/// What lies below an error.
pub type Cause = Box<dyn StdError + Send + Sync>;

/// Whether the thing that failed may have happened all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did not happen and will not.
    NotApplied,
    /// It may have happened. Ask the server before doing it again.
    Unknown,
}

/// Why a request to the HTTP API failed.
///
/// `Display` tells everything in one line, the cause included; [`Error::remedy`] says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered that it does not do this. See [`Problem::code`].
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No connection could be made; nothing was sent.
    #[error("cannot reach {url}: {}", words(.cause.as_ref()))]
    Unreachable {
        /// The server's URL.
        url: String,
        /// Why not.
        cause: Cause,
    },
    /// The connection broke after the request was sent and before the answer had come.
    #[error("the connection to {url} was lost: {}", words(.cause.as_ref()))]
    Lost {
        /// The server's URL.
        url: String,
        /// How.
        cause: Cause,
    },
    /// No answer within the time that was given.
    #[error("{url} did not answer within {} s", .waited.as_secs_f64())]
    Timeout {
        /// The server's URL.
        url: String,
        /// How long was waited.
        waited: Duration,
        /// Whether the request may have reached the server.
        sent: bool,
    },
    /// Something answered, and not as Handoff answers.
    #[error("{url} does not answer like a Handoff server: {why}")]
    Protocol {
        /// The server's URL.
        url: String,
        /// What was wrong.
        why: String,
    },
    /// The server ends a connection that was to last, and does not want it again.
    #[error("{url} ends the connection: {why}")]
    Dismissed {
        /// The server's URL.
        url: String,
        /// Why.
        why: String,
    },
    /// The server's URL cannot be used.
    #[error("`{url}` cannot be used as the URL of a server: {why}")]
    BadUrl {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// A setting of the client, or an argument of a call, cannot be used. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// A Redis that calls go through cannot be used, or refused. Its words say what to do.
    #[error("{0}")]
    Redis(Box<Trouble>),
}

impl From<Trouble> for Error {
    fn from(trouble: Trouble) -> Self {
        Self::Redis(Box::new(trouble))
    }
}

impl Error {
    /// Whether the request may have been carried out all the same.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Problem(problem) => problem.outcome(),
            Self::Lost { .. } | Self::Protocol { .. } | Self::Timeout { sent: true, .. } => {
                Outcome::Unknown
            }
            Self::Redis(trouble) => match **trouble {
                Trouble::Broken { .. } => Outcome::Unknown,
                _ => Outcome::NotApplied,
            },
            Self::Unreachable { .. }
            | Self::Timeout { sent: false, .. }
            | Self::Dismissed { .. }
            | Self::BadUrl { .. }
            | Self::Invalid(_) => Outcome::NotApplied,
        }
    }

    /// Whether the same request may succeed later without anybody changing it.
    ///
    /// It does not say that repeating is harmless: see [`Error::outcome`].
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Problem(problem) => matches!(problem.status, 408 | 429 | 500..),
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Timeout { .. } => true,
            Self::Redis(trouble) => trouble.may_pass(),
            Self::Protocol { .. }
            | Self::Dismissed { .. }
            | Self::BadUrl { .. }
            | Self::Invalid(_) => false,
        }
    }

    /// The stable code of a refusal, such as `event_not_found`.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.problem()?.code.as_deref()
    }

    /// The refusal, if it is one.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) => Some(problem),
            _ => None,
        }
    }

    /// What the caller or the operator can do about it.
    #[must_use]
    pub fn remedy(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => problem.remedy.as_deref(),
            Self::Unreachable { cause, .. } if concerns_certificates(cause.as_ref()) => Some(
                "check that the host name is the certificate's, and give the CA that signed it",
            ),
            Self::Unreachable { .. } => Some(
                "check that the server runs (`handoff serve`), that host and port are those of \
                 server.listen (HTTP) or events.listen (sevent), and that no firewall is between",
            ),
            Self::Lost { .. } | Self::Timeout { sent: true, .. } => Some(
                "it may have been carried out: look before sending it again, unless it changes \
                 nothing",
            ),
            Self::Timeout { sent: false, .. } => {
                Some("check host, port and firewall, or allow more time")
            }
            Self::Protocol { .. } => Some(
                "check that the URL is a Handoff server's HTTP listener, and http or https as it \
                 speaks",
            ),
            Self::BadUrl { .. } => Some("write it like http://127.0.0.1:7070"),
            Self::Dismissed { .. } | Self::Invalid(_) | Self::Redis(_) => None,
        }
    }
}

/// A refusal, as the server tells it (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Problem {
    /// The HTTP status.
    #[serde(deserialize_with = "status")]
    pub status: u16,
    /// The stable code; match on this. None if it was not Handoff that answered but something on
    /// the way to it.
    pub code: Option<String>,
    /// What kind of refusal it is, in words.
    pub title: String,
    /// What was wrong with this request.
    pub detail: Option<String>,
    /// What the caller or the operator can do about it.
    pub remedy: Option<String>,
    /// What the server calls this request in its log.
    pub request_id: Option<String>,
    /// For `trimmed`: the first offset that is still there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<u64>,
    /// When to ask again.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
    /// What the server knows of the request; absent: nothing changed.
    #[serde(rename = "outcome", skip_serializing_if = "Option::is_none")]
    pub(crate) stated: Option<String>,
}

/// A number, or nothing: where an ERP reads it, the member says `CANCELLED` instead. What counts is
/// the status of the answer itself.
fn status<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let stated = serde_json::Value::deserialize(deserializer)?;
    Ok(stated.as_u64().and_then(|number| u16::try_from(number).ok()).unwrap_or_default())
}

impl Problem {
    /// Whether the request may have been carried out all the same.
    ///
    /// Handoff says so if it does not know. Of what stands between nothing is known, except that a
    /// request it found fault with (status 4xx) was not passed on.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let sure = match &self.code {
            Some(_) => self.stated.is_none(),
            None => self.status < 500,
        };
        if sure { Outcome::NotApplied } else { Outcome::Unknown }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(detail)?,
            None => f.write_str(&self.title)?,
        }
        match &self.code {
            Some(code) => write!(f, " ({code})"),
            None => write!(f, " (status {})", self.status),
        }
    }
}

/// An error and everything below it in one line. Layers that repeat the one below are left out.
pub(crate) fn words(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

fn concerns_certificates(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::InvalidCertificate(_)) = error.downcast_ref() {
            return true;
        }
        // `io::Error` hands out its source only by this door.
        next = match error.downcast_ref::<std::io::Error>() {
            Some(io) => io.get_ref().map(|inner| -> &(dyn StdError + 'static) { inner }),
            None => error.source(),
        };
    }
    false
}
