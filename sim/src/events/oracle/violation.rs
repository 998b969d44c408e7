//! What the rules do not allow.

/// What the oracle of the events room objects to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The answer is not one the rules allow.
    #[error("{asked} was answered {answer}, but {why}")]
    Answer {
        /// What was asked.
        asked: String,
        /// What was answered.
        answer: String,
        /// What speaks against it.
        why: String,
    },
    /// An id was given to something else before, or one was left out.
    #[error("id {given} was given, and {next} is the next one")]
    Id {
        /// What was answered.
        given: u32,
        /// What should have been.
        next: u64,
    },
    /// More occurrences happened than were due.
    #[error("{happened} occurrences of {id} happened and {due} were due")]
    Early {
        /// Of which event.
        id: u32,
        /// How many.
        happened: u64,
        /// How many could.
        due: u64,
    },
    /// An event did not wait its turn.
    #[error("{id} happened before one that was due longer")]
    Turn {
        /// The one that was due for less time.
        id: u32,
    },
    /// An occurrence is told otherwise than it was.
    #[error("an occurrence of {id} is told as {found}, and it was {expected}")]
    Notification {
        /// Of which event.
        id: u32,
        /// What was told.
        found: String,
        /// What should have been.
        expected: String,
    },
    /// Occurrences are told or skipped otherwise than the catch-up policy says.
    #[error("{late} missed occurrences of {id} were told and {skipped} were not: {why}")]
    CatchUp {
        /// Of which event; the last one, if all of them together are meant.
        id: u32,
        /// Told late.
        late: u64,
        /// Not told.
        skipped: u64,
        /// What the policy says.
        why: &'static str,
    },
    /// Others were told than should have been.
    #[error("{found} were told, and {expected} should have been")]
    Recipients {
        /// Sessions and occurrences.
        found: String,
        /// Those of the oracle.
        expected: String,
    },
    /// A session was told of an occurrence twice.
    #[error("session {session} was told of occurrence {occurrence} of {id} before")]
    Twice {
        /// Which session.
        session: u64,
        /// Which event.
        id: u32,
        /// Which occurrence.
        occurrence: u64,
    },
    /// A filter holds something else than it should.
    #[error("the filter of session {session} is {found}, and it should be {expected}")]
    Filter {
        /// Whose.
        session: u64,
        /// What it holds.
        found: String,
        /// What it should.
        expected: String,
    },
    /// Filters are told to forget other events than those that are gone.
    #[error("filters forget {found}, and {expected} are gone")]
    Forgotten {
        /// What they are told.
        found: String,
        /// What is gone.
        expected: String,
    },
    /// Something else is handed over to topics, waits for them, or is dead.
    #[error("for topics there is {found}, and it should be {expected}")]
    Published {
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// An event looks otherwise than it should.
    #[error("{id} is {found}, and it should be {expected}")]
    Event {
        /// Which.
        id: u32,
        /// What is shown.
        found: String,
        /// What should be.
        expected: String,
    },
    /// The totals do not add up.
    #[error("the totals are {found}, and they should be {expected}")]
    Totals {
        /// What is shown.
        found: String,
        /// What should be.
        expected: String,
    },
    /// The room would be driven too early or too late.
    #[error("the next deadline is {found}, and it should be {expected}")]
    Deadline {
        /// What is said.
        found: String,
        /// What should be.
        expected: String,
    },
    /// What came back after a restart is not what was answered and some of what was not.
    #[error("after a restart, with {lost} unanswered: {closest}")]
    Recovery {
        /// How much was unanswered.
        lost: usize,
        /// What is wrong if none of it happened.
        closest: String,
    },
}
