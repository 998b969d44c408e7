//! Times as the API writes them.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A time in RFC 3339, such as `2027-01-01T00:00:00Z`, as the server wrote it or will read it.
///
/// It is kept as text: what the server said is shown as it said it, a time that cannot be read
/// does not make the rest of an answer unreadable, and no library for calendars is imposed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Time(String);

impl Time {
    /// A time as text. It is the server that checks it.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Milliseconds since 1970 as the server writes the time of a message.
    pub(crate) fn from_millis(millis: u64) -> Self {
        let since = Duration::from_millis(millis);
        Self(format!("{}.{:03}Z", seconds(since), since.subsec_millis()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The moment, or none if the text is not RFC 3339 or the moment is before 1970. A leap second
    /// is the second after it.
    ///
    /// ```
    /// use handoff_sdk::Time;
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// let time = Time::new("1970-01-01T01:00:00.5+01:00");
    /// assert_eq!(time.to_system_time(), Some(UNIX_EPOCH + Duration::from_millis(500)));
    /// ```
    #[must_use]
    pub fn to_system_time(&self) -> Option<SystemTime> {
        let since = parse(self.0.as_bytes())?;
        SystemTime::UNIX_EPOCH.checked_add(since)
    }
}

impl From<SystemTime> for Time {
    /// In UTC, to the nanosecond. A time before 1970 becomes 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut text = seconds(since);
        if since.subsec_nanos() > 0 {
            let fraction = format!(".{:09}", since.subsec_nanos());
            text.push_str(fraction.trim_end_matches('0'));
        }
        text.push('Z');
        Self(text)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const DAY: i64 = 86_400;

/// Time since 1970 of `YYYY-MM-DDTHH:MM:SS[.fraction](Z|±HH:MM)`.
fn parse(text: &[u8]) -> Option<Duration> {
    let mut rest = text;
    let year = digits(&mut rest, 4)?;
    let month = after(&mut rest, b"-", 2)?;
    let day = after(&mut rest, b"-", 2)?;
    let hour = after(&mut rest, b"Tt ", 2)?;
    let minute = after(&mut rest, b":", 2)?;
    let second = after(&mut rest, b":", 2)?;
    let nanos = fraction(&mut rest)?;
    let offset = offset(rest)?;
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = days_before(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    Some(Duration::new(u64::try_from(seconds).ok()?, nanos))
}

/// The inverse of `days_before` after Howard Hinnant's `civil_from_days`: years begin in March, so
/// that the leap day is the last.
fn seconds(since: Duration) -> String {
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let (days, second) = (seconds / DAY, seconds % DAY);
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// Days from 1970-01-01 to a date.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
    era * 146_097 + of_era - 719_468
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn digits(rest: &mut &[u8], count: usize) -> Option<i64> {
    let (head, tail) = rest.split_at_checked(count)?;
    *rest = tail;
    head.iter()
        .try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + i64::from(byte - b'0')))
}

fn after(rest: &mut &[u8], marks: &[u8], count: usize) -> Option<i64> {
    let (mark, tail) = rest.split_first()?;
    *rest = tail;
    if marks.contains(mark) { digits(rest, count) } else { None }
}

/// Nanoseconds; finer digits are dropped.
fn fraction(rest: &mut &[u8]) -> Option<u32> {
    let Some(tail) = rest.strip_prefix(b".") else { return Some(0) };
    let count = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, tail) = tail.split_at_checked(count)?;
    *rest = tail;
    if digits.is_empty() {
        return None;
    }
    let padded = digits.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    Some(padded.fold(0, |sum, byte| sum * 10 + u32::from(byte - b'0')))
}

/// Seconds east of Greenwich, and nothing behind.
fn offset(rest: &[u8]) -> Option<i64> {
    let (sign, mut tail) = rest.split_first()?;
    let sign = match sign {
        b'Z' | b'z' => return tail.is_empty().then_some(0),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = digits(&mut tail, 2)?;
    let minutes = after(&mut tail, b":", 2)?;
    let sound = tail.is_empty() && hours < 24 && minutes < 60;
    sound.then_some(sign * (hours * 3600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

    use super::Time;

    fn seconds(text: &str) -> Option<u64> {
        let time = Time::new(text).to_system_time()?;
        Some(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs())
    }

    #[test]
    fn times_are_read_as_rfc_3339_says() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:34:56Z", 951_827_696),
            ("2027-01-15T08:00:00Z", 1_800_000_000),
            ("2027-01-15t08:00:00z", 1_800_000_000),
            ("2027-01-15 11:00:00.25+03:00", 1_800_000_000),
            ("2027-01-15T02:30:00-05:30", 1_800_000_000),
            ("1990-12-31T23:59:60Z", 662_688_000),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(seconds(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "tomorrow",
            "2027-01-15",
            "2027-01-15T08:00:00",
            "2027-01-15T08:00Z",
            "2027-13-15T08:00:00Z",
            "2027-00-15T08:00:00Z",
            "2027-02-29T08:00:00Z",
            "2100-02-29T08:00:00Z",
            "2027-01-00T08:00:00Z",
            "2027-01-15T24:00:00Z",
            "2027-01-15T08:60:00Z",
            "2027-01-15T08:00:61Z",
            "2027-01-15T08:00:00.Z",
            "2027-01-15T08:00:00Z ",
            "2027-01-15T08:00:00+24:00",
            "2027-01-15T08:00:00+0300",
            "1969-12-31T23:59:59Z",
            "2027-01-15T08:00:00Ü",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn a_time_is_written_in_utc() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_800_000_000_000_000_000, "2027-01-15T08:00:00Z"),
            (951_782_400_500_000_000, "2000-02-29T00:00:00.5Z"),
            (1, "1970-01-01T00:00:00.000000001Z"),
        ] {
            let time = Time::from(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos));
            assert_eq!(time.as_str(), text);
        }
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Time::from(before).as_str(), "1970-01-01T00:00:00Z");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_time_reads_back_as_it_was_written(secs in 0..253_402_300_800_u64, nanos in 0..1_000_000_000_u32) {
            let time = SystemTime::UNIX_EPOCH + Duration::new(secs, nanos);
            prop_assert_eq!(Time::from(time).to_system_time(), Some(time));
        }

        #[test]
        fn any_text_is_read_or_not(text in "\\PC{0,40}|[0-9TZ:+.-]{0,40}") {
            let time = Time::new(text.clone());
            prop_assert!(time.to_system_time().is_none_or(|t| t >= SystemTime::UNIX_EPOCH));
            prop_assert_eq!(time.as_str(), text);
        }
    }
}
