//! How calls go wrong: for whoever called, and said by whoever was called.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handoff_calls::wire;
use handoff_calls::{CallId, ClientId, Failing, Outcome as Ending, Refusal};
use handoff_store_redis::{Answer, NoAnswer};
use handoff_types::{Code, Span};

use super::session::{Body, Finish};
use crate::{Error, Outcome};

/// Why a call has no answer, or none that can be read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The handler said so, and the call is not tried again; or the server refused it, with one of
    /// its codes.
    #[error("{0}")]
    Failed(Box<Failed>),
    /// Its time was over: nobody began it in time (`queue_timeout`), or it took too long
    /// (`deadline`).
    #[error("{0}")]
    TimedOut(Box<Failed>),
    /// Somebody cancelled it.
    #[error("the call was cancelled")]
    Cancelled,
    /// Nobody serves the channel, and it was not to wait for somebody.
    #[error("nobody serves the channel")]
    NoConsumer,
    /// Whoever ran it was lost, and nobody knows how far it came.
    #[error("whoever ran the call was lost, and nobody knows how far it came")]
    ExecutorLost,
    /// Its time is over, and the server has not said what became of it.
    #[error("the server has not said what became of call {id}")]
    Unanswered {
        /// What it is called there.
        id: CallId,
        /// Whether it may have been carried out all the same.
        outcome: Outcome,
    },
    /// There is no session any more: it was closed, or the server does not take this client.
    #[error("there is no session any more{}", because(.cause.as_deref()))]
    Closed {
        /// What the server said, if it was that.
        cause: Option<Arc<Error>>,
        /// Whether it may have been carried out all the same.
        outcome: Outcome,
    },
    /// It is larger than the server takes, or than the caller has room for; nothing was sent.
    #[error("the call has {bytes} bytes, there is room for {max}")]
    TooLarge {
        /// Its bytes.
        bytes: u64,
        /// The room there is.
        max: u64,
    },
    /// A channel, a key, a trace or parameters that cannot be; nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// There is an answer, and it is not what was expected.
    #[error("the answer is not what was expected: {0}")]
    Unreadable(String),
}

fn because(cause: Option<&Error>) -> String {
    cause.map(|cause| format!(": {cause}")).unwrap_or_default()
}

impl CallError {
    /// Whether the handler may have done all of its work, or some of it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Unanswered { outcome, .. } | Self::Closed { outcome, .. } => *outcome,
            Self::NoConsumer | Self::TooLarge { .. } | Self::Invalid(_) => Outcome::NotApplied,
            Self::TimedOut(failed) if failed.code == "queue_timeout" => Outcome::NotApplied,
            Self::Failed(_)
            | Self::TimedOut(_)
            | Self::Cancelled
            | Self::ExecutorLost
            | Self::Unreadable(_) => Outcome::Unknown,
        }
    }

    /// The code of the error, such as `queue_timeout`, or a handler's own.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Failed(failed) | Self::TimedOut(failed) => Some(&failed.code),
            Self::Cancelled => Some("cancelled"),
            Self::NoConsumer => Some("no_consumer"),
            Self::ExecutorLost => Some("executor_lost"),
            Self::Closed { cause, .. } => cause.as_ref()?.code(),
            _ => None,
        }
    }

    /// What became of a call, from the way it finished.
    pub(super) fn of(id: CallId, finish: Finish) -> Result<Option<Body>, Self> {
        let ended = match finish {
            Finish::Ended(ended) => *ended,
            Finish::Cancelled => return Err(Self::Cancelled),
            Finish::Unanswered { sent } => {
                return Err(Self::Unanswered { id, outcome: known(sent) });
            }
            Finish::TooLarge { bytes, max } => return Err(Self::TooLarge { bytes, max }),
        };
        let wire::Ended { status, answer, error, executor, .. } = ended;
        if status == 0 {
            return Ok(answer);
        }
        let wire::CallError { name, message, code } = error.unwrap_or_default();
        let (name, message, code) = (name.into(), message.into(), code.into());
        let failed = Failed { name, message, code, executor };
        Err(match (status, &*failed.name, &*failed.code) {
            (2, ..) => Self::TimedOut(Box::new(failed)),
            (_, "Cancelled", "cancelled") => Self::Cancelled,
            (_, "NoConsumer", "no_consumer") => Self::NoConsumer,
            (_, "ExecutorLost", "executor_lost") => Self::ExecutorLost,
            _ => Self::Failed(Box::new(failed)),
        })
    }
}

impl CallError {
    /// What became of a call that went through Redis.
    pub(super) fn of_redis(ended: Result<Answer, NoAnswer>) -> Result<Bytes, Self> {
        let refused = |code: Code, message: String| {
            let (name, code) = ("Refused".to_owned(), code.text().to_owned());
            Self::Failed(Box::new(Failed { name, message, code, executor: None }))
        };
        Err(match ended {
            Ok(Answer { outcome: Ending::Answer(body), .. }) => return Ok(body),
            Ok(Answer { call: id, outcome, executor }) => {
                let error = outcome.error().map(wire::CallError::from);
                let status = outcome.digit();
                let ended = wire::Ended { id, status, answer: None, error, executor };
                return Self::of(id, Finish::Ended(Box::new(ended))).map(|_| Bytes::new());
            }
            Err(NoAnswer::Refused(Refusal::TooLarge { bytes, max, .. })) => {
                Self::TooLarge { bytes, max }
            }
            Err(NoAnswer::Refused(refusal)) => refused(refusal.code(), refusal.to_string()),
            Err(full @ NoAnswer::Full(_)) => refused(Code::CallsFull, full.to_string()),
            Err(NoAnswer::Trouble(trouble)) => {
                let cause = Some(Arc::new(Error::from(trouble)));
                Self::Closed { cause, outcome: Outcome::NotApplied }
            }
            Err(NoAnswer::Unanswered { call: id, sent }) => {
                Self::Unanswered { id, outcome: known(sent) }
            }
            Err(NoAnswer::Stopped) => Self::Closed { cause: None, outcome: Outcome::Unknown },
        })
    }
}

pub(super) fn known(sent: bool) -> Outcome {
    if sent { Outcome::Unknown } else { Outcome::NotApplied }
}

/// What went wrong, in the words of whoever ran the call, or of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// What kind of error it is.
    pub name: String,
    /// What happened.
    pub message: String,
    /// For programs.
    pub code: String,
    /// Who ran the call, if somebody did.
    pub executor: Option<ClientId>,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.message.is_empty() { &self.name } else { &self.message })?;
        if self.code.is_empty() { Ok(()) } else { write!(f, " ({})", self.code) }
    }
}

/// What a handler says went wrong. Any error becomes one by `?`, to be tried again as the channel
/// has it.
///
/// ```
/// use std::time::Duration;
/// use handoff_sdk::calls::HandlerError;
///
/// let for_good = HandlerError::new("OutOfStock", "no tea left").code("stock").terminal();
/// let later = HandlerError::new("Busy", "the press is hot").retry_after(Duration::from_secs(60));
/// # drop((for_good, later));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct HandlerError {
    name: String,
    message: String,
    code: String,
    terminal: bool,
    retry_after: Option<Duration>,
}

impl HandlerError {
    /// An error of a kind, and what happened. The call is tried again as the channel has it.
    pub fn new(name: impl Into<String>, message: impl Into<String>) -> Self {
        let (name, message) = (name.into(), message.into());
        Self { name, message, code: String::new(), terminal: false, retry_after: None }
    }

    /// For programs.
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = code.into();
        self
    }

    /// It would fail again: the caller is told at once.
    pub fn terminal(mut self) -> Self {
        self.terminal = true;
        self
    }

    /// When the call is worth another attempt.
    pub fn retry_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    pub(super) fn response(self, id: CallId, fence: u64) -> wire::Response<Body> {
        let (terminal, retry_after) = (self.terminal, self.retry_after);
        let error = Some(wire::CallError::from(self.kept()));
        let retry_after_ms =
            retry_after.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        wire::Response { id, fence, answer: None, error, terminal, retry_after_ms }
    }

    pub(super) fn failing(self) -> Failing {
        let (terminal, retry_after) = (self.terminal, self.retry_after);
        let span = |time: Duration| Span(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
        Failing { error: self.kept(), terminal, retry_after: retry_after.map(span) }
    }

    /// As much of it as is kept: what would be cut is not sent.
    fn kept(self) -> handoff_calls::HandlerError {
        let Self { name, message, code, .. } = self;
        let (name, message, code) = (name.into(), message.into(), code.into());
        handoff_calls::HandlerError { name, message, code }.fit()
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.message)
    }
}

/// It is no `Error` itself, so that every error can become one.
impl<E: std::error::Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        let name = std::any::type_name::<E>();
        let name = name.split('<').next().and_then(|name| name.rsplit("::").next());
        Self::new(name.unwrap_or("Error"), crate::error::words(&error))
    }
}
