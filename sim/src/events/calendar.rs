//! Cron expressions that the simulated callers use, and when they come: found by walking the
//! calendar minute by minute, as slowly and as plainly as possible.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// Zones with hours that come twice or never, with half hours, and without any of it.
pub(super) const ZONES: &[&str] = &[
    "UTC",
    "Europe/Minsk",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
];

/// An expression and what it means. Empty lists: whatever there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Calendar {
    pub(super) text: &'static str,
    minutes: &'static [i8],
    hours: &'static [i8],
    days: &'static [i8],
    weekdays: &'static [Weekday],
    /// There is no such day.
    pub(super) never: bool,
}

const fn calendar(
    text: &'static str,
    minutes: &'static [i8],
    hours: &'static [i8],
    days: &'static [i8],
    weekdays: &'static [Weekday],
) -> Calendar {
    Calendar { text, minutes, hours, days, weekdays, never: false }
}

/// What the simulated callers ask for.
pub(super) const CALENDARS: &[Calendar] = &[
    calendar("* * * * *", &[], &[], &[], &[]),
    calendar("*/5 * * * *", &[0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55], &[], &[], &[]),
    calendar("7,37 * * * *", &[7, 37], &[], &[], &[]),
    calendar("@hourly", &[0], &[], &[], &[]),
    calendar("30 2 * * *", &[30], &[2], &[], &[]),
    calendar("*/20 1-3 * * *", &[0, 20, 40], &[1, 2, 3], &[], &[]),
    calendar("15 */6 * * *", &[15], &[0, 6, 12, 18], &[], &[]),
    calendar("@daily", &[0], &[0], &[], &[]),
    calendar("45 23 * * MON-FRI", &[45], &[23], &[], WORKDAYS),
    calendar("0 3 1,10,31 * SUN", &[0], &[3], &[1, 10, 31], &[Weekday::Sunday]),
    Calendar {
        text: "0 0 30 2 *",
        minutes: &[0],
        hours: &[0],
        days: &[30],
        weekdays: &[],
        never: true,
    },
];

const WORKDAYS: &[Weekday] =
    &[Weekday::Monday, Weekday::Tuesday, Weekday::Wednesday, Weekday::Thursday, Weekday::Friday];

const MINUTE: i64 = 60_000_000;

/// None of the expressions waits longer: half a month.
const MINUTES_MAX: usize = 16 * 24 * 60;

impl Calendar {
    /// The expression with this text.
    pub(super) fn of(text: &str) -> Option<&'static Self> {
        CALENDARS.iter().find(|calendar| calendar.text == text)
    }

    /// The first time behind `after`, in microseconds since the epoch.
    pub(super) fn next(&self, zone: &TimeZone, after: i64) -> Option<i64> {
        if self.never {
            return None;
        }
        let first = after.div_euclid(MINUTE) + 1;
        let mut before = Shown::at(zone, (first - 1) * MINUTE)?;
        for at in (first..).map(|minute| minute * MINUTE).take(MINUTES_MAX) {
            let shown = Shown::at(zone, at)?;
            if self.comes(zone, at, before, shown) {
                return Some(at);
            }
            before = shown;
        }
        None
    }

    /// Whether it comes at an instant at which the local clock shows this, and a minute before
    /// showed that.
    fn comes(&self, zone: &TimeZone, at: i64, before: Shown, shown: Shown) -> bool {
        if self.hours.is_empty() {
            return self.names(shown.local);
        }
        // Times that the clock skips come with the first one behind them.
        if shown.offset > before.offset {
            let mut skipped = before.local.saturating_add(1.minute());
            while skipped < shown.local {
                if self.names(skipped) {
                    return true;
                }
                skipped = skipped.saturating_add(1.minute());
            }
        }
        self.names(shown.local) && is_first(zone, at, shown.local)
    }

    fn names(&self, shown: DateTime) -> bool {
        let in_list = |list: &[i8], value: i8| list.is_empty() || list.contains(&value);
        let weekday = self.weekdays.contains(&shown.weekday());
        let day = match (self.days, self.weekdays) {
            ([], []) => true,
            ([], _) => weekday,
            (days, []) => days.contains(&shown.day()),
            (days, _) => days.contains(&shown.day()) || weekday,
        };
        day && in_list(self.minutes, shown.minute()) && in_list(self.hours, shown.hour())
    }
}

/// What a clock in some zone shows.
#[derive(Clone, Copy)]
struct Shown {
    local: DateTime,
    offset: Offset,
}

impl Shown {
    fn at(zone: &TimeZone, at: i64) -> Option<Self> {
        let at = Timestamp::from_microsecond(at).ok()?;
        let offset = zone.to_offset(at);
        Some(Self { local: offset.to_datetime(at), offset })
    }
}

/// Whether the clock shows this for the first time: not when it has been set back over it.
fn is_first(zone: &TimeZone, at: i64, shows: DateTime) -> bool {
    let earlier = zone.to_ambiguous_timestamp(shows).earlier();
    earlier.is_ok_and(|earlier| earlier.as_microsecond() == at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str, zone: &str, from: &str, count: usize) -> Vec<String> {
        let zone = TimeZone::get(zone).unwrap();
        let calendar = Calendar::of(text).unwrap();
        let mut at = from.parse::<Timestamp>().unwrap().as_microsecond();
        let next = |_| {
            at = calendar.next(&zone, at).unwrap();
            Timestamp::from_microsecond(at).unwrap().to_string()
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn a_time_that_is_skipped_comes_with_the_end_of_the_gap() {
        let found = times("30 2 * * *", "Europe/Berlin", "2024-03-30T00:00:00Z", 3);
        let expected = ["2024-03-30T01:30:00Z", "2024-03-31T01:00:00Z", "2024-04-01T00:30:00Z"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_time_that_is_there_twice_comes_once_unless_every_hour_is_meant() {
        let found = times("30 2 * * *", "Europe/Berlin", "2024-10-26T12:00:00Z", 2);
        assert_eq!(found, ["2024-10-27T00:30:00Z", "2024-10-28T01:30:00Z"]);
        let found = times("@hourly", "Europe/Berlin", "2024-10-27T00:00:00Z", 2);
        assert_eq!(found, ["2024-10-27T01:00:00Z", "2024-10-27T02:00:00Z"]);
    }

    #[test]
    fn a_day_and_a_weekday_are_either_of_them() {
        let found = times("0 3 1,10,31 * SUN", "UTC", "2024-03-07T00:00:00Z", 3);
        let expected = ["2024-03-10T03:00:00Z", "2024-03-17T03:00:00Z", "2024-03-24T03:00:00Z"];
        assert_eq!(found, expected);
    }
}
