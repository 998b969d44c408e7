//! Messages that wait for their time, and all else that time brings.

use std::collections::BTreeMap;

use handoff_types::{Decision, Now, Sight, Steady};

use crate::decide::Decided;
use crate::produce::Delivery;
use crate::{Change, Refusal, Reply, ScheduledId, State, TopicId};

pub(crate) fn cancel(state: &State, id: ScheduledId, sight: &Sight) -> Result<Decided, Refusal> {
    let topic = state.waiting(id).and_then(|scheduled| state.name(scheduled.topic));
    if !topic.is_some_and(|name| sight.sees(name.as_str())) {
        return Err(Refusal::NoScheduled(id));
    }
    let changes = vec![Change::Unscheduled(id)];
    Ok(Decision { reply: Reply::Cancelled(id), changes, actions: Vec::new() })
}

/// Delivers what is due, by time and then by id; removes what a deleted topic left; forgets who was
/// idle. All together at most `limit`.
pub(crate) fn tick(state: &State, limit: usize, bytes_max: usize, now: Now) -> Decided {
    let mut left = limit;
    let mut more = false;
    let mut delivered = 0;
    let mut bytes = 0;
    let mut gone = Vec::new();
    let mut deliveries: BTreeMap<TopicId, Delivery<'_>> = BTreeMap::new();
    for scheduled in state.due_by(now.wall) {
        if left == 0 || bytes >= bytes_max {
            more = true;
            break;
        }
        let topic = state.topic_by_id(scheduled.topic);
        if topic.is_none() && !state.is_gone(scheduled.topic) {
            // A broker that does not know the topic leaves it to one that does.
            continue;
        }
        left -= 1;
        gone.push(Change::Unscheduled(scheduled.id));
        if let Some(topic) = topic {
            let delivery = deliveries.entry(topic.id);
            let delivery = delivery.or_insert_with(|| Delivery::new(state, topic, now.wall));
            delivery.add(&scheduled.message);
            bytes += scheduled.message.bytes();
            delivered += 1;
        }
    }
    let later = |id: &ScheduledId| state.waiting(*id).is_some_and(|one| one.due > now.wall);
    let orphans = state.orphans_waiting().filter(later).map(Change::Unscheduled);
    let sequences = state.orphans_sequenced();
    let sequences = sequences.map(|(id, topic)| Change::SequencesForgotten(id, Some(topic)));
    let known = state.groups_known();
    let positions = state.orphans_positioned();
    let positions = positions.flat_map(|(id, partition)| known.removals(id, partition));
    let positions = positions.map(Change::Group);
    // A producer goes last of what is known of it, so that nothing of it is left behind.
    let producers = state.forgotten_by(now.wall).flat_map(|id| {
        let sequences = state.sequences_of(id);
        let sequences = sequences.map(move |(topic, _)| Change::SequencesForgotten(id, topic));
        sequences.chain([Change::ProducerForgotten(id)])
    });
    let mut rest = orphans.chain(sequences).chain(positions).chain(producers);
    gone.extend(rest.by_ref().take(left));
    more |= rest.next().is_some();

    let (mut changes, mut actions) = (Vec::new(), Vec::new());
    for delivery in deliveries.into_values() {
        delivery.finish(&mut changes, &mut actions);
    }
    changes.extend(gone);
    Decision { reply: Reply::Ticked { delivered, more }, changes, actions }
}

pub(crate) fn next_deadline(state: &State, now: Now) -> Option<Steady> {
    if state.has_orphans() {
        return Some(now.steady);
    }
    let first = [state.first_due(), state.first_forgotten()].into_iter().flatten().min();
    let first = first.map(|first| now.steady + first.since(now.wall));
    let groups = state.groups_known().first_deadline();
    first.into_iter().chain(groups).min()
}
