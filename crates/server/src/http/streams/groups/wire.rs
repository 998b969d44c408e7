//! Groups as JSON says them.

use handoff_streams::groups::{
    Group, GroupName, GroupSettings, GroupView, MemberView, Order, PartitionView, Start,
};
use handoff_streams::{PartitionId, TopicName};
use handoff_types::{Sight, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::place::Place;
use super::visible_topics;
use crate::http::access::Streams;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::stamp::stamp;
use crate::rooms::streams::{Assignment, GroupAlteration, GroupListed, Origin};

/// What waits for what inside a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Ordering)]
pub(in crate::http) enum OrderName {
    /// While a message is out or waits for its retry, later ones of its key wait.
    Key,
    /// While a message is out or waits for its retry, the rest of its partition waits.
    Partition,
    /// Nothing waits.
    None,
}

impl From<OrderName> for Order {
    fn from(name: OrderName) -> Self {
        match name {
            OrderName::Key => Self::Key,
            OrderName::Partition => Self::Partition,
            OrderName::None => Self::Free,
        }
    }
}

impl From<Order> for OrderName {
    fn from(order: Order) -> Self {
        match order {
            Order::Key => Self::Key,
            Order::Partition => Self::Partition,
            Order::Free => Self::None,
        }
    }
}

/// Where a group begins in partitions it has not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GroupStart)]
pub(in crate::http) enum StartName {
    /// At the first message that is kept.
    Earliest,
    /// Behind the last one there is.
    Latest,
}

impl From<StartName> for Start {
    fn from(name: StartName) -> Self {
        match name {
            StartName::Earliest => Self::Earliest,
            StartName::Latest => Self::Latest,
        }
    }
}

impl From<Start> for StartName {
    fn from(start: Start) -> Self {
        match start {
            Start::Earliest => Self::Earliest,
            Start::Latest => Self::Latest,
        }
    }
}

/// A group to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1, "name": "billing", "topics": ["orders"], "start": "earliest", "ordering": "key",
    "maxAttempts": 5, "deadLetter": "billing.dead", "leaseMs": 30_000, "backoffMs": 1_000,
    "backoffMaxMs": 300_000, "inFlightMax": 20_000,
}))]
pub(in crate::http) struct NewGroup {
    version: V1,
    /// 1 to 244 of `a-z A-Z 0-9 . _ -`.
    pub(super) name: String,
    /// What members that name no topics read.
    #[serde(default)]
    topics: Vec<String>,
    /// Where it begins; `earliest` if absent. An offset or a time counts for the topics there are now;
    /// in those that come later it begins at the first message that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<Place>,
    /// What waits for what; `key` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordering: Option<OrderName>,
    /// How often a message is handed out before it is a dead letter; 5 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// The topic of dead letters; `<group>.dead` if absent. It is made when it is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    /// How long a member has for what it was handed; 30000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    /// How long a message waits for its second attempt, doubled each time; 1000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    /// How long at most; 300000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    /// How many messages of a partition may be out, wait for their retry, or wait for those before
    /// them; 20000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_flight_max: Option<u32>,
}

impl NewGroup {
    /// What it asks of the room, and where it begins if not as its settings say.
    pub(super) fn into_settings(
        self,
        streams: &Streams,
        name: &GroupName,
    ) -> Result<(GroupSettings, Option<Origin>), Problem> {
        let usual = GroupSettings::of(name, streams.topic_names(&self.topics)?);
        let named = self.dead_letter.map(|text| streams.name(&text)).transpose()?;
        let (start, from) = match self.start {
            None => (usual.start, None),
            Some(Place(Origin::Latest)) => (Start::Latest, None),
            Some(Place(Origin::Earliest)) => (Start::Earliest, None),
            Some(Place(origin)) => (Start::Earliest, Some(origin)),
        };
        let settings = GroupSettings {
            start,
            order: self.ordering.map_or(usual.order, Order::from),
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            dead_letter: named.unwrap_or(usual.dead_letter),
            lease: self.lease_ms.map_or(usual.lease, Span::from_millis),
            backoff: self.backoff_ms.map_or(usual.backoff, Span::from_millis),
            backoff_max: self.backoff_max_ms.map_or(usual.backoff_max, Span::from_millis),
            in_flight_max: self.in_flight_max.unwrap_or(usual.in_flight_max),
            topics: usual.topics,
        };
        Ok((settings, from))
    }
}

/// What is to become of a group's settings. What is absent stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "maxAttempts": 3, "leaseMs": 60_000}))]
pub(in crate::http) struct GroupChange {
    version: V1,
    /// What members that name no topics read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    topics: Option<Vec<String>>,
    /// Where it begins in topics that are new to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start: Option<StartName>,
    /// What waits for what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ordering: Option<OrderName>,
    /// How often a message is handed out before it is a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    /// The topic of dead letters from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead_letter: Option<String>,
    /// How long a member has for what it is handed from now on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    /// How long a message waits for its second attempt, doubled each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_ms: Option<u64>,
    /// How long at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    backoff_max_ms: Option<u64>,
    /// How far apart what is out of a partition may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    in_flight_max: Option<u32>,
}

impl GroupChange {
    pub(super) fn into_alteration(self, streams: &Streams) -> Result<GroupAlteration, Problem> {
        Ok(GroupAlteration {
            topics: self.topics.map(|topics| streams.topic_names(&topics)).transpose()?,
            start: self.start.map(Start::from),
            order: self.ordering.map(Order::from),
            max_attempts: self.max_attempts,
            dead_letter: self.dead_letter.map(|text| streams.name(&text)).transpose()?,
            lease: self.lease_ms.map(Span::from_millis),
            backoff: self.backoff_ms.map(Span::from_millis),
            backoff_max: self.backoff_max_ms.map(Span::from_millis),
            in_flight_max: self.in_flight_max,
        })
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Group, example = json!({
    "name": "billing", "topics": ["orders"], "start": "earliest", "ordering": "key",
    "maxAttempts": 5, "deadLetter": "billing.dead", "leaseMs": 30_000, "backoffMs": 1_000,
    "backoffMaxMs": 300_000, "inFlightMax": 20_000, "createdAt": "2027-01-01T00:00:00Z",
    "generation": 3, "memberCount": 1,
    "members": [{
        "member": "0123456789abcdef0123456789abcdef", "client": "till 7", "instance": "till-7",
        "since": "2027-01-01T00:00:00Z", "sessionLeftMs": 20_000,
        "assignment": [{"topic": "orders", "partition": 0}],
    }],
    "partitions": [{
        "topic": "orders", "partition": 0, "committed": 5, "next": 9, "end": 12, "lag": 7,
        "processing": 4, "waiting": 0, "dead": 1, "lostToRetention": 0, "ranges": 1,
        "owner": "0123456789abcdef0123456789abcdef",
        "blockedBy": "4 messages are held by till 7, 12 s left; what is behind has the same keys",
    }],
    "lag": 7, "dead": 1, "lostToRetention": 0,
}))]
pub(in crate::http) struct GroupBody {
    name: String,
    /// What members that name no topics read, as far as it is in sight.
    topics: Vec<String>,
    start: StartName,
    ordering: OrderName,
    max_attempts: u32,
    dead_letter: String,
    lease_ms: u64,
    backoff_ms: u64,
    backoff_max_ms: u64,
    in_flight_max: u32,
    created_at: String,
    /// Grows whenever partitions change hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generation: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    member_count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    members: Option<Vec<MemberBody>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PlaceBody>>,
    /// Messages that are not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lag: Option<u64>,
    /// Messages that died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dead: Option<u64>,
    /// Messages that retention took before they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_to_retention: Option<u64>,
    /// Why nothing is handed out at all, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocked_by: Option<String>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GroupMember)]
pub(in crate::http) struct MemberBody {
    member: String,
    /// What it says it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    client: String,
    /// The name that outlives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    since: String,
    /// For how long it may still be silent.
    session_left_ms: u64,
    assignment: Vec<AssignedBody>,
}

/// A partition that a member has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Assigned)]
pub(in crate::http) struct AssignedBody {
    topic: String,
    partition: u32,
    /// The first offset that is not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    committed: Option<u64>,
}

impl From<Assignment> for AssignedBody {
    fn from(Assignment { topic, partition, committed }: Assignment) -> Self {
        Self { topic: topic.to_string(), partition, committed }
    }
}

/// Where a group is in a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GroupPartition)]
pub(in crate::http) struct PlaceBody {
    topic: String,
    partition: u32,
    /// The first offset that is not finished.
    committed: u64,
    /// The first that was not looked at.
    next: u64,
    /// The offset of the next message.
    end: u64,
    /// Messages that are not finished.
    lag: u64,
    /// Of those, the ones that are out.
    processing: u64,
    /// Of those, the ones that wait for their retry.
    waiting: u64,
    /// Messages that died.
    dead: u64,
    /// Messages that retention took before they were read.
    lost_to_retention: u64,
    /// Ranges of messages between `committed` and `next` of which the same is known: what the group
    /// takes of the server's memory here. None if nothing is out.
    ranges: u64,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// Why nothing is handed out now, though there is something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocked_by: Option<String>,
}

impl From<PartitionView> for PlaceBody {
    fn from(view: PartitionView) -> Self {
        Self {
            topic: view.topic.to_string(),
            partition: view.partition.number,
            committed: view.committed,
            next: view.next,
            end: view.end,
            lag: view.lag,
            processing: view.processing,
            waiting: view.waiting,
            dead: view.dead,
            lost_to_retention: view.lost,
            ranges: view.ranges,
            owner: view.owner.map(|owner| owner.to_string()),
            blocked_by: view.blocked_by,
        }
    }
}

pub(super) fn millis(Span(micros): Span) -> u64 {
    micros / 1_000
}

impl GroupBody {
    /// What may be said of a group to whoever sees so much.
    pub(super) fn of(group: Group, sight: &Sight) -> Self {
        let settings = group.settings;
        Self {
            name: group.name.to_string(),
            topics: visible_topics(&settings.topics, sight),
            start: settings.start.into(),
            ordering: settings.order.into(),
            max_attempts: settings.max_attempts,
            dead_letter: settings.dead_letter.to_string(),
            lease_ms: millis(settings.lease),
            backoff_ms: millis(settings.backoff),
            backoff_max_ms: millis(settings.backoff_max),
            in_flight_max: settings.in_flight_max,
            created_at: stamp(group.created),
            generation: None,
            member_count: None,
            members: None,
            partitions: None,
            lag: None,
            dead: None,
            lost_to_retention: None,
            blocked_by: None,
        }
    }

    /// A group of a list.
    pub(super) fn listed(listed: GroupListed, sight: &Sight) -> Self {
        let GroupListed { group, generation, members, lag } = listed;
        let (generation, member_count) = (Some(generation), Some(members as u64));
        Self { generation, member_count, lag: Some(lag), ..Self::of(group, sight) }
    }

    /// A group with all that is known of it.
    pub(super) fn of_view(
        view: GroupView,
        sight: &Sight,
        name: impl Fn(PartitionId) -> Option<TopicName>,
    ) -> Self {
        let assigned = |partition: PartitionId| {
            let topic = name(partition).filter(|topic| sight.sees(topic.as_str()))?;
            let (topic, partition) = (topic.to_string(), partition.number);
            Some(AssignedBody { topic, partition, committed: None })
        };
        let member = |one: MemberView| MemberBody {
            member: one.member.to_string(),
            client: one.client,
            instance: one.instance,
            since: stamp(one.since),
            session_left_ms: millis(one.session_left),
            assignment: one.assigned.into_iter().filter_map(assigned).collect(),
        };
        let members: Vec<MemberBody> = view.members.into_iter().map(member).collect();
        Self {
            generation: Some(view.generation),
            member_count: Some(members.len() as u64),
            members: Some(members),
            partitions: Some(view.partitions.into_iter().map(Into::into).collect()),
            lag: Some(view.lag),
            dead: Some(view.dead),
            lost_to_retention: Some(view.lost),
            blocked_by: view.blocked_by,
            ..Self::of(view.group, sight)
        }
    }
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct OneGroup {
    pub(super) version: V1,
    pub(super) group: GroupBody,
}

/// A page of groups, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct GroupPage {
    pub(super) version: V1,
    pub(super) groups: Vec<GroupBody>,
    /// What `after` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}
