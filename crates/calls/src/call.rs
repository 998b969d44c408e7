//! A call, and how far it is.
//!
//! ```text
//!            ┌────────── handed back: not accepted, or its consumer left ──────────┐
//!            ▼                                                                     │
//!  ──▶ Waiting ──offer──▶ Offered ──accept──▶ Running ──answer──▶ Ended ──ack──▶ (kept a while)
//!         ▲                                      │ error, lost    ▲
//!         └────────── Later (back-off) ◀─────────┘ ───────────────┘ for good
//! ```

use bytes::Bytes;
use handoff_types::entropy::mix;
use handoff_types::{Steady, Wall};

use crate::{CallId, ChannelName, ClientId, Failure, IdempotencyKey, Outcome, TraceParent};

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What its caller calls it.
    pub id: CallId,
    /// Its place in the order of all calls. Handed back, it keeps it.
    pub seq: u64,
    /// Who is told of its end; none if somebody comes and asks.
    pub caller: Option<ClientId>,
    /// Where it goes.
    pub channel: ChannelName,
    /// What the handler gets. Gone when it ended, unless it is a dead letter.
    pub params: Bytes,
    /// Of channel and params, to know it again.
    pub digest: u64,
    /// Calls of the channel with the same key are the same call.
    pub key: Option<IdempotencyKey>,
    /// Where it stands in somebody's trace.
    pub trace: Option<TraceParent>,
    /// The dead letter that it was before.
    pub again_for: Option<CallId>,
    /// Whether a crash of the server leaves it.
    pub durable: bool,
    /// When it came.
    pub created: Wall,
    /// When its time is over.
    pub deadline: Steady,
    /// When it is too late to begin it for the first time.
    pub begin_by: Option<Steady>,
    /// The fencing token of the latest offer; 0 if it was never offered.
    pub fence: u64,
    /// How often it was begun.
    pub attempt: u16,
    /// Whose result was taken last, and under which fence.
    pub taken: Option<(ClientId, u64)>,
    /// How far it is.
    pub stage: Stage,
    /// What happened to it, the latest [`Call::HISTORY_KEPT`] of it.
    pub history: Vec<Event>,
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for a consumer.
    Waiting,
    /// It waits for its time, after an attempt that failed.
    Later(Steady),
    /// A consumer was told of it.
    Offered {
        /// Who.
        executor: ClientId,
        /// If it is not accepted until then, it is handed back.
        until: Steady,
    },
    /// A consumer runs it.
    Running {
        /// Who.
        executor: ClientId,
        /// If nothing is heard of it until then, its executor is lost.
        until: Steady,
    },
    /// It ends as another one does, which had its key first.
    Following(CallId),
    /// It is over.
    Ended(Ended),
}

/// A call that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// When.
    pub at: Wall,
    /// Until then the same id or key is known.
    pub forget: Steady,
    /// Its caller has the outcome.
    pub acked: bool,
    /// It is kept as a dead letter.
    pub dead: bool,
}

/// Something that happened to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Wall,
    /// What.
    pub what: Happened,
    /// Which client did it, or had it.
    pub who: Option<ClientId>,
}

/// What can happen to a call. The number is part of the stored format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Happened {
    /// It came.
    Registered = 0,
    /// A consumer was told of it.
    Offered = 1,
    /// A consumer began it.
    Accepted = 2,
    /// Nobody accepted it in time.
    NotAccepted = 3,
    /// Its consumer left before it accepted.
    HandedBack = 4,
    /// Its executor was lost.
    Lost = 5,
    /// The handler failed, and it is tried again.
    Failed = 6,
    /// It is over.
    Ended = 7,
    /// Its caller has the outcome.
    Acknowledged = 8,
    /// Its time to be tried again has come.
    Due = 9,
}

impl Happened {
    /// Everything that can happen.
    pub const ALL: [Self; 10] = [
        Self::Registered,
        Self::Offered,
        Self::Accepted,
        Self::NotAccepted,
        Self::HandedBack,
        Self::Lost,
        Self::Failed,
        Self::Ended,
        Self::Acknowledged,
        Self::Due,
    ];

    /// What has this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|what| *what as u8 == number)
    }

    /// As users read it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Offered => "offered",
            Self::Accepted => "accepted",
            Self::NotAccepted => "not accepted",
            Self::HandedBack => "handed back",
            Self::Lost => "executor lost",
            Self::Failed => "failed",
            Self::Ended => "ended",
            Self::Acknowledged => "acknowledged",
            Self::Due => "due again",
        }
    }
}

impl Call {
    /// How much of what happened is kept.
    pub const HISTORY_KEPT: usize = 16;

    /// Who has it, if somebody has.
    #[must_use]
    pub const fn executor(&self) -> Option<ClientId> {
        match self.stage {
            Stage::Offered { executor, .. } | Stage::Running { executor, .. } => Some(executor),
            _ => None,
        }
    }

    /// Whether a client has it under this fence.
    #[must_use]
    pub fn is_held_by(&self, client: ClientId, fence: u64) -> bool {
        self.executor() == Some(client) && self.fence == fence
    }

    /// Whose result it ended with; none if it ended without one.
    #[must_use]
    pub fn ended_by(&self) -> Option<ClientId> {
        match &self.ended()?.outcome {
            Outcome::Answer(_) | Outcome::Failed(Failure::Handler(_)) => {
                self.taken.map(|(executor, _)| executor)
            }
            _ => None,
        }
    }

    /// What is known of its end.
    #[must_use]
    pub const fn ended(&self) -> Option<&Ended> {
        match &self.stage {
            Stage::Ended(ended) => Some(ended),
            _ => None,
        }
    }

    /// When something has to be done about it.
    #[must_use]
    pub fn due(&self) -> Steady {
        let begin_by = self.begin_by.filter(|_| self.attempt == 0).unwrap_or(self.deadline);
        match &self.stage {
            Stage::Waiting => self.deadline.min(begin_by),
            Stage::Later(until) => self.deadline.min(*until),
            Stage::Offered { until, .. } => self.deadline.min(begin_by).min(*until),
            Stage::Running { until, .. } => self.deadline.min(*until),
            Stage::Following(_) => self.deadline,
            Stage::Ended(ended) => ended.forget,
        }
    }

    /// Bytes of its bodies.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let outcome = self.ended().map_or(0, |ended| ended.outcome.bytes());
        (self.params.len() + outcome) as u64
    }

    /// Nobody needs it any more: it may be forgotten before its time if there are too many.
    #[must_use]
    pub fn is_done_with(&self) -> bool {
        let over = |ended: &Ended| !ended.dead && (ended.acked || self.caller.is_none());
        self.key.is_none() && self.ended().is_some_and(over)
    }

    /// Whether it is a dead letter.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.ended().is_some_and(|ended| ended.dead)
    }

    pub(crate) fn note(&mut self, at: Wall, what: Happened, who: Option<ClientId>) {
        if self.history.len() >= Self::HISTORY_KEPT {
            // The first stays: it says when the call came.
            self.history.remove(1);
        }
        self.history.push(Event { at, what, who });
    }
}

/// What a call is known again by.
#[must_use]
pub fn digest(channel: &ChannelName, params: &[u8]) -> u64 {
    let of = |seed: u64, bytes: &[u8]| {
        bytes.chunks(8).fold(mix(seed ^ bytes.len() as u64), |hash, chunk| {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            mix(hash ^ u64::from_le_bytes(word))
        })
    };
    of(of(0, channel.as_str().as_bytes()), params)
}
