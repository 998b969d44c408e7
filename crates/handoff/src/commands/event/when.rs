//! Times on the command line.

use handoff_sdk::Time;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::exit::{Exit, Failure};

/// A moment: RFC 3339, or a local time in a zone of the bundled database.
///
/// # Errors
/// [`Exit::Usage`], with an example.
pub(super) fn moment(text: &str, zone: Option<&str>) -> Result<Time, Failure> {
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Ok(Time::new(moment.to_string()));
    }
    let wrong = |why: String| {
        Failure::new(Exit::Usage, why)
            .remedy("write it as in --at 2027-01-01T00:00:00Z, or --at '2027-01-01 09:00' --tz Europe/Minsk")
    };
    let local: DateTime =
        text.parse().map_err(|_| wrong(format!("`{text}` is no date and time")))?;
    let Some(zone) = zone else {
        return Err(wrong(format!("`{text}` is a local time, and nobody says where")));
    };
    let zone = TimeZone::get(zone)
        .map_err(|_| wrong(format!("there is no time zone `{zone}` in the bundled database")))?;
    let moment = zone.to_ambiguous_timestamp(local).unambiguous().map_err(|_| {
        wrong(format!("`{text}` is not one moment there: clocks are changed around it"))
    })?;
    Ok(Time::new(moment.to_string()))
}

#[cfg(test)]
mod tests {
    use super::moment;

    #[test]
    fn a_moment_is_written_with_its_offset_or_its_zone() {
        let check = |text: &str, zone: Option<&str>, expected: &str| {
            assert_eq!(moment(text, zone).unwrap().as_str(), expected, "{text}");
        };
        check("2027-01-01T00:00:00Z", None, "2027-01-01T00:00:00Z");
        check("2027-01-01T03:00:00+03:00", None, "2027-01-01T00:00:00Z");
        check("2027-01-01 09:00", Some("Europe/Minsk"), "2027-01-01T06:00:00Z");
        check("2027-07-01T09:00:00", Some("Europe/Berlin"), "2027-07-01T07:00:00Z");
    }

    #[test]
    fn a_moment_that_is_none_is_refused_with_an_example() {
        for (text, zone, words) in [
            ("tomorrow", None, "no date and time"),
            ("2027-01-01 09:00", None, "nobody says where"),
            ("2027-01-01 09:00", Some("Europe/Mink"), "no time zone"),
            ("2027-03-28 02:30", Some("Europe/Berlin"), "not one moment"),
            ("2027-10-31 02:30", Some("Europe/Berlin"), "not one moment"),
        ] {
            let failure = moment(text, zone).unwrap_err();
            assert!(failure.what.contains(words), "{text}: {failure}");
            assert!(failure.remedy.unwrap().contains("--at"), "{text}");
        }
    }
}
