//! What a producer's sequences mean, from the prose: every sequence that was ever stored is kept
//! here, and what is missing is whatever is not among them.

use std::collections::BTreeMap;

use handoff_streams::{Message, Place};

/// What was sent under a sequence.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) topic: String,
    pub(super) message: Message,
    pub(super) place: Place,
}

/// What must become of a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Course {
    /// It is stored as the next one.
    Next,
    /// It is stored, and these never came.
    Gap(u64, u64),
    /// It is stored though later ones were before it.
    Late,
    /// It is there; its place is known or not any more.
    Duplicate(Option<Place>),
    /// The sequence is another message's, and that one is here.
    Reused(Place),
    /// Nothing is known of it below this.
    TooOld(u64),
}

/// The sequences of a producer, all or to one topic.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequenced {
    pub(super) stored: BTreeMap<u64, Sent>,
    /// In the order they were stored in.
    order: Vec<u64>,
    /// The first of which anything is known.
    pub(super) floor: u64,
}

impl Sequenced {
    pub(super) fn last(&self) -> Option<u64> {
        self.stored.keys().next_back().copied()
    }

    /// The latest stored ones.
    pub(super) fn remembered(&self, max: u32) -> &[u64] {
        let first = self.order.len().saturating_sub(usize::try_from(max).unwrap_or(usize::MAX));
        self.order.get(first..).unwrap_or_default()
    }

    pub(super) fn course(
        &self,
        sequence: u64,
        (topic, message): (&str, &Message),
        remembered_max: u32,
    ) -> Course {
        let stored = self.stored.get(&sequence);
        if let Some(sent) = stored
            && self.remembered(remembered_max).contains(&sequence)
        {
            let same = sent.topic == topic && sent.message == *message;
            return if same {
                Course::Duplicate(Some(sent.place))
            } else {
                Course::Reused(sent.place)
            };
        }
        match self.last() {
            None => Course::Next,
            Some(last) if sequence == last + 1 => Course::Next,
            Some(last) if sequence > last => Course::Gap(last + 1, sequence - 1),
            Some(_) if sequence < self.floor => Course::TooOld(self.floor),
            Some(_) if stored.is_some() => Course::Duplicate(None),
            Some(_) => Course::Late,
        }
    }

    pub(super) fn store(&mut self, sequence: u64, sent: Sent, missing_max: u32) {
        if self.stored.is_empty() {
            self.floor = sequence;
        }
        self.stored.insert(sequence, sent);
        self.order.push(sequence);
        let max = usize::try_from(missing_max).unwrap_or(usize::MAX);
        let missing = self.missing();
        if let Some(dropped) = missing.len().checked_sub(max + 1).and_then(|at| missing.get(at)) {
            self.floor = dropped.1 + 1;
        }
    }

    /// Ranges above the floor that never came.
    pub(super) fn missing(&self) -> Vec<(u64, u64)> {
        let known: Vec<u64> = self.stored.range(self.floor..).map(|(at, _)| *at).collect();
        let pairs = known.iter().zip(known.iter().skip(1));
        pairs
            .filter(|(one, next)| *one + 1 < **next)
            .map(|(one, next)| (one + 1, next - 1))
            .collect()
    }
}
