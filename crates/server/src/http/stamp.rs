//! Times as the API writes them: RFC 3339, UTC.

use handoff_types::Wall;
use jiff::Timestamp;

/// A time as text. What the calendar does not know becomes its last day.
pub(crate) fn stamp(wall: Wall) -> String {
    on_calendar(wall).to_string()
}

/// A time as text, to the millisecond and always with three digits of it: in this form the order of
/// texts is the order of times, and columns line up.
pub(super) fn stamp_millis(wall: Wall) -> String {
    format!("{:.3}", on_calendar(wall))
}

fn on_calendar(wall: Wall) -> Timestamp {
    let last = if wall.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(wall.0).unwrap_or(last)
}

/// A text as a time. It must say how far from UTC it is.
///
/// # Errors
/// In words.
pub(super) fn read_stamp(text: &str) -> Result<Wall, String> {
    match text.parse::<Timestamp>() {
        Ok(time) => Ok(Wall(time.as_microsecond())),
        Err(why) => Err(format!(
            "`{text}` is no time: write it like 2027-01-01T00:00:00Z or 2027-01-01T03:00:00+03:00 ({why})"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{read_stamp, stamp, stamp_millis};
    use handoff_types::Wall;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_time_of_the_calendar_reads_back(micros in -60_000_000_000_000_000..=253_000_000_000_000_000_i64) {
            prop_assert_eq!(read_stamp(&stamp(Wall(micros))), Ok(Wall(micros)));
        }

        #[test]
        fn times_to_the_millisecond_sort_as_text(a in 0..4_000_000_000_000_i64, b in 0..4_000_000_000_000_i64) {
            let text = |millis| stamp_millis(Wall(millis * 1000));
            prop_assert_eq!(text(a).cmp(&text(b)), a.cmp(&b));
            prop_assert_eq!(read_stamp(&text(a)), Ok(Wall(a * 1000)));
        }

        #[test]
        fn whatever_comes_as_a_time_is_read_or_refused(text in any::<String>()) {
            drop(read_stamp(&text));
        }
    }

    #[test]
    fn times_read_back_as_they_are_written() {
        for micros in [0, 1, -1, 1_800_000_000_000_000, 1_800_000_000_123_456] {
            assert_eq!(read_stamp(&stamp(Wall(micros))), Ok(Wall(micros)));
        }
        assert_eq!(stamp(Wall(1_800_000_000_000_000)), "2027-01-15T08:00:00Z");
        assert_eq!(stamp_millis(Wall(1_800_000_000_700_000)), "2027-01-15T08:00:00.700Z");
        assert_eq!(read_stamp("1970-01-01T03:00:01+03:00"), Ok(Wall(1_000_000)));
    }

    #[test]
    fn a_time_without_an_offset_is_refused() {
        for text in ["2027-01-01T00:00:00", "2027-01-01", "tomorrow", ""] {
            assert!(read_stamp(text).unwrap_err().contains("is no time"), "{text}");
        }
    }

    #[test]
    fn a_time_outside_the_calendar_is_its_last_day() {
        assert!(stamp(Wall(i64::MAX)).starts_with("9999-12-30"));
        assert!(stamp(Wall(i64::MIN)).starts_with("-009999-01-02"));
    }
}
