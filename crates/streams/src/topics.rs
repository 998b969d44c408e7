//! Topics come, change and go; their oldest messages go.

use handoff_types::{Decision, Now};

use crate::decide::{Decided, answer};
use crate::{
    Action, Bounds, Change, PartitionId, Refusal, Reply, State, Topic, TopicId, TopicName,
    TopicSettings, TopicSpec,
};

pub(crate) fn create(
    state: &State,
    spec: &TopicSpec,
    bounds: &Bounds,
    now: Now,
) -> Result<Decided, Refusal> {
    let TopicSpec { name, partitions, settings } = spec;
    if state.topic(name).is_some() {
        return Err(Refusal::TopicExists(name.clone()));
    }
    if *partitions == 0 {
        return Err(Refusal::Partitions("a topic has at least one partition".to_owned()));
    }
    if state.counts().topics >= bounds.topics_max {
        let max = bounds.topics_max;
        return Err(Refusal::Limit(format!("streams.topics_max allows {max} topics")));
    }
    room_for(state, *partitions, bounds)?;
    let id = state.next_topic();
    let next = id.0.checked_add(1).ok_or_else(|| {
        Refusal::Limit("every number of a topic was used; there are 2^32".to_owned())
    })?;
    let topic = Topic {
        id,
        name: name.clone(),
        partitions: *partitions,
        settings: *settings,
        created: now.wall,
    };
    let mut changes = vec![
        Change::NextTopic(TopicId(next)),
        Change::TopicCreated(topic.clone()),
        Change::TopicNamed(id, name.clone()),
    ];
    changes.extend((0..*partitions).map(opened(id)));
    Ok(Decision { reply: Reply::Created(topic), changes, actions: Vec::new() })
}

pub(crate) fn alter(
    state: &State,
    name: &TopicName,
    settings: TopicSettings,
) -> Result<Decided, Refusal> {
    let topic = find(state, name)?;
    let altered = Topic { settings, ..topic.clone() };
    if altered == *topic {
        return Ok(answer(Reply::Altered(altered)));
    }
    let changes = vec![Change::TopicAltered(name.clone(), settings)];
    Ok(Decision { reply: Reply::Altered(altered), changes, actions: Vec::new() })
}

pub(crate) fn grow(
    state: &State,
    name: &TopicName,
    partitions: u32,
    bounds: &Bounds,
) -> Result<Decided, Refusal> {
    let topic = find(state, name)?;
    let Some(more) = partitions.checked_sub(topic.partitions) else {
        let (now, name) = (topic.partitions, &topic.name);
        return Err(Refusal::Partitions(format!(
            "topic `{name}` has {now} partitions; it can have more, not {partitions}"
        )));
    };
    let grown = Topic { partitions, ..topic.clone() };
    if more == 0 {
        return Ok(answer(Reply::Altered(grown)));
    }
    room_for(state, more, bounds)?;
    let mut changes = vec![Change::TopicGrown(name.clone(), partitions)];
    changes.extend((topic.partitions..partitions).map(opened(topic.id)));
    Ok(Decision { reply: Reply::Altered(grown), changes, actions: Vec::new() })
}

/// What waits for the topic, and the sequences to it, go with the next [`tick`]: there may be more
/// of them than one commit should take. Nobody sees them meanwhile, the topic's number being gone.
///
/// [`tick`]: crate::schedule::tick
pub(crate) fn delete(state: &State, name: &TopicName) -> Result<Decided, Refusal> {
    let topic = find(state, name)?;
    let partitions = (0..topic.partitions).map(|number| PartitionId { topic: topic.id, number });
    let mut changes = vec![Change::TopicDeleted(name.clone()), Change::TopicUnnamed(topic.id)];
    changes.extend(partitions.clone().map(Change::PartitionClosed));
    let actions = partitions.map(Action::Remove).collect();
    Ok(Decision { reply: Reply::Deleted(topic.clone()), changes, actions })
}

/// A partition that is gone, or trimmed already, is nobody's mistake: whoever asks looked at its
/// segments a while ago. What is below the start is dropped again, in case it was not.
pub(crate) fn trim(state: &State, id: PartitionId, below: u64, bytes: u64) -> Decided {
    let Some(partition) = state.partition(id) else {
        return answer(Reply::Trimmed { start: 0 });
    };
    let start = below.min(partition.end).max(partition.start);
    let changes = match start == partition.start {
        true => Vec::new(),
        false => {
            let bytes = if start == partition.end { 0 } else { bytes.min(partition.bytes) };
            vec![Change::Trimmed { partition: id, start, bytes }]
        }
    };
    let actions = vec![Action::Drop { partition: id, below: start }];
    Decision { reply: Reply::Trimmed { start }, changes, actions }
}

fn find<'a>(state: &'a State, name: &TopicName) -> Result<&'a Topic, Refusal> {
    state.topic(name).ok_or_else(|| Refusal::NoTopic(name.clone()))
}

fn opened(topic: TopicId) -> impl Fn(u32) -> Change {
    move |number| Change::PartitionOpened(PartitionId { topic, number })
}

fn room_for(state: &State, more: u32, bounds: &Bounds) -> Result<(), Refusal> {
    let (there, max) = (state.counts().partitions, bounds.partitions_max);
    let more = usize::try_from(more).unwrap_or(usize::MAX);
    if there.saturating_add(more) > max {
        return Err(Refusal::Limit(format!(
            "there are {there} partitions and {more} more were asked for; \
             streams.partitions_max allows {max}"
        )));
    }
    Ok(())
}
