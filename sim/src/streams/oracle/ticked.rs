//! What time brings: messages that are due, and producers that are forgotten.

use std::collections::BTreeSet;

use handoff_streams::{Aggregate, Bounds, Key, PartitionId, ProducerId, ScheduledId};

use super::objections::bytes_of;
use super::produced::{Arrivals, of_key};
use super::{Asked, Oracle, USED_STEP, Violation, Waiting, looks, no_answer};

impl Oracle {
    /// Judges a tick: so many of what is due were delivered, the earliest first, and whether there
    /// is more.
    pub(super) fn ticked(
        &mut self,
        asked: &Asked,
        (limit, bytes_max): (usize, usize),
        bounds: &Bounds,
        (delivered, more): (usize, bool),
    ) -> Result<(), Violation> {
        let wall = asked.now.wall.0;
        let mut due: Vec<(i64, ScheduledId)> = self
            .scheduled
            .iter()
            .filter(|(id, waiting)| waiting.due <= wall && asked.knew(&Key::Scheduled(**id)))
            .map(|(id, waiting)| (waiting.due, *id))
            .collect();
        due.sort();
        let Some((now, later)) = due.split_at_checked(delivered) else {
            return Err(no_answer(asked, format!("{} are due", due.len())));
        };
        let delivering: Vec<Waiting> =
            now.iter().filter_map(|(_, id)| self.scheduled.remove(id)).collect();
        let before_last = delivering.iter().rev().skip(1).map(|one| bytes_of(&one.message));
        let stuck = delivered == 0 && limit > 0 && bytes_max > 0 && self.orphans.0 == 0;
        let why = if delivered > limit {
            Some("that is more than asked for")
        } else if delivered > 1 && before_last.sum::<usize>() >= bytes_max {
            Some("that is more bytes than asked for")
        } else if !later.is_empty() && !more {
            Some("more is due")
        } else if !later.is_empty() && stuck {
            Some("something is due")
        } else {
            None
        };
        if let Some(why) = why {
            return Err(no_answer(asked, why.to_owned()));
        }
        self.deliver(asked, delivering)?;
        self.forget(asked, bounds, limit, more)
    }

    /// Messages get their partitions. Of those without a key the room does not say which: it is
    /// seen from where partitions end.
    fn deliver(&mut self, asked: &Asked, delivering: Vec<Waiting>) -> Result<(), Violation> {
        let mut arrivals = Arrivals::default();
        // Where those without a key went: the one partition of a topic that grew by more than its
        // keys explain.
        let mut expected = Arrivals::default();
        for waiting in &delivering {
            if let Some(partition) = self.destination(waiting) {
                expected.take(partition, &waiting.message);
            }
        }
        for waiting in &delivering {
            let topic = self.topics.values().find(|topic| topic.id == waiting.topic).cloned();
            let Some(topic) = topic else { continue };
            let partition = match self.destination(waiting) {
                Some(partition) => Some(partition),
                None => (0..topic.partitions)
                    .map(|number| PartitionId { topic: topic.id, number })
                    .find(|id| self.grew(asked, *id) > expected.count(*id)),
            };
            let fits = |partition: &PartitionId| {
                self.arrive(&topic, &waiting.message, *partition, &mut arrivals)
            };
            let Some(partition) = partition.filter(fits) else {
                let why = format!("a message to {} is nowhere it belongs", topic.name);
                return Err(no_answer(asked, why));
            };
            arrivals.take(partition, &waiting.message);
        }
        self.settle_in(asked, arrivals)
    }

    /// By how many messages a partition grew, as is to be seen.
    fn grew(&self, asked: &Asked, partition: PartitionId) -> u64 {
        let before = self.partitions.get(&partition).map_or(0, super::log::Log::end);
        let after = looks::partition(&asked.look, partition).map_or(0, |seen| seen.end);
        after.saturating_sub(before)
    }

    /// Where a message goes that has no choice.
    fn destination(&self, waiting: &Waiting) -> Option<PartitionId> {
        let topic = self.topics.values().find(|topic| topic.id == waiting.topic)?;
        let number = match (waiting.message.partition, &waiting.message.key) {
            (Some(number), _) => number,
            (None, Some(key)) => of_key(key, topic.partitions),
            (None, None) => return None,
        };
        Some(PartitionId { topic: topic.id, number })
    }

    /// Producers that were idle for long are forgotten, none earlier, and all if there is no more.
    fn forget(
        &mut self,
        asked: &Asked,
        bounds: &Bounds,
        limit: usize,
        more: bool,
    ) -> Result<(), Violation> {
        let wall = asked.now.wall.0;
        let idle = i64::try_from(bounds.producer_idle.0).unwrap_or(i64::MAX);
        let seen = &asked.look.0;
        let mut gone: BTreeSet<ProducerId> = BTreeSet::new();
        for (id, believed) in &self.producers {
            let there = seen.contains_key(&Key::Producer(*id));
            let over = believed.heard.saturating_add(idle);
            if !there && wall < over {
                return Err(Violation::Look(format!("{id} is forgotten, too early")));
            }
            let known = asked.knew(&Key::Producer(*id));
            if there && known && !more && limit > 0 && wall >= over.saturating_add(USED_STEP) {
                return Err(Violation::Look(format!("{id} is not forgotten, and was long idle")));
            }
            if !there {
                gone.insert(*id);
            }
        }
        self.producers.retain(|id, _| !gone.contains(id));
        let lapsed: Vec<_> = self
            .sequences
            .keys()
            .filter(|(id, topic)| !seen.contains_key(&Key::Sequences(*id, *topic)))
            .copied()
            .collect();
        for (id, topic) in lapsed {
            let known = self.producers.get(&id);
            if known.is_some_and(|known| wall < known.heard.saturating_add(idle)) {
                return Err(Violation::Look(format!("sequences of {id} are forgotten, too early")));
            }
            self.sequences.remove(&(id, topic));
        }
        let orphaned = |key: &Key, found: &Aggregate| match (key, found) {
            (Key::Sequences(id, _), _) => gone.contains(id),
            _ => false,
        };
        match seen.iter().find(|(key, found)| orphaned(key, found)) {
            Some((key, _)) => Err(Violation::Look(format!("{key:?} outlives its producer"))),
            None => Ok(()),
        }
    }
}
