//! What the oracle believes of one event.

use std::collections::BTreeSet;
use std::sync::Arc;

use handoff_events::{EventView, Id, Notification, Registration, Repeat, Schedule};
use handoff_types::{Now, Wall};
use jiff::tz::TimeZone;

use super::super::calendar::Calendar;

/// An event.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    pub(super) types: BTreeSet<String>,
    description: String,
    schedule: Schedule,
    plan: Plan,
    /// How often still; none for ever.
    pub(super) left: Option<u64>,
    pub(super) updated: i64,
    pub(super) occurrences: u64,
    pub(super) skipped: u64,
}

/// When it occurs.
#[derive(Clone, Debug)]
enum Plan {
    /// The n-th time, counted from 1, is n periods behind `since`, whatever happens.
    Every {
        since: u64,
        micros: u64,
        secs: f64,
    },
    /// Next at `due`.
    Calendar {
        calendar: &'static Calendar,
        zone: TimeZone,
        due: i64,
    },
    At(i64),
}

/// An instant by one of the two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instant {
    Steady(u64),
    Wall(i64),
}

impl Instant {
    /// For how long it has been over; below 0 if it has not come.
    pub(super) fn late(self, now: Now) -> i128 {
        match self {
            Self::Steady(at) => i128::from(now.steady.0) - i128::from(at),
            Self::Wall(at) => i128::from(now.wall.0) - i128::from(at),
        }
    }

    /// Where it falls on the operator's clock.
    pub(super) fn wall(self, now: Now) -> i64 {
        match self {
            Self::Wall(at) => at,
            Self::Steady(_) => {
                let wall = i128::from(now.wall.0) - self.late(now);
                i64::try_from(wall).unwrap_or(if wall < 0 { i64::MIN } else { i64::MAX })
            }
        }
    }

    /// Where it falls on the steady clock, if nobody sets the operator's.
    pub(super) fn steady(self, now: Now) -> i128 {
        i128::from(now.steady.0) - self.late(now)
    }
}

/// A period in microseconds.
pub(super) fn micros(secs: f64) -> Option<u64> {
    let micros = (secs * 1e6).round();
    #[expect(clippy::cast_possible_truncation, reason = "it is a whole number in range")]
    (0.0..1e18).contains(&micros).then_some(micros as u64)
}

fn secs(micros: i128) -> f64 {
    micros.max(0) as f64 / 1e6
}

impl Belief {
    /// What a registration leads to; none if it never occurs.
    pub(super) fn of(asked: &Registration, now: Now) -> Option<Self> {
        let plan = match &asked.schedule {
            Schedule::Every(period) => {
                let secs = period.secs();
                Plan::Every { since: now.steady.0, micros: micros(secs)?, secs }
            }
            Schedule::Cron(cron) => {
                let calendar = Calendar::of(cron.expression())?;
                let zone = TimeZone::get(cron.zone()).ok()?;
                let due = calendar.next(&zone, now.wall.0)?;
                Plan::Calendar { calendar, zone, due }
            }
            Schedule::At(at) => Plan::At(at.0),
        };
        let left = match asked.repeat {
            0 => return None,
            -1 => None,
            times => Some(u64::from(times.unsigned_abs())),
        };
        Some(Self {
            types: asked.types.iter().cloned().collect(),
            description: asked.description.clone(),
            schedule: asked.schedule.clone(),
            plan,
            left,
            updated: now.wall.0,
            occurrences: 0,
            skipped: 0,
        })
    }

    /// The n-th time from now on, counted from 1.
    pub(super) fn nth(&self, n: u64) -> Option<Instant> {
        match &self.plan {
            Plan::Every { since, micros, .. } => {
                let periods = u128::from(self.occurrences + n) * u128::from(*micros);
                let at = u128::from(*since) + periods;
                Some(Instant::Steady(u64::try_from(at).unwrap_or(u64::MAX)))
            }
            Plan::Calendar { calendar, zone, due } => {
                let at = (1..n).try_fold(*due, |at, _| calendar.next(zone, at))?;
                Some(Instant::Wall(at))
            }
            Plan::At(at) => (n == 1).then_some(Instant::Wall(*at)),
        }
    }

    /// The next time. What is there always has one.
    pub(super) fn due(&self) -> Instant {
        self.nth(1).unwrap_or(Instant::Steady(u64::MAX))
    }

    /// How many times have come, or have come longer ago than this.
    pub(super) fn count(&self, now: Now, longer_than: Option<u64>) -> u64 {
        let least = longer_than.map_or(0, |span| i128::from(span) + 1);
        let left = self.left.unwrap_or(u64::MAX);
        match &self.plan {
            Plan::Every { since, micros, .. } => {
                let passed = i128::from(now.steady.0) - i128::from(*since) - least;
                let periods = passed.max(-1).div_euclid(i128::from(*micros));
                let happened = i128::from(self.occurrences);
                u64::try_from((periods - happened).max(0)).unwrap_or(u64::MAX).min(left)
            }
            Plan::Calendar { calendar, zone, due } => {
                let times = std::iter::successors(Some(*due), |at| calendar.next(zone, *at));
                let come = times.take_while(|at| Instant::Wall(*at).late(now) >= least);
                (come.count() as u64).min(left)
            }
            Plan::At(at) => u64::from(Instant::Wall(*at).late(now) >= least),
        }
    }

    /// Some more occurrences happened. Says whether it is over.
    pub(super) fn advance(&mut self, happened: u64, skipped: u64, now: Now) -> bool {
        let last = self.nth(happened).unwrap_or(Instant::Steady(u64::MAX));
        let next = self.nth(happened + 1);
        if let (Plan::Calendar { due, .. }, Some(Instant::Wall(at))) = (&mut self.plan, next) {
            *due = at;
        }
        self.updated = last.wall(now);
        self.occurrences += happened;
        self.skipped += skipped;
        self.left = self.left.map(|left| left.saturating_sub(happened));
        self.left == Some(0) || next.is_none()
    }

    /// Whether it must, and whether it may be scheduled anew now that the operator's clock shows
    /// less than it did, and for when.
    pub(super) fn anew(&self, now: Now) -> Option<Anew> {
        let Plan::Calendar { calendar, zone, due } = &self.plan else { return None };
        let back = self.updated - now.wall.0;
        let following = calendar.next(zone, *due)?;
        let (ahead, behind) = (following - due, due - self.updated);
        let at = calendar.next(zone, now.wall.0)?;
        let differs = at != *due;
        Some(Anew {
            must: differs && back > 0 && back > ahead.max(behind),
            may: differs && back > 0 && back > ahead.min(behind),
            at,
        })
    }

    /// It waits for another time.
    pub(super) fn wait_for(&mut self, at: i64) {
        if let Plan::Calendar { due, .. } = &mut self.plan {
            *due = at;
        }
    }

    /// How the n-th time from now on is told, counted from 1, if it happens now.
    pub(super) fn told(&self, id: Id, n: u64, late: bool, now: Now) -> Notification {
        let due = self.nth(n).map_or(0, |at| at.wall(now));
        let before = n.checked_sub(1).filter(|before| *before > 0);
        let updated = match before {
            Some(before) => self.nth(before).map_or(0, |at| at.wall(now)),
            None => self.updated,
        };
        Notification {
            id,
            types: self.types.iter().map(|name| Arc::from(&**name)).collect(),
            description: Arc::from(&*self.description),
            period_secs: match &self.plan {
                Plan::Every { secs, .. } => *secs,
                _ => secs(i128::from(due) - i128::from(updated)),
            },
            repeat: repeat(self.left.map(|left| left.saturating_sub(n - 1))),
            updated: Wall(updated),
            due: Wall(due),
            occurrence: self.occurrences + n,
            late,
        }
    }

    /// How it is shown.
    pub(super) fn view(&self, id: Id, now: Now) -> EventView {
        let next = self.due();
        EventView {
            id,
            types: self.types.iter().map(|name| Arc::from(&**name)).collect(),
            description: self.description.clone(),
            schedule: self.schedule.clone(),
            period_secs: match &self.plan {
                Plan::Every { secs, .. } => *secs,
                _ => secs(-next.late(now)),
            },
            repeat: repeat(self.left),
            updated: Wall(self.updated),
            next: Wall(next.wall(now)),
            occurrences: self.occurrences,
            skipped: self.skipped,
            publish: None,
        }
    }
}

/// What a clock that was set back means for an event.
pub(super) struct Anew {
    pub(super) must: bool,
    pub(super) may: bool,
    pub(super) at: i64,
}

fn repeat(left: Option<u64>) -> Repeat {
    left.map_or(Repeat::Forever, |left| Repeat::Left(u32::try_from(left).unwrap_or(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use handoff_events::cron::Cron;
    use handoff_types::Steady;

    fn event(schedule: Schedule, repeat: i32, now: Now) -> Belief {
        let asked = Registration {
            description: String::new(),
            types: vec![],
            schedule,
            repeat,
            publish: None,
        };
        Belief::of(&asked, now).unwrap()
    }

    const fn at(wall: i64, steady: u64) -> Now {
        Now { wall: Wall(wall), steady: Steady(steady) }
    }

    #[test]
    fn a_period_is_counted_from_the_registration_and_lateness_to_the_microsecond() {
        let mut belief = event(Schedule::every_secs(1.0).unwrap(), -1, at(0, 500));
        assert_eq!(belief.count(at(0, 1_000_499), None), 0);
        assert_eq!(belief.count(at(0, 1_000_500), None), 1);
        assert_eq!(belief.count(at(0, 1_000_500), Some(0)), 0);
        assert_eq!(belief.count(at(0, 1_000_501), Some(0)), 1);
        assert!(!belief.advance(3, 1, at(70, 3_700_500)));
        assert_eq!(belief.due(), Instant::Steady(4_000_500));
        assert_eq!(belief.updated, 70 - 700_000);
    }

    #[test]
    fn what_is_left_bounds_what_has_come() {
        let mut belief = event(Schedule::every_secs(1.0).unwrap(), 3, at(0, 0));
        assert_eq!(belief.count(at(0, 60_000_000), None), 3);
        assert_eq!(belief.told(Id::default(), 3, true, at(0, 60_000_000)).repeat, Repeat::Left(1));
        assert!(belief.advance(3, 0, at(0, 60_000_000)));
    }

    #[test]
    fn a_calendar_waits_for_the_clock_and_is_scheduled_anew_only_far_back() {
        let hour = 3_600_000_000;
        let cron = Cron::parse("@hourly", None).unwrap();
        let mut belief = event(Schedule::Cron(Box::new(cron)), -1, at(10 * hour + 1, 0));
        assert!(!belief.advance(1, 0, at(11 * hour, 0)));
        assert_eq!(belief.due(), Instant::Wall(12 * hour));
        let anew = |wall: i64| belief.anew(at(wall, 0)).map(|anew| (anew.must, anew.at));
        assert_eq!(anew(10 * hour), Some((false, 11 * hour)));
        assert_eq!(anew(9 * hour + 1), Some((true, 10 * hour)));
        assert_eq!(anew(11 * hour + 1), Some((false, 12 * hour)));
    }
}
