//! Where an event's occurrences are handed over to, and what of them is not answered yet.

use std::collections::VecDeque;
use std::sync::Arc;

use handoff_types::{Entropy, Wall};

use crate::Id;

/// The longest name of a topic, and of a key, in bytes. What names a topic may have is decided
/// where topics are.
pub(crate) const NAME_BYTES_MAX: usize = 249;

/// Where occurrences are to be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The topic.
    pub topic: String,
    /// The key of each message; none: the event's id.
    pub key: Option<String>,
}

/// What may wait, and what may be dead. From the configuration, with the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publishing {
    /// `events.publish_pending_max`: occurrences of one event that may wait for their topic.
    pub pending_max: usize,
    /// `events.dead_letters_max`: dead letters there are at once; beyond that the oldest goes.
    pub letters_max: usize,
}

/// What is equal in every message of an event. It outlives the event as long as something of it
/// waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The GUID under which it is handed over, made at registration.
    pub producer: u128,
    /// The topic.
    pub topic: Box<str>,
    /// The key; none: the event's id.
    pub key: Option<Box<str>>,
    /// For people.
    pub description: Box<str>,
    /// The event's types, ascending.
    pub types: Box<[Arc<str>]>,
}

/// An occurrence that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handed {
    /// What the topic knows it by, with the producer: from 1 on, without a hole. Skipped
    /// occurrences have none.
    pub sequence: u64,
    /// The number of the occurrence; the first is 1, skipped ones count.
    pub number: u64,
    /// When it was due, by the operator's clock.
    pub due: Wall,
    /// Told by the catch-up policy.
    pub late: bool,
}

/// An event's way to its topic.
///
/// ```text
///  sequences   1 ··· answered ··· │ waiting: first is on its way │ next
/// ```
///
/// One at a time is on its way, so a topic has them in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlet {
    /// What is equal in every message.
    pub source: Arc<Source>,
    /// The event is gone; what waits is still handed over.
    pub ended: bool,
    /// The next sequence.
    pub next: u64,
    /// Not answered yet, in order.
    pub waiting: VecDeque<Handed>,
}

/// An occurrence that its topic refused, or that could not wait any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Whose occurrence.
    pub event: Id,
    /// Which.
    pub handed: Handed,
    /// Why it is dead, in words.
    pub why: Box<str>,
    /// Since when.
    pub since: Wall,
    /// It was handed over again and is not answered yet.
    pub retrying: bool,
}

/// What is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// Whose occurrence.
    pub id: Id,
    /// Where to, as whom, and what is equal every time.
    pub source: Arc<Source>,
    /// Which occurrence.
    pub handed: Handed,
}

/// A dead letter as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LetterView {
    /// Its number: they count from 0, and none is used again.
    pub number: u64,
    /// The letter.
    pub letter: Letter,
    /// What its message says.
    pub source: Arc<Source>,
}

/// Which dead letters are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Letters {
    /// All in sight from this number on.
    From(u64),
    /// These; others are nothing.
    These(Vec<u64>),
}

/// How an event is published, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishView {
    /// The topic.
    pub topic: Box<str>,
    /// The key; none: the event's id.
    pub key: Option<Box<str>>,
    /// The GUID under which it is handed over.
    pub producer: u128,
    /// Occurrences that wait for the topic's answer.
    pub waiting: u64,
    /// Its dead letters.
    pub dead: u64,
}

impl Outlet {
    /// What is on its way: the first that waits.
    #[must_use]
    pub fn head(&self, id: Id) -> Option<Publication> {
        let handed = *self.waiting.front()?;
        Some(Publication { id, source: Arc::clone(&self.source), handed })
    }
}

/// A GUID of chance (RFC 9562, version 4).
pub(crate) fn guid(entropy: Entropy) -> u128 {
    let drawn = u128::from(entropy.word(0)) << 64 | u128::from(entropy.word(1));
    drawn & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
}

#[cfg(test)]
mod tests {
    use super::guid;
    use handoff_types::Entropy;

    #[test]
    fn a_producer_is_a_random_uuid_and_says_so() {
        for n in 0..100 {
            let id = guid(Entropy(n));
            assert_eq!((id >> 76 & 0xf, id >> 62 & 0x3), (4, 2), "{id:x}");
        }
        assert_ne!(guid(Entropy(1)), guid(Entropy(2)));
    }
}
