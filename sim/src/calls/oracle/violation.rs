//! What the oracle objects to.

use handoff_calls::CallId;

/// Something the rules do not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Something is said of a call that nobody asked for.
    #[error("nobody asked for {0}")]
    Unasked(CallId),
    /// A call that was confirmed is not known any more, and nobody said that it is over.
    #[error("{call} was confirmed and is forgotten: {why}")]
    Forgotten {
        /// Which.
        call: CallId,
        /// How it was noticed.
        why: &'static str,
    },
    /// A call ends twice, and otherwise.
    #[error("{call} ended in {before}, and then in {after}")]
    EndedTwice {
        /// Which.
        call: CallId,
        /// What was told first.
        before: String,
        /// And then.
        after: String,
    },
    /// A call ends for no reason.
    #[error("{call} ended in {how}, and {why}")]
    Ended {
        /// Which.
        call: CallId,
        /// How.
        how: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A fence counts that must not, or was given twice.
    #[error("fence {fence} of {call}: {why}")]
    Fence {
        /// Of which.
        call: CallId,
        /// Which.
        fence: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A call is begun that must not be.
    #[error("{call} is begun under fence {fence}, and {why}")]
    Begun {
        /// Which.
        call: CallId,
        /// Under which fence.
        fence: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A call that was confirmed never ends.
    #[error("{0} never ends, though everybody does all there is to do")]
    Endless(CallId),
}
