//! Who may see which names.
//!
//! A token is scoped to rooms and names: `events`, `events:acme.*`, `streams:orders`, `admin`.

use std::fmt;
use std::str::FromStr;

use crate::Room;

/// The longest name a pattern may have, in bytes.
const PATTERN_BYTES_MAX: usize = 256;

/// A name, or the beginning of names when it ends in `*`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern(Box<str>);

impl Pattern {
    /// The pattern that every name matches.
    #[must_use]
    pub fn every() -> Self {
        Self("*".into())
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => *self.0 == *name,
        }
    }

    /// The pattern as people write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a token allows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Everything, tokens and the audit included.
    Admin,
    /// Names of one room.
    Room(Room, Pattern),
}

/// A scope that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadScope(String);

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Admin => f.write_str("admin"),
            Self::Room(room, pattern) if *pattern == Pattern::every() => write!(f, "{room}"),
            Self::Room(room, pattern) => write!(f, "{room}:{}", pattern.0),
        }
    }
}

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        if text == "admin" {
            return Ok(Self::Admin);
        }
        let (name, pattern) = text.split_once(':').unwrap_or((text, "*"));
        let room = SCOPED.into_iter().find(|room| room.name() == name).ok_or_else(|| {
            let rooms = SCOPED.map(Room::name).join(", ");
            BadScope(format!("`{text}` is no scope: write admin, or one of {rooms}, alone or with a name as in events:acme.*"))
        })?;
        let inner = pattern.strip_suffix('*').unwrap_or(pattern);
        if pattern.is_empty() || inner.contains('*') {
            return Err(BadScope(format!(
                "`{text}` is no scope: the name is a whole name, or a beginning followed by one *"
            )));
        }
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(BadScope(format!(
                "a name in a scope has at most {PATTERN_BYTES_MAX} bytes"
            )));
        }
        Ok(Self::Room(room, Pattern(pattern.into())))
    }
}

/// The rooms a token can be scoped to.
const SCOPED: [Room; 5] = [Room::Streams, Room::Exchange, Room::Calls, Room::Events, Room::Relay];

/// Which names of one room somebody may see and use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of them.
    All,
    /// Those that match one of these.
    Names(Vec<Pattern>),
}

impl Sight {
    /// What these scopes allow in a room; none if the room is not theirs at all.
    #[must_use]
    pub fn of(scopes: &[Scope], room: Room) -> Option<Self> {
        let mut names = Vec::new();
        for scope in scopes {
            match scope {
                Scope::Admin => return Some(Self::All),
                Scope::Room(theirs, pattern) if *theirs == room => names.push(pattern.clone()),
                Scope::Room(..) => {}
            }
        }
        if names.contains(&Pattern::every()) {
            return Some(Self::All);
        }
        (!names.is_empty()).then_some(Self::Names(names))
    }

    /// Whether a name is in sight.
    #[must_use]
    pub fn sees(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(patterns) => patterns.iter().any(|pattern| pattern.matches(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Scope, Sight};
    use crate::Room;

    fn scope(text: &str) -> Scope {
        text.parse().unwrap()
    }

    #[test]
    fn scopes_read_back_as_they_are_written() {
        for text in ["admin", "events", "streams:orders", "events:acme.*"] {
            assert_eq!(scope(text).to_string(), text);
        }
        assert_eq!(scope("events:*"), scope("events"));
    }

    #[test]
    fn a_scope_that_means_nothing_is_refused_with_words() {
        for text in ["", "house", "counter", "event", "events:", "events:a*b", "events:**", "Admin"]
        {
            let words = text.parse::<Scope>().unwrap_err().to_string();
            assert!(words.contains("is no scope"), "{text}: {words}");
        }
    }

    #[test]
    fn a_name_is_in_sight_only_of_its_own_room_and_pattern() {
        let scopes = [scope("events:acme.*"), scope("events:backup"), scope("streams")];
        let sight = Sight::of(&scopes, Room::Events).unwrap();
        assert!(sight.sees("acme.x") && sight.sees("backup"));
        assert!(!sight.sees("acme") && !sight.sees("backups") && !sight.sees(""));
        assert_eq!(Sight::of(&scopes, Room::Streams), Some(Sight::All));
        assert_eq!(Sight::of(&scopes, Room::Calls), None);
        assert_eq!(Sight::of(&[Scope::Admin], Room::Calls), Some(Sight::All));
    }
}
