//! What may be handed out.

use std::collections::{BTreeMap, BTreeSet};

use handoff_streams::PartitionId;
use handoff_streams::groups::{
    Found, GroupCommand, GroupName, GroupReply, HandedOut, MemberId, MessageStatus, Order,
};

use super::place::{Is, Place};
use super::{Asked, Oracle, Violation, no_answer};

impl Oracle {
    pub(super) fn polled(
        &mut self,
        asked: &Asked,
        command: &GroupCommand,
        reply: &GroupReply,
    ) -> Result<(), Violation> {
        let GroupCommand::Poll { group: name, member, max_messages, max_bytes, found, .. } =
            command
        else {
            return Ok(());
        };
        let GroupReply::Polled { generation, batches, .. } = reply else {
            return Err(no_answer(asked, "that is no answer to it".to_owned()));
        };
        self.attended(name, *member, asked);
        let Some(seen) = asked.look.groups.get(name) else {
            return Err(Violation::Look(format!("{name} is not there")));
        };
        if *generation != seen.generation {
            return Err(no_answer(asked, format!("it is generation {}", seen.generation)));
        }
        let own = seen.members.iter().find(|one| one.member == *member);
        let own: BTreeSet<PartitionId> =
            own.into_iter().flat_map(|one| one.assigned.iter().copied()).collect();
        let handed = offsets(asked, batches)?;
        let bytes = handed.keys().filter_map(|(at, offset)| self.logs.get(at)?.get(*offset));
        // Nobody knows how many words the room made.
        let bytes: usize = bytes.filter(|one| !one.any_error).map(super::log::Kept::bytes).sum();
        if handed.len() > *max_messages || (handed.len() > 1 && bytes > *max_bytes) {
            return Err(no_answer(asked, format!("these are {} of {bytes} bytes", handed.len())));
        }
        let mut looked: BTreeSet<PartitionId> = BTreeSet::new();
        for one in found {
            self.is_true(one)?;
            if own.contains(&one.partition) && looked.insert(one.partition) {
                self.handed_out(asked, (name, *member), one, &handed)?;
            }
        }
        match handed.keys().find(|(at, _)| !looked.contains(at)) {
            Some((at, offset)) => {
                let why = "it is handed out to one who has not the partition".to_owned();
                Err(Violation::Message { partition: *at, offset: *offset, why })
            }
            None => Ok(()),
        }
    }

    /// What a poll was told of messages is what is known of them.
    fn is_true(&mut self, found: &Found) -> Result<(), Violation> {
        let partition = found.partition;
        let Some(log) = self.logs.get(&partition) else { return Ok(()) };
        let objects = |offset, why: &str| {
            let why = why.to_owned();
            Err(Violation::Message { partition, offset, why })
        };
        if found.kept > log.start {
            return objects(found.kept, "it is said not to be kept");
        }
        for fact in &found.facts {
            if fact.offset >= log.end() {
                return objects(fact.offset, "nobody was told of it");
            }
            let Some(kept) = log.get(fact.offset) else { continue };
            if !kept.any_error && usize::try_from(fact.bytes).ok() != Some(kept.bytes()) {
                return objects(fact.offset, "it has another size");
            }
            match &kept.key {
                None if fact.key != 0 => return objects(fact.offset, "it has no key"),
                None => {}
                Some(key) if *self.hashes.entry(key.clone()).or_insert(fact.key) != fact.key => {
                    return objects(fact.offset, "its key hashes to something else");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn handed_out(
        &mut self,
        asked: &Asked,
        (name, member): (&GroupName, MemberId),
        found: &Found,
        handed: &BTreeMap<(PartitionId, u64), HandedOut>,
    ) -> Result<(), Violation> {
        let at = found.partition;
        let (now, wall) = (asked.now.steady, asked.now.wall.0);
        let (Some(group), Some(log)) = (self.groups.get_mut(name), self.logs.get(&at)) else {
            return Ok(());
        };
        let objects =
            |offset: u64, why: String| Err(Violation::Message { partition: at, offset, why });
        let settings = group.settings.clone();
        let place = group.places.entry(at).or_default();
        lose(place, found.kept);
        let before = place.clone();
        let committed = before.committed();
        let room = usize::try_from(settings.in_flight_max).unwrap_or(usize::MAX);
        let room = room.saturating_sub(before.open());
        let handed = handed.range((at, 0)..=(at, u64::MAX));
        let handed: BTreeMap<u64, &HandedOut> =
            handed.map(|((_, offset), batch)| (*offset, batch)).collect();
        let facts: BTreeSet<u64> = found.facts.iter().map(|fact| fact.offset).collect();
        let unwanted =
            |offset: u64| log.get(offset).is_some_and(|kept| kept.is_unwanted(name, wall));
        for (offset, batch) in &handed {
            let (offset, cell) = (*offset, before.cell(*offset));
            let Is::Pending { until, .. } = cell.is else {
                return objects(offset, format!("it is handed out and was {cell:?}"));
            };
            if until > now {
                return objects(offset, "it is handed out before its time".to_owned());
            }
            if batch.attempt != cell.attempt + 1 {
                let is = cell.attempt + 1;
                return objects(offset, format!("attempt {} is attempt {is}", batch.attempt));
            }
            if !facts.contains(&offset) || unwanted(offset) {
                return objects(offset, "nobody should get it".to_owned());
            }
            if batch.deadline != now + settings.lease || batch.lease.0 <= before.last_lease {
                return objects(offset, format!("it is handed out under {batch:?}"));
            }
            let (lease, deadline) = (batch.lease, batch.deadline);
            place.put(offset, Is::Out { member, lease, deadline }, batch.attempt);
            place.last_lease = place.last_lease.max(lease.0);
        }
        if handed.values().map(|batch| batch.lease).collect::<BTreeSet<_>>().len() > 1 {
            return objects(committed, "one poll has two leases of a partition".to_owned());
        }
        // How far somebody looked is seen; of what was passed, nothing is out.
        let status = |offset| Self::status(&asked.look, name, at, offset);
        let seen = asked.look.groups.get(name).and_then(|group| group.places.get(&at));
        let next = seen.map_or(before.next, |seen| seen.next);
        let last = handed.keys().next_back().map_or(before.next, |last| last + 1);
        let mut contiguous = before.next;
        while facts.contains(&contiguous) {
            contiguous += 1;
        }
        if next < last.max(before.next) || next > contiguous {
            return objects(next, format!("{last} to {contiguous} could be next"));
        }
        place.next = next;
        for offset in before.committed()..next {
            let passed = status(offset) == Some(MessageStatus::Processed);
            let may = before.cell(offset).is_pending() && !handed.contains_key(&offset);
            let fresh = offset >= before.next;
            if may && facts.contains(&offset) && unwanted(offset) && (passed || fresh) {
                place.set(offset, Is::Processed);
            }
        }
        let after = place.clone();
        let opened = (before.next..next).filter(|offset| !after.cell(*offset).is_finished());
        let opened = opened.count();
        if opened > room {
            return objects(next, format!("{opened} more are out or held, with room for {room}"));
        }
        for offset in handed.keys() {
            let key = log.get(*offset).and_then(|kept| kept.key.clone());
            for earlier in committed..*offset {
                let other = log.get(earlier).and_then(|kept| kept.key.clone());
                let waits = match settings.order {
                    Order::Free => false,
                    Order::Key => key.is_some() && key == other,
                    Order::Partition => true,
                };
                let settled = after.cell(earlier).is_finished() || handed.contains_key(&earlier);
                if waits && !settled {
                    let why =
                        format!("it comes before {earlier}, which is {:?}", after.cell(earlier));
                    return objects(*offset, why);
                }
            }
        }
        Ok(())
    }
}

/// What is not kept any more and was not out is lost, and holds nobody up.
fn lose(place: &mut Place, kept: u64) {
    for offset in place.committed()..kept {
        if place.cell(offset).is_pending() {
            place.put(offset, Is::Processed, 0);
            place.lost += 1;
        }
    }
    place.next = place.next.max(kept);
}

/// Every message that was handed out, each once.
fn offsets(
    asked: &Asked,
    batches: &[HandedOut],
) -> Result<BTreeMap<(PartitionId, u64), HandedOut>, Violation> {
    let mut handed = BTreeMap::new();
    for batch in batches {
        for offset in batch.base..batch.base + batch.count {
            if handed.insert((batch.partition, offset), *batch).is_some() {
                return Err(no_answer(asked, format!("{offset} is handed out twice")));
            }
        }
    }
    Ok(handed)
}
