//! Names that may become part of a file's name.
//!
//! A name is checked here once, by a whitelist, and nowhere else: whatever has one of these types can
//! stand in a path.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// A text that is no name of its kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{shown:?} is no {what}: {rule}")]
pub struct BadName {
    /// The text, or its beginning.
    pub shown: String,
    /// What it should have been.
    pub what: &'static str,
    /// What such a name is.
    pub rule: &'static str,
}

impl BadName {
    fn new(text: &str, what: &'static str, rule: &'static str) -> Self {
        let shown = text.get(..text.floor_char_boundary(64)).unwrap_or_default().to_owned();
        Self { shown, what, rule }
    }
}

/// What a company, subsystem, database or device is called: 1 to 16 of `A-Z a-z 0-9 -`. Cheap to clone:
/// whatever is said of a message names three of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(Arc<str>);

impl EntityId {
    /// The most characters one has.
    pub const LENGTH_MAX: usize = 16;

    /// As people write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for EntityId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        match is_plain(text, Self::LENGTH_MAX, b"-") {
            true => Ok(Self(text.into())),
            false => Err(BadName::new(text, "id", "1 to 16 of A-Z, a-z, 0-9 and '-'")),
        }
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::borrow::Borrow<str> for EntityId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// What its sender calls a message: 1 to 36 of `A-Z a-z 0-9 -`, so that a UUID is one. There may be
/// a million of them in memory, so it is kept in place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId([u8; Self::LENGTH_MAX]);

impl MessageId {
    /// The most characters one has.
    pub const LENGTH_MAX: usize = 36;

    /// As people write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(Self::LENGTH_MAX);
        self.0.get(..end).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
    }
}

impl FromStr for MessageId {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        if !is_plain(text, Self::LENGTH_MAX, b"-") {
            return Err(BadName::new(text, "message id", "1 to 36 of A-Z, a-z, 0-9 and '-'"));
        }
        let mut id = [0; Self::LENGTH_MAX];
        id.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        Ok(Self(id))
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MessageId({self})")
    }
}

/// The type of a message: 1 to 24 of `A-Z a-z 0-9 _ -`. A copy of one is the same text in memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(Arc<str>);

impl Kind {
    /// The most characters one has.
    pub const LENGTH_MAX: usize = 24;

    /// Whether somebody else has a copy.
    pub(crate) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// As people write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Kind {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        match is_plain(text, Self::LENGTH_MAX, b"_-") {
            true => Ok(Self(text.into())),
            false => {
                Err(BadName::new(text, "message type", "1 to 24 of A-Z, a-z, 0-9, '_' and '-'"))
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn is_plain(text: &str, length_max: usize, others: &[u8]) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || others.contains(&byte);
    (1..=length_max).contains(&text.len()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::{EntityId, Kind, MessageId};

    #[test]
    fn what_could_leave_its_folder_is_no_name() {
        let long = "a".repeat(37);
        for text in ["", ".", "..", "../x", "a/b", "a\\b", "a b", "a\0b", "a\n", "ä", "%2e", &long]
        {
            assert!(text.parse::<EntityId>().is_err(), "{text:?}");
            assert!(text.parse::<MessageId>().is_err(), "{text:?}");
            assert!(text.parse::<Kind>().is_err(), "{text:?}");
        }
        assert!("a_b".parse::<EntityId>().is_err() && "a_b".parse::<MessageId>().is_err());
    }

    #[test]
    fn a_name_reads_back_as_it_was_written() {
        let uuid = "0190e2a4-7c1b-7d30-9c5e-1f2a3b4c5d6e";
        assert_eq!(uuid.parse::<MessageId>().unwrap().as_str(), uuid);
        assert_eq!("7".parse::<MessageId>().unwrap().to_string(), "7");
        assert_eq!("ONE_REF".parse::<Kind>().unwrap().as_str(), "ONE_REF");
        assert_eq!("acme-1".parse::<EntityId>().unwrap().as_str(), "acme-1");
    }
}
