//! Which sequence is next.

use std::collections::BTreeMap;

/// The last sequences that were used.
#[derive(Clone, Debug)]
pub(in crate::streams) enum Sequences {
    OfProducer(Option<u64>),
    OfTopics(BTreeMap<String, u64>),
}

impl Sequences {
    pub(super) fn of_producer(last: Option<u64>) -> Self {
        Self::OfProducer(last)
    }

    pub(in crate::streams) fn of_topics(last: BTreeMap<String, u64>) -> Self {
        Self::OfTopics(last)
    }

    /// The next one for a topic. They begin with 1.
    pub(in crate::streams) fn next(&self, topic: &str) -> u64 {
        let last = match self {
            Self::OfProducer(last) => *last,
            Self::OfTopics(last) => last.get(topic).copied(),
        };
        last.map_or(1, |last| last.saturating_add(1))
    }

    /// So many from a first one on are used, and never again. Sequences that came out of order do
    /// not lead back.
    pub(in crate::streams) fn used(&mut self, topic: &str, first: u64, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let used = first.saturating_add(count).saturating_sub(1);
        match self {
            Self::OfProducer(last) => *last = Some(last.map_or(used, |last| last.max(used))),
            Self::OfTopics(last) => match last.get_mut(topic) {
                Some(last) => *last = (*last).max(used),
                None => drop(last.insert(topic.to_owned(), used)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sequences;
    use std::collections::BTreeMap;

    #[test]
    fn sequences_go_on_behind_the_last_and_never_back() {
        let mut sequences = Sequences::of_producer(None);
        assert_eq!(sequences.next("a"), 1);
        sequences.used("a", 1, 10);
        assert_eq!(sequences.next("b"), 11);
        sequences.used("b", 3, 2);
        assert_eq!(sequences.next("a"), 11);
        assert_eq!(Sequences::of_producer(Some(7)).next("a"), 8);
    }

    #[test]
    fn topics_may_count_for_themselves() {
        let mut sequences = Sequences::of_topics(BTreeMap::from([("a".to_owned(), 7)]));
        assert_eq!((sequences.next("a"), sequences.next("b")), (8, 1));
        sequences.used("b", 1, 3);
        assert_eq!((sequences.next("a"), sequences.next("b")), (8, 4));
    }
}
