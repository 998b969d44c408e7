//! How a command ends: the exit code, and what is said about it.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed |
//! | 2 | the command was not understood |
//! | 3 | what was asked for is not there |
//! | 4 | refused: asking again the same way will be refused again |
//! | 5 | unavailable or timed out: asking again later may help |

use std::fmt;
use std::process::ExitCode;

use handoff_sdk::{Error as ClientError, Outcome};
use handoff_types::Code;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The command was not understood.
    Usage = 2,
    /// What was asked for is not there.
    NotFound = 3,
    /// It was refused.
    Refused = 4,
    /// It may work later.
    Unavailable = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command did not do what it was asked: what happened, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// How the process ends.
    pub(crate) exit: Exit,
    /// What happened, and why. Nothing is said if it is empty.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) remedy: Option<String>,
    /// The stable code, and what the server calls the request.
    pub(crate) reference: Option<String>,
}

impl Failure {
    /// A failure with words.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), remedy: None, reference: None }
    }

    /// What to do about it.
    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// An end about which everything has been said.
    pub(crate) fn said(exit: Exit) -> Self {
        Self::new(exit, "")
    }

    /// A failure with a stable code, and the code's remedy.
    pub(crate) fn code(code: Code, what: impl Into<String>) -> Self {
        Self {
            reference: Some(code.text().to_owned()),
            ..Self::new(of_code(code), what).remedy(code.remedy())
        }
    }
}

impl Failure {
    /// What became of a request that changes something. "Try again later" would be an invitation
    /// to do it twice when nobody knows whether it was done.
    pub(crate) fn of_change(error: ClientError) -> Self {
        let is_unknown = error.outcome() == Outcome::Unknown;
        let failure = Self::from(error);
        if is_unknown {
            let remedy = "it may have been done: look before you repeat it";
            return Self { exit: Exit::Failed, ..failure }.remedy(remedy);
        }
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(remedy) = &self.remedy {
            write!(f, "\n  try: {remedy}")?;
        }
        if let Some(reference) = &self.reference {
            write!(f, "\n  code: {reference}")?;
        }
        Ok(())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        Self::of(&error)
    }
}

impl Failure {
    /// What a request's failure means.
    pub(crate) fn of(error: &ClientError) -> Self {
        let what = match error.problem() {
            Some(problem) => problem.detail.clone().unwrap_or_else(|| problem.title.clone()),
            None => error.to_string(),
        };
        let reference = error.problem().map(|problem| {
            let code = problem.code.clone().unwrap_or_else(|| format!("HTTP {}", problem.status));
            match &problem.request_id {
                Some(id) => format!("{code}, request {id}"),
                None => code,
            }
        });
        let remedy = error
            .remedy()
            .map(str::to_owned)
            .or_else(|| known(error.code()?).map(|code| code.remedy().to_owned()));
        Self { exit: of_client(error), what, remedy, reference }
    }
}

/// The code of a text.
pub(crate) fn known(text: &str) -> Option<Code> {
    Code::ALL.into_iter().find(|code| code.text() == text)
}

fn of_client(error: &ClientError) -> Exit {
    match error {
        ClientError::Problem(problem) => match problem.code.as_deref().and_then(known) {
            Some(code) => of_code(code),
            None => of_status(problem.status),
        },
        ClientError::Unreachable { .. }
        | ClientError::Lost { .. }
        | ClientError::Timeout { .. } => Exit::Unavailable,
        ClientError::BadUrl { .. } | ClientError::Invalid(_) => Exit::Usage,
        ClientError::Redis(trouble) if trouble.may_pass() => Exit::Unavailable,
        ClientError::Redis(_) => Exit::Refused,
        _ => Exit::Failed,
    }
}

/// What a code means for whoever called: the one place where it is decided.
pub(crate) fn of_code(code: Code) -> Exit {
    match code {
        Code::TokenNotFound
        | Code::EventNotFound
        | Code::Trimmed
        | Code::TopicNotFound
        | Code::PartitionNotFound
        | Code::GroupNotFound
        | Code::MemberGone
        | Code::ScheduledNotFound
        | Code::ExchangeNotFound
        | Code::AgentNotFound
        | Code::CallNotFound => Exit::NotFound,
        Code::ChangeTooLarge
        | Code::RequestInvalid
        | Code::RequestTooLarge
        | Code::TokenMissing
        | Code::TokenUnknown
        | Code::ForeignHost
        | Code::OutOfScope
        | Code::EventInvalid
        | Code::EventsFull
        | Code::FilterTooLarge
        | Code::TopicExists
        | Code::GroupExists
        | Code::Fenced
        | Code::StreamsInvalid
        | Code::StreamsLimit
        | Code::SequenceReused
        | Code::SequenceTooOld
        | Code::ExchangeInvalid
        | Code::ExchangeTaken
        | Code::ExchangeInUse
        | Code::NoRoute
        | Code::WrongCode
        | Code::DeviceBlocked
        | Code::MessageReused
        | Code::ProcessUnfit
        | Code::PreparedOtherwise
        | Code::NotPrepared
        | Code::ProcessReady
        | Code::Contradiction
        | Code::CallbackOff
        | Code::CallsInvalid
        | Code::CallReused
        | Code::KeyReused => Exit::Refused,
        Code::RoomBusy
        | Code::JournalFull
        | Code::DiskFull
        | Code::DiskLow
        | Code::JournalPoisoned
        | Code::JournalClosed
        | Code::RoomDamaged
        | Code::DirectoryInUse
        | Code::RequestTooSlow
        | Code::ServerBusy
        | Code::StreamsQuota
        | Code::ExchangeFull
        | Code::CallsFull
        | Code::TooManyTries
        | Code::ServerStopping
        | Code::PortTaken
        | Code::RoomOff => Exit::Unavailable,
        _ => Exit::Failed,
    }
}

/// What an answer means that has no code of ours: of a newer server, or of a proxy.
fn of_status(status: u16) -> Exit {
    match status {
        404 | 410 => Exit::NotFound,
        408 | 425 | 429 | 502..=504 | 507 => Exit::Unavailable,
        400..=499 => Exit::Refused,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::{Exit, Failure, of_code, of_status};
    use handoff_sdk::Error;
    use handoff_types::Code;

    #[test]
    fn codes_end_as_the_table_says() {
        let check = |code, exit| assert_eq!(of_code(code), exit, "{code}");
        check(Code::EventNotFound, Exit::NotFound);
        check(Code::EventInvalid, Exit::Refused);
        check(Code::TokenMissing, Exit::Refused);
        check(Code::ExchangeNotFound, Exit::NotFound);
        check(Code::NoRoute, Exit::Refused);
        check(Code::Contradiction, Exit::Refused);
        check(Code::ExchangeFull, Exit::Unavailable);
        check(Code::CallNotFound, Exit::NotFound);
        check(Code::KeyReused, Exit::Refused);
        check(Code::CallsFull, Exit::Unavailable);
        check(Code::DiskLow, Exit::Unavailable);
        check(Code::ServerStopping, Exit::Unavailable);
        check(Code::Internal, Exit::Failed);
        check(Code::NoSuchPath, Exit::Failed);
    }

    #[test]
    fn answers_without_a_code_end_by_their_status() {
        let check = |status, exit| assert_eq!(of_status(status), exit, "{status}");
        check(404, Exit::NotFound);
        check(403, Exit::Refused);
        check(503, Exit::Unavailable);
        check(500, Exit::Failed);
    }

    #[test]
    fn a_failure_says_what_happened_and_what_to_do() {
        let failure = Failure::code(Code::EventNotFound, "there is no event 7");
        let words = failure.to_string();
        assert!(words.starts_with("there is no event 7\n  try: `handoff event list`"), "{words}");
        assert!(words.ends_with("\n  code: event_not_found"), "{words}");
        let failure = Failure::from(Error::Invalid("a bad token".to_owned()));
        assert_eq!((failure.exit, &*failure.what), (Exit::Usage, "a bad token"));
    }
}
