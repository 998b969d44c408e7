//! What was promised to whoever sent samples, and whether it was kept.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::Steady;

use crate::key::SegmentKey;

/// What a sender of samples waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing: the samples are in memory.
    Memory,
    /// Every destination has confirmed them, or they are on the local disk for it.
    Durable,
    /// Every destination has confirmed them.
    Delivered,
}

/// How a promise ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As promised.
    Kept,
    /// Delivery was promised and the samples are on disk: they will be delivered, nobody knows when.
    Spooled,
    /// Nothing of the kind within its time. The samples are still on their way.
    Late,
}

/// The name of a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Every destination has confirmed it.
    Delivered,
    /// It is on disk.
    Spooled,
}

#[derive(Debug)]
struct Promise {
    mode: Mode,
    segments: usize,
    deadline: Steady,
    outcome: Outcome,
}

/// Promises that are open. Each ends once.
#[derive(Debug, Default)]
pub struct Promises {
    next: u64,
    open: BTreeMap<Ticket, Promise>,
    waiting: BTreeMap<SegmentKey, Vec<Ticket>>,
    deadlines: BTreeSet<(Steady, Ticket)>,
}

impl Promises {
    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Gives a promise over segments. None to wait for is kept at once, and so is [`Mode::Memory`].
    pub fn give(
        &mut self,
        mode: Mode,
        segments: &[SegmentKey],
        deadline: Steady,
    ) -> (Ticket, Option<Outcome>) {
        let ticket = Ticket(self.next);
        self.next += 1;
        if mode == Mode::Memory || segments.is_empty() {
            return (ticket, Some(Outcome::Kept));
        }
        for key in segments {
            self.waiting.entry(*key).or_default().push(ticket);
        }
        let promise = Promise { mode, segments: segments.len(), deadline, outcome: Outcome::Kept };
        self.open.insert(ticket, promise);
        self.deadlines.insert((deadline, ticket));
        (ticket, None)
    }

    /// Tells those who wait for a segment what became of it.
    pub fn settle(&mut self, key: SegmentKey, how: Settled) -> Vec<(Ticket, Outcome)> {
        let mut ended = Vec::new();
        for ticket in self.waiting.remove(&key).unwrap_or_default() {
            let Some(promise) = self.open.get_mut(&ticket) else { continue };
            promise.segments -= 1;
            if how == Settled::Spooled && promise.mode == Mode::Delivered {
                promise.outcome = Outcome::Spooled;
            }
            if promise.segments == 0 {
                ended.push((ticket, promise.outcome));
            }
        }
        for (ticket, _) in &ended {
            self.forget(*ticket);
        }
        ended
    }

    /// Ends those whose time is over.
    pub fn expire(&mut self, now: Steady) -> Vec<(Ticket, Outcome)> {
        let mut ended = Vec::new();
        while let Some((deadline, ticket)) = self.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.forget(ticket);
            ended.push((ticket, Outcome::Late));
        }
        ended
    }

    /// When the next one's time is over.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Steady> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn forget(&mut self, ticket: Ticket) {
        if let Some(promise) = self.open.remove(&ticket) {
            self.deadlines.remove(&(promise.deadline, ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use handoff_types::Steady;

    use super::{Mode, Outcome, Promises, Settled};
    use crate::key::SegmentKey;

    const END: Steady = Steady(100);

    fn key(segment: u32) -> SegmentKey {
        SegmentKey { shard: 0, segment }
    }

    #[test]
    fn memory_is_kept_at_once_and_so_is_a_promise_over_nothing() {
        let mut promises = Promises::default();
        assert_eq!(promises.give(Mode::Memory, &[key(0)], END).1, Some(Outcome::Kept));
        assert_eq!(promises.give(Mode::Durable, &[], END).1, Some(Outcome::Kept));
        assert!(promises.is_empty());
    }

    #[test]
    fn durable_is_kept_by_disk_and_delivery_is_not() {
        let mut promises = Promises::default();
        let (durable, _) = promises.give(Mode::Durable, &[key(0), key(1)], END);
        let (delivered, _) = promises.give(Mode::Delivered, &[key(0), key(1)], END);
        assert_eq!(promises.settle(key(0), Settled::Spooled), []);
        let ended = promises.settle(key(1), Settled::Delivered);
        assert_eq!(ended, [(durable, Outcome::Kept), (delivered, Outcome::Spooled)]);
        assert_eq!(promises.settle(key(1), Settled::Delivered), [], "each ends once");
        assert_eq!(promises.expire(END), []);
    }

    #[test]
    fn what_is_not_settled_in_time_is_late_and_ends_once() {
        let mut promises = Promises::default();
        let (late, _) = promises.give(Mode::Durable, &[key(0)], END);
        assert_eq!(promises.expire(Steady(99)), []);
        assert_eq!(promises.expire(END), [(late, Outcome::Late)]);
        assert_eq!(promises.settle(key(0), Settled::Delivered), []);
        assert_eq!(promises.next_deadline(), None);
    }
}
