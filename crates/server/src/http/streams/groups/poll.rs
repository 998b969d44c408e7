//! `POST …/members/{member}/poll`

use std::time::Duration;

use axum::Extension;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::Response;
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::members::patience;
use super::outgoing::{polled_json, polled_msgpack};
use crate::http::access::Streams;
use crate::http::front::MayWait;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::streams::format::{Format, Given, kept};
use crate::http::streams::outgoing::Octets;
use crate::rooms::streams::{PollAsked, Polled};

/// Messages of an answer unless the client says otherwise, and at most.
const MESSAGES: usize = 500;
const MESSAGES_MAX: usize = 10_000;

/// Bytes of them likewise.
const BYTES: usize = 1 << 20;
const BYTES_MAX: usize = 16 << 20;

/// How long a poll may wait.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// More than this is written where it keeps nobody from working.
const WRITE_HERE_BYTES: usize = 256 << 10;

/// What a member wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Poll, example = json!({
    "version": 1, "maxMessages": 100, "maxBytes": 1_048_576, "waitMs": 10_000,
}))]
pub(in crate::http) struct PollBody {
    version: V1,
    /// How many messages at most; 500 if absent, 10000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_messages: Option<usize>,
    /// How many of their bytes, give or take one message; 1 MiB if absent, 16 MiB at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_bytes: Option<usize>,
    /// How long to wait if there is nothing; 0 if absent, 30000 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
}

/// What a member gets, as the document describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Polled, example = json!({
    "version": 1, "generation": 1,
    "batches": [{
        "topic": "orders", "partition": 0, "baseOffset": 5, "count": 1, "attempt": 1, "lease": 17,
        "leaseDeadline": "2027-01-01T00:00:30.000Z",
        "messages": [{
            "timestamp": "2027-01-01T00:00:00.000Z", "key": "k", "payload": "{}",
            "headers": {"trace": "1"},
        }],
    }],
}))]
pub(in crate::http) struct PolledBody {
    version: V1,
    /// Grows whenever partitions change hands.
    generation: u64,
    batches: Vec<BatchBody>,
}

/// Messages that were handed out together: consecutive offsets of one partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Batch)]
pub(in crate::http) struct BatchBody {
    topic: String,
    partition: u32,
    /// The offset of the first.
    base_offset: u64,
    count: u64,
    /// How often they were handed out, this time included.
    attempt: u32,
    /// The lease they were handed out under: a later one of a partition is larger.
    lease: u64,
    /// Until when they have to be answered for.
    lease_deadline: String,
    messages: Vec<DeliveredBody>,
}

/// A message that was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Delivered)]
pub(in crate::http) struct DeliveredBody {
    timestamp: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Octets>,
    payload: Option<Octets>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    headers: Option<std::collections::BTreeMap<String, Octets>>,
}

/// Hands messages to a member. They are its own until their lease is over, and that is on disk when
/// this answers.
#[utoipa::path(
    post, path = "/v1/streams/groups/{group}/members/{member}/poll",
    operation_id = "poll", tag = "groups",
    params(
        ("group" = String, Path, description = "Its name."),
        ("member" = String, Path, description = "Who."),
    ),
    request_body = PollBody,
    responses((
        status = 200, description = "Messages, or none.",
        content((PolledBody = "application/json"), (PolledBody = "application/msgpack")),
    ))
)]
pub(in crate::http) async fn poll(
    streams: Streams,
    format: Format,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Query,
    Given(poll): Given<PollBody>,
) -> Result<(Extension<MayWait>, Response), Problem> {
    query.known(&[])?;
    let (group, member) = streams.member(path)?;
    let max_messages = within("maxMessages", poll.max_messages, MESSAGES, MESSAGES_MAX)?;
    let max_bytes = within("maxBytes", poll.max_bytes, BYTES, BYTES_MAX)?;
    let wait = Duration::from_millis(poll.wait_ms.unwrap_or(0));
    if wait > WAIT_MAX {
        let detail = format!("`waitMs` is at most {}", WAIT_MAX.as_millis());
        return Err(Problem::new(Code::RequestInvalid, detail));
    }
    let wait = wait.min(patience(&streams));
    let asked = PollAsked { group, member, max_messages, max_bytes, wait };
    let may = |topic: &handoff_streams::TopicName| streams.sight.sees(topic.as_str());
    let polled = streams.room.poll(asked, may, &streams.door.stop).await;
    let polled = polled.map_err(|error| streams.refuse(error))?;
    let counted = polled.batches.iter().map(|batch| (batch.handed.attempt, batch.handed.count));
    streams.door.app.metrics.streams().delivered(counted);
    let bytes = polled.permit.as_ref().map_or(0, tokio::sync::OwnedSemaphorePermit::num_permits);
    let response = if bytes <= WRITE_HERE_BYTES {
        write(polled, format)
    } else {
        let writing = spawn_blocking(move || write(polled, format)).await;
        writing.map_err(|_| Problem::panicked())?
    };
    Ok((Extension(MayWait(wait)), response))
}

fn write(polled: Polled, format: Format) -> Response {
    let body = match format {
        Format::Json => polled_json(&polled),
        Format::MessagePack => polled_msgpack(&polled),
    };
    kept(body, format, polled.permit)
}

fn within(name: &str, given: Option<usize>, usual: usize, max: usize) -> Result<usize, Problem> {
    let given = given.unwrap_or(usual);
    if (1..=max).contains(&given) {
        return Ok(given);
    }
    let detail = format!("`{name}` is {given}; it is a number from 1 to {max}");
    Err(Problem::new(Code::RequestInvalid, detail))
}
