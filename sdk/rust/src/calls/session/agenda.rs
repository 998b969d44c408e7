//! What is to be said, and what is due when. Each matter stands in each list once, so both are as
//! long as what is open, however often it is repeated.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use handoff_calls::CallId;
use handoff_types::entropy::mix;
use tokio::time::Instant;

/// Something to say to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// Hashes of what this client itself made, which nobody else chooses.
pub(in crate::calls) type Mixing = BuildHasherDefault<Mixer>;

#[derive(Clone, Copy, Debug, Default)]
pub(in crate::calls) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word.cast_unsigned() as u64);
    }

    fn write_u128(&mut self, word: u128) {
        let half = |word: u128| u64::try_from(word & u128::from(u64::MAX)).unwrap_or(0);
        self.write_u64(half(word) ^ half(word >> 64));
    }
}

/// What is due when.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    times: HashMap<Matter, Instant, Mixing>,
    /// The same in the order of time, and times that count no more: taking one out would cost more than
    /// passing over it.
    order: BinaryHeap<Reverse<(Instant, Matter)>>,
}

/// Times that count no more are taken out when they are as many as those that do, and so many more.
const STALE_MAX: usize = 256;

impl Agenda {
    /// Sets the time of a matter; the one it had counts no more.
    pub(super) fn set(&mut self, matter: Matter, at: Instant) {
        let before = self.times.insert(matter, at);
        self.order.push(Reverse((at, matter)));
        if before.is_some() {
            self.tidy(matter);
        }
    }

    pub(super) fn clear(&mut self, matter: Matter) {
        if self.times.remove(&matter).is_some() {
            self.tidy(matter);
        }
    }

    /// Takes everything off that is said over a connection.
    pub(super) fn clear_connection(&mut self) {
        self.times.retain(|matter, _| !matches!(matter, Matter::Say(_) | Matter::Silence));
        self.pass_over();
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.order.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes what is due, and since when.
    pub(super) fn due(&mut self, now: Instant) -> Option<(Instant, Matter)> {
        let Reverse((at, matter)) = *self.order.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.clear(matter);
        Some((at, matter))
    }

    /// A time of this matter counts no more. What is first in line counts, and there is not too much behind
    /// it that does not.
    fn tidy(&mut self, matter: Matter) {
        let Self { times, order } = self;
        if order.len() > 2 * times.len() + STALE_MAX {
            order.retain(|Reverse(one)| counts(times, one));
        }
        if order.peek().is_some_and(|Reverse((_, first))| *first == matter) {
            self.pass_over();
        }
    }

    /// Takes out what is first in line and counts no more.
    fn pass_over(&mut self) {
        let Self { times, order } = self;
        while order.peek().is_some_and(|Reverse(one)| !counts(times, one)) {
            order.pop();
        }
    }
}

/// Whether a time is still the one of its matter.
fn counts(times: &HashMap<Matter, Instant, Mixing>, (at, matter): &(Instant, Matter)) -> bool {
    times.get(matter) == Some(at)
}

/// What is to be said, in order.
#[derive(Debug, Default)]
pub(super) struct Errands {
    line: VecDeque<Step>,
    known: HashSet<Step, Mixing>,
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
