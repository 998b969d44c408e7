//! Time zones by name, from the database that is part of the program.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use crate::BadSchedule;

/// Longer than any name there is.
const NAME_BYTES_MAX: usize = 64;

/// How many letters may be wrong for a name to be suggested.
const WRONG_MAX: usize = 3;

/// The zone of this name, whatever its case.
pub(super) fn named(name: &str) -> Result<TimeZone, BadSchedule> {
    if name.len() > NAME_BYTES_MAX {
        return Err(BadSchedule(format!(
            "the name of the time zone has {} bytes; the longest there is has fewer than {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    let found = TimeZoneDatabase::bundled().get(name).ok();
    found.filter(|zone| !zone.is_unknown()).ok_or_else(|| {
        let meant = match suggestion(name) {
            Some(meant) => format!("did you mean {meant}?"),
            None => "names are as in Europe/Minsk or UTC".to_owned(),
        };
        BadSchedule(format!("there is no time zone `{name}`; {meant}"))
    })
}

/// The nearest name: the same place in whatever part of the world, or a slip of the keys.
fn suggestion(name: &str) -> Option<String> {
    let name = name.trim().replace(' ', "_").to_ascii_lowercase();
    let nearness = |known: &str| {
        let known = known.to_ascii_lowercase();
        let place = known.rsplit('/').next().unwrap_or(&known);
        distance(&known, &name).min(distance(place, &name))
    };
    let known = TimeZoneDatabase::bundled();
    let known = known.available().map(|known| known.as_str().to_owned());
    let nearest = known.map(|known| (nearness(&known), known)).min()?;
    (nearest.0 <= WRONG_MAX && nearest.0 < name.len()).then_some(nearest.1)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        let mut before = i + 1;
        if let Some(first) = row.first_mut() {
            *first = before;
        }
        for (cell, right) in row.iter_mut().skip(1).zip(b.bytes()) {
            let substituted = diagonal + usize::from(left != right);
            diagonal = *cell;
            *cell = substituted.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
    }
    row.last().copied().unwrap_or(0)
}
