//! Lengths of time as people write them: `24h`, `1h30m`, `500ms`, `7d`. The only reader of them
//! in the program: flags and the configuration agree.

use std::time::Duration;

/// From the largest to the smallest, with nanoseconds each.
const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
];

/// Reads a length of time: numbers with units, the larger unit first, each once.
///
/// # Errors
/// Words that say how to write it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = |why: &str| {
        format!("`{text}` is no length of time: {why}; write it as in 24h, 1h30m, 500ms or 7d")
    };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong("it is empty"));
    }
    let mut nanos: u64 = 0;
    let mut units = UNITS.as_slice();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        if number.is_empty() {
            return Err(wrong("a number is missing"));
        }
        if unit.is_empty() {
            return Err(wrong("a number has no unit"));
        }
        let Some(at) = units.iter().position(|(name, _)| *name == unit) else {
            let known = UNITS.iter().any(|(name, _)| *name == unit);
            return Err(wrong(if known {
                "the larger unit stands first, and each once"
            } else {
                "the units are w, d, h, m, s and ms"
            }));
        };
        let each = units.get(at).map_or(0, |(_, each)| *each);
        units = units.get(at + 1..).unwrap_or_default();
        let part = decimal(number, each).ok_or_else(|| wrong("a number cannot be read"))?;
        nanos = nanos.checked_add(part).ok_or_else(|| wrong("it is above 500 years"))?;
        rest = behind;
    }
    Ok(Duration::from_nanos(nanos))
}

/// A decimal number of units, exactly: `0.1` of a second is 100 ms, not what a float makes of it.
pub(crate) fn decimal(number: &str, each: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return None;
    }
    let whole = whole.parse::<u64>().ok()?.checked_mul(each)?;
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(each) / scale;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// Writes a length of time as [`parse`] reads it. What is below a millisecond is a fraction of
/// one.
pub(crate) fn show(time: Duration) -> String {
    let mut nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    // Weeks are read but not written: 7d is what people expect to see.
    for (unit, each) in UNITS.iter().skip(1) {
        let count = nanos / each;
        if count > 0 && (*each > 1_000_000 || nanos % each == 0) {
            text += &format!("{count}{unit}");
            nanos %= each;
        }
    }
    if nanos > 0 {
        let fraction = format!("{:06}", nanos % 1_000_000);
        text += &format!("{}.{}ms", nanos / 1_000_000, fraction.trim_end_matches('0'));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{parse, show};
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn lengths_of_time_are_read_as_people_write_them() {
        let check = |text: &str, millis: u64| {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        };
        check("24h", 86_400_000);
        check("1h30m", 5_400_000);
        check("500ms", 500);
        check("7d", 7 * 86_400_000);
        check("2w", 14 * 86_400_000);
        check("0.1s", 100);
        check("1.5h", 5_400_000);
        check("1d2h3m4s5ms", 93_784_005);
        check(" 10s ", 10_000);
        check("0s", 0);
    }

    #[test]
    fn what_is_no_length_of_time_is_refused_with_an_example() {
        for text in [
            "",
            "10",
            "h",
            "1x",
            "1m1h",
            "1h1h",
            "-1s",
            "1..5s",
            ".5s",
            "1.s",
            "1h 30m",
            "9999999999w",
            "1S",
        ] {
            let words = parse(text).unwrap_err();
            assert!(words.contains("1h30m"), "{text}: {words}");
        }
    }

    proptest! {
        #[test]
        fn every_length_of_time_reads_back_as_it_was_written(nanos: u64, shift in 0..60_u32) {
            let time = Duration::from_nanos(nanos >> shift);
            prop_assert_eq!(parse(&show(time)), Ok(time));
        }

        #[test]
        fn whatever_is_written_is_read_or_refused(text in "[0-9.a-z ]{0,24}|.{0,24}") {
            if let Ok(time) = parse(&text) {
                prop_assert_eq!(parse(&show(time)), Ok(time));
            }
        }
    }

    #[test]
    fn lengths_of_time_are_written_shortly() {
        assert_eq!(show(Duration::from_secs(5400)), "1h30m");
        assert_eq!(show(Duration::from_millis(1)), "1ms");
        assert_eq!(show(Duration::from_micros(1500)), "1.5ms");
        assert_eq!(show(Duration::from_secs(7 * 86_400)), "7d");
    }
}
