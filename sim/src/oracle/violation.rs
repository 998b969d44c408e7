//! What the rules do not allow.

use crate::room::Name;

/// What an oracle objects to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// There is no way the key may be that allows this answer.
    #[error("{command} was answered '{answer}', but {key} can only be {beliefs}")]
    Impossible {
        /// What was asked.
        command: String,
        /// What was answered.
        answer: String,
        /// About which key.
        key: Name,
        /// How the key may be.
        beliefs: String,
    },
    /// Such a command never gets such an answer.
    #[error("{command} was answered '{answer}', which is no answer to it")]
    Absurd {
        /// What was asked.
        command: String,
        /// What was answered.
        answer: String,
    },
    /// Other actions were performed than follow from the answer.
    #[error("{command} was answered '{answer}' and led to {actions}")]
    Actions {
        /// What was asked.
        command: String,
        /// What was answered.
        answer: String,
        /// What was done.
        actions: String,
    },
    /// One hold id was given out twice.
    #[error("hold {hold:016x} of {key} was given out before")]
    HoldGivenTwice {
        /// Of which key the second time.
        key: Name,
        /// Which.
        hold: u64,
    },
    /// A move reached one of its keys only.
    #[error("half of a move happened: between {from} and {to}")]
    TornMove {
        /// Who should have lost.
        from: Name,
        /// Who should have gained.
        to: Name,
    },
    /// There is no way the key may be that has this body, or lacks it.
    #[error("note {offset} of {key} reads as {found}, but {key} can only be {beliefs}")]
    Body {
        /// Whose note.
        key: Name,
        /// Its number.
        offset: u64,
        /// What was read.
        found: String,
        /// How the key may be.
        beliefs: String,
    },
    /// Too much is unknown for a judgement. The driver should have sent reads.
    #[error("there are too many ways {key} may be")]
    Crowded {
        /// Which key.
        key: Name,
    },
}
