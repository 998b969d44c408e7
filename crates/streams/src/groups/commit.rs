//! How it went with messages that were handed out.
//!
//! * What counts is who holds a message: the member it was handed to, as long as it did not come
//!   back, whoever has the partition by now.
//! * What does not count changes nothing. What is finished stays so, and the position never goes
//!   back.
//! * Whoever is gone, or was silent for too long, may still finish what nobody took from it, but not
//!   hold it any longer.
//! * A commit that was made and is said again is answered as the first time.
//! * A message that is to be tried again takes back those behind it that were handed out with it and
//!   have to wait for it, unless the same commit answers for them: they come again, in order, and
//!   their attempt does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handoff_types::{Decision, Entropy, Now, Span, Steady};

use super::attending::seen;
use super::change::GroupChange;
use super::command::{
    Body, CommitOutcome, Committed, GroupRefusal, GroupReply, Reads, Verdict, VerdictStatus,
};
use super::dead::{Letters, error_of};
use super::funeral::{self, Bodies, Dying};
use super::manage::find;
use super::membership::{MemberId, Members};
use super::position::{Claim, LeaseId, Position, Run, Step};
use super::ranges::Mark;
use super::settings::{Group, GroupName, Order};
use crate::decide::{Decided, answer};
use crate::{
    Action, Bounds, Change, Key, PartitionId, Produce, Produced, Refusal, Reply, State, needs,
    produce,
};

pub(crate) struct Ask<'a> {
    pub(crate) group: &'a GroupName,
    pub(crate) member: MemberId,
    pub(crate) results: &'a [Verdict],
    pub(crate) produce: &'a [Produce],
    pub(crate) bodies: &'a [Body],
    pub(crate) bounds: &'a Bounds,
}

pub(crate) fn commit(
    state: &State,
    ask: &Ask<'_>,
    now: Now,
    entropy: Entropy,
) -> Result<Decided, Refusal> {
    let (group, members) = find(state, ask.group)?;
    check(ask.results, ask.bounds)?;
    let alive = members.is_alive(ask.member, now.steady);
    let sorting = Sorting::of(state, group, members, (ask.member, alive), ask.results);
    if !ask.produce.is_empty() {
        sorting.may_produce(ask.produce)?;
    }
    let bodies = Bodies::of(ask.bodies);
    let wanted = sorting.wanted(&bodies);
    if !wanted.is_empty() {
        return Ok(answer(GroupReply::Wants(wanted).into()));
    }
    let mut made = Made::default();
    let mut known = scratch(state, group, ask.produce, &sorting);
    for (n, request) in ask.produce.iter().enumerate() {
        made.produce(&mut known, request, ask.bounds, now, entropy, n)?;
    }
    let Made { mut changes, mut actions, produced, missing } = made;
    let dying = sorting.dying(&bodies);
    let dead = funeral::bury(
        &mut known,
        (group, members),
        &dying,
        ask.bounds,
        now,
        &mut changes,
        &mut actions,
    )?;
    let mut steps = sorting.steps(group, now.steady);
    for (partition, mut dead) in dead {
        steps.entry(partition).or_default().append(&mut dead);
    }
    let moved = steps.into_iter().filter(|(_, steps)| !steps.is_empty());
    changes.extend(moved.map(|(at, steps)| Change::Group(GroupChange::Moved(group.id, at, steps))));
    if let Some(member) = members.members.get(&ask.member).filter(|_| alive) {
        changes.extend(seen(group, ask.member, member, now).map(Change::Group));
    }
    let results = sorting.answers;
    let reply = GroupReply::Committed { results, produced, missing };
    Ok(Decision { reply: reply.into(), changes, actions })
}

fn check(results: &[Verdict], bounds: &Bounds) -> Result<(), Refusal> {
    let max = bounds.batch_messages_max;
    if results.len() > max {
        return Err(Refusal::Limit(format!(
            "there are {} results in the request; streams.batch_messages_max allows {max}",
            results.len()
        )));
    }
    if let Some(Verdict { from, to, .. }) = results.iter().find(|one| one.from > one.to) {
        return Err(GroupRefusal::Backwards { from: *from, to: *to }.into());
    }
    let mut named: Vec<(PartitionId, u64, u64)> =
        results.iter().map(|one| (one.partition, one.from, one.to)).collect();
    named.sort_unstable();
    for pair in named.windows(2) {
        if let [(of, _, to), (partition, from, _)] = pair
            && of == partition
            && from <= to
        {
            return Err(GroupRefusal::Twice { partition: *partition, offset: *from }.into());
        }
    }
    Ok(())
}

/// Messages a verdict counts for.
struct Counted<'a> {
    partition: PartitionId,
    run: Run,
    lease: LeaseId,
    attempt: u32,
    verdict: &'a Verdict,
    dies: bool,
}

/// What a commit says, message by message.
struct Sorting<'a> {
    state: &'a State,
    group: &'a Group,
    counted: Vec<Counted<'a>>,
    answers: Vec<Committed>,
    /// The first that is said again, and the first that does not count.
    repeated: Option<(PartitionId, Run)>,
    fenced: Option<(PartitionId, Run)>,
}

impl<'a> Sorting<'a> {
    fn of(
        state: &'a State,
        group: &'a Group,
        members: &Members,
        (member, alive): (MemberId, bool),
        results: &'a [Verdict],
    ) -> Self {
        let mut sorting = Self {
            state,
            group,
            counted: Vec::new(),
            answers: Vec::new(),
            repeated: None,
            fenced: None,
        };
        let own = members.members.get(&member);
        let none = Position::default();
        for verdict in results {
            let partition = verdict.partition;
            let position = state.position(group.id, partition).unwrap_or(&none);
            let assigned = own.is_some_and(|own| own.has(partition));
            let counts = if assigned { CommitOutcome::Done } else { CommitOutcome::Late };
            for (run, claim) in position.claims(member, verdict.lease, (verdict.from, verdict.to)) {
                let renews = verdict.status == VerdictStatus::Extend;
                let outcome = match claim {
                    Claim::Held(..) if renews && !alive => {
                        sorting.fenced.get_or_insert((partition, run));
                        CommitOutcome::Fenced
                    }
                    Claim::Held(lease, attempt) => {
                        sorting.count(verdict, run, lease, attempt);
                        counts
                    }
                    Claim::Repeated => {
                        sorting.repeated.get_or_insert((partition, run));
                        counts
                    }
                    Claim::Finished => {
                        sorting.fenced.get_or_insert((partition, run));
                        CommitOutcome::Late
                    }
                    Claim::Fenced => {
                        sorting.fenced.get_or_insert((partition, run));
                        CommitOutcome::Fenced
                    }
                };
                sorting.answer(partition, run, outcome, run.0 == verdict.from);
            }
        }
        sorting
    }

    fn count(&mut self, verdict: &'a Verdict, run: Run, lease: LeaseId, attempt: u32) {
        let dies = match verdict.status {
            VerdictStatus::Ok | VerdictStatus::Extend => false,
            VerdictStatus::Failed => true,
            VerdictStatus::Retry => attempt >= self.group.settings.max_attempts,
        };
        let partition = verdict.partition;
        self.counted.push(Counted { partition, run, lease, attempt, verdict, dies });
    }

    fn answer(&mut self, partition: PartitionId, run: Run, outcome: CommitOutcome, anew: bool) {
        match self.answers.last_mut() {
            Some(last) if !anew && last.outcome == outcome => last.to = run.1,
            _ => self.answers.push(Committed { partition, from: run.0, to: run.1, outcome }),
        }
    }

    /// Messages are stored only if everything counts, now or, if their producer is known and can
    /// say them twice, before.
    fn may_produce(&self, produce: &[Produce]) -> Result<(), GroupRefusal> {
        let anonymous = produce.iter().any(|request| request.producer.is_none());
        let repeated = self.repeated.filter(|_| anonymous);
        match self.fenced.or(repeated) {
            Some((partition, (from, to))) => Err(GroupRefusal::Fenced { partition, from, to }),
            None => Ok(()),
        }
    }

    fn wanted(&self, bodies: &Bodies<'_>) -> Reads {
        let mut reads = Vec::new();
        for counted in self.counted.iter().filter(|counted| counted.dies) {
            for offset in counted.run.0..=counted.run.1 {
                if bodies.get(counted.partition, offset).is_none() {
                    funeral::read(&mut reads, counted.partition, (offset, offset));
                }
            }
        }
        reads
    }

    fn dying(&self, bodies: &Bodies<'a>) -> Vec<Dying<'a>> {
        let mut dying = Vec::new();
        for counted in self.counted.iter().filter(|counted| counted.dies) {
            let error = counted.verdict.error.as_deref().map_or("", error_of);
            let (partition, attempt) = (counted.partition, counted.attempt);
            for offset in counted.run.0..=counted.run.1 {
                let record = bodies.get(partition, offset).flatten();
                dying.push(Dying { partition, offset, attempt, error, record });
            }
        }
        dying
    }

    fn dead_partitions(&self) -> BTreeSet<PartitionId> {
        let dying = self.counted.iter().filter(|counted| counted.dies);
        dying.map(|counted| counted.partition).collect()
    }

    /// What becomes of those that do not die.
    fn steps(&self, group: &Group, now: Steady) -> BTreeMap<PartitionId, Vec<Step>> {
        let mut all: BTreeMap<PartitionId, Vec<Step>> = BTreeMap::new();
        let mut extended = BTreeSet::new();
        for counted in self.counted.iter().filter(|counted| !counted.dies) {
            let Counted { partition, run, lease, attempt, verdict, .. } = counted;
            let steps = all.entry(*partition).or_default();
            match verdict.status {
                VerdictStatus::Ok | VerdictStatus::Failed => steps.push(Step::Done(*run)),
                VerdictStatus::Extend => {
                    if extended.insert((*partition, *lease)) {
                        let deadline = now + group.settings.lease;
                        steps.push(Step::Extend { lease: *lease, deadline });
                    }
                }
                VerdictStatus::Retry => {
                    let most = group.settings.backoff_max;
                    let wait = verdict.delay.map(|delay: Span| delay.min(most));
                    let until = now + wait.unwrap_or_else(|| group.settings.wait(*attempt));
                    let error = verdict.error.as_deref().map(|text| Arc::from(error_of(text)));
                    let (run, attempt) = (*run, *attempt);
                    steps.push(Step::Wait { run, until, attempt, error });
                }
            }
        }
        for (partition, runs) in self.taken_back() {
            let back = |(run, attempt)| {
                let (until, error) = (Steady(0), None);
                Step::Wait { run, until, attempt, error }
            };
            all.entry(partition).or_default().extend(runs.into_iter().map(back));
        }
        all
    }

    /// Messages behind one that is tried again that must not come before it, and how often they
    /// were handed out if this time does not count.
    fn taken_back(&self) -> BTreeMap<PartitionId, Vec<(Run, u32)>> {
        let mut back: BTreeMap<PartitionId, Vec<(Run, u32)>> = BTreeMap::new();
        let mut retried: BTreeMap<(PartitionId, LeaseId), Letters> = BTreeMap::new();
        for counted in &self.counted {
            if counted.verdict.status == VerdictStatus::Retry && !counted.dies {
                retried.entry((counted.partition, counted.lease)).or_default().add(counted.run);
            }
        }
        if self.group.settings.order == Order::Free {
            return back;
        }
        for ((partition, lease), runs) in retried {
            let Some(position) = self.state.position(self.group.id, partition) else { continue };
            let mut answered = Letters::default();
            let counted = self.counted.iter().filter(|one| one.partition == partition);
            counted.for_each(|one| answered.add(one.run));
            let mut keys: BTreeSet<u32> = BTreeSet::new();
            let mut all = false;
            for (first, range) in position.ranges() {
                let Mark::Leased { lease: of, attempt } = range.mark else { continue };
                if of != lease {
                    continue;
                }
                for offset in first..=range.last {
                    let key = range.keys.get(offset - first);
                    if runs.contains(offset) {
                        all |= self.group.settings.order == Order::Partition;
                        keys.extend((key != 0).then_some(key));
                    } else if (all || keys.contains(&key)) && !answered.contains(offset) {
                        let back = back.entry(partition).or_default();
                        let attempt = attempt.saturating_sub(1);
                        match back.last_mut() {
                            Some(((_, last), before))
                                if *before == attempt && last.checked_add(1) == Some(offset) =>
                            {
                                *last = offset;
                            }
                            _ => back.push(((offset, offset), attempt)),
                        }
                    }
                }
            }
        }
        back
    }
}

/// What produced messages come to.
#[derive(Default)]
struct Made {
    changes: Vec<Change>,
    actions: Vec<Action>,
    produced: Vec<Vec<Produced>>,
    missing: Vec<Vec<std::ops::RangeInclusive<u64>>>,
}

impl Made {
    /// Decides one request on what is known so far, and lets it be known.
    fn produce(
        &mut self,
        known: &mut State,
        request: &Produce,
        bounds: &Bounds,
        now: Now,
        entropy: Entropy,
        n: usize,
    ) -> Result<(), Refusal> {
        // Each request draws for itself.
        let entropy = Entropy(entropy.0 ^ u128::from(entropy.word(u64::MAX - n as u64)));
        let decided = produce::produce(known, request, bounds, now, entropy)?;
        if let Reply::Produced { results, missing, .. } = decided.reply {
            self.produced.push(results);
            self.missing.push(missing);
        }
        decided.changes.iter().for_each(|change| crate::evolve::evolve(known, change));
        self.changes.extend(decided.changes);
        self.actions.extend(decided.actions);
        Ok(())
    }
}

/// The part of the state that storing something looks at, to be changed as it is decided: one
/// request sees what those before it in the same decision did.
fn scratch(state: &State, group: &Group, produce: &[Produce], sorting: &Sorting<'_>) -> State {
    let mut keys: BTreeSet<Key> =
        produce.iter().flat_map(|request| needs::of_produce(state, request)).collect();
    keys.extend(funeral::needs(state, group, &sorting.dead_partitions()));
    state.part(keys)
}

/// The messages that have to be read before a commit is decided.
pub(crate) fn reads(state: &State, ask: &Ask<'_>) -> Reads {
    match find(state, ask.group) {
        Ok((group, members)) if check(ask.results, ask.bounds).is_ok() => {
            // Who is alive matters to nothing that dies.
            let sorting = Sorting::of(state, group, members, (ask.member, true), ask.results);
            sorting.wanted(&Bodies::of(ask.bodies))
        }
        _ => Vec::new(),
    }
}

/// What a commit looks at beside the group and its members.
pub(crate) fn needs(state: &State, group: &Group, ask: &Ask<'_>) -> Vec<Key> {
    let mut keys: Vec<Key> =
        ask.results.iter().map(|one| Key::Position(group.id, one.partition)).collect();
    keys.extend(ask.produce.iter().flat_map(|request| needs::of_produce(state, request)));
    if let Some(members) = state.members(group.id) {
        let sorting = Sorting::of(state, group, members, (ask.member, true), ask.results);
        keys.extend(funeral::needs(state, group, &sorting.dead_partitions()));
    }
    keys
}
