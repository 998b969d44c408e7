//! What is to be seen must be what was decided.

use std::collections::BTreeMap;

use handoff_streams::PartitionId;
use handoff_streams::groups::{GroupName, MessageStatus};
use handoff_types::Steady;

use super::place::{Is, Place};
use super::{Log, Oracle, Violation};
use crate::groups::asked::{Look, SeenGroup, SeenPlace};

fn differs(what: &str, seen: impl std::fmt::Debug, expected: impl std::fmt::Debug) -> Violation {
    Violation::Look(format!("{what} is {seen:?} and should be {expected:?}"))
}

impl Oracle {
    /// Judges everything there is to see.
    pub(super) fn looks(&mut self, look: &Look) -> Result<(), Violation> {
        if look.topics != self.topics {
            return Err(differs("what topics there are", &look.topics, &self.topics));
        }
        let logs: BTreeMap<_, _> =
            self.logs.iter().map(|(id, log)| (*id, (log.start, log.end()))).collect();
        if look.logs != logs {
            return Err(differs("what is stored", &look.logs, logs));
        }
        if !look.groups.keys().eq(self.groups.keys()) {
            return Err(differs("what groups there are", look.groups.keys(), self.groups.keys()));
        }
        for (name, seen) in &look.groups {
            self.sees_members(name, seen, look.now.steady)?;
            self.sees_shares(name, seen)?;
            self.sees_places(name, seen, look.now.steady)?;
        }
        Ok(())
    }

    fn sees_members(
        &mut self,
        name: &GroupName,
        seen: &SeenGroup,
        now: Steady,
    ) -> Result<(), Violation> {
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        if (seen.group.id, &seen.group.settings) != (group.id, &group.settings) {
            return Err(differs("a group", &seen.group, &group.settings));
        }
        let ids: Vec<_> = seen.members.iter().map(|one| one.member).collect();
        if !ids.iter().eq(group.members.keys()) {
            return Err(differs(&format!("who is in {name}"), ids, group.members.keys()));
        }
        for view in &seen.members {
            let Some(member) = group.members.get_mut(&view.member) else { continue };
            if view.instance != member.instance {
                return Err(differs("a member's name", &view.instance, &member.instance));
            }
            // That it was heard of need not be written down before a third of its session is over.
            let last = member.heard + member.session;
            let first = Steady(last.0 - member.session.0 / 3);
            let deadline = now + view.session_left;
            // How long ago it was over is not to be seen.
            let is_over = view.session_left.0 == 0;
            let fits = match is_over {
                true => member.deadline <= now,
                false => (first..=last).contains(&deadline),
            };
            if !fits {
                let what = format!("the session of {}", view.member);
                return Err(differs(&what, deadline, first..=last));
            }
            if !is_over {
                member.deadline = deadline;
            }
        }
        Ok(())
    }

    fn sees_places(
        &mut self,
        name: &GroupName,
        seen: &SeenGroup,
        now: Steady,
    ) -> Result<(), Violation> {
        let Some(group) = self.groups.get_mut(name) else { return Ok(()) };
        group.places.retain(|id, place| seen.places.contains_key(id) || !place.is_untouched());
        // Somebody looked and found nothing.
        for id in seen.places.keys() {
            group.places.entry(*id).or_default();
        }
        for (id, place) in &group.places {
            let (Some(log), Some(found)) = (self.logs.get(id), seen.places.get(id)) else {
                return Err(Violation::Look(format!("where {name} is in {id} is forgotten")));
            };
            let objection = objection(place, found, log, group.window, now);
            if let Some((offset, why)) = objection {
                let why = format!("for group {name} {why}");
                return Err(Violation::Message { partition: *id, offset, why });
            }
        }
        Ok(())
    }

    /// How a message looks to people.
    pub(super) fn status(
        look: &Look,
        name: &GroupName,
        at: PartitionId,
        offset: u64,
    ) -> Option<MessageStatus> {
        let place = look.groups.get(name)?.places.get(&at)?;
        place.statuses.get(usize::try_from(offset).ok()?).cloned()
    }
}

fn objection(
    place: &Place,
    seen: &SeenPlace,
    log: &Log,
    window: u32,
    now: Steady,
) -> Option<(u64, String)> {
    if seen.next != place.next {
        return Some((seen.next, format!("next is {}, not {}", seen.next, place.next)));
    }
    let committed = place.committed();
    if seen.committed != committed {
        return Some((seen.committed, format!("{} is committed, not {committed}", seen.committed)));
    }
    if (seen.dead, seen.lost) != (place.dead, place.lost) {
        let (dead, lost) = (place.dead, place.lost);
        let why = format!("{} are dead and {} lost, not {dead} and {lost}", seen.dead, seen.lost);
        return Some((committed, why));
    }
    for (offset, status) in (0..).zip(&seen.statuses) {
        let cell = place.cell(offset);
        // Of what is not kept any more it is known only that it is finished.
        let faded = offset < log.start
            && matches!((&cell.is, status), (Is::Dead(..), MessageStatus::Processed));
        if !faded && !cell.is_seen_as(status, now) {
            return Some((offset, format!("it is {status:?} and should be {cell:?}")));
        }
    }
    let (runs, out) = (place.runs(), place.out().len());
    let open = place.open();
    let is_over = open > usize::try_from(window).unwrap_or(usize::MAX);
    if seen.ranges > runs || seen.leases > out || is_over {
        let SeenPlace { ranges, leases, next, .. } = seen;
        let why = format!(
            "{open} of {committed} to {next} are not finished and take {ranges} ranges for {runs} runs, {leases} leases for {out}"
        );
        return Some((committed, why));
    }
    None
}
