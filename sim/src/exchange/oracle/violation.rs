//! What the oracle objects to.

/// Something the rules do not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// An answer that is none to what was asked.
    #[error("{asked}: {answer}, but {why}")]
    Answer {
        /// What was asked.
        asked: String,
        /// What was answered.
        answer: String,
        /// What is wrong with it.
        why: String,
    },
    /// What is to be seen is not what was decided.
    #[error("{0}")]
    Look(String),
    /// The shell is told to do something else than was decided.
    #[error("the room acts otherwise than it decides: {0}")]
    Actions(String),
    /// A message is not where it should be.
    #[error("message {seq}: {why}")]
    Message {
        /// Which.
        seq: u64,
        /// What is wrong.
        why: String,
    },
    /// A message is served though a database has committed what it led to.
    #[error("message {seq} is served again, and it was processed")]
    ServedAgain {
        /// Which.
        seq: u64,
    },
    /// The same, and it was processed again.
    #[error("message {seq} was processed by each of the processes {by:?}")]
    ProcessedTwice {
        /// Which.
        seq: u64,
        /// By whom.
        by: Vec<u64>,
    },
    /// A device sees what rests on a transaction that did not commit.
    #[error("reply {seq} is to be seen, and process {process} has not committed")]
    SeenTooEarly {
        /// Which.
        seq: u64,
        /// Whose.
        process: u64,
    },
    /// A process is undecided though its ERP reports, or nobody was told of it.
    #[error("process {number} is undecided at the end")]
    Undecided {
        /// Which.
        number: u64,
    },
    /// What came back after a restart is not what anything that was asked would have led to.
    #[error("none of {lost} lost commands explains what came back; closest: {closest}")]
    Recovery {
        /// How many were lost.
        lost: usize,
        /// What is wrong if none of them survived.
        closest: String,
    },
}
