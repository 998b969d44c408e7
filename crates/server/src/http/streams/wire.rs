//! Topics, producers and what waits, as JSON says them.

use std::collections::BTreeMap;

use handoff_streams::{
    Compression, Durability, Registration, ScheduledId, Scope, Topic, TopicSettings, TopicSpec,
    TopicView,
};
use handoff_types::{Code, Span, Wall};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use super::incoming::producer_id;
use super::outgoing::Octets;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::stamp::{stamp, stamp_millis};
use crate::rooms::streams::{Alteration, Listed, Registered, Stats, Waiting};
use crate::settings;

/// When a producer is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Durability)]
pub(in crate::http) enum DurabilityName {
    /// When its messages are on disk.
    Fsync,
    /// When they are in the server's hands. Readers still see only what is on disk.
    Os,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Compression)]
pub(in crate::http) enum CompressionName {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Self {
        match name {
            DurabilityName::Fsync => Self::Fsync,
            DurabilityName::Os => Self::Os,
        }
    }
}

impl From<Durability> for DurabilityName {
    fn from(durability: Durability) -> Self {
        match durability {
            Durability::Fsync => Self::Fsync,
            Durability::Os => Self::Os,
        }
    }
}

impl From<CompressionName> for Compression {
    fn from(name: CompressionName) -> Self {
        match name {
            CompressionName::None => Self::None,
            CompressionName::Gzip => Self::Gzip,
            CompressionName::Snappy => Self::Snappy,
            CompressionName::Lz4 => Self::Lz4,
            CompressionName::Zstd => Self::Zstd,
        }
    }
}

impl From<Compression> for CompressionName {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Gzip => Self::Gzip,
            Compression::Snappy => Self::Snappy,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd => Self::Zstd,
        }
    }
}

/// A field that may be absent, null, or there.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A topic to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1, "name": "orders", "partitions": 8, "retentionMs": 604_800_000,
    "retentionBytes": null, "durability": "fsync", "compression": "zstd",
}))]
pub(in crate::http) struct NewTopic {
    version: V1,
    /// 1 to 249 of `a-z A-Z 0-9 . _ -`.
    name: String,
    /// How many partitions; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partitions: Option<u32>,
    /// Messages older than this may go; null: never for their age. Absent: `streams.retention_hours`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retention_ms: Option<Option<u64>>,
    /// The oldest messages of a partition with more bytes may go; null: never for their size.
    /// Absent: `streams.retention_bytes`.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retention_bytes: Option<Option<u64>>,
    /// When a producer is answered; `fsync` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    durability: Option<DurabilityName>,
    /// How batches are compressed; `none` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<CompressionName>,
}

impl NewTopic {
    /// What it asks of the room.
    pub(super) fn into_spec(self, settings: &settings::Streams) -> Result<TopicSpec, Problem> {
        let name = topic_name(&self.name)?;
        let retention = match self.retention_ms {
            Some(given) => given.map(Span::from_millis),
            None => settings.retention,
        };
        let settings = TopicSettings {
            retention,
            retention_bytes: self.retention_bytes.unwrap_or(settings.retention_bytes),
            durability: self.durability.map(Durability::from).unwrap_or_default(),
            compression: self.compression.map(Compression::from).unwrap_or_default(),
        };
        Ok(TopicSpec { name, partitions: self.partitions.unwrap_or(1), settings })
    }
}

/// The name of a topic.
pub(super) fn topic_name(text: &str) -> Result<handoff_streams::TopicName, Problem> {
    text.parse().map_err(|why: handoff_streams::BadTopicName| {
        Problem::new(Code::StreamsInvalid, why.to_string())
    })
}

/// What is to become of a topic's settings. What is absent stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "retentionMs": null, "compression": "lz4"}))]
pub(in crate::http) struct TopicChange {
    version: V1,
    /// Null: never for their age.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retention_ms: Option<Option<u64>>,
    /// Null: never for their size.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    retention_bytes: Option<Option<u64>>,
    /// When a producer is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    durability: Option<DurabilityName>,
    /// How batches are compressed from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<CompressionName>,
}

impl From<TopicChange> for Alteration {
    fn from(change: TopicChange) -> Self {
        Self {
            retention: change.retention_ms.map(|given| given.map(Span::from_millis)),
            retention_bytes: change.retention_bytes,
            durability: change.durability.map(Durability::from),
            compression: change.compression.map(Compression::from),
        }
    }
}

/// How many partitions a topic is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "partitions": 16}))]
pub(in crate::http) struct Growth {
    version: V1,
    /// Not fewer than there are. Keys go elsewhere then.
    pub(super) partitions: u32,
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Topic, example = json!({
    "name": "orders", "id": 3, "partitions": 2, "retentionMs": 604_800_000,
    "retentionBytes": null, "durability": "fsync", "compression": "none",
    "createdAt": "2027-01-01T00:00:00Z", "messages": 7, "bytes": 700,
    "skew": {"most": 400, "least": 300, "ratio": 1.142},
    "partitionList": [
        {"partition": 0, "start": 0, "end": 4, "bytes": 400, "lastTimestamp": "2027-01-01T00:00:01.000Z"},
        {"partition": 1, "start": 0, "end": 3, "bytes": 300},
    ],
}))]
pub(in crate::http) struct TopicBody {
    name: String,
    /// Its number. A topic made later under the same name has another.
    id: u32,
    partitions: u32,
    /// Null: never for their age.
    retention_ms: Option<u64>,
    /// Null: never for their size.
    retention_bytes: Option<u64>,
    durability: DurabilityName,
    compression: CompressionName,
    created_at: String,
    /// Messages that are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
    /// Their bytes as they are stored, about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// How evenly it is filled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skew: Option<SkewBody>,
    /// Its partitions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition_list: Option<Vec<PartitionBody>>,
}

/// How evenly a topic is filled.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Skew)]
pub(in crate::http) struct SkewBody {
    /// Bytes of the fullest partition.
    most: u64,
    /// Bytes of the emptiest.
    least: u64,
    /// Bytes of the fullest over the mean.
    ratio: f64,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Partition)]
pub(in crate::http) struct PartitionBody {
    partition: u32,
    /// The first offset that is kept.
    start: u64,
    /// The offset of the next message.
    end: u64,
    bytes: u64,
    /// When the last message came; absent if none ever did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_timestamp: Option<String>,
}

impl From<Topic> for TopicBody {
    fn from(topic: Topic) -> Self {
        Self {
            name: topic.name.to_string(),
            id: topic.id.0,
            partitions: topic.partitions,
            retention_ms: topic.settings.retention.map(|Span(micros)| micros / 1_000),
            retention_bytes: topic.settings.retention_bytes,
            durability: topic.settings.durability.into(),
            compression: topic.settings.compression.into(),
            created_at: stamp(topic.created),
            messages: None,
            bytes: None,
            skew: None,
            partition_list: None,
        }
    }
}

impl From<Listed> for TopicBody {
    fn from(listed: Listed) -> Self {
        let Listed { topic, messages, bytes } = listed;
        Self { messages: Some(messages), bytes: Some(bytes), ..topic.into() }
    }
}

impl From<TopicView> for TopicBody {
    fn from(view: TopicView) -> Self {
        let TopicView { topic, partitions, skew } = view;
        let messages = partitions.iter().map(|partition| partition.end - partition.start).sum();
        let bytes = partitions.iter().map(|partition| partition.bytes).sum();
        let list = (0..).zip(&partitions).map(|(number, partition)| PartitionBody {
            partition: number,
            start: partition.start,
            end: partition.end,
            bytes: partition.bytes,
            last_timestamp: (partition.end > 0).then(|| stamp_millis(partition.last)),
        });
        Self {
            messages: Some(messages),
            bytes: Some(bytes),
            skew: Some(SkewBody { most: skew.most, least: skew.least, ratio: skew.ratio }),
            partition_list: Some(list.collect()),
            ..topic.into()
        }
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct OneTopic {
    pub(super) version: V1,
    pub(super) topic: TopicBody,
}

/// A page of topics, by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct TopicPage {
    pub(super) version: V1,
    pub(super) topics: Vec<TopicBody>,
    /// What `after` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// What a producer's sequences count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProducerScope)]
pub(in crate::http) enum ScopeName {
    /// All its messages.
    Producer,
    /// Its messages to each topic.
    Topic,
}

/// A producer that says who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "name": "till 7", "scope": "topic"}))]
pub(in crate::http) struct NewProducer {
    version: V1,
    /// Its GUID, if it has one already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    producer: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// What its sequences count. Absent: as before, and `producer` for a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<ScopeName>,
}

impl NewProducer {
    pub(super) fn into_registration(self) -> Result<Registration, Problem> {
        let scope = self.scope.map(|name| match name {
            ScopeName::Producer => Scope::Producer,
            ScopeName::Topic => Scope::Topic,
        });
        let producer = self.producer.as_deref().map(producer_id).transpose()?;
        Ok(Registration { producer, name: self.name, scope })
    }
}

/// A producer that is known, and where it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Producer, example = json!({
    "version": 1, "producer": "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab", "scope": "producer",
    "lastSequence": 41, "last": {},
}))]
pub(in crate::http) struct ProducerBody {
    version: V1,
    producer: String,
    scope: ScopeName,
    /// The last sequence stored; absent before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_sequence: Option<u64>,
    /// The same for each topic in sight, if it counts so.
    last: BTreeMap<String, u64>,
}

impl From<Registered> for ProducerBody {
    fn from(registered: Registered) -> Self {
        let last = registered.last_by_topic.into_iter();
        Self {
            version: V1,
            producer: registered.producer.to_string(),
            scope: match registered.scope {
                Scope::Producer => ScopeName::Producer,
                Scope::Topic => ScopeName::Topic,
            },
            last_sequence: registered.last,
            last: last.map(|(name, sequence)| (name.to_string(), sequence)).collect(),
        }
    }
}

/// A message that waits for its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ScheduledMessage, example = json!({
    "id": "00000000000000000000000000000007", "deliverAt": "2027-01-01T00:00:00Z", "key": "k",
    "bytes": 12,
}))]
pub(in crate::http) struct ScheduledBody {
    id: String,
    deliver_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Octets>,
    /// Of key, payload and headers.
    bytes: u64,
}

impl From<Waiting> for ScheduledBody {
    fn from(waiting: Waiting) -> Self {
        Self {
            id: waiting.id.to_string(),
            deliver_at: stamp(waiting.due),
            key: waiting.key.map(Octets),
            bytes: waiting.bytes as u64,
        }
    }
}

/// A page of what waits, by time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct ScheduledPage {
    pub(super) version: V1,
    pub(super) scheduled: Vec<ScheduledBody>,
    /// What `after` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

/// The place behind a message that waits: time and id.
pub(super) fn place_text(due: Wall, id: ScheduledId) -> String {
    format!("{}.{id}", due.0)
}

/// Reads what [`place_text`] writes.
pub(super) fn read_place(text: &str) -> Option<(Wall, ScheduledId)> {
    let (due, id) = text.split_once('.')?;
    Some((Wall(due.parse().ok()?), id.parse().ok()?))
}

/// A message that does not wait any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "cancelled": "00000000000000000000000000000007"}))]
pub(in crate::http) struct Cancelled {
    pub(super) version: V1,
    pub(super) cancelled: String,
}

/// How the streams room is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1, "topics": 2, "partitions": 9, "producers": 1, "scheduled": 0,
    "scheduledBytes": 0, "waitingReaders": 3, "unmovedBytes": 0, "groups": 1, "members": 2,
    "leases": 4, "deadMessages": 0, "lagMax": 12, "deliveringBytes": 0,
}))]
pub(in crate::http) struct StreamStats {
    version: V1,
    topics: u64,
    /// Of all topics.
    partitions: u64,
    /// Producers that are remembered.
    producers: u64,
    /// Messages that wait for their time.
    scheduled: u64,
    /// Their bytes.
    scheduled_bytes: u64,
    /// Readers that wait for more.
    waiting_readers: u64,
    /// Bytes of messages on their way from the journal to segments.
    unmoved_bytes: u64,
    groups: u64,
    /// Of all groups.
    members: u64,
    /// Leases that are out.
    leases: u64,
    /// Messages that ever died, for groups there are.
    dead_messages: u64,
    /// The largest lag of a group in a partition.
    lag_max: u64,
    /// Bytes of messages on their way to members.
    delivering_bytes: u64,
}

impl From<Stats> for StreamStats {
    fn from(stats: Stats) -> Self {
        let counts = stats.counts;
        Self {
            version: V1,
            topics: counts.topics as u64,
            partitions: counts.partitions as u64,
            producers: counts.producers as u64,
            scheduled: counts.scheduled as u64,
            scheduled_bytes: counts.scheduled_bytes as u64,
            waiting_readers: stats.waiting_readers as u64,
            unmoved_bytes: stats.unmoved_bytes,
            groups: counts.groups as u64,
            members: stats.groups.members as u64,
            leases: stats.groups.leases as u64,
            dead_messages: stats.groups.dead,
            lag_max: stats.groups.lag_max,
            delivering_bytes: stats.delivering_bytes as u64,
        }
    }
}
