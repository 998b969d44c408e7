//! What a caller or a consumer needs of whatever carries calls, and nothing of what that is.
//!
//! ```text
//!  ask    a step                ──▶ what came of it; everything it leads to at once is done
//!  heard  a client              ──▶ what it was told since it was asked last, in order
//!  look   a call                ──▶ how far it is
//! ```
//!
//! A transport keeps the rules of [`Calls`](crate::Calls), whether by running that machine or by
//! other means. `conformance` is what every transport passes.

use handoff_types::Outcome as Known;
use thiserror::Error;

use crate::{Ask, Call, CallId, ClientId, Notice, Outcome, Reply, Stage};

/// A transport that did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Failed {
    /// Whether it may have been done all the same.
    pub outcome: Known,
    /// What happened, for people.
    pub why: String,
}

/// Where a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// It waits for a consumer.
    Waiting,
    /// It waits for its time.
    Later,
    /// A consumer was told of it.
    Offered,
    /// A consumer runs it.
    Running,
    /// It ends as another one does.
    Following,
    /// It is over.
    Over,
}

impl Whereabouts {
    /// As users read it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Later => "later",
            Self::Offered => "offered",
            Self::Running => "running",
            Self::Following => "following",
            Self::Over => "over",
        }
    }
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// How often it was begun.
    pub attempt: u16,
    /// The fencing token of its latest offer.
    pub fence: u64,
    /// Who has it.
    pub executor: Option<ClientId>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// It is a dead letter.
    pub dead: bool,
}

impl From<&Call> for Look {
    fn from(call: &Call) -> Self {
        Self {
            whereabouts: call.whereabouts(),
            attempt: call.attempt,
            fence: call.fence,
            executor: call.executor(),
            outcome: call.ended().map(|ended| ended.outcome.clone()),
            dead: call.is_dead(),
        }
    }
}

impl Call {
    /// Where it is.
    #[must_use]
    pub const fn whereabouts(&self) -> Whereabouts {
        match self.stage {
            Stage::Waiting => Whereabouts::Waiting,
            Stage::Later(_) => Whereabouts::Later,
            Stage::Offered { .. } => Whereabouts::Offered,
            Stage::Running { .. } => Whereabouts::Running,
            Stage::Following(_) => Whereabouts::Following,
            Stage::Ended(_) => Whereabouts::Over,
        }
    }
}

/// What carries calls.
///
/// # Cancel safety
/// A step that is dropped may be taken all the same, as one whose answer is lost: it is taken again.
pub trait Transport: Sync {
    /// Takes a step. When it answers, whatever can be offered is offered, and whatever it led to is
    /// on its way to the clients.
    ///
    /// # Errors
    /// [`Failed`]
    fn ask(&self, ask: Ask) -> impl Future<Output = Result<Reply, Failed>> + Send;

    /// What a client was told since it was asked last, in the order it was told.
    ///
    /// # Errors
    /// [`Failed`]
    fn heard(&self, client: ClientId) -> impl Future<Output = Result<Vec<Notice>, Failed>> + Send;

    /// How far a call is; none if there is no such call.
    ///
    /// # Errors
    /// [`Failed`]
    fn look(&self, call: CallId) -> impl Future<Output = Result<Option<Look>, Failed>> + Send;
}
