//! Groups: what they are, and how they are asked for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Time;
use crate::streams::reader::Start;
use crate::streams::topic::millis;

/// What must wait for a message that is being processed or waits for its retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Ordering {
    /// Later messages of its key.
    Key,
    /// Later messages of its partition.
    Partition,
    /// Nothing.
    None,
    /// Something a newer server says.
    #[serde(other)]
    Other,
}

/// What is to be said of a group. What is not said is as the server makes groups, or stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct GroupSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Start>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ordering: Option<Ordering>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_flight_max: Option<u64>,
}

impl GroupSettings {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it consumes, for members that do not say so themselves.
    pub fn topics<T: Into<String>>(mut self, topics: impl IntoIterator<Item = T>) -> Self {
        self.topics = Some(topics.into_iter().map(Into::into).collect());
        self
    }

    /// Where it begins in a partition that it does not know yet. Earliest unless said otherwise.
    pub fn start(mut self, start: Start) -> Self {
        self.start = Some(start);
        self
    }

    /// What must wait for what. By key unless said otherwise.
    pub fn ordering(mut self, ordering: Ordering) -> Self {
        self.ordering = Some(ordering);
        self
    }

    /// How often a message is delivered before it is given up. 5 unless said otherwise.
    pub fn max_attempts(mut self, times: u32) -> Self {
        self.max_attempts = Some(times);
        self
    }

    /// The topic of what is given up. `<group>.dead` unless said otherwise.
    pub fn dead_letter(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter = Some(topic.into());
        self
    }

    /// How long a member has for what it was given. 30 s unless said otherwise.
    pub fn lease(mut self, time: Duration) -> Self {
        self.lease_ms = Some(millis(time));
        self
    }

    /// How long the first retry waits; doubled each time. 1 s unless said otherwise.
    pub fn backoff(mut self, first: Duration) -> Self {
        self.backoff_ms = Some(millis(first));
        self
    }

    /// How long a retry waits at most. 5 min unless said otherwise.
    pub fn backoff_max(mut self, longest: Duration) -> Self {
        self.backoff_max_ms = Some(millis(longest));
        self
    }

    /// How many messages of a partition may be out, wait for their retry, or wait for those before
    /// them. 20,000 unless said otherwise.
    pub fn in_flight_max(mut self, messages: u64) -> Self {
        self.in_flight_max = Some(messages);
        self
    }

    /// Whether nothing is said.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What it consumes.
    #[serde(default)]
    pub topics: Vec<String>,
    /// Where it begins in a partition that it does not know yet, as JSON has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Value>,
    /// What must wait for what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ordering: Option<Ordering>,
    /// How often a message is delivered before it is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The topic of what is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<String>,
    /// How long a member has for what it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long the first retry waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// How long a retry waits at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_max_ms: Option<u64>,
    /// How far a partition may be ahead of its oldest message that is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight_max: Option<u64>,
    /// Counts changes of who has which partition.
    #[serde(default)]
    pub generation: u64,
    /// How many consume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_count: Option<u64>,
    /// Messages that are not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<u64>,
    /// Messages that were given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<u64>,
    /// Messages that retention took before they were done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_to_retention: Option<u64>,
    /// Why nothing is delivered to anybody, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Who consumes. Only of a group that is shown alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<GroupMember>,
    /// Where it is. Only of a group that is shown alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<GroupPartition>,
    /// Everything else that was said.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One that consumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GroupMember {
    /// What the server calls it.
    pub member: String,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The name under which it comes back after a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// How long it may still be silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_left_ms: Option<u64>,
    /// Its partitions.
    #[serde(default)]
    pub assignment: Vec<Assigned>,
}

/// A partition that a member has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Assigned {
    /// Of this topic.
    pub topic: String,
    /// Its number.
    pub partition: u32,
    /// Everything below is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed: Option<u64>,
}

impl Assigned {
    /// Whether it is the same partition, however far the group is in it.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.topic == other.topic && self.partition == other.partition
    }
}

/// Where a group is in a partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GroupPartition {
    /// Of this topic.
    pub topic: String,
    /// Its number.
    pub partition: u32,
    /// Everything below is done.
    #[serde(default)]
    pub committed: u64,
    /// Nothing from here on was delivered yet.
    #[serde(default)]
    pub next: u64,
    /// The offset the partition's next message gets.
    #[serde(default)]
    pub end: u64,
    /// Messages that are not done.
    #[serde(default)]
    pub lag: u64,
    /// Messages that members hold.
    #[serde(default)]
    pub processing: u64,
    /// Messages that wait for their retry.
    #[serde(default)]
    pub waiting: u64,
    /// Messages that were given up.
    #[serde(default)]
    pub dead: u64,
    /// The member that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Why nothing of it is delivered now, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_by: Option<String>,
    /// Everything else that was said.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// One page of groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GroupPage {
    /// In the order of their names.
    #[serde(deserialize_with = "all_unfolded")]
    pub groups: Vec<Group>,
    /// What to give as `after` for the next page; none: this is the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A group's fields, whether they stand under `group` and `settings` or not.
pub(super) fn unfolded(mut map: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Object(group)) = map.remove("group") {
        map = group;
    }
    if let Some(Value::Object(settings)) = map.remove("settings") {
        map.extend(settings);
    }
    map.remove("version");
    map
}

fn all_unfolded<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Group>, D::Error> {
    let maps = Vec::<Map<String, Value>>::deserialize(deserializer)?;
    let groups = maps.into_iter().map(|map| serde_json::from_value(Value::Object(unfolded(map))));
    groups.collect::<Result<_, _>>().map_err(serde::de::Error::custom)
}
