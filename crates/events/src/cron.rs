//! Times of a calendar: five fields of crontab and a time zone.
//!
//! ```text
//!  ┌────────── minute   0-59
//!  │ ┌──────── hour     0-23
//!  │ │ ┌────── day      1-31
//!  │ │ │ ┌──── month    1-12, JAN-DEC
//!  │ │ │ │ ┌── weekday  0-7, SUN-SAT; 0 and 7 are Sunday
//!  * * * * *
//! ```
//!
//! A field is `*`, a number, a range `1-5`, a step `*/15` or `8-18/2`, or a list of these with
//! commas. `@hourly`, `@daily` (`@midnight`), `@weekly`, `@monthly`, `@yearly` (`@annually`) stand
//! for what they say. When day and weekday are both restricted either is enough, as in every cron
//! since Vixie's; a field that begins with `*` is not restricted in this sense.
//!
//! # When the clocks change
//! An expression that names hours (`30 2 * * *`, `*/15 1-5 * * *`, `0 */2 * * *`) means times of
//! the local clock, each of them once a day:
//! * A local time that is skipped, because clocks go forward over it, comes at the first instant
//!   after the gap. Several that are skipped together come as one. A skipped day is a long gap.
//! * A local time that is there twice, because clocks go back, comes the first time only.
//!
//! An expression whose hour is every hour (`*/15 * * * *`, `0 * * * *`) means the hour as it runs:
//! it comes whenever the local clock shows one of its minutes. Across a change by whole hours it
//! keeps its real interval: nothing comes twice, nothing is left out. (Where clocks change by half
//! an hour, as on Lord Howe Island, one interval is as much longer or shorter as the clock makes
//! it.)

use handoff_types::Wall;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use crate::BadSchedule;

mod fields;
mod zone;

use fields::Fields;

/// No date that exists is farther from the same one again: a 29 February that must be a Sunday
/// comes every 28 years, and 40 years apart where the year of a century has none.
const YEARS_BETWEEN_MAX: i16 = 40;

/// A cron expression in a time zone of the bundled database.
#[derive(Clone, Debug)]
pub struct Cron {
    expression: Box<str>,
    zone: TimeZone,
    fields: Fields,
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        self.expression == other.expression && self.zone() == other.zone()
    }
}

/// Occurrences between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// How many.
    pub(crate) count: u64,
    /// The last; the time it was counted from if there is none.
    pub(crate) last: Wall,
}

impl Cron {
    /// Reads an expression (`minute hour day month weekday`, with `*`, lists, ranges, steps and
    /// names; `@hourly` and its like) in a zone (`UTC` if none).
    ///
    /// # Errors
    /// [`BadSchedule`] says which field is wrong, or that there is no such zone.
    pub fn parse(expression: &str, zone: Option<&str>) -> Result<Self, BadSchedule> {
        let expression = expression.trim();
        let fields = Fields::parse(expression)?;
        let zone = zone::named(zone.unwrap_or("UTC"))?;
        Ok(Self { expression: expression.into(), zone, fields })
    }

    /// The expression as it was given.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// The zone's name in the database.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first time after `after`; none if there is none in the years the calendar knows.
    #[must_use]
    pub fn next_after(&self, after: Wall) -> Option<Wall> {
        self.after(Timestamp::from_microsecond(after.0).ok()?).map(wall)
    }

    fn after(&self, after: Timestamp) -> Option<Timestamp> {
        if self.fields.every_hour() { self.as_it_runs(after) } else { self.once_a_day(after) }
    }

    /// For expressions that name hours. Local times ascend with the instants they stand for, so
    /// the first one whose instant lies behind `after` is the answer.
    fn once_a_day(&self, after: Timestamp) -> Option<Timestamp> {
        let mut from = minute_behind(self.zone.to_datetime(after))?;
        loop {
            let local = self.next_local(from)?;
            let at = self.instant(local)?;
            if at > after {
                return Some(at);
            }
            from = minute_behind(local)?;
        }
    }

    /// For expressions that mean the hour as it runs: what the local clock shows, from one change
    /// of clocks to the next.
    fn as_it_runs(&self, after: Timestamp) -> Option<Timestamp> {
        let mut since = after;
        let mut from = minute_behind(self.zone.to_datetime(after))?;
        loop {
            let local = self.next_local(from)?;
            let at = self.zone.to_offset(since).to_timestamp(local).ok()?;
            match self.zone.following(since).next() {
                Some(change) if change.timestamp() <= at => {
                    since = change.timestamp();
                    from = minute_at_or_behind(self.zone.to_datetime(since))?;
                }
                _ => return Some(at),
            }
        }
    }

    /// How many times lie behind `after` up to `until`, `most` at most, and the last of them.
    ///
    /// From one change of clocks to the next they are computed, a month at a time. So a clock that
    /// jumps from 1970 to today costs a millisecond.
    pub(crate) fn advance(&self, after: Wall, until: Wall, most: u64) -> Run {
        let mut run = Run { count: 0, last: after };
        let Ok(mut last) = Timestamp::from_microsecond(after.0) else { return run };
        let until = Timestamp::from_microsecond(until.0).unwrap_or(Timestamp::MAX);
        while run.count < most {
            let Some(at) = self.after(last).filter(|at| *at <= until) else { break };
            run.count += 1;
            last = at;
            if let Some((count, at)) = self.leap(last, until, most - run.count) {
                run.count += count;
                last = at;
            }
        }
        if run.count > 0 {
            run.last = wall(last);
        }
        run
    }

    /// How many times lie behind `at` up to `until` and before clocks change, and the last of
    /// them. Fewer if they are more than `most`; none if there is none.
    ///
    /// `at` is a time itself. So if hours are named it is not in the second pass of a repeated
    /// hour, and until clocks change every local time behind it is there for the first time.
    fn leap(&self, at: Timestamp, until: Timestamp, most: u64) -> Option<(u64, Timestamp)> {
        let offset = self.zone.to_offset(at);
        let change = self.zone.following(at).next().map(|change| change.timestamp());
        // A time at `until` is among them, one at the change is not.
        let end = until.checked_add(SignedDuration::from_nanos(1)).unwrap_or(until);
        let end = offset.to_datetime(change.map_or(end, |change| change.min(end)));
        let from = minute_behind(offset.to_datetime(at))?;
        let (count, last) = self.fields.between(from, minute_at_or_behind(end)?, most)?;
        Some((count, offset.to_timestamp(last).ok()?))
    }

    /// The first local time at or behind `from` that matches, whether or not it exists.
    fn next_local(&self, from: DateTime) -> Option<DateTime> {
        let (mut day, mut hour, mut minute) = (from.date(), from.hour(), from.minute());
        let years_max = day.year().saturating_add(YEARS_BETWEEN_MAX);
        while day.year() <= years_max {
            let Some(next) = self.fields.day_from(day) else {
                day = first_of_next_month(day)?;
                (hour, minute) = (0, 0);
                continue;
            };
            if next != day {
                (hour, minute) = (0, 0);
            }
            if let Some((hour, minute)) = self.fields.time_from(hour, minute) {
                return Some(next.at(hour, minute, 0, 0));
            }
            day = next.tomorrow().ok()?;
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The instant a local time stands for: the first of two, and of none the one that ends the
    /// gap.
    fn instant(&self, local: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
            AmbiguousOffset::Gap { before, after } => self.end_of_gap(local, before, after),
        }
    }

    /// The first instant at which the local clock shows more than `local`, which it never shows.
    fn end_of_gap(&self, local: DateTime, before: Offset, after: Offset) -> Option<Timestamp> {
        let mut low = after.to_timestamp(local).ok()?.as_second();
        let mut high = before.to_timestamp(local).ok()?.as_second();
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.zone.to_datetime(Timestamp::from_second(middle).ok()?) > local {
                high = middle;
            } else {
                low = middle;
            }
        }
        Timestamp::from_second(high).ok()
    }
}

fn wall(at: Timestamp) -> Wall {
    Wall(at.as_microsecond())
}

/// The first whole minute behind a local time.
fn minute_behind(local: DateTime) -> Option<DateTime> {
    let minute = local.date().at(local.hour(), local.minute(), 0, 0);
    minute.checked_add(SignedDuration::from_mins(1)).ok()
}

fn minute_at_or_behind(local: DateTime) -> Option<DateTime> {
    let whole = local.second() == 0 && local.subsec_nanosecond() == 0;
    if whole { Some(local) } else { minute_behind(local) }
}

fn first_of_next_month(day: Date) -> Option<Date> {
    day.last_of_month().tomorrow().ok()
}

#[cfg(test)]
mod tests;
