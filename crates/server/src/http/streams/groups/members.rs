//! Members: joining, heartbeats, leaving.

use std::time::Duration;

use axum::Extension;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use handoff_types::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::place::Place;
use super::wire::{AssignedBody, millis};
use crate::http::access::Streams;
use crate::http::front::MayWait;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::streams::format::{Answer, Format, Given};
use crate::http::streams::in_sight;
use crate::rooms::streams::JoinAsked;

/// For how long a member may be silent unless it says otherwise.
const SESSION_MS: u64 = 30_000;

/// What of the time a request may take is left for its answer.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Somebody who joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Join, example = json!({
    "version": 1, "topics": ["orders"], "client": "till 7", "instance": "till-7",
    "sessionTimeoutMs": 30_000, "from": "earliest",
}))]
pub(in crate::http) struct JoinBody {
    version: V1,
    /// What it reads; absent: what the group reads. A group that is not there is made with these.
    #[serde(default)]
    topics: Vec<String>,
    /// What it says it is, for people.
    #[serde(default)]
    client: String,
    /// A name that outlives it: whoever joins under it takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// For how long it may be silent; 30000 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_timeout_ms: Option<u64>,
    /// Where the group begins in partitions it has not read yet; absent: as the group says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<Place>,
}

/// A member that is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Joined, example = json!({
    "version": 1, "member": "0123456789abcdef0123456789abcdef", "generation": 1,
    "sessionTimeoutMs": 30_000,
    "assignment": [{"topic": "orders", "partition": 0, "committed": 5}],
}))]
pub(in crate::http) struct JoinedBody {
    version: V1,
    /// Its id, for everything it asks from now on.
    member: String,
    /// Grows whenever partitions change hands.
    generation: u64,
    session_timeout_ms: u64,
    assignment: Vec<AssignedBody>,
}

/// A sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Heartbeat, example = json!({"version": 1, "generation": 1}))]
pub(in crate::http) struct HeartbeatBody {
    version: V1,
    /// The generation it knows.
    generation: u64,
}

/// What a member learns from a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Beat, example = json!({
    "version": 1, "generation": 2, "changed": true,
    "assignment": [{"topic": "orders", "partition": 0}],
}))]
pub(in crate::http) struct BeatBody {
    version: V1,
    generation: u64,
    /// What it has.
    assignment: Vec<AssignedBody>,
    /// Whether the generation is another than it knew.
    changed: bool,
}

/// A member that is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Left)]
pub(in crate::http) struct LeftBody {
    version: V1,
    /// Who it was.
    left: String,
}

/// Joins a group. Whoever is a member has partitions, and has to be heard of: by polls, commits and
/// heartbeats.
#[utoipa::path(
    post, path = "/v1/streams/groups/{group}/members", operation_id = "joinGroup", tag = "groups",
    params(("group" = String, Path, description = "Its name.")),
    request_body = JoinBody,
    responses((status = 201, description = "It is in.", body = JoinedBody))
)]
pub(in crate::http) async fn join_group(
    streams: Streams,
    format: Format,
    group: Result<Path<String>, PathRejection>,
    query: Query,
    Given(join): Given<JoinBody>,
) -> Result<Answer<JoinedBody>, Problem> {
    query.known(&[])?;
    let group = streams.group(group)?;
    let topics = streams.topic_names(&join.topics)?;
    if topics.is_empty() {
        let known = streams.room.group(group.clone()).await;
        let known = known.map_err(|error| streams.refuse(error))?;
        let own = known.map(|group| group.settings.topics).unwrap_or_default();
        own.iter().try_for_each(|topic| in_sight(&streams.sight, topic))?;
    }
    let asked = JoinAsked {
        group: group.clone(),
        topics,
        client: join.client,
        instance: join.instance,
        session: Span::from_millis(join.session_timeout_ms.unwrap_or(SESSION_MS)),
        from: join.from.map(|Place(origin)| origin),
    };
    let joined = streams.room.join(asked).await.map_err(|error| streams.refuse(error))?;
    let location = Some(format!("/v1/streams/groups/{group}/members/{}", joined.member));
    let body = JoinedBody {
        version: V1,
        member: joined.member.to_string(),
        generation: joined.generation,
        session_timeout_ms: millis(joined.session),
        assignment: joined.assignment.into_iter().map(Into::into).collect(),
    };
    Ok(Answer { format, status: StatusCode::CREATED, location, body })
}

/// Says that a member is alive. Held until its partitions change, at the latest for a third of its
/// session timeout.
#[utoipa::path(
    post, path = "/v1/streams/groups/{group}/members/{member}/heartbeat",
    operation_id = "heartbeat", tag = "groups",
    params(
        ("group" = String, Path, description = "Its name."),
        ("member" = String, Path, description = "Who."),
    ),
    request_body = HeartbeatBody,
    responses((status = 200, description = "What it has.", body = BeatBody))
)]
pub(in crate::http) async fn heartbeat(
    streams: Streams,
    format: Format,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Query,
    Given(heartbeat): Given<HeartbeatBody>,
) -> Result<(Extension<MayWait>, Answer<BeatBody>), Problem> {
    query.known(&[])?;
    let (group, member) = streams.member(path)?;
    let patience = patience(&streams);
    let waiting = (patience, &streams.door.stop);
    let beat = streams.room.heartbeat(group, member, heartbeat.generation, waiting).await;
    let beat = beat.map_err(|error| streams.refuse(error))?;
    let assignment = beat.assignment.into_iter().map(Into::into).collect();
    let (generation, changed) = (beat.generation, beat.changed);
    let body = BeatBody { version: V1, generation, assignment, changed };
    Ok((Extension(MayWait(patience)), Answer::ok(format, body)))
}

/// Leaves a group. What the member holds is free at once.
#[utoipa::path(
    delete, path = "/v1/streams/groups/{group}/members/{member}",
    operation_id = "leaveGroup", tag = "groups",
    params(
        ("group" = String, Path, description = "Its name."),
        ("member" = String, Path, description = "Who."),
    ),
    responses((status = 200, description = "It is gone.", body = LeftBody))
)]
pub(in crate::http) async fn leave_group(
    streams: Streams,
    format: Format,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Query,
) -> Result<Answer<LeftBody>, Problem> {
    query.known(&[])?;
    let (group, member) = streams.member(path)?;
    streams.room.leave(group, member).await.map_err(|error| streams.refuse(error))?;
    Ok(Answer::ok(format, LeftBody { version: V1, left: member.to_string() }))
}

/// How long a request may wait for something.
pub(super) fn patience(streams: &Streams) -> Duration {
    streams.door.app.limits().request_time_max.saturating_sub(ANSWER_TIME)
}
