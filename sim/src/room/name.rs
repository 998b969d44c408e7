//! The names of keys.

use std::fmt;
use std::str::FromStr;

/// A key's name: one to four characters of `a`–`z` and `0`–`9`.
///
/// So short because its characters are also its number, and that is the lane its bodies go to.
/// Names sort as text does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name([u8; Self::BYTES_MAX]);

/// A text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key's name is one to four characters of a–z and 0–9")]
pub struct BadName;

impl Name {
    /// The longest name.
    pub const BYTES_MAX: usize = 4;

    /// The name `k` and two hexadecimal digits: 256 names for whoever needs many.
    #[must_use]
    pub fn numbered(number: u8) -> Self {
        let digit = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
        Self([b'k', digit(number >> 4), digit(number & 15), 0])
    }

    /// The name made of these bytes.
    ///
    /// # Errors
    /// [`BadName`] when they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadName> {
        let sound = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        if bytes.is_empty() || !bytes.iter().all(sound) {
            return Err(BadName);
        }
        let mut name = [0; Self::BYTES_MAX];
        name.get_mut(..bytes.len()).ok_or(BadName)?.copy_from_slice(bytes);
        Ok(Self(name))
    }

    /// The name's characters.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::BYTES_MAX);
        self.0.get(..end).unwrap_or_default()
    }

    /// The name as a number. No two names share one.
    #[must_use]
    pub const fn number(self) -> u32 {
        u32::from_be_bytes(self.0)
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::from_bytes(text.as_bytes())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{}", char::from(*byte)))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::{BadName, Name};
    use std::collections::BTreeSet;

    #[test]
    fn a_name_reads_as_it_was_written() {
        for text in ["a", "k0f", "zz99"] {
            assert_eq!(text.parse::<Name>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "abcde", "A", "a b", "ä", "a\0b"] {
            assert_eq!(text.parse::<Name>(), Err(BadName), "{text:?}");
        }
    }

    #[test]
    fn names_sort_as_text_and_numbers_sort_as_names() {
        let names = ["a", "a0", "aa", "b", "k00", "k0a"].map(|text| text.parse::<Name>().unwrap());
        assert!(names.is_sorted());
        assert!(names.map(Name::number).is_sorted());
    }

    #[test]
    fn numbered_names_differ() {
        let names: BTreeSet<_> = (0..=u8::MAX).map(Name::numbered).collect();
        assert_eq!(names.len(), 256);
    }
}
