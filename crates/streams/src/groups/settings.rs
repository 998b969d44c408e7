//! What a group is.

use std::fmt;
use std::str::FromStr;

use handoff_types::{Span, Wall};
use thiserror::Error;

use crate::TopicName;

/// The longest name of a group: its dead letters go to `<group>.dead`, which is a topic's name.
const NAME_BYTES_MAX: usize = 249 - DEAD.len();

/// What the name of a group's dead-letter topic ends with unless another is named.
const DEAD: &str = ".dead";

/// The name of a group: 1 to 244 of `a-z A-Z 0-9 . _ -`, and neither `.` nor `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName(TopicName);

/// A text that is no name of a group.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no name of a group: 1 to 244 of a-z, A-Z, 0-9, '.', '_' and '-', and neither '.' nor '..'"
)]
pub struct BadGroupName(pub String);

impl GroupName {
    /// The name as people write it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Where its dead letters go unless another topic is named.
    #[must_use]
    pub fn dead_letter(&self) -> TopicName {
        // It fits: that is what the limit is for.
        format!("{}{DEAD}", self.as_str()).parse().unwrap_or_else(|_| self.0.clone())
    }
}

impl FromStr for GroupName {
    type Err = BadGroupName;

    fn from_str(text: &str) -> Result<Self, BadGroupName> {
        let shown = || BadGroupName(text.chars().take(64).collect());
        let name: TopicName = text.parse().map_err(|_| shown())?;
        if text.len() > NAME_BYTES_MAX { Err(shown()) } else { Ok(Self(name)) }
    }
}

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A group's number, drawn when it is made. Never used again, so that nothing of a deleted group
/// shows under a new one of the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u64);

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What waits for what inside a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// While a message is out or waits for its retry, later ones of its key wait.
    #[default]
    Key,
    /// While a message is out or waits for its retry, the rest of its partition waits.
    Partition,
    /// Nothing waits.
    Free,
}

/// Where a group begins in a partition it has not read yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Start {
    /// At the first message that is kept.
    #[default]
    Earliest,
    /// Behind the last one there is.
    Latest,
}

/// What may be changed of a group while it is in use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupSettings {
    /// What members that name no topics read. Sorted, each once.
    pub topics: Vec<TopicName>,
    /// Where it begins.
    pub start: Start,
    /// What waits for what.
    pub order: Order,
    /// How often a message is handed out before it is a dead letter; at least once.
    pub max_attempts: u32,
    /// Where dead letters go.
    pub dead_letter: TopicName,
    /// How long a member has for what it was handed.
    pub lease: Span,
    /// How long a message waits for its second attempt; each time it is doubled.
    pub backoff: Span,
    /// How long at most.
    pub backoff_max: Span,
    /// How many messages of a partition may be out, wait for their retry, or wait for those before
    /// them.
    pub in_flight_max: u32,
}

impl GroupSettings {
    /// What a group has that was not asked for anything else.
    #[must_use]
    pub fn of(name: &GroupName, topics: Vec<TopicName>) -> Self {
        Self {
            topics: sorted(topics),
            start: Start::Earliest,
            order: Order::Key,
            max_attempts: 5,
            dead_letter: name.dead_letter(),
            lease: Span::from_secs(30),
            backoff: Span::from_secs(1),
            backoff_max: Span::from_secs(300),
            in_flight_max: 20_000,
        }
    }

    /// How long a message waits that was handed out so often.
    pub(crate) fn wait(&self, attempt: u32) -> Span {
        let doubled = self.backoff.0.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        let fits = doubled >> attempt.saturating_sub(1).min(63) == self.backoff.0;
        let span = if fits { Span(doubled) } else { self.backoff_max };
        span.min(self.backoff_max)
    }

    /// Why they cannot be; none if they can.
    pub(crate) fn wrong(&self) -> Option<&'static str> {
        if self.max_attempts == 0 {
            return Some("maxAttempts is at least 1");
        }
        if self.lease < Span::from_millis(100) || self.lease > Span::from_secs(86_400) {
            return Some("leaseMs is from 100 to 86400000, a day");
        }
        if self.backoff > self.backoff_max || self.backoff_max > Span::from_secs(86_400) {
            return Some("backoffMs is at most backoffMaxMs, and that at most 86400000, a day");
        }
        if !(1..=IN_FLIGHT_MAX).contains(&self.in_flight_max) {
            return Some("inFlightMax is from 1 to 1000000");
        }
        self.topics.contains(&self.dead_letter).then_some(READS_LETTERS)
    }
}

/// Why a group, or a member of it, cannot read some topic: each letter would make another.
pub(crate) const READS_LETTERS: &str = "a group does not read the topic its dead letters go to";

/// What a partition of a group takes of memory grows with this.
const IN_FLIGHT_MAX: u32 = 1_000_000;

/// Names in their order, each once.
pub(crate) fn sorted(mut topics: Vec<TopicName>) -> Vec<TopicName> {
    topics.sort();
    topics.dedup();
    topics
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    /// Its number.
    pub id: GroupId,
    /// Its name.
    pub name: GroupName,
    /// What may be changed.
    pub settings: GroupSettings,
    /// When it was made.
    pub created: Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> GroupSettings {
        GroupSettings::of(&"g".parse().unwrap(), Vec::new())
    }

    #[test]
    fn the_wait_doubles_until_it_is_as_long_as_it_gets() {
        let waits: Vec<u64> = (1..5).map(|n| settings().wait(n).0 / 1_000_000).collect();
        assert_eq!(waits, [1, 2, 4, 8]);
        for attempt in [10, 63, 64, 65, u32::MAX] {
            assert_eq!(settings().wait(attempt), Span::from_secs(300), "{attempt}");
        }
    }

    #[test]
    fn the_longest_name_has_a_dead_letter_topic() {
        let name: GroupName = "g".repeat(244).parse().unwrap();
        assert_eq!(name.dead_letter().as_str().len(), 249);
        assert!("g".repeat(245).parse::<GroupName>().is_err());
    }
}
