//! Where a group goes on, and what a message is to it.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use handoff_house::ActKind;
use handoff_streams::groups::{MessageStatus, Sought};
use handoff_streams::{PartitionId, Refusal};
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::place::Place;
use super::wire::millis;
use crate::http::access::Streams;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::streams::format::{Answer, Format, Given};

/// Where a group is to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Seek, example = json!({
    "version": 1, "topic": "orders", "partition": 0, "to": {"offset": 5}, "preview": true,
}))]
pub(in crate::http) struct SeekBody {
    version: V1,
    topic: String,
    /// Only this partition; absent: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<u32>,
    to: Place,
    /// Whether it is only to be said what would happen.
    #[serde(default)]
    preview: bool,
}

/// What a seek does, or would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Sought, example = json!({
    "version": 1, "preview": true,
    "partitions": [{
        "topic": "orders", "partition": 0, "from": 9, "to": 5, "again": 4, "skipped": 0,
        "voided": 2,
    }],
}))]
pub(in crate::http) struct SoughtBody {
    version: V1,
    partitions: Vec<SoughtPartition>,
    /// Whether nothing was changed.
    preview: bool,
}

/// What a seek does to a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct SoughtPartition {
    topic: String,
    partition: u32,
    /// Where the group was: the first offset that was not finished.
    from: u64,
    /// Where it is.
    to: u64,
    /// Messages that were finished and come again.
    again: u64,
    /// Messages that were not finished and do not come.
    skipped: u64,
    /// Messages that were out and whose answers do not count any more.
    voided: u64,
}

/// What a message is for a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = GroupMessageStatus, example = json!({
    "version": 1, "status": "processing", "attempt": 1,
    "member": "0123456789abcdef0123456789abcdef", "lease": 17, "leaseLeftMs": 12_000,
}))]
pub(in crate::http) struct StatusBody {
    version: V1,
    status: StatusName,
    /// How often it was handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    /// Who holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    member: Option<String>,
    /// Under which lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<u64>,
    /// For how long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease_left_ms: Option<u64>,
    /// For how long it still waits for its retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    /// What was said when it came back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Where its letter is, if it died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    letter: Option<LetterPlace>,
}

/// What a message is for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = GroupStanding)]
pub(in crate::http) enum StatusName {
    /// It was not handed out, or came back.
    Pending,
    /// It is out.
    Processing,
    /// It is finished.
    Processed,
    /// It died.
    Dead,
}

/// Where a dead letter is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct LetterPlace {
    topic: String,
    partition: u32,
    offset: u64,
}

/// Lets a group go on elsewhere: back, to read again, or ahead, to pass something by. What is out of
/// those partitions does not count any more.
#[utoipa::path(
    post, path = "/v1/streams/groups/{group}/seek", operation_id = "seekGroup", tag = "groups",
    params(("group" = String, Path, description = "Its name.")),
    request_body = SeekBody,
    responses((status = 200, description = "What it does, or would do.", body = SoughtBody))
)]
pub(in crate::http) async fn seek_group(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
    Given(seek): Given<SeekBody>,
) -> Result<Answer<SoughtBody>, Problem> {
    query.known(&[])?;
    let group = streams.group(group)?;
    let SeekBody { topic, partition, to: Place(origin), preview, .. } = seek;
    let topic = streams.name(&topic)?;
    let place = (topic.clone(), partition);
    let sought = streams.room.seek(group.clone(), place, origin, preview).await;
    let sought = sought.map_err(|error| streams.refuse(error))?;
    if !preview {
        let what = match partition {
            Some(partition) => format!("partition {partition} of {topic}"),
            None => topic.to_string(),
        };
        streams.note(ActKind::Altered, &format!("where group {group} is in {what}")).await;
    }
    let one = |Sought { partition, from, to, again, skipped, voided }| SoughtPartition {
        topic: topic.to_string(),
        partition: partition.number,
        from,
        to,
        again,
        skipped,
        voided,
    };
    let partitions = sought.into_iter().map(one).collect();
    Ok(Answer::ok(format, SoughtBody { version: V1, partitions, preview }))
}

/// What a message is for a group. Any message can be asked for, whether it is kept or not.
#[utoipa::path(
    get, path = "/v1/streams/groups/{group}/status", operation_id = "groupMessageStatus",
    tag = "groups",
    params(
        ("group" = String, Path, description = "Its name."),
        ("topic" = String, Query, description = "The topic."),
        ("partition" = u32, Query, description = "The partition."),
        ("offset" = u64, Query, description = "The offset."),
    ),
    responses((status = 200, description = "What it is.", body = StatusBody))
)]
pub(in crate::http) async fn message_status(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<StatusBody>, Problem> {
    let asked = query.known(&["topic", "partition", "offset"])?;
    let group = streams.group(group)?;
    let missing = |name: &str| {
        Problem::new(Code::RequestMalformed, format!("which message? `{name}` is missing"))
    };
    let topic = asked.one::<String>("topic", "a name")?.ok_or_else(|| missing("topic"))?;
    let topic = streams.name(&topic)?;
    let number = asked.one::<u32>("partition", "a number from 0 on")?;
    let number = number.ok_or_else(|| missing("partition"))?;
    let offset = asked.one::<u64>("offset", "a number from 0 on")?;
    let offset = offset.ok_or_else(|| missing("offset"))?;
    let visible = streams.room.visible(&topic).map_err(|error| streams.refuse(error))?;
    let Some(ends) = visible.partition(number) else {
        let (partition, count) = (number, visible.count());
        let none = Refusal::NoPartition { topic, partition, count };
        return Err(streams.refuse(none.into()));
    };
    if offset >= ends.end() {
        let detail =
            format!("offset {offset} is not there yet; the next message gets {}", ends.end());
        return Err(Problem::new(Code::StreamsInvalid, detail));
    }
    let partition = PartitionId { topic: visible.id, number };
    let status = streams.room.message_status(group, partition, offset).await;
    let status = status.map_err(|error| streams.refuse(error))?;
    let name = |partition| streams.room.topic_of_partition(partition).map(|name| name.to_string());
    Ok(Answer::ok(format, StatusBody::of(status, name)))
}

impl StatusBody {
    fn of(status: MessageStatus, name: impl Fn(PartitionId) -> Option<String>) -> Self {
        let mut body = Self {
            version: V1,
            status: StatusName::Processed,
            attempt: None,
            member: None,
            lease: None,
            lease_left_ms: None,
            wait_ms: None,
            error: None,
            letter: None,
        };
        match status {
            MessageStatus::Pending { attempt, wait, error } => {
                body.status = StatusName::Pending;
                body.attempt = (attempt > 0).then_some(attempt);
                body.wait_ms = (wait.0 > 0).then(|| millis(wait));
                body.error = error;
            }
            MessageStatus::Processing { attempt, member, lease, left } => {
                body.status = StatusName::Processing;
                body.attempt = Some(attempt);
                body.member = Some(member.to_string());
                body.lease = Some(lease.0);
                body.lease_left_ms = Some(millis(left));
            }
            MessageStatus::Processed => {}
            MessageStatus::Dead { letter } => {
                body.status = StatusName::Dead;
                body.letter = letter.and_then(|(partition, offset)| {
                    let topic = name(partition)?;
                    Some(LetterPlace { topic, partition: partition.number, offset })
                });
            }
        }
        body
    }
}
