//! Names of files and folders.
//!
//! ```text
//! exchange/<database>/Messages/0000000000000007-a1_from_tab-1_to_main__ORDER.json
//! exchange/<database>/Log/2026-11-15/…      exchange/<database>/Error/2026-11-15/…
//!                                           └─ 16 hex digits: the message's number
//!
//! .<name>                being written; never read, removed when found
//! <name>.conflict-1      was found under this name and is not the message; kept for people
//! ```
//!
//! Ids have neither `_` nor `.`, so a name is read from the left in one way only, also when the type
//! of a message holds `_to_`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use handoff_exchange::{EntityId, Kind, MessageId, Place, Seq, Spot};
use handoff_types::Wall;
use thiserror::Error;

/// The folder of all databases.
pub(super) const ROOT: &str = "exchange";

/// The most bytes of a full path, so that the files can be copied to any system.
pub const PATH_BYTES_MAX: usize = 240;

/// What a file that had to give way is called behind its name, with a digit.
pub(super) const CONFLICT: &str = ".conflict-";

const DAY_MICROS: i64 = 86_400_000_000;

/// What a file says by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileName {
    /// The message's place in the order of all messages.
    pub seq: Seq,
    /// What its sender calls it.
    pub id: MessageId,
    /// Who sent it: a device or a database.
    pub from: EntityId,
    /// Whom it is for: a database or a device.
    pub to: EntityId,
    /// Its type.
    pub kind: Option<Kind>,
}

/// A text that is not the name of a message's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not <16 hex digits>-<id>_from_<sender>_to_<recipient>[__<type>].json")]
pub struct BadFileName;

impl FileName {
    /// The most bytes one has.
    pub const LENGTH_MAX: usize = 16
        + 1
        + MessageId::LENGTH_MAX
        + "_from_".len()
        + EntityId::LENGTH_MAX
        + "_to_".len()
        + EntityId::LENGTH_MAX
        + "__".len()
        + Kind::LENGTH_MAX
        + ".json".len();

    /// The name. Every file that is written or moved needs one, so it is put together without a
    /// formatter.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { seq, id, from, to, kind } = self;
        let mut text = String::with_capacity(Self::LENGTH_MAX);
        for nth in (0..16).rev() {
            let digit = u32::try_from(seq.0 >> (4 * nth) & 15).unwrap_or_default();
            text.push(char::from_digit(digit, 16).unwrap_or('0'));
        }
        for part in ["-", id.as_str(), "_from_", from.as_str(), "_to_", to.as_str()] {
            text.push_str(part);
        }
        if let Some(kind) = kind {
            text.push_str("__");
            text.push_str(kind.as_str());
        }
        text.push_str(".json");
        text
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for FileName {
    type Err = BadFileName;

    fn from_str(text: &str) -> Result<Self, BadFileName> {
        let rest = text.strip_suffix(".json").ok_or(BadFileName)?;
        let (seq, rest) = rest.split_at_checked(16).ok_or(BadFileName)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if !seq.bytes().all(is_hex) {
            return Err(BadFileName);
        }
        let seq = u64::from_str_radix(seq, 16).map(Seq).map_err(|_| BadFileName)?;
        let rest = rest.strip_prefix('-').ok_or(BadFileName)?;
        let (id, rest) = rest.split_once("_from_").ok_or(BadFileName)?;
        let (from, rest) = rest.split_once("_to_").ok_or(BadFileName)?;
        let (to, kind) = match rest.split_once("__") {
            Some((to, kind)) => (to, Some(kind)),
            None => (rest, None),
        };
        Ok(Self {
            seq,
            id: id.parse().map_err(|_| BadFileName)?,
            from: from.parse().map_err(|_| BadFileName)?,
            to: to.parse().map_err(|_| BadFileName)?,
            kind: kind.map(|kind| kind.parse().map_err(|_| BadFileName)).transpose()?,
        })
    }
}

/// The data directory's own path is too long for files to lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the path of the data directory is {bytes} bytes long; files of the exchange need it to be at most {most}: choose a shorter one with --data-dir"
)]
pub struct PathTooLong {
    /// How long it is.
    pub bytes: usize,
    /// How long it may be.
    pub most: usize,
}

/// Refuses a data directory whose files could not be copied everywhere.
///
/// # Errors
/// [`PathTooLong`] if the longest possible path is over [`PATH_BYTES_MAX`].
pub fn check_paths(data_dir: &Path) -> Result<(), PathTooLong> {
    let bytes = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let bytes = bytes.as_os_str().len();
    let below = 1 + ROOT.len() + 1 + EntityId::LENGTH_MAX + 1 + FOLDER_MAX + 1;
    let name = FileName::LENGTH_MAX + CONFLICT.len() + 1;
    let most = PATH_BYTES_MAX.saturating_sub(below + name);
    if bytes <= most { Ok(()) } else { Err(PathTooLong { bytes, most }) }
}

/// The longest folder: `Error/2026-11-15`.
const FOLDER_MAX: usize = 16;

/// The name of a place's folder.
pub(super) const fn place_name(place: Place) -> &'static str {
    match place {
        Place::Messages => "Messages",
        Place::Prepared => "Prepared",
        Place::Log => "Log",
        Place::Unknown => "Unknown",
        Place::Error => "Error",
    }
}

/// Whether a place is cut by days.
pub(super) const fn has_days(place: Place) -> bool {
    matches!(place, Place::Log | Place::Error)
}

/// The folder of a place of a database.
pub(super) fn place_dir(database: &EntityId, place: Place) -> String {
    [ROOT, "/", database.as_str(), "/", place_name(place)].concat()
}

/// The folder of a spot.
pub(super) fn spot_dir(database: &EntityId, spot: Spot) -> String {
    let mut dir = place_dir(database, spot.place);
    if has_days(spot.place) {
        dir.push('/');
        dir.push_str(&day(spot.since));
    }
    dir
}

/// The day of a time, in UTC. Days that have no four digits for their year are taken for the first
/// and the last that have.
pub(super) fn day(at: Wall) -> String {
    let days = at.0.div_euclid(DAY_MICROS).clamp(-719_528, 2_932_896);
    // Howard Hinnant, "chrono-compatible low-level date algorithms": days from 0000-03-01 on.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Whether a folder's name can be a day.
pub(super) fn is_day(name: &str) -> bool {
    name.len() == 10
        && name.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts() -> impl Strategy<Value = FileName> {
        let id = "[A-Za-z0-9-]{1,36}".prop_map(|text| text.parse::<MessageId>().unwrap());
        let entity = || "[A-Za-z0-9-]{1,16}".prop_map(|text| text.parse::<EntityId>().unwrap());
        let kind = "[A-Za-z0-9_-]{1,24}".prop_map(|text| text.parse::<Kind>().unwrap());
        (any::<u64>(), id, entity(), entity(), proptest::option::of(kind))
            .prop_map(|(seq, id, from, to, kind)| FileName { seq: Seq(seq), id, from, to, kind })
    }

    proptest! {
        #[test]
        fn a_name_reads_back_and_is_never_too_long(name in parts()) {
            let text = name.to_string();
            prop_assert!(text.len() <= FileName::LENGTH_MAX);
            prop_assert_eq!(text.parse::<FileName>(), Ok(name));
        }

        #[test]
        fn a_text_that_reads_as_a_name_is_written_the_same(text in "[0-9a-f]{15,17}-?[A-Za-z_-]{0,4}(_from_)?[a-z]{0,3}(_to_)?[a-z_]{0,6}(\\.json)?") {
            if let Ok(name) = text.parse::<FileName>() {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }

    #[test]
    fn a_type_that_looks_like_the_rest_of_a_name_is_read_as_a_type() {
        let text = "000000000000000a-x_from_a_to_b___to_c_from_d__e.json";
        let name: FileName = text.parse().unwrap();
        assert_eq!(name.kind.as_ref().map(Kind::as_str), Some("_to_c_from_d__e"));
        assert_eq!((name.to.as_str(), name.to_string().as_str()), ("b", text));
    }

    #[test]
    fn what_is_not_a_name_is_none() {
        for text in [
            "",
            ".json",
            "000000000000000A-x_from_a_to_b.json",
            "000000000000000-x_from_a_to_b.json",
            "+00000000000000a-x_from_a_to_b.json",
            "000000000000000a-x_from_a_to_b.txt",
            "000000000000000a-x_from_../a_to_b.json",
            "000000000000000a-x_from_a_to_b__.json",
            "000000000000000a-x_from_a_to_b.json.conflict-1",
            ".000000000000000a-x_from_a_to_b.json",
        ] {
            assert_eq!(text.parse::<FileName>(), Err(BadFileName), "{text:?}");
        }
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (micros, shown) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (DAY_MICROS - 1, "1970-01-01"),
            (951_782_400_000_000, "2000-02-29"),
            (1_794_787_200_000_000, "2026-11-16"),
            (i64::MIN, "0000-01-01"),
            (i64::MAX, "9999-12-31"),
        ] {
            assert_eq!(day(Wall(micros)), shown);
            assert!(is_day(shown));
        }
        for text in ["2026-11-1", "2026-11-155", "2026/11/15", "Messages", ""] {
            assert!(!is_day(text), "{text:?}");
        }
    }

    #[test]
    fn a_data_directory_is_refused_when_the_longest_path_would_be_too_long() {
        let longest = format!("/{}", "d".repeat(PATH_BYTES_MAX));
        let refused = check_paths(Path::new(&longest)).unwrap_err();
        assert_eq!(refused.bytes, longest.len());
        let fits = format!("/{}", "d".repeat(refused.most - 1));
        assert_eq!(check_paths(Path::new(&fits)), Ok(()));
        let over = format!("/{}", "d".repeat(refused.most));
        assert!(check_paths(Path::new(&over)).is_err());
    }
}
