//! How a call ends.

use bytes::Bytes;

/// How a call ended. It ends once, in one of these ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler's answer.
    Answer(Bytes),
    /// It failed.
    Failed(Failure),
    /// Its time was over.
    TimedOut(TimedOut),
    /// Somebody cancelled it.
    Cancelled,
}

/// What failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The handler said so, and it is not tried again.
    Handler(HandlerError),
    /// Its executor was lost, and it is not tried again.
    ExecutorLost,
    /// Nobody was there to run it, and it was not to wait.
    NoConsumer,
}

/// Which time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// Nobody began it in time.
    InQueue,
    /// The time of the whole call.
    Deadline,
}

/// What a handler says went wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerError {
    /// What kind of error it is.
    pub name: Box<str>,
    /// What happened.
    pub message: Box<str>,
    /// For programs.
    pub code: Box<str>,
}

impl HandlerError {
    /// Bytes of a name at most; the rest is cut off.
    pub const NAME_BYTES_MAX: usize = 128;
    /// Bytes of a message at most; the rest is cut off.
    pub const MESSAGE_BYTES_MAX: usize = 8 << 10;
    /// Bytes of a code at most; the rest is cut off.
    pub const CODE_BYTES_MAX: usize = 128;

    /// As much of it as is kept.
    #[must_use]
    pub fn fit(&self) -> Self {
        let cut = |text: &str, max| text.get(..text.floor_char_boundary(max)).map(Box::from);
        Self {
            name: cut(&self.name, Self::NAME_BYTES_MAX).unwrap_or_default(),
            message: cut(&self.message, Self::MESSAGE_BYTES_MAX).unwrap_or_default(),
            code: cut(&self.code, Self::CODE_BYTES_MAX).unwrap_or_default(),
        }
    }

    fn bytes(&self) -> usize {
        self.name.len() + self.message.len() + self.code.len()
    }
}

impl Outcome {
    /// The digit that every wire has for it: 0 an answer, 2 a timeout, 1 everything else.
    #[must_use]
    pub const fn digit(&self) -> u8 {
        match self {
            Self::Answer(_) => 0,
            Self::Failed(_) | Self::Cancelled => 1,
            Self::TimedOut(_) => 2,
        }
    }

    /// The error that a caller is shown; none for an answer.
    #[must_use]
    pub fn error(&self) -> Option<HandlerError> {
        let said = |name: &str, message: &str, code: &str| HandlerError {
            name: name.into(),
            message: message.into(),
            code: code.into(),
        };
        Some(match self {
            Self::Answer(_) => return None,
            Self::Failed(Failure::Handler(error)) => error.clone(),
            Self::Failed(Failure::ExecutorLost) => said(
                "ExecutorLost",
                "whoever ran the call was lost, and nobody knows how far it came",
                "executor_lost",
            ),
            Self::Failed(Failure::NoConsumer) => {
                said("NoConsumer", "nobody serves the channel", "no_consumer")
            }
            Self::TimedOut(TimedOut::InQueue) => {
                said("Timeout", "nobody began the call in time", "queue_timeout")
            }
            Self::TimedOut(TimedOut::Deadline) => {
                said("Timeout", "the time of the call is over", "deadline")
            }
            Self::Cancelled => said("Cancelled", "the call was cancelled", "cancelled"),
        })
    }

    /// What it is called where it is listed: `answer`, `error`, `timeout` or `cancelled`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Answer(_) => "answer",
            Self::Failed(_) => "error",
            Self::TimedOut(_) => "timeout",
            Self::Cancelled => "cancelled",
        }
    }

    /// The bytes it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Answer(body) => body.len(),
            Self::Failed(Failure::Handler(error)) => error.bytes(),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, HandlerError, Outcome, TimedOut};
    use bytes::Bytes;

    #[test]
    fn digits_are_those_of_the_wire_and_codes_tell_errors_apart() {
        let handler = HandlerError { code: "E_STOCK".into(), ..HandlerError::default() };
        let outcomes = [
            (Outcome::Answer(Bytes::new()), 0, None),
            (Outcome::Failed(Failure::Handler(handler)), 1, Some("E_STOCK")),
            (Outcome::Failed(Failure::ExecutorLost), 1, Some("executor_lost")),
            (Outcome::Failed(Failure::NoConsumer), 1, Some("no_consumer")),
            (Outcome::TimedOut(TimedOut::InQueue), 2, Some("queue_timeout")),
            (Outcome::TimedOut(TimedOut::Deadline), 2, Some("deadline")),
            (Outcome::Cancelled, 1, Some("cancelled")),
        ];
        for (outcome, digit, code) in outcomes {
            assert_eq!(outcome.digit(), digit);
            assert_eq!(outcome.error().map(|error| error.code.to_string()).as_deref(), code);
        }
    }

    #[test]
    fn what_a_handler_says_is_cut_at_a_character() {
        let long = HandlerError { name: "ä".repeat(100).into(), ..HandlerError::default() };
        assert_eq!(long.fit().name.len(), HandlerError::NAME_BYTES_MAX);
    }
}
