//! What a commit may say, and what must become of it.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::groups::{
    Body, CommitOutcome, GroupCommand, GroupReply, LeaseId, MemberId, Order, Verdict, VerdictStatus,
};
use handoff_streams::{Command, PartitionId};

use super::place::{Is, Place, Said};
use super::produced::Death;
use super::{Asked, Group, Oracle, Violation, no_answer};

/// What a message is to whoever answers for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Held(LeaseId, u32),
    /// It finished it itself.
    Own,
    /// It is finished.
    Finished,
    No,
}

fn claim(
    group: &Group,
    (member, alive): (MemberId, bool),
    verdict: &Verdict,
    offset: u64,
) -> Claim {
    let none = Place::default();
    let place = group.places.get(&verdict.partition).unwrap_or(&none);
    let cell = place.cell(offset);
    let fits = |lease: LeaseId| verdict.lease.is_none_or(|named| named == lease);
    match cell.is {
        // Whoever is dead may finish what nobody took from it, and hold it no longer.
        Is::Out { .. } if verdict.status == VerdictStatus::Extend && !alive => Claim::No,
        Is::Out { member: of, lease, .. } if of == member && fits(lease) => {
            Claim::Held(lease, cell.attempt)
        }
        Is::Out { .. } | Is::Pending { .. } => Claim::No,
        Is::Processed | Is::Dead(..) => {
            let finishers = place.finishers.get(&offset).into_iter().flatten();
            let mut own = finishers.filter(|(of, lease)| *of == member && fits(*lease));
            if own.next().is_some() { Claim::Own } else { Claim::Finished }
        }
    }
}

impl Oracle {
    /// What a commit's messages are to it; of those of a topic that is gone nobody knows.
    fn claims(&self, asked: &Asked) -> Vec<Option<Claim>> {
        let Command::Group(GroupCommand::Commit { group, member, results, .. }) = &asked.command
        else {
            return Vec::new();
        };
        let Some(group) = self.groups.get(group) else { return Vec::new() };
        let who = (*member, group.is_alive(*member, asked.now.steady));
        let all = results.iter().filter(|one| one.from <= one.to && one.to - one.from < 10_000);
        let one = |verdict: &Verdict, offset: u64| {
            let known = self.logs.contains_key(&verdict.partition);
            known.then(|| claim(group, who, verdict, offset))
        };
        all.flat_map(|verdict| (verdict.from..=verdict.to).map(|at| one(verdict, at))).collect()
    }

    /// Whether a commit with messages must come to nothing.
    pub(super) fn must_be_fenced(&self, asked: &Asked) -> bool {
        let Command::Group(GroupCommand::Commit { produce, .. }) = &asked.command else {
            return false;
        };
        let anonymous = produce.iter().any(|request| request.producer.is_none());
        let void = |claim: &Option<Claim>| match claim {
            None | Some(Claim::Held(..)) => false,
            Some(Claim::Own) => anonymous,
            Some(Claim::Finished | Claim::No) => true,
        };
        !produce.is_empty() && self.claims(asked).iter().any(void)
    }

    /// Whether it may: that a member said something before is not remembered for ever.
    pub(super) fn may_be_fenced(&self, asked: &Asked) -> bool {
        self.claims(asked).iter().any(|claim| !matches!(claim, Some(Claim::Held(..))))
    }

    pub(super) fn committed(
        &mut self,
        asked: &Asked,
        command: &GroupCommand,
        reply: &GroupReply,
    ) -> Result<(), Violation> {
        let GroupCommand::Commit { group: name, member, results, produce, bodies, .. } = command
        else {
            return Ok(());
        };
        let Some(group) = self.groups.get(name) else { return Ok(()) };
        let now = asked.now.steady;
        let who = (*member, group.is_alive(*member, now));
        let given: BTreeMap<(PartitionId, u64), &Body> =
            bodies.iter().map(|body| ((body.partition, body.offset), body)).collect();
        let mut deaths = Vec::new();
        let mut wanted = BTreeSet::new();
        let mut counted: Vec<(&Verdict, u64, LeaseId, u32)> = Vec::new();
        for verdict in results {
            for offset in verdict.from..=verdict.to {
                let Claim::Held(lease, attempt) = claim(group, who, verdict, offset) else {
                    continue;
                };
                let partition = verdict.partition;
                let dies = match verdict.status {
                    VerdictStatus::Ok | VerdictStatus::Extend => false,
                    VerdictStatus::Failed => true,
                    VerdictStatus::Retry => attempt >= group.settings.max_attempts,
                };
                if !dies {
                    counted.push((verdict, offset, lease, attempt));
                    continue;
                }
                let Some(body) = given.get(&(partition, offset)) else {
                    wanted.insert((partition, offset));
                    continue;
                };
                self.is_body(body)?;
                let (error, has_body) = (verdict.error.clone(), body.record.is_some());
                let error = Some(error.unwrap_or_default());
                deaths.push((lease, Death { partition, offset, attempt, error, has_body }));
            }
        }
        let (answers, produced) = match reply {
            GroupReply::Wants(reads) => {
                // Of a topic that is gone it is not known what would die.
                let (known, gone): (Vec<_>, Vec<_>) =
                    reads.iter().partition(|(at, _)| self.logs.contains_key(at));
                let known = known
                    .iter()
                    .flat_map(|(at, offsets)| offsets.clone().map(move |offset| (*at, offset)));
                let fits = known.collect::<BTreeSet<_>>() == wanted;
                return match fits && !(wanted.is_empty() && gone.is_empty()) {
                    true => Ok(()),
                    false => Err(no_answer(asked, format!("{wanted:?} have to be read"))),
                };
            }
            GroupReply::Committed { results, produced, .. } if wanted.is_empty() => {
                (results, produced)
            }
            _ => return Err(no_answer(asked, format!("{wanted:?} have to be read"))),
        };
        let mut outcomes = answers
            .iter()
            .flat_map(|one| (one.from..=one.to).map(|offset| (one.partition, offset, one.outcome)));
        for verdict in results {
            let partition = verdict.partition;
            let counts = match group.is_assigned(*member, partition) {
                true => CommitOutcome::Done,
                false => CommitOutcome::Late,
            };
            let finished =
                if verdict.lease.is_none() { CommitOutcome::Late } else { CommitOutcome::Fenced };
            for offset in verdict.from..=verdict.to {
                let allowed: &[CommitOutcome] = match claim(group, who, verdict, offset) {
                    Claim::Held(..) => &[counts],
                    // That it said so before is not remembered for ever.
                    Claim::Own => &[counts, finished],
                    Claim::Finished => &[finished],
                    Claim::No => &[CommitOutcome::Fenced],
                };
                let known = self.logs.contains_key(&partition);
                let fits = match outcomes.next() {
                    Some((at, of, outcome)) => {
                        (at, of) == (partition, offset) && (!known || allowed.contains(&outcome))
                    }
                    None => false,
                };
                if !fits {
                    let why = format!("{offset} of {partition} is one of {allowed:?}");
                    return Err(no_answer(asked, why));
                }
            }
        }
        if outcomes.next().is_some() || produced.len() != produce.len() {
            return Err(no_answer(asked, "more is answered than was asked".to_owned()));
        }
        for (request, results) in produce.iter().zip(produced) {
            self.produced(asked, request, results)?;
        }
        self.obey(asked, (name, *member), &counted, &deaths)?;
        if let Some(group) = self.groups.get_mut(name)
            && group.is_alive(*member, now)
        {
            group.hear(*member, now);
        }
        let deaths: Vec<Death> = deaths.into_iter().map(|(_, death)| death).collect();
        self.bury(asked, name, &deaths)
    }

    /// A body that came with a command is the message.
    pub(super) fn is_body(&self, body: &Body) -> Result<(), Violation> {
        let Some(log) = self.logs.get(&body.partition) else { return Ok(()) };
        let why = body.record.as_ref().and_then(|record| log.objection(record));
        match why {
            Some(why) => {
                Err(Violation::Message { partition: body.partition, offset: body.offset, why })
            }
            None => Ok(()),
        }
    }

    /// What was said becomes true.
    fn obey(
        &mut self,
        asked: &Asked,
        (name, member): (&handoff_streams::groups::GroupName, MemberId),
        counted: &[(&Verdict, u64, LeaseId, u32)],
        deaths: &[(LeaseId, Death)],
    ) -> Result<(), Violation> {
        let now = asked.now.steady;
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        let answered: BTreeSet<(PartitionId, u64)> = counted
            .iter()
            .map(|(verdict, offset, ..)| (verdict.partition, *offset))
            .chain(deaths.iter().map(|(_, death)| (death.partition, death.offset)))
            .collect();
        for (lease, death) in deaths {
            let place = group.place(death.partition);
            place.finishers.entry(death.offset).or_default().insert((member, *lease));
        }
        let mut back: Vec<(PartitionId, u64, u32)> = Vec::new();
        for (verdict, offset, lease, attempt) in counted {
            let (partition, offset) = (verdict.partition, *offset);
            let wait = group.back_off(*attempt);
            let most = group.settings.backoff_max;
            let (order, span) = (group.settings.order, group.settings.lease);
            let place = group.places.entry(partition).or_default();
            match verdict.status {
                VerdictStatus::Ok | VerdictStatus::Failed => {
                    place.set(offset, Is::Processed);
                    place.finishers.entry(offset).or_default().insert((member, *lease));
                }
                VerdictStatus::Extend => {
                    for (at, of, under, ..) in place.out() {
                        if under == *lease {
                            let (lease, deadline) = (under, now + span);
                            place.set(at, Is::Out { member: of, lease, deadline });
                        }
                    }
                }
                VerdictStatus::Retry => {
                    let wait = verdict.delay.map_or(wait, |delay| delay.min(most));
                    let said = Said::Exactly(verdict.error.clone());
                    place.set(offset, Is::Pending { until: now + wait, said });
                    // What was handed out with it and has to wait for it comes back too.
                    let Some(log) = self.logs.get(&partition) else { continue };
                    let key = |at: u64| log.get(at).and_then(|kept| kept.key.clone());
                    for (at, _, under, _, attempt) in place.out() {
                        let waits = match order {
                            Order::Free => false,
                            Order::Key => key(at).is_some() && key(at) == key(offset),
                            Order::Partition => true,
                        };
                        let with = under == *lease && at > offset;
                        if waits && with && !answered.contains(&(partition, at)) {
                            back.push((partition, at, attempt - 1));
                        }
                    }
                }
            }
        }
        for (partition, offset, attempt) in back {
            let (until, said) = (handoff_types::Steady(0), Said::Exactly(None));
            group.place(partition).put(offset, Is::Pending { until, said }, attempt);
        }
        Ok(())
    }
}
