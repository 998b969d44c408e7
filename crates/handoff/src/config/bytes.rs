//! Amounts of bytes as people write them: `64MiB`, `1.5GB`, `4096`.

use crate::duration::decimal;

/// Powers of 1024 with an `i`, of 1000 without.
const UNITS: [(&str, u64); 9] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

/// Reads an amount: a number alone is bytes.
///
/// # Errors
/// Words that say how to write it.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let at = trimmed.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(at);
    let number = number.trim_end();
    let each = match unit {
        "" => Some(1),
        _ => UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, each)| *each),
    };
    each.and_then(|each| decimal(number, each)).ok_or_else(|| {
        format!("`{text}` is no amount of bytes: write it as in 64MiB, 1.5GB or 4096")
    })
}

/// Writes an amount in the largest unit that needs no fraction.
pub(crate) fn show(bytes: u64) -> String {
    let whole = |(_, each): &&(&str, u64)| *each > 1 && bytes > 0 && bytes.is_multiple_of(*each);
    match UNITS.iter().filter(whole).rfind(|(name, _)| name.contains('i')) {
        Some((name, each)) => format!("{}{name}", bytes / each),
        None => bytes.to_string(),
    }
}

/// Writes an amount for people, rounded to one decimal.
pub(crate) fn about(bytes: u64) -> String {
    let (name, each) = UNITS
        .iter()
        .rfind(|(name, each)| name.contains('i') && *each <= bytes)
        .copied()
        .unwrap_or(("B", 1));
    if each == 1 {
        return format!("{bytes} B");
    }
    let tenths = u128::from(bytes) * 10 / u128::from(each);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::{about, parse, show};

    #[test]
    fn amounts_are_read_as_people_write_them() {
        let check = |text: &str, bytes: u64| assert_eq!(parse(text), Ok(bytes), "{text}");
        check("64MiB", 64 << 20);
        check("64 MiB", 64 << 20);
        check("1.5GB", 1_500_000_000);
        check("4096", 4096);
        check("4096B", 4096);
        check("1kb", 1000);
        check("0", 0);
    }

    #[test]
    fn what_is_no_amount_is_refused_with_an_example() {
        for text in ["", "MiB", "-1", "1 PiB", "64MiBs", "1e3", "99999999999TiB"] {
            assert!(parse(text).unwrap_err().contains("64MiB"), "{text}");
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for bytes in [0, 1, 1023, 1024, 1 << 20, 3 << 30, (1 << 30) + 1, 1_000_000] {
            assert_eq!(parse(&show(bytes)), Ok(bytes), "{}", show(bytes));
        }
        assert_eq!(show(64 << 20), "64MiB");
        assert_eq!(about((3 << 30) / 2), "1.5 GiB");
    }
}
