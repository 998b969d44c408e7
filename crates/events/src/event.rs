//! One event.

use std::fmt;
use std::sync::Arc;

use handoff_types::{Now, Span, Steady, Wall};

use crate::{PublishView, Schedule};

/// An event's id: 0 to 2³¹−1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(u32);

impl Id {
    /// The last id there is.
    pub const LAST: Self = Self(i32::MAX.unsigned_abs());

    /// The id with this number, if it is one.
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number <= Self::LAST.0 { Some(Self(number)) } else { None }
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How many occurrences are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// No end.
    Forever,
    /// This many, at least 1.
    Left(u32),
}

impl Repeat {
    /// As sevent and the API write it.
    #[must_use]
    pub fn wire(self) -> i32 {
        match self {
            Self::Forever => -1,
            Self::Left(left) => i32::try_from(left).unwrap_or(i32::MAX),
        }
    }
}

/// When an event is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Due {
    /// By steady time: periodic events.
    Steady(Steady),
    /// By the operator's clock: cron and one-shot events.
    Wall(Wall),
}

impl Due {
    /// Where this falls on the operator's clock as it stands now.
    #[must_use]
    pub fn wall(self, now: Now) -> Wall {
        match self {
            Self::Wall(due) => due,
            Self::Steady(due) if due > now.steady => now.wall + due.since(now.steady),
            Self::Steady(due) => now.wall - now.steady.since(due),
        }
    }
}

/// An event as the room keeps it. There may be a million of them: 300 bytes each, all told.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// For people.
    pub description: Box<str>,
    /// Names, ascending, each once. Inside [`crate::State`] names are shared.
    pub types: Box<[Arc<str>]>,
    /// When it occurs.
    pub schedule: Schedule,
    /// How often still.
    pub repeat: Repeat,
    /// The last update: registration, or the last occurrence as it was scheduled.
    pub updated: Wall,
    /// When it is due next.
    pub due: Due,
    /// Occurrences so far, missed ones included.
    pub occurrences: u64,
    /// Of those, missed and not told.
    pub skipped: u64,
}

impl Event {
    /// Whether the event can be kept: it waits by the clock its schedule runs on, something is
    /// left of it, and a period takes time. The room makes no other; one is refused wherever it
    /// comes from, or the room would wait for it for ever, or never rest.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let clock = match (&self.schedule, self.due) {
            (Schedule::Every(period), Due::Steady(_)) => period.span() > Span::ZERO,
            (Schedule::Cron(_) | Schedule::At(_), Due::Wall(_)) => true,
            _ => false,
        };
        clock && self.repeat != Repeat::Left(0)
    }
}

/// An event as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct EventView {
    /// Its id.
    pub id: Id,
    /// Its types, in the order of their names.
    pub types: Vec<Arc<str>>,
    /// For people.
    pub description: String,
    /// When it occurs.
    pub schedule: Schedule,
    /// Seconds between two occurrences; for cron and one-shot events the seconds from now to the
    /// next, never negative.
    pub period_secs: f64,
    /// What is left.
    pub repeat: Repeat,
    /// The last update.
    pub updated: Wall,
    /// When it occurs next, by the operator's clock as it stands now.
    pub next: Wall,
    /// Occurrences so far, missed ones included.
    pub occurrences: u64,
    /// Of those, missed and not told.
    pub skipped: u64,
    /// Where it is published.
    pub publish: Option<PublishView>,
}
