//! Dead letters go back to where they came from.

use std::collections::{BTreeMap, BTreeSet};

use handoff_types::{Decision, Now};

use super::change::GroupChange;
use super::command::{Body, GroupReply, ReplayOutcome, Replayed};
use super::dead::{LETTER_RUNS_MAX, Letter, Letters};
use super::manage::find;
use super::settings::{Group, GroupName};
use crate::decide::Decided;
use crate::produce::Delivery;
use crate::{Change, Key, Message, PartitionId, Refusal, State, TopicId};

/// The copy and the note that it was made are one decision: nothing is replayed twice.
pub(crate) fn replay(
    state: &State,
    name: &GroupName,
    letters: &[Body],
    now: Now,
) -> Result<Decided, Refusal> {
    let (group, _) = find(state, name)?;
    let mut noted: BTreeMap<PartitionId, Letters> = BTreeMap::new();
    let judged: Vec<Result<(TopicId, Message), ReplayOutcome>> = letters
        .iter()
        .map(|body| {
            let judged = judge(state, group, body, noted.get(&body.partition))?;
            noted.entry(body.partition).or_default().add((body.offset, body.offset));
            Ok(judged)
        })
        .collect();
    let mut deliveries: BTreeMap<TopicId, Delivery<'_>> = BTreeMap::new();
    let mut results = Vec::with_capacity(letters.len());
    for (body, judged) in letters.iter().zip(&judged) {
        let outcome = match judged {
            Err(outcome) => outcome.clone(),
            Ok((id, message)) => match state.topic_by_id(*id) {
                None => ReplayOutcome::Not("its topic is not there any more".to_owned()),
                Some(topic) => {
                    let delivery = deliveries.entry(*id);
                    let delivery =
                        delivery.or_insert_with(|| Delivery::new(state, topic, now.wall));
                    let (partition, offset) = delivery.add(message);
                    ReplayOutcome::Stored(partition, offset)
                }
            },
        };
        results.push(Replayed { letter: (body.partition, body.offset), outcome });
    }
    let (mut changes, mut actions) = (Vec::new(), Vec::new());
    for delivery in deliveries.into_values() {
        delivery.finish(&mut changes, &mut actions);
    }
    changes.extend(noted.into_iter().map(|(partition, letters)| {
        Change::Group(GroupChange::Replayed(group.id, partition, letters.runs().collect()))
    }));
    Ok(Decision { reply: GroupReply::Replayed(results).into(), changes, actions })
}

fn judge(
    state: &State,
    group: &Group,
    body: &Body,
    noted: Option<&Letters>,
) -> Result<(TopicId, Message), ReplayOutcome> {
    let not = |why: String| Err(ReplayOutcome::Not(why));
    let before = state.letters(group.id, body.partition);
    if before.into_iter().chain(noted).any(|letters| letters.contains(body.offset)) {
        return Err(ReplayOutcome::Already);
    }
    if before.is_some_and(|letters| letters.len() >= LETTER_RUNS_MAX) {
        return not(
            "too many single letters were replayed; replay all, or those between".to_owned()
        );
    }
    let Some(record) = &body.record else {
        return not("the letter is not kept any more".to_owned());
    };
    let Some(letter) = Letter::of(record).filter(|letter| letter.group == group.name) else {
        return not(format!("it is no dead letter of group `{}`", group.name));
    };
    if let Some(lost) = letter.lost {
        return not(lost);
    }
    let (topic, partition) = (&letter.topic, letter.partition);
    let Some(topic) = state.topic(topic) else {
        return not(format!("there is no topic `{topic}` any more"));
    };
    if partition >= topic.partitions {
        return not(format!("topic `{}` has no partition {partition}", topic.name));
    }
    Ok((topic.id, letter.back()))
}

/// What a replay looks at beside the group and its members.
pub(crate) fn needs(state: &State, group: &Group, letters: &[Body]) -> Vec<Key> {
    let mut keys: BTreeSet<Key> = BTreeSet::new();
    for body in letters {
        keys.insert(Key::Replayed(group.id, body.partition));
        let Some(letter) = body.record.as_ref().and_then(Letter::of) else { continue };
        if let Some(topic) = state.topic(&letter.topic) {
            let number = letter.partition;
            if number < topic.partitions {
                keys.insert(Key::Partition(PartitionId { topic: topic.id, number }));
            }
        }
        keys.insert(Key::Topic(letter.topic));
    }
    keys.into_iter().collect()
}
