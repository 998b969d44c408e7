//! What somebody probably meant.

/// The candidate nearest to what was written, if it is near enough to be a slip.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = written.to_lowercase();
    let allowed = (written.chars().count() / 3).clamp(1, 4);
    candidates
        .into_iter()
        .map(|candidate| (distance(&written, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be added, taken, changed or swapped with their neighbour to get from one
/// word to the other (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let at = |row: &[usize], n: usize| row.get(n).copied().unwrap_or(usize::MAX / 2);
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let changed = at(&last, j) + usize::from(a != b);
            let mut best = changed.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if swapped {
                best = best.min(at(&before, j - 1) + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    at(&last, to.len())
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn a_slip_is_one_step_away() {
        assert_eq!(distance("lisen", "listen"), 1);
        assert_eq!(distance("litsen", "listen"), 1);
        assert_eq!(distance("listenn", "listen"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn only_what_is_near_is_suggested() {
        let names = ["listen", "data_dir", "log_level"];
        assert_eq!(nearest("lisen", names), Some("listen"));
        assert_eq!(nearest("datadir", names), Some("data_dir"));
        assert_eq!(nearest("LOG_LEVEL", names), Some("log_level"));
        assert_eq!(nearest("colour", names), None);
    }
}
