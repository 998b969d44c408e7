//! "Did you mean": the known name that is closest to an unknown one.

/// The closest of the known names, if one is close: at most a third of the letters differ.
pub(super) fn nearest<'a>(
    unknown: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let letters = unknown.chars().count();
    // Nobody mistypes a name as a whole page, and the table below grows with the square.
    if letters > 64 {
        return None;
    }
    let (distance, name) = known
        .into_iter()
        .map(|name| (distance(&unknown.to_lowercase(), &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= (letters / 3).max(1)).then_some(name)
}

/// Letters to insert, delete or replace, and neighbours to swap (optimal string alignment).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    let mut row_before = row.clone();
    let mut letter_before = None;
    for (n, letter) in left.chars().enumerate() {
        let mut next = vec![n + 1];
        for (m, other) in right.iter().enumerate() {
            let of = |row: &[usize], m: usize| row.get(m).copied().unwrap_or(usize::MAX / 2);
            let mut least = (of(&row, m) + usize::from(*other != letter))
                .min(of(&next, m) + 1)
                .min(of(&row, m + 1) + 1);
            let other_before = m.checked_sub(1).and_then(|before| right.get(before));
            if other_before == Some(&letter) && letter_before == Some(*other) {
                least = least.min(of(&row_before, m - 1) + 1);
            }
            next.push(least);
        }
        row_before = std::mem::replace(&mut row, next);
        letter_before = Some(letter);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn a_slip_of_the_finger_finds_its_name() {
        let known = ["description", "periodSecs", "types", "at"];
        assert_eq!(nearest("descripton", known), Some("description"));
        assert_eq!(nearest("periodsecs", known), Some("periodSecs"));
        assert_eq!(nearest("type", known), Some("types"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", []), None);
    }

    #[test]
    fn distance_counts_letters() {
        for (left, right, letters) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
            ("tpye", "type", 1),
        ] {
            assert_eq!(distance(left, right), letters, "{left} {right}");
            assert_eq!(distance(right, left), letters, "{right} {left}");
        }
    }
}
