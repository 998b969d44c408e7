//! What the room answers.

use handoff_types::Code;
use thiserror::Error;

use crate::{CallId, ChannelName, ClientId, IdempotencyKey};

/// The answer. What clients are told besides are [`Notice`](crate::Notice)s.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is so, whether it was so before or not.
    Done,
    /// A call is registered.
    Registered {
        /// The call whose end is the answer: this one, or for a caller that will come and ask the
        /// one that had its key before.
        call: CallId,
        /// It was known.
        again: bool,
    },
    /// Whether a call is in the hands of whoever asks, under the fence it named.
    Held(bool),
    /// Whether a result was taken, now or when it came before.
    Taken(Result<(), Late>),
    /// A dead letter is called again, under this id.
    Requeued(CallId),
    /// So many dead letters are gone, and whether there are more.
    Purged {
        /// How many.
        many: u64,
        /// Ask again.
        more: bool,
    },
    /// Something was done, and perhaps there is more of the kind.
    More(bool),
    /// Nothing changed.
    Refused(Refusal),
}

/// Why a result was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Late {
    /// There is no such call, or not any more.
    #[error("there is no such call any more")]
    Unknown,
    /// It is over.
    #[error("the call is over")]
    Over,
    /// It is, or will be, in other hands.
    #[error("the call was given to somebody else meanwhile")]
    Fenced,
}

/// Why nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A client that has not introduced itself, or was forgotten.
    #[error("client {0} is not known: it must introduce itself first")]
    NoClient(ClientId),
    /// There is no such call, or not any more.
    #[error("there is no call {0}")]
    NoCall(CallId),
    /// It is somebody else's.
    #[error("call {0} is another client's")]
    NotYours(CallId),
    /// No dead letter.
    #[error("call {0} is no dead letter")]
    NotDead(CallId),
    /// Nobody described it.
    #[error("channel {0} has no settings of its own")]
    NoChannel(ChannelName),
    /// The id stands for another call.
    #[error(
        "call {0} was made before with another channel, caller or content; give every call its own id"
    )]
    IdReused(CallId),
    /// The key stands for another call.
    #[error("key {0} was used before with another content; give every call its own key")]
    KeyReused(IdempotencyKey),
    /// As many as are kept.
    #[error("there are {many} {what}, as many as {limit} allows")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many.
        many: u64,
        /// Whose value that is.
        limit: &'static str,
    },
    /// More than may be.
    #[error("{what} of {bytes} bytes is larger than calls.body_bytes_max, {max}")]
    TooLarge {
        /// What it is.
        what: &'static str,
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        max: u64,
    },
    /// A value that cannot be.
    #[error("{0}")]
    Invalid(&'static str),
}

impl Refusal {
    /// Its stable code.
    #[must_use]
    pub const fn code(&self) -> Code {
        match self {
            Self::NoCall(_) | Self::NotDead(_) | Self::NoChannel(_) => Code::CallNotFound,
            Self::IdReused(_) => Code::CallReused,
            Self::KeyReused(_) => Code::KeyReused,
            Self::Full { .. } => Code::CallsFull,
            Self::TooLarge { .. } => Code::RequestTooLarge,
            Self::NoClient(_) | Self::NotYours(_) | Self::Invalid(_) => Code::CallsInvalid,
        }
    }
}
