//! Where a group is in a partition.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use handoff_types::Steady;

use super::membership::MemberId;
use super::ranges::{Keys, Mark, Range, Ranges};
use crate::PartitionId;

/// Finished leases that are remembered, so that a commit whose answer was lost can be said again.
const FINISHED_MAX: usize = 32;

/// Runs of a finished lease that is worth remembering.
const FINISHED_RUNS_MAX: usize = 16;

/// Runs of dead messages that are known by their offsets. Beyond it the oldest count as processed;
/// they are still in the dead-letter topic.
const DEAD_RUNS_MAX: usize = 4096;

/// The number of a lease, counted in each partition of a group: a later one is larger, so it is a
/// fencing token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Offsets from a first to a last.
pub type Run = (u64, u64);

/// What was handed out together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// To whom.
    pub member: MemberId,
    /// Until when it has to be answered.
    pub deadline: Steady,
    /// What was handed out and did not come back unfinished; what of it is finished included.
    /// Ascending.
    pub runs: Vec<Run>,
    /// How many messages are not answered. Told by the ranges.
    pub(crate) left: u64,
}

/// Dead messages side by side, whose letters are side by side too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeadRun {
    /// The last offset.
    pub last: u64,
    /// Where the letter of the first is; none: there is none, the disk had lost the messages.
    pub letter: Option<(PartitionId, u64)>,
}

/// Where a group is in a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The first offset that is not finished: what is committed.
    pub(crate) start: u64,
    /// The first that was not looked at.
    pub(crate) next: u64,
    pub(crate) ranges: Ranges,
    pub(crate) leases: BTreeMap<LeaseId, Lease>,
    /// The number of the last lease.
    pub(crate) last_lease: u64,
    /// Leases that were answered to the end, the newest last.
    pub(crate) finished: VecDeque<(LeaseId, MemberId, Vec<Run>)>,
    /// What of the finished is dead, by the first offset.
    pub(crate) dead: BTreeMap<u64, DeadRun>,
    /// How many ever were.
    pub(crate) dead_count: u64,
    /// How many went before they were read.
    pub(crate) lost: u64,
    /// Offsets the disk lost, which the group does not pass: the first, and that behind the last.
    pub(crate) damaged: Option<Run>,
    // ── derived ──
    pub(super) deadlines: BTreeSet<(Steady, LeaseId)>,
    /// How many messages between `start` and `next` are not finished.
    pub(super) open: u64,
}

/// What becomes true of a position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It is here now, and nothing is out.
    Begin {
        /// The offset.
        at: u64,
    },
    /// The next messages are looked at.
    Known {
        /// How many.
        count: u64,
        /// Their keys.
        keys: Keys,
    },
    /// Messages that wait are handed out.
    Lease {
        /// The lease; above all before it.
        lease: LeaseId,
        /// To whom.
        member: MemberId,
        /// Until when.
        deadline: Steady,
        /// Which.
        runs: Vec<Run>,
    },
    /// Messages are finished.
    Done(Run),
    /// Messages are finished, and dead.
    Dead {
        /// Which.
        run: Run,
        /// Where the letter of the first is; those of the others are behind it.
        letter: Option<(PartitionId, u64)>,
    },
    /// Messages that were out wait.
    Wait {
        /// Which.
        run: Run,
        /// Until when.
        until: Steady,
        /// How often they were handed out.
        attempt: u32,
        /// What was said.
        error: Option<std::sync::Arc<str>>,
    },
    /// A lease has another deadline.
    Extend {
        /// Which.
        lease: LeaseId,
        /// Until when.
        deadline: Steady,
    },
    /// What is below an offset is not kept any more: whatever waits there is lost.
    Lost {
        /// The first offset that is kept.
        below: u64,
    },
    /// The disk lost messages that the group does not pass; none: it does again.
    Damaged(Option<Run>),
}

/// What a commit may say of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It is out under this lease of the member.
    Held(LeaseId, u32),
    /// The member finished it, and says so again.
    Repeated,
    /// It is finished; by whom is not known.
    Finished,
    /// It was never the member's, or is not any more.
    Fenced,
}

impl Position {
    /// One that begins at an offset.
    #[must_use]
    pub fn at(offset: u64) -> Self {
        Self { start: offset, next: offset, ..Self::default() }
    }

    /// The first offset that is not finished: what is committed.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The first offset that was not looked at.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// What is known between them, by first offsets, without a gap.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, &Range)> {
        self.ranges.iter()
    }

    /// How many ranges there are between them: what it takes of memory.
    #[must_use]
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    /// How many messages between them are not finished.
    #[must_use]
    pub const fn open(&self) -> u64 {
        self.open
    }

    /// What is out.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    /// A lease.
    #[must_use]
    pub fn lease(&self, id: LeaseId) -> Option<&Lease> {
        self.leases.get(&id)
    }

    /// Dead messages that are known by their offsets.
    pub fn dead(&self) -> impl Iterator<Item = (u64, &DeadRun)> {
        self.dead.iter().map(|(first, run)| (*first, run))
    }

    /// How many messages ever were dead.
    #[must_use]
    pub const fn dead_count(&self) -> u64 {
        self.dead_count
    }

    /// How many went before they were read.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// The offsets the disk lost, which the group does not pass.
    #[must_use]
    pub const fn damaged(&self) -> Option<Run> {
        self.damaged
    }

    /// The dead run an offset lies in.
    pub(crate) fn dead_at(&self, offset: u64) -> Option<(u64, &DeadRun)> {
        let (first, run) = self.dead.range(..=offset).next_back()?;
        (run.last >= offset).then_some((*first, run))
    }

    /// When the first lease is over.
    pub(crate) fn first_deadline(&self) -> Option<Steady> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// What a member may say of messages, under a lease if it names one: from each first to each
    /// last the same.
    pub(crate) fn claims(
        &self,
        member: MemberId,
        named: Option<LeaseId>,
        (first, last): Run,
    ) -> Vec<(Run, Claim)> {
        let mut claims = Vec::new();
        let mut at = first;
        while at <= last {
            let (end, claim) = match self.ranges.at(at) {
                _ if at >= self.next => (last, Some(Claim::Fenced)),
                None => (self.start.saturating_sub(1).max(at), None),
                Some((_, range)) => (range.last, self.claim(member, named, &range.mark)),
            };
            let run = (at, end.min(last));
            match claim {
                Some(claim) => claims.push((run, claim)),
                None => self.finished_claims(member, named, run, &mut claims),
            }
            let Some(next) = run.1.checked_add(1) else { break };
            at = next;
        }
        claims
    }

    /// None: it is finished, and that is another question.
    fn claim(&self, member: MemberId, named: Option<LeaseId>, mark: &Mark) -> Option<Claim> {
        match mark {
            Mark::Leased { lease, attempt } => {
                let own = self.leases.get(lease).is_some_and(|one| one.member == member);
                let own = own && named.is_none_or(|named| named == *lease);
                Some(if own { Claim::Held(*lease, *attempt) } else { Claim::Fenced })
            }
            Mark::Waiting { .. } => Some(Claim::Fenced),
            Mark::Done => None,
        }
    }

    fn finished_claims(
        &self,
        member: MemberId,
        named: Option<LeaseId>,
        (first, last): Run,
        claims: &mut Vec<(Run, Claim)>,
    ) {
        let fits = |lease: LeaseId| named.is_none_or(|named| named == lease);
        let held = self.leases.iter().filter(|(id, lease)| lease.member == member && fits(**id));
        let ended = self.finished.iter().filter(|(id, whose, _)| *whose == member && fits(*id));
        let runs = held.flat_map(|(_, lease)| &lease.runs);
        let mut own: Vec<Run> = runs.chain(ended.flat_map(|(_, _, runs)| runs)).copied().collect();
        own.sort_unstable();
        let other = if named.is_none() { Claim::Finished } else { Claim::Fenced };
        let mut at = first;
        for (from, to) in own {
            let (from, to) = (from.max(at), to.min(last));
            if from > to {
                continue;
            }
            if from > at {
                claims.push(((at, from - 1), other));
            }
            claims.push(((from, to), Claim::Repeated));
            let Some(next) = to.checked_add(1).filter(|next| *next <= last) else { return };
            at = next;
        }
        claims.push(((at, last), other));
    }
}

/// What becomes true. A step that does not fit what is there does what still makes sense.
impl Position {
    pub(crate) fn evolve(&mut self, step: &Step) {
        match step {
            Step::Begin { at } => self.begin(*at),
            Step::Known { count, keys } => self.know(*count, keys),
            Step::Lease { lease, member, deadline, runs } => {
                self.hand_out(*lease, *member, *deadline, runs);
            }
            Step::Done(run) => {
                self.finish(*run);
                self.advance();
            }
            Step::Dead { run, letter } => {
                self.finish(*run);
                self.bury(*run, *letter);
                self.advance();
            }
            Step::Wait { run, until, attempt, error } => {
                let mark = Mark::Waiting { until: *until, attempt: *attempt, error: error.clone() };
                self.set(*run, &mark, |was| matches!(was, Mark::Leased { .. }));
            }
            Step::Extend { lease, deadline } => self.extend(*lease, *deadline),
            Step::Lost { below } => self.lose(*below),
            Step::Damaged(damaged) => self.damaged = *damaged,
        }
    }

    fn begin(&mut self, at: u64) {
        // Whatever is handed out again is not dead any more.
        if let Some((first, run)) = self.dead_at(at).map(|(first, run)| (first, *run)) {
            self.dead.remove(&first);
            if first < at {
                self.dead.insert(first, DeadRun { last: at - 1, ..run });
            }
        }
        self.dead.split_off(&at);
        self.start = at;
        self.next = at;
        self.ranges = Ranges::default();
        self.leases.clear();
        self.finished.clear();
        self.deadlines.clear();
        self.open = 0;
        self.damaged = None;
    }

    fn know(&mut self, count: u64, keys: &Keys) {
        let Some(next) = self.next.checked_add(count).filter(|_| count > 0) else { return };
        let fits = keys.hashes().len() as u64 == count;
        let keys = if fits { Keys::of(keys.hashes().to_vec()) } else { Keys::default() };
        self.ranges.push(self.next, Range { last: next - 1, mark: Mark::FRESH, keys });
        self.next = next;
        self.open = self.open.saturating_add(count);
    }

    fn hand_out(&mut self, lease: LeaseId, member: MemberId, deadline: Steady, runs: &[Run]) {
        if lease.0 <= self.last_lease {
            return;
        }
        self.last_lease = lease.0;
        let mut out: Vec<Run> = Vec::new();
        let mut left = 0;
        for (first, last) in runs {
            self.ranges.rewrite(*first, *last, |from, range| {
                let Mark::Waiting { attempt, .. } = range.mark else { return None };
                left += range.last - from + 1;
                match out.last_mut() {
                    Some((_, end)) if end.checked_add(1) == Some(from) => *end = range.last,
                    _ => out.push((from, range.last)),
                }
                Some(Mark::Leased { lease, attempt: attempt.saturating_add(1) })
            });
        }
        if left == 0 {
            return;
        }
        out.sort_unstable();
        self.leases.insert(lease, Lease { member, deadline, runs: out, left });
        self.deadlines.insert((deadline, lease));
    }

    fn finish(&mut self, run: Run) {
        self.set(run, &Mark::Done, |was| *was != Mark::Done);
    }

    /// Sets what is known of messages of which something else was known.
    fn set(&mut self, (first, last): Run, mark: &Mark, fits: impl Fn(&Mark) -> bool) {
        let mut answered: Vec<(LeaseId, Run)> = Vec::new();
        let mut finished = 0;
        self.ranges.rewrite(first, last, |from, range| {
            if !fits(&range.mark) {
                return None;
            }
            if *mark == Mark::Done {
                finished += range.last - from + 1;
            }
            if let Mark::Leased { lease, .. } = range.mark {
                answered.push((lease, (from, range.last)));
            }
            Some(mark.clone())
        });
        self.open = self.open.saturating_sub(finished);
        for (lease, run) in answered {
            self.answer(lease, run, *mark == Mark::Done);
        }
    }

    fn answer(&mut self, id: LeaseId, (first, last): Run, finished: bool) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        lease.left = lease.left.saturating_sub(last - first + 1);
        if !finished {
            lease.runs = without(&lease.runs, (first, last));
        }
        if lease.left > 0 {
            return;
        }
        let Some(lease) = self.leases.remove(&id) else { return };
        self.deadlines.remove(&(lease.deadline, id));
        if (1..=FINISHED_RUNS_MAX).contains(&lease.runs.len()) {
            self.finished.push_back((id, lease.member, lease.runs));
            while self.finished.len() > FINISHED_MAX {
                self.finished.pop_front();
            }
        }
    }

    fn bury(&mut self, (first, last): Run, letter: Option<(PartitionId, u64)>) {
        if first > last || last >= self.next || self.dead_at(first).is_some() {
            return;
        }
        let follower = self.dead.range(first..).next().map(|(next, _)| *next);
        if follower.is_some_and(|next| next <= last) {
            return;
        }
        self.dead_count = self.dead_count.saturating_add(last - first + 1);
        let before = first.checked_sub(1).and_then(|at| self.dead_at(at));
        match before.map(|(from, run)| (from, *run)) {
            Some((from, run)) if continues(from, run, letter) => {
                self.dead.insert(from, DeadRun { last, ..run });
            }
            _ => drop(self.dead.insert(first, DeadRun { last, letter })),
        }
        while self.dead.len() > DEAD_RUNS_MAX {
            self.dead.pop_first();
        }
    }

    fn extend(&mut self, id: LeaseId, deadline: Steady) {
        let Some(lease) = self.leases.get_mut(&id) else { return };
        self.deadlines.remove(&(lease.deadline, id));
        lease.deadline = deadline;
        self.deadlines.insert((deadline, id));
    }

    fn lose(&mut self, below: u64) {
        if let Some(last) = below.checked_sub(1) {
            let mut lost = 0;
            self.ranges.rewrite(self.start, last, |first, range| {
                matches!(range.mark, Mark::Waiting { .. }).then(|| {
                    lost += range.last - first + 1;
                    Mark::Done
                })
            });
            self.open = self.open.saturating_sub(lost);
            if below > self.next {
                lost += below - self.next;
                let done = Range { last, mark: Mark::Done, keys: Keys::default() };
                self.ranges.push(self.next, done);
                self.next = below;
            }
            self.lost = self.lost.saturating_add(lost);
        }
        // Letters of messages that are not kept are known by themselves.
        let kept = self.dead.split_off(&below);
        let last = self.dead.pop_last().filter(|(_, run)| run.last >= below);
        self.dead = kept;
        self.dead.extend(last);
        self.advance();
    }

    fn advance(&mut self) {
        if let Some(start) = self.ranges.advance() {
            self.start = start;
        }
        if self.damaged.is_some_and(|(_, behind)| self.next >= behind && self.start >= behind) {
            self.damaged = None;
        }
    }

    /// From its parts, as they are stored; none if they do not fit together.
    pub(crate) fn from_parts(
        start: u64,
        ranges: Vec<(u64, Mark, Keys)>,
        leases: Vec<(LeaseId, Lease)>,
        rest: Self,
    ) -> Option<Self> {
        let mut position = Self { start, next: start, ..rest };
        let mut held: BTreeMap<LeaseId, u64> = BTreeMap::new();
        for (count, mark, keys) in ranges {
            let next = position.next.checked_add(count).filter(|_| count > 0)?;
            if let Mark::Leased { lease, .. } = &mark {
                let held = held.entry(*lease).or_default();
                *held = held.checked_add(count)?;
            }
            if mark != Mark::Done {
                position.open = position.open.checked_add(count)?;
            }
            let range = Range { last: next - 1, mark, keys };
            position.ranges.put(position.next, range);
            position.next = next;
        }
        for (id, mut lease) in leases {
            lease.left = held.remove(&id)?;
            position.deadlines.insert((lease.deadline, id));
            position.leases.insert(id, lease);
        }
        let fits = held.is_empty() && position.is_plausible();
        fits.then_some(position)
    }

    /// Whether it may have come about: what is finished at the front is gone, only messages that
    /// were looked at are dead, and the next lease has a number that no other has.
    fn is_plausible(&self) -> bool {
        let front = self.ranges.iter().next();
        let open = front.is_none_or(|(_, range)| range.mark != Mark::Done);
        let looked_at = self.dead.last_key_value().is_none_or(|(_, run)| run.last < self.next);
        let mut numbers = self.leases.keys().chain(self.finished.iter().map(|(id, ..)| id));
        open && looked_at && numbers.all(|id| id.0 <= self.last_lease)
    }
}

/// Whether a letter stands right behind those of a run.
fn continues(first: u64, run: DeadRun, letter: Option<(PartitionId, u64)>) -> bool {
    match (run.letter, letter) {
        (None, None) => true,
        (Some((was, base)), Some((is, offset))) => {
            was == is && base.checked_add(run.last - first + 1) == Some(offset)
        }
        _ => false,
    }
}

/// Runs without what lies in one of them or in several.
fn without(runs: &[Run], (first, last): Run) -> Vec<Run> {
    let mut rest = Vec::with_capacity(runs.len() + 1);
    for (from, to) in runs.iter().copied() {
        if to < first || from > last {
            rest.push((from, to));
            continue;
        }
        if from < first {
            rest.push((from, first - 1));
        }
        if to > last {
            rest.push((last + 1, to));
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One record per message.
    #[derive(Clone, Debug, PartialEq)]
    enum One {
        Waiting(u64, u32, u32),
        Leased(u64, u32, u32),
        Done,
    }

    /// The same rules, message by message.
    #[derive(Debug, Default)]
    struct Naive {
        start: u64,
        all: Vec<One>,
        last_lease: u64,
        lost: u64,
    }

    impl Naive {
        fn each(&mut self, (first, last): Run, mut change: impl FnMut(&mut One)) {
            for (n, one) in self.all.iter_mut().enumerate() {
                let offset = self.start + n as u64;
                if (first..=last).contains(&offset) {
                    change(one);
                }
            }
        }

        fn next(&self) -> u64 {
            self.start + self.all.len() as u64
        }

        fn evolve(&mut self, step: &Step) {
            match step {
                Step::Begin { at } => {
                    *self = Self {
                        start: *at,
                        last_lease: self.last_lease,
                        lost: self.lost,
                        ..Self::default()
                    };
                }
                Step::Known { count, keys } => {
                    self.all.extend((0..*count).map(|n| One::Waiting(0, 0, keys.get(n))));
                }
                Step::Lease { lease, runs, .. } if lease.0 > self.last_lease => {
                    self.last_lease = lease.0;
                    for run in runs {
                        self.each(*run, |one| {
                            if let One::Waiting(_, attempt, key) = *one {
                                *one = One::Leased(lease.0, attempt + 1, key);
                            }
                        });
                    }
                }
                Step::Done(run) | Step::Dead { run, .. } => self.each(*run, |one| *one = One::Done),
                Step::Wait { run, until, attempt, .. } => self.each(*run, |one| {
                    if let One::Leased(_, _, key) = *one {
                        *one = One::Waiting(until.0, *attempt, key);
                    }
                }),
                Step::Lost { below } => {
                    let mut lost = below.saturating_sub(self.next());
                    if let Some(last) = below.checked_sub(1) {
                        self.each((0, last), |one| {
                            if matches!(one, One::Waiting(..)) {
                                *one = One::Done;
                                lost += 1;
                            }
                        });
                    }
                    while self.next() < *below {
                        self.all.push(One::Done);
                    }
                    self.lost += lost;
                }
                Step::Lease { .. } | Step::Extend { .. } | Step::Damaged(_) => {}
            }
            while self.all.first() == Some(&One::Done) {
                self.all.remove(0);
                self.start += 1;
            }
        }
    }

    fn flat(position: &Position) -> Vec<One> {
        let one = |(first, range): (u64, &Range)| {
            let Range { last, mark, keys } = range.clone();
            (first..=last).map(move |offset| match mark {
                Mark::Waiting { until, attempt, .. } => {
                    One::Waiting(until.0, attempt, keys.get(offset - first))
                }
                Mark::Leased { lease, attempt } => {
                    One::Leased(lease.0, attempt, keys.get(offset - first))
                }
                Mark::Done => One::Done,
            })
        };
        position.ranges().flat_map(one).collect()
    }

    fn run() -> impl Strategy<Value = Run> {
        (0u64..40, 0u64..8).prop_map(|(first, more)| (first, first + more))
    }

    fn step() -> impl Strategy<Value = Step> {
        let keys = prop::collection::vec(0u32..3, 1..8);
        let leased = (1u64..30, 0u128..3, prop::collection::vec(run(), 1..3));
        prop_oneof![
            1 => (0u64..20).prop_map(|at| Step::Begin { at }),
            6 => keys.prop_map(|keys| Step::Known { count: keys.len() as u64, keys: Keys::of(keys) }),
            8 => leased.prop_map(|(lease, member, runs)| Step::Lease {
                lease: LeaseId(lease),
                member: MemberId(member),
                deadline: Steady(lease),
                runs,
            }),
            8 => run().prop_map(Step::Done),
            2 => run().prop_map(|run| Step::Dead { run, letter: None }),
            5 => (run(), 0u64..3, 0u32..3).prop_map(|(run, until, attempt)| Step::Wait {
                run,
                until: Steady(until),
                attempt,
                error: None,
            }),
            1 => (0u64..30).prop_map(|below| Step::Lost { below }),
        ]
    }

    proptest! {
        #[test]
        fn ranges_say_what_one_record_per_message_would(
            steps in prop::collection::vec(step(), 0..60),
        ) {
            let (mut position, mut naive) = (Position::default(), Naive::default());
            for step in &steps {
                position.evolve(step);
                naive.evolve(step);
                prop_assert_eq!(position.start, naive.start, "{:?}", step);
                prop_assert_eq!(position.next, naive.next());
                prop_assert_eq!(flat(&position), naive.all.clone());
                prop_assert_eq!(position.lost, naive.lost);
                // Neighbours differ, and each lease has as much left as there is of it.
                let ranges: Vec<_> = position.ranges().map(|(_, range)| range.mark.clone()).collect();
                prop_assert!(ranges.windows(2).all(|two| two[0] != two[1]));
                for (id, lease) in &position.leases {
                    let held = naive.all.iter().filter(|one| matches!(one, One::Leased(of, ..) if *of == id.0));
                    prop_assert_eq!(held.count() as u64, lease.left);
                    prop_assert!(lease.left > 0);
                }
                prop_assert_eq!(position.deadlines.len(), position.leases.len());
            }
        }

        #[test]
        fn claims_lie_side_by_side_and_say_who_holds_what(
            steps in prop::collection::vec(step(), 0..40),
            asked in run(),
            member in 0u128..3,
            named in prop::option::of(1u64..30),
        ) {
            let mut position = Position::default();
            steps.iter().for_each(|step| position.evolve(step));
            let (member, named) = (MemberId(member), named.map(LeaseId));
            let mut at = asked.0;
            for ((first, last), claim) in position.claims(member, named, asked) {
                prop_assert_eq!(first, at);
                prop_assert!(last >= first);
                at = last + 1;
                for offset in first..=last {
                    let mark = position.ranges.at(offset).map(|(_, range)| range.mark.clone());
                    let held = match mark {
                        Some(Mark::Leased { lease, .. }) => {
                            position.lease(lease).unwrap().member == member
                                && named.is_none_or(|named| named == lease)
                        }
                        _ => false,
                    };
                    prop_assert_eq!(matches!(claim, Claim::Held(..)), held);
                    let finished = matches!(mark, Some(Mark::Done))
                        || (mark.is_none() && offset < position.start);
                    prop_assert_eq!(
                        matches!(claim, Claim::Repeated | Claim::Finished),
                        finished && claim != Claim::Fenced
                    );
                }
            }
            prop_assert_eq!(at, asked.1 + 1);
        }
    }
}
