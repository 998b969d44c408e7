//! The five fields, read from text into one bit for each value.

use jiff::civil::{Date, DateTime};

use crate::BadSchedule;

/// More than a list of every value of every field.
const EXPRESSION_BYTES_MAX: usize = 512;

/// What the fields select: bit `n` is set for the value `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fields {
    minutes: u64,
    hours: u32,
    days: u32,
    months: u16,
    /// Sunday is 0.
    weekdays: u8,
    /// Day and weekday are both restricted, and either is enough.
    either: bool,
}

/// A field as people know it.
#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    first: u8,
    last: u8,
    /// Names for values from `first` on.
    names: &'static [&'static str],
}

const MINUTE: Field = Field { name: "minute", first: 0, last: 59, names: &[] };
const HOUR: Field = Field { name: "hour", first: 0, last: 23, names: &[] };
const DAY: Field = Field { name: "day", first: 1, last: 31, names: &[] };
const MONTH: Field = Field {
    name: "month",
    first: 1,
    last: 12,
    names: &["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
};
const WEEKDAY: Field = Field {
    name: "weekday",
    first: 0,
    last: 7,
    names: &["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
};

impl Fields {
    pub(super) fn parse(expression: &str) -> Result<Self, BadSchedule> {
        if expression.len() > EXPRESSION_BYTES_MAX {
            return Err(BadSchedule(format!(
                "the cron expression has {} bytes; at most {EXPRESSION_BYTES_MAX} are read",
                expression.len()
            )));
        }
        let text = if expression.starts_with('@') { shorthand(expression)? } else { expression };
        let parts: Vec<&str> = text.split_ascii_whitespace().collect();
        let &[minute, hour, day, month, weekday] = &*parts else {
            return Err(BadSchedule(format!(
                "`{expression}` has {} fields; a cron expression has five: minute hour day month weekday",
                parts.len()
            )));
        };
        let weekdays = WEEKDAY.parse(weekday)?;
        let small = |bits: u64| u32::try_from(bits).unwrap_or(0);
        Ok(Self {
            minutes: MINUTE.parse(minute)?,
            hours: small(HOUR.parse(hour)?),
            days: small(DAY.parse(day)?),
            months: u16::try_from(MONTH.parse(month)?).unwrap_or(0),
            weekdays: u8::try_from(weekdays & 0x7f | weekdays >> 7).unwrap_or(0),
            either: !day.starts_with('*') && !weekday.starts_with('*'),
        })
    }

    /// Whether every hour is selected.
    pub(super) const fn every_hour(&self) -> bool {
        self.hours == 0x00ff_ffff
    }

    /// The days of this day's month that match: bit `n` for the `n`-th.
    fn days_of(&self, day: Date) -> u32 {
        if self.months >> day.month() & 1 == 0 {
            return 0;
        }
        let first =
            u32::from(day.first_of_month().weekday().to_sunday_zero_offset().unsigned_abs());
        // One bit a weekday, from the weekday of the first of the month on, week after week.
        let week = u64::from(self.weekdays);
        let week = (week >> first | week << (7 - first)) & 0x7f;
        let weeks = week << 1 | week << 8 | week << 15 | week << 22 | week << 29;
        let by_weekday = u32::try_from(weeks & u64::from(u32::MAX)).unwrap_or(0);
        let days = if self.either { self.days | by_weekday } else { self.days & by_weekday };
        days & below(i32::from(day.days_in_month()) + 1)
    }

    /// The first day of the month, from this one on, that matches.
    pub(super) fn day_from(&self, day: Date) -> Option<Date> {
        let days = self.days_of(day) & !below(day.day().into());
        let first = (days != 0).then(|| bit(days.trailing_zeros()))?;
        Date::new(day.year(), day.month(), first).ok()
    }

    /// How many local times lie from `from` up to, not including, `end`, and the last of them.
    /// None if there is none. Those of a day that would be more than `most` together with the
    /// ones before are left out, and what comes after.
    pub(super) fn between(
        &self,
        from: DateTime,
        end: DateTime,
        most: u64,
    ) -> Option<(u64, DateTime)> {
        let mut found = Found { count: 0, last: None, most };
        let begun = self.times_before(from.hour(), from.minute());
        let (first, last) = (from.date(), end.date());
        if first == last {
            let times = self.times_before(end.hour(), end.minute()).saturating_sub(begun);
            self.take(&mut found, first, times, self.time_before(end.hour(), end.minute()));
            return found.give();
        }
        let fits = self.take(&mut found, first, self.times_a_day() - begun, self.last_time())
            && self.whole_days(&mut found, first, last);
        if fits {
            let times = self.times_before(end.hour(), end.minute());
            self.take(&mut found, last, times, self.time_before(end.hour(), end.minute()));
        }
        found.give()
    }

    /// Takes some times of a day, if the day matches. Whether they fit.
    fn take(&self, found: &mut Found, day: Date, times: u64, last: Option<(i8, i8)>) -> bool {
        let times = if self.day_from(day) == Some(day) { times } else { 0 };
        if times > found.most - found.count {
            return false;
        }
        if let Some((hour, minute)) = last.filter(|_| times > 0) {
            found.count += times;
            found.last = Some(day.at(hour, minute, 0, 0));
        }
        true
    }

    /// Takes the days between two days. Whether all fit.
    fn whole_days(&self, found: &mut Found, after: Date, before: Date) -> bool {
        let Some((hour, minute)) = self.last_time() else { return true };
        let Ok(mut day) = after.tomorrow() else { return true };
        while day < before {
            let mut days = self.days_of(day) & !below(day.day().into());
            if (day.year(), day.month()) == (before.year(), before.month()) {
                days &= below(before.day().into());
            }
            let room = (found.most - found.count) / self.times_a_day().max(1);
            let all = days.count_ones();
            while u64::from(days.count_ones()) > room {
                days &= !(1 << days.checked_ilog2().unwrap_or(0));
            }
            if let Some(last) = days.checked_ilog2()
                && let Ok(last) = Date::new(day.year(), day.month(), bit(last))
            {
                found.count += u64::from(days.count_ones()) * self.times_a_day();
                found.last = Some(last.at(hour, minute, 0, 0));
            }
            if days.count_ones() < all {
                return false;
            }
            let Ok(next) = day.last_of_month().tomorrow() else { return true };
            day = next;
        }
        true
    }

    /// How many times a day that matches has.
    fn times_a_day(&self) -> u64 {
        u64::from(self.minutes.count_ones() * self.hours.count_ones())
    }

    /// How many of them come before this one.
    fn times_before(&self, hour: i8, minute: i8) -> u64 {
        let hours = (self.hours & below(hour.into())).count_ones() * self.minutes.count_ones();
        let minutes = (self.minutes & below_minute(minute)).count_ones();
        u64::from(if self.hours >> hour & 1 == 1 { hours + minutes } else { hours })
    }

    /// The last of the day that comes before this one.
    fn time_before(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        let minutes = self.minutes & below_minute(minute);
        if self.hours >> hour & 1 == 1 && minutes != 0 {
            return Some((hour, bit(minutes.ilog2())));
        }
        let hours = self.hours & below(hour.into());
        Some((bit(hours.checked_ilog2()?), bit(self.minutes.checked_ilog2()?)))
    }

    /// The first time of the day at or behind this one.
    pub(super) fn time_from(&self, hour: i8, minute: i8) -> Option<(i8, i8)> {
        if self.hours >> hour & 1 == 1 {
            let minutes = self.minutes >> minute << minute;
            if minutes != 0 {
                return Some((hour, bit(minutes.trailing_zeros())));
            }
        }
        let later = self.hours >> hour >> 1 << hour << 1;
        (later != 0).then(|| (bit(later.trailing_zeros()), bit(self.minutes.trailing_zeros())))
    }

    /// The last time of the day.
    fn last_time(&self) -> Option<(i8, i8)> {
        Some((bit(self.hours.checked_ilog2()?), bit(self.minutes.checked_ilog2()?)))
    }
}

/// Times that were found so far.
struct Found {
    count: u64,
    last: Option<DateTime>,
    most: u64,
}

impl Found {
    fn give(self) -> Option<(u64, DateTime)> {
        self.last.map(|last| (self.count, last))
    }
}

/// The number of a bit as the calendar counts.
fn bit(number: u32) -> i8 {
    i8::try_from(number).unwrap_or(i8::MAX)
}

/// The bits below the `n`-th.
fn below(n: i32) -> u32 {
    1u32.checked_shl(n.unsigned_abs()).map_or(u32::MAX, |bit| bit - 1)
}

fn below_minute(minute: i8) -> u64 {
    (1 << minute) - 1
}

fn shorthand(expression: &str) -> Result<&'static str, BadSchedule> {
    match expression.to_ascii_lowercase().as_str() {
        "@hourly" => Ok("0 * * * *"),
        "@daily" | "@midnight" => Ok("0 0 * * *"),
        "@weekly" => Ok("0 0 * * 0"),
        "@monthly" => Ok("0 0 1 * *"),
        "@yearly" | "@annually" => Ok("0 0 1 1 *"),
        _ => Err(BadSchedule(format!(
            "`{expression}` is not known; there are @hourly, @daily, @weekly, @monthly and @yearly"
        ))),
    }
}

impl Field {
    fn parse(self, text: &str) -> Result<u64, BadSchedule> {
        text.split(',').try_fold(0, |bits, item| Ok(bits | self.item(item)?))
    }

    /// `*`, `*/step`, `value`, `first-last`, `first-last/step`
    fn item(self, item: &str) -> Result<u64, BadSchedule> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(step)),
            None => (item, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" => (self.first, self.last),
            Some((first, last)) => self.range(item, first, last)?,
            None if step.is_some() => {
                return Err(self.bad(item, "a step needs a range, as in */15 or 8-18/2"));
            }
            None => {
                let value = self.value(item, range)?;
                (value, value)
            }
        };
        let step = match step.map(str::parse::<u8>) {
            None => 1,
            Some(Ok(step @ 1..)) if step <= self.last => step,
            Some(_) => {
                let what = format!("a step is a number from 1 to {}", self.last);
                return Err(self.bad(item, &what));
            }
        };
        // `*` is the days of one week, not eight.
        let last = if range == "*" && self.last == 7 { 6 } else { last };
        Ok((first..=last).step_by(step.into()).fold(0, |bits, value| bits | 1 << value))
    }

    fn range(self, item: &str, first: &str, last: &str) -> Result<(u8, u8), BadSchedule> {
        let (first, mut last) = (self.value(item, first)?, self.value(item, last)?);
        // Sunday ends the week as well as it begins it: FRI-SUN.
        if self.last == 7 && last == 0 && first > 0 {
            last = 7;
        }
        if first > last {
            return Err(self.bad(item, "the range goes backwards"));
        }
        Ok((first, last))
    }

    fn value(self, item: &str, text: &str) -> Result<u8, BadSchedule> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        if let Some(at) = named.and_then(|at| u8::try_from(at).ok()) {
            return Ok(self.first + at);
        }
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse().ok().filter(|_| digits);
        value
            .filter(|value| (self.first..=self.last).contains(value))
            .ok_or_else(|| self.bad(item, "it is not among what is allowed"))
    }

    fn bad(self, item: &str, what: &str) -> BadSchedule {
        let Self { name, first, last, names } = self;
        let named = match (names.first(), names.last()) {
            (Some(first), Some(last)) => format!(", {first}-{last}"),
            _ => String::new(),
        };
        BadSchedule(format!(
            "the {name} `{item}` cannot be read: {what}; a {name} is {first}-{last}{named}, *, a range, a step or a list"
        ))
    }
}
