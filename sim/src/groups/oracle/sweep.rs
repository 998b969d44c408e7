//! What time does to groups.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::PartitionId;
use handoff_streams::groups::{Body, GroupCommand, GroupReply, MemberId, MessageStatus};
use handoff_types::Steady;

use super::place::{Is, Said, Why};
use super::produced::Death;
use super::{Asked, Oracle, Violation, is_answer, no_answer};

impl Oracle {
    /// Whoever was silent for too long is gone, and with it all it held; what was not answered in
    /// time comes back, or dies after so many attempts.
    pub(super) fn swept(
        &mut self,
        asked: &Asked,
        command: &GroupCommand,
        reply: &GroupReply,
    ) -> Result<(), Violation> {
        let GroupCommand::Sweep { group: name, due, bodies, .. } = command else { return Ok(()) };
        let GroupReply::Swept { gone, returned, dead, more } = reply else {
            return Err(no_answer(asked, "that is no answer to it".to_owned()));
        };
        let now = asked.now.steady;
        let given: BTreeMap<(PartitionId, u64), &Body> =
            bodies.iter().map(|body| ((body.partition, body.offset), body)).collect();
        for body in bodies {
            self.is_body(body)?;
        }
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        let known = due.members.iter().filter(|id| group.members.contains_key(id));
        let silent: BTreeSet<MemberId> =
            known.filter(|id| !group.is_alive(**id, now)).copied().collect();
        is_answer(asked, &gone.iter().copied().collect(), &silent)?;
        silent.iter().for_each(|id| drop(group.members.remove(id)));
        let max = group.settings.max_attempts;
        let mut deaths = Vec::new();
        let (mut back, mut missing, mut perhaps) = (0, false, false);
        let places: Vec<PartitionId> = group.places.keys().copied().collect();
        for partition in places {
            let named = due.partitions.contains(&partition);
            let out = group.places.get(&partition).map(super::Place::out).unwrap_or_default();
            let mut void = BTreeSet::new();
            for (offset, member, lease, deadline, attempt) in out {
                let is_gone = !group.members.contains_key(&member);
                let is_over = deadline <= now;
                // Where nobody was asked to look, somebody may.
                let status = Self::status(&asked.look, name, partition, offset);
                let still = matches!(status, Some(MessageStatus::Processing { .. }));
                if !silent.contains(&member) && (!is_over || (!named && still)) {
                    perhaps |= is_over && attempt >= max;
                    continue;
                }
                let wait = group.back_off(attempt);
                let place = group.place(partition);
                if attempt < max {
                    let (until, why) = match is_gone {
                        true => (Steady(0), Why::Silent),
                        false => (now + wait, Why::Over),
                    };
                    place.set(offset, Is::Pending { until, said: Said::Because(why) });
                    back += 1;
                    continue;
                }
                match given.get(&(partition, offset)) {
                    Some(body) => {
                        let has_body = body.record.is_some();
                        deaths.push(Death { partition, offset, attempt, error: None, has_body });
                    }
                    None => missing = true,
                }
                if is_gone && !is_over {
                    void.insert(lease);
                }
            }
            // Nobody will answer for them any more.
            let place = group.place(partition);
            for (offset, member, lease, ..) in place.out() {
                if void.contains(&lease) {
                    place.set(offset, Is::Out { member, lease, deadline: now });
                }
            }
        }
        let bereft = group.bereft;
        if !silent.is_empty() {
            self.settle(name);
        }
        if !bereft {
            is_answer(asked, returned, &back)?;
            is_answer(asked, dead, &(deaths.len() as u64))?;
            is_answer(asked, more, &(missing || (perhaps && *more)))?;
        }
        self.bury(asked, name, &deaths)
    }
}
