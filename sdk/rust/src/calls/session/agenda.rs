//! What is to be said, and what is due when. Each matter stands in each list once, so both are as
//! long as what is open, however often it is repeated.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use handoff_calls::CallId;
use tokio::time::Instant;

/// Something to say to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    Init,
    Ping,
    Stop,
    Heartbeat(CallId, u64),
    Response(CallId, u64),
    ResponseAck(CallId),
    RequestAck(CallId, u64),
    Cancel(CallId),
    Request(CallId),
}

/// Something that has its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Matter {
    /// A connection is to be made.
    Connect,
    /// Nothing was heard for too long.
    Silence,
    /// It is to be said, for the first time or again.
    Say(Step),
    /// The time of a call is over.
    Over(CallId),
}

/// What is due when.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    times: BTreeMap<Matter, Instant>,
    order: BTreeSet<(Instant, Matter)>,
}

impl Agenda {
    /// Sets the time of a matter; the one it had counts no more.
    pub(super) fn set(&mut self, matter: Matter, at: Instant) {
        self.clear(matter);
        self.times.insert(matter, at);
        self.order.insert((at, matter));
    }

    pub(super) fn clear(&mut self, matter: Matter) {
        if let Some(at) = self.times.remove(&matter) {
            self.order.remove(&(at, matter));
        }
    }

    /// Takes everything off that is said over a connection.
    pub(super) fn clear_connection(&mut self) {
        let of_it = |matter: &Matter| matches!(matter, Matter::Say(_) | Matter::Silence);
        self.times.retain(|matter, _| !of_it(matter));
        self.order.retain(|(_, matter)| !of_it(matter));
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes what is due, and since when.
    pub(super) fn due(&mut self, now: Instant) -> Option<(Instant, Matter)> {
        let (at, matter) = *self.order.first().filter(|(at, _)| *at <= now)?;
        self.clear(matter);
        Some((at, matter))
    }
}

/// What is to be said, in order.
#[derive(Debug, Default)]
pub(super) struct Errands {
    line: VecDeque<Step>,
    known: BTreeSet<Step>,
}

impl Errands {
    pub(super) fn push(&mut self, step: Step) {
        if self.known.insert(step) {
            self.line.push_back(step);
        }
    }

    /// Before everything else: what proves the way alive does not wait for what uses it.
    pub(super) fn push_first(&mut self, step: Step) {
        if self.known.insert(step) {
            self.line.push_front(step);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Step> {
        let step = self.line.pop_front()?;
        self.known.remove(&step);
        Some(step)
    }

    pub(super) fn clear(&mut self) {
        self.line.clear();
        self.known.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Agenda, Errands, Matter, Step};
    use tokio::time::Instant;

    #[test]
    fn a_matter_has_one_time_and_is_due_once() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut agenda = Agenda::default();
        agenda.set(Matter::Connect, later);
        agenda.set(Matter::Connect, now);
        agenda.set(Matter::Silence, later);
        assert_eq!(agenda.due(now), Some((now, Matter::Connect)));
        assert_eq!((agenda.due(now), agenda.next()), (None, Some(later)));
        agenda.clear_connection();
        assert_eq!(agenda.next(), None);
    }

    #[test]
    fn what_is_to_be_said_twice_is_said_once() {
        let mut errands = Errands::default();
        errands.push(Step::Stop);
        errands.push_first(Step::Ping);
        errands.push(Step::Stop);
        let said: Vec<Step> = std::iter::from_fn(|| errands.pop()).collect();
        assert_eq!(said, [Step::Ping, Step::Stop]);
        errands.push(Step::Stop);
        assert!(!errands.is_empty());
    }
}
