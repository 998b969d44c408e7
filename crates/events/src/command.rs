//! What is asked of the room, and what it answers.

use std::sync::Arc;

use handoff_types::{Sight, Span, Wall};
use thiserror::Error;

use crate::{BadSchedule, Id, Letters, Publication, Publish, Publishing, Repeat, Schedule};

/// A new event.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// For people.
    pub description: String,
    /// Its types; repeated names count once.
    pub types: Vec<String>,
    /// When it occurs.
    pub schedule: Schedule,
    /// How often: −1 for ever, 0 not at all, anything below −1 is refused. Kept as it came,
    /// because refusing it is a rule of the room.
    pub repeat: i32,
    /// Where what is told of it is also published.
    pub publish: Option<Publish>,
}

/// Events by id and by type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// By id. Kept as they came: a negative id is one that does not exist.
    pub ids: Vec<i32>,
    /// By type.
    pub types: Vec<String>,
}

/// What a registration may ask for. From the configuration, with the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// `events.period_min_secs`
    pub period_min: Span,
    /// 100 years.
    pub period_max: Span,
    /// `events.description_bytes_max`
    pub description_bytes_max: usize,
    /// `events.types_max`: types of one event.
    pub types_max: usize,
    /// `events.type_bytes_max`: bytes of a type's name.
    pub type_bytes_max: usize,
    /// `events.events_max`: events there are at once.
    pub events_max: u64,
}

/// What becomes of occurrences that were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CatchUp {
    /// They are counted and not told.
    Skip,
    /// The last of them is told, late; the others are counted.
    Once,
    /// Each is told, late, in order.
    All,
}

/// When an occurrence counts as missed, and what then. From the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tardiness {
    /// `events.catch_up`
    pub catch_up: CatchUp,
    /// `events.catch_up_max`: how many late occurrences one command tells at most; the rest is
    /// skipped and counted. The shell passes what is left of it.
    pub catch_up_max: u64,
    /// `events.late_secs_max`: an occurrence later than this is missed also while the server
    /// runs: the machine slept, or the process was stopped.
    pub late_max: Span,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// A new event. `sight` is whose: every type must be in it, and one is needed unless all are.
    Register {
        /// The event.
        event: Registration,
        /// What it may ask for.
        bounds: Bounds,
        /// Whose.
        sight: Sight,
    },
    /// Remove every selected event that is in sight. Unknown ids are nothing. At most `limit`;
    /// the answer says whether there are more.
    Delete {
        /// Which.
        selection: Selection,
        /// Whose.
        sight: Sight,
        /// How many at once.
        limit: usize,
    },
    /// Let occurrences happen that are due, the longest due first, at most `limit` events.
    Tick {
        /// How many at once.
        limit: usize,
        /// What is missed.
        tardiness: Tardiness,
        /// What may wait for topics.
        publishing: Publishing,
    },
    /// The server has started: every occurrence due up to now was missed, however little. Repeated
    /// until the answer says that there are no more; then come ticks.
    Resume {
        /// How many at once.
        limit: usize,
        /// What is missed (`late_max` does not matter here).
        tardiness: Tardiness,
        /// What may wait for topics.
        publishing: Publishing,
    },
    /// The operator's clock was set back: what waits for it by more than one interval too long is
    /// scheduled anew. Begins at `from`; the answer says where to go on.
    Reschedule {
        /// The first id.
        from: Id,
        /// How many events to look at.
        limit: usize,
    },
    /// The server has started: what waits for its topic is handed over again. Begins at `from`;
    /// the answer says where to go on. Comes before [`Command::Resume`].
    HandOver {
        /// The first id.
        from: Id,
        /// How many events at once.
        limit: usize,
    },
    /// The topic has this occurrence.
    Published {
        /// The event.
        id: Id,
        /// Which.
        sequence: u64,
    },
    /// The topic does not take this occurrence.
    PublishRefused {
        /// The event.
        id: Id,
        /// Which.
        sequence: u64,
        /// Why, in words.
        why: String,
        /// What may be dead.
        publishing: Publishing,
    },
    /// Hand dead letters over again, under the sequence they had.
    RetryLetters {
        /// Which.
        letters: Letters,
        /// Whose.
        sight: Sight,
        /// How many at once.
        limit: usize,
    },
    /// Dead letters are not wanted any more.
    DeleteLetters {
        /// Which.
        letters: Letters,
        /// Whose.
        sight: Sight,
        /// How many at once.
        limit: usize,
    },
}

/// The answer to a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The id.
    pub id: Id,
    /// When.
    pub at: Wall,
    /// When it occurs first; none if it does not (`repeat` 0, or a schedule that is over).
    pub next: Option<Wall>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// To [`Command::Register`].
    Registered(Registered),
    /// To [`Command::Delete`]: ascending, each once.
    Deleted {
        /// Which.
        ids: Vec<Id>,
        /// The same command again would delete more.
        more: bool,
    },
    /// To [`Command::Tick`] and [`Command::Resume`].
    Ticked {
        /// The same command again would do more.
        more: bool,
        /// Occurrences told, late ones included.
        told: u64,
        /// Of those, late ones under the catch-up policy.
        late: u64,
        /// Occurrences missed and not told.
        skipped: u64,
    },
    /// To [`Command::Reschedule`].
    Rescheduled {
        /// How many.
        count: u64,
        /// Where to go on; none at the end.
        next: Option<Id>,
    },
    /// To [`Command::HandOver`].
    HandedOver {
        /// Where to go on; none at the end.
        next: Option<Id>,
    },
    /// To [`Command::Published`] and [`Command::PublishRefused`].
    Answered {
        /// False: it was answered before.
        known: bool,
    },
    /// To [`Command::RetryLetters`] and [`Command::DeleteLetters`].
    Letters {
        /// Which, ascending, each once.
        numbers: Vec<u64>,
        /// The same command again would do more.
        more: bool,
    },
    /// Nothing changed.
    Refused(Refusal),
}

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The period is negative, not a number, too short or too long; or the time is over.
    #[error(transparent)]
    Schedule(#[from] BadSchedule),
    /// The number of repetitions is below −1.
    #[error("repeat is {0}; it is -1 for ever, or how often the event occurs")]
    Repeat(i32),
    /// The description is too long.
    #[error("the description has {bytes} bytes; at most {max} are kept")]
    Description {
        /// What was given.
        bytes: usize,
        /// What is kept.
        max: usize,
    },
    /// A type's name is too long or empty, or there are too many.
    #[error("{0}")]
    Types(String),
    /// A type is not in the token's sight.
    #[error("{0}")]
    OutOfSight(String),
    /// The name of the topic or the key is too long or empty.
    #[error("{0}")]
    Publish(String),
    /// The last id was given.
    #[error("all 2147483648 ids are used")]
    Exhausted,
    /// As many events as the room takes.
    #[error("there are {0} events, as many as events.events_max allows; delete some")]
    Full(u64),
}

/// An occurrence, as it is told: the event as it was before.
#[derive(Clone, Debug, PartialEq)]
pub struct Notification {
    /// The event's id.
    pub id: Id,
    /// Its types, in the order of their names.
    pub types: Vec<Arc<str>>,
    /// For people.
    pub description: Arc<str>,
    /// Seconds between two occurrences; for cron and one-shot events the seconds from the last
    /// update to this occurrence.
    pub period_secs: f64,
    /// What was left before this occurrence. Never 0.
    pub repeat: Repeat,
    /// The last update before this one.
    pub updated: Wall,
    /// When this occurrence was due, by the operator's clock.
    pub due: Wall,
    /// The number of this occurrence; the first is 1. Missed ones count.
    pub occurrence: u64,
    /// Told by the catch-up policy: held for whoever subscribes soon.
    pub late: bool,
}

/// What the shell does once the changes are durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Tell whoever's filter matches. Who that is, is looked up when this is decided, before a
    /// [`Action::Forget`] of the same command.
    Notify(Notification),
    /// The event is gone: its id leaves every filter.
    Forget(Id),
    /// Hand an occurrence over to its topic, until it answers: it has it, or it refuses it. Only
    /// one occurrence of an event is on its way, dead letters aside.
    Publish(Publication),
}
