//! What the oracle objects to.

use handoff_streams::PartitionId;

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
    /// Readers are told of a partition's end, or to drop something, otherwise than was decided.
    #[error("the room acts otherwise than it decides: {0}")]
    Actions(String),
    /// A message is not what it was, not where it was, or is there too early or twice.
    #[error("{partition} at {offset}: {why}")]
    Message {
        /// The partition.
        partition: PartitionId,
        /// The offset.
        offset: u64,
        /// What is wrong.
        why: String,
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
