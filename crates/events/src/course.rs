//! The occurrences of one event, from the next one on.

use handoff_types::{Now, Span, Steady, Wall};

use crate::cron::Cron;
use crate::{Due, Event, Schedule};

/// The occurrences of an event, counted from 0: the one that is due next. How many lie between two
/// times is computed and never walked: after a year of silence there may be 300,000,000 of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Course<'a> {
    Every { due: Steady, period: Span },
    Cron { due: Wall, cron: &'a Cron },
    At { due: Wall },
}

impl<'a> Course<'a> {
    /// None for an event that is not sound; a state has none.
    pub(crate) fn of(event: &'a Event) -> Option<Self> {
        match (&event.schedule, event.due) {
            (Schedule::Every(period), Due::Steady(due)) => {
                let period = period.span();
                (period > Span::ZERO).then_some(Self::Every { due, period })
            }
            (Schedule::Cron(cron), Due::Wall(due)) => Some(Self::Cron { due, cron }),
            (Schedule::At(_), Due::Wall(due)) => Some(Self::At { due }),
            _ => None,
        }
    }

    /// How many have been due for at least this long, `most` at most.
    pub(crate) fn overdue(&self, now: Now, by: Span, most: u64) -> u64 {
        let until = now.wall - by;
        match *self {
            Self::Every { due, period } => {
                let since = now.steady.0.checked_sub(by.0).and_then(|at| at.checked_sub(due.0));
                since.map_or(0, |since| most.min((since / period.0).saturating_add(1)))
            }
            Self::Cron { due, cron } if due <= until && most > 0 => {
                1 + cron.advance(due, until, most - 1).count
            }
            Self::At { due } => most.min(u64::from(due <= until)),
            Self::Cron { .. } => 0,
        }
    }

    /// The `n`-th; none if the schedule is over before.
    pub(crate) fn nth(&self, n: u64) -> Option<Due> {
        match *self {
            Self::Every { due, period } => {
                Some(Due::Steady(due + Span(period.0.saturating_mul(n))))
            }
            Self::Cron { due, cron } => {
                let run = cron.advance(due, Wall(i64::MAX), n);
                (run.count == n).then_some(Due::Wall(run.last))
            }
            Self::At { due } => (n == 0).then_some(Due::Wall(due)),
        }
    }

    /// The one after that; none if the schedule is over.
    pub(crate) fn after(&self, this: Due) -> Option<Due> {
        match (*self, this) {
            (Self::Every { period, .. }, Due::Steady(this)) => Some(Due::Steady(this + period)),
            (Self::Cron { cron, .. }, Due::Wall(this)) => cron.next_after(this).map(Due::Wall),
            _ => None,
        }
    }
}
