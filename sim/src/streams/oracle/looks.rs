//! What is to be seen must be what was decided.

use handoff_streams::{Aggregate, Key, Partition, PartitionId};

use super::objections::bytes_of;
use super::{Oracle, USED_STEP, Violation, Waiting};
use crate::streams::asked::Look;

/// A partition as it is to be seen.
pub(super) fn partition(look: &Look, id: PartitionId) -> Option<Partition> {
    match look.0.get(&Key::Partition(id)) {
        Some(Aggregate::Partition(partition)) => Some(*partition),
        _ => None,
    }
}

fn differs(what: &str, seen: impl std::fmt::Debug, expected: impl std::fmt::Debug) -> Violation {
    Violation::Look(format!("{what} is {seen:?} and should be {expected:?}"))
}

impl Oracle {
    /// Judges everything there is to see, and remembers what is left of topics that are gone.
    pub(super) fn looks(&mut self, look: &Look) -> Result<(), Violation> {
        self.orphans = (0, 0);
        let mut seen = Seen::default();
        for (key, found) in &look.0 {
            self.sees(key, found, &mut seen)?;
        }
        let (topics, partitions) = (self.topics.len(), self.partitions.len());
        let (producers, sequences) = (self.producers.len(), self.sequences.len());
        let expected = Seen { topics, names: topics, partitions, producers, sequences, ..seen };
        let expected = Seen { scheduled: self.scheduled.len(), ..expected };
        match seen == expected {
            true => Ok(()),
            false => Err(Violation::Look(format!("there are {seen:?} and should be {expected:?}"))),
        }
    }

    fn sees(&mut self, key: &Key, found: &Aggregate, seen: &mut Seen) -> Result<(), Violation> {
        let what = format!("{key:?}");
        match (key, found) {
            (Key::Counters, Aggregate::Counters(next)) => {
                match self.numbers.iter().next_back().is_none_or(|last| last < next) {
                    true => Ok(()),
                    false => Err(differs(&what, next, "beyond every number that was used")),
                }
            }
            (Key::Name(id), Aggregate::Name(name)) => {
                seen.names += 1;
                let expected = self.topic_name(*id);
                is_seen(expected == Some(name.as_str()), || differs(&what, name, expected))
            }
            (Key::Topic(name), Aggregate::Topic(topic)) => {
                seen.topics += 1;
                let expected = self.topics.get(name.as_str());
                is_seen(expected == Some(topic), || differs(&what, topic, expected))
            }
            (Key::Partition(id), Aggregate::Partition(partition)) => {
                seen.partitions += 1;
                let Some(log) = self.partitions.get_mut(id) else {
                    return Err(differs(&what, partition, "gone"));
                };
                if log.trimmed {
                    log.bytes = partition.bytes.min(log.bytes);
                }
                let (start, end, bytes) = (log.start, log.end(), log.bytes);
                let last = handoff_types::Wall(log.last);
                let expected = Partition { start, end, bytes, last };
                is_seen(*partition == expected, || differs(&what, partition, expected))
            }
            (Key::Producer(id), Aggregate::Producer(producer)) => {
                seen.producers += 1;
                let expected = self.producers.get(id);
                let same = expected.is_some_and(|expected| {
                    let used = expected.heard - expected.heard.rem_euclid(USED_STEP);
                    expected.name == producer.name
                        && expected.scope == producer.scope
                        && producer.used.0 == used
                });
                is_seen(same, || differs(&what, producer, expected))
            }
            (Key::Sequences(id, topic), Aggregate::Sequences(sequences)) => {
                if topic.is_some_and(|topic| self.topic_name(topic).is_none()) {
                    return Ok(());
                }
                seen.sequences += 1;
                let Some(known) = self.sequences.get(&(*id, *topic)) else {
                    return Err(differs(&what, sequences, "nothing"));
                };
                let missing = sequences.missing.iter().map(|range| (*range.start(), *range.end()));
                let same = sequences.floor == Some(known.floor)
                    && Some(sequences.last) == known.last()
                    && missing.collect::<Vec<_>>() == known.missing();
                is_seen(same, || differs(&what, sequences, known))?;
                let remembered = sequences.remembered.iter().map(|one| (one.sequence, one.place));
                let order = known.remembered(self.remembered_max).iter();
                let expected =
                    order.filter_map(|at| known.stored.get(at).map(|one| (*at, one.place)));
                let same = remembered.eq(expected);
                is_seen(same, || differs(&what, sequences, known.remembered(self.remembered_max)))
            }
            (Key::Scheduled(id), Aggregate::Scheduled(scheduled)) => {
                if self.topic_name(scheduled.topic).is_none() {
                    self.orphans.0 += 1;
                    self.orphans.1 += bytes_of(&scheduled.message);
                    return Ok(());
                }
                seen.scheduled += 1;
                let expected = self.scheduled.get(id);
                let found = Waiting {
                    topic: scheduled.topic,
                    due: scheduled.due.0,
                    producer: scheduled.producer,
                    message: scheduled.message.clone(),
                };
                is_seen(expected == Some(&found), || differs(&what, &found, expected))
            }
            _ => Err(differs(&what, found, "of its own kind")),
        }
    }
}

fn is_seen(is: bool, violation: impl FnOnce() -> Violation) -> Result<(), Violation> {
    if is { Ok(()) } else { Err(violation()) }
}

/// How much of each is to be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    topics: usize,
    names: usize,
    partitions: usize,
    producers: usize,
    sequences: usize,
    scheduled: usize,
}
