//! `POST …/members/{member}/commit`

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::response::Response;
use handoff_streams::{Produced, Status};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::incoming::{Incoming, from_json, from_msgpack};
use super::outgoing::{committed_json, committed_msgpack};
use crate::http::access::Streams;
use crate::http::json::{V1, read};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::streams::format::{Format, packed, written};
use crate::http::streams::in_sight;
use crate::http::streams::outgoing::{NewMessage, StoredBody};
use crate::rooms::streams::CommitAsked;

/// A larger body is read where it keeps nobody from working.
const READ_HERE_BYTES: usize = 256 << 10;

/// How it went, as the document describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Commit, example = json!({
    "version": 1,
    "results": [
        {"topic": "orders", "partition": 0, "from": 5, "to": 8, "status": "ok", "lease": 17},
        {"topic": "orders", "partition": 0, "from": 9, "to": 9, "status": "retry",
         "error": "the printer is out of paper", "delayMs": 60_000},
    ],
    "produce": [{"topic": "bills", "messages": [{"payload": "{}"}]}],
}))]
pub(in crate::http) struct CommitBody {
    version: V1,
    /// How it went with messages that were handed out.
    results: Vec<VerdictBody>,
    /// Messages that are stored with it, all or none, if every result counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    produce: Vec<ProduceBody>,
}

/// How it went with messages of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Verdict)]
pub(in crate::http) struct VerdictBody {
    topic: String,
    partition: u32,
    /// The first offset.
    from: u64,
    /// The last.
    to: u64,
    status: VerdictName,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The lease they were handed out under. Named, it must be that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lease: Option<u64>,
    /// When to try again, instead of the group's back-off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = VerdictStatus)]
pub(in crate::http) enum VerdictName {
    /// They are processed.
    Ok,
    /// They cannot be: dead letters.
    Failed,
    /// Not now: again later, or dead letters after so many attempts.
    Retry,
    /// It takes longer: the lease begins anew.
    Extend,
}

/// Messages to be stored with a commit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CommitMessages)]
pub(in crate::http) struct ProduceBody {
    topic: String,
    /// Who sends; with `sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    producer: Option<String>,
    /// Of the first message; the others follow one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sequence: Option<u64>,
    messages: Vec<NewMessage>,
}

/// What became of a commit, as the document describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Committed, example = json!({
    "version": 1,
    "results": [{"topic": "orders", "partition": 0, "from": 5, "to": 9, "outcome": "done"}],
    "produced": [{"version": 1, "results": [{"status": "stored", "partition": 0, "offset": 17}]}],
}))]
pub(in crate::http) struct CommittedBody {
    version: V1,
    /// In the order of the results; one may be answered in several parts.
    results: Vec<FinishedBody>,
    /// What became of the messages, for each element of `produce`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    produced: Vec<StoredBody>,
}

/// What became of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Finished)]
pub(in crate::http) struct FinishedBody {
    topic: String,
    partition: u32,
    /// The first offset.
    from: u64,
    /// The last.
    to: u64,
    outcome: OutcomeName,
}

/// What became of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CommitOutcome)]
pub(in crate::http) enum OutcomeName {
    /// It is so now.
    Done,
    /// It is so, though the partition is another's by now, or it was so already.
    Late,
    /// Nothing: the messages are not the member's, or not any more.
    Fenced,
}

/// Says how it went with messages, and stores others with that, in one durable step.
#[utoipa::path(
    post, path = "/v1/streams/groups/{group}/members/{member}/commit",
    operation_id = "commit", tag = "groups",
    params(
        ("group" = String, Path, description = "Its name."),
        ("member" = String, Path, description = "Who."),
    ),
    request_body(content((CommitBody = "application/json"), (CommitBody = "application/msgpack"))),
    responses((
        status = 200, description = "What became of it.",
        content((CommittedBody = "application/json"), (CommittedBody = "application/msgpack")),
    ))
)]
pub(in crate::http) async fn commit(
    streams: Streams,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Query,
    request: Request,
) -> Result<Response, Problem> {
    query.known(&[])?;
    let (group, member) = streams.member(path)?;
    let headers = request.headers();
    let (given, wanted) = (Format::of_body(headers)?, Format::wanted(headers));
    let body = read(request, streams.room.settings().request_bytes_max).await?;
    let bytes = body.len();
    let decode = move || match given {
        Format::Json => from_json(&body),
        Format::MessagePack => from_msgpack(body),
    };
    let incoming = if bytes <= READ_HERE_BYTES {
        decode()?
    } else {
        spawn_blocking(decode).await.map_err(|_| Problem::panicked())??
    };
    let Incoming { results, produce } = incoming;
    results.iter().try_for_each(|said| in_sight(&streams.sight, &said.topic))?;
    produce.iter().try_for_each(|request| in_sight(&streams.sight, &request.topic))?;
    let stores = !produce.is_empty();
    if stores {
        let charged = streams.room.charge(streams.caller.token.as_ref(), bytes);
        charged.map_err(|error| streams.refuse(error))?;
    }
    let asked = CommitAsked { group, member, results, produce };
    let committed = streams.room.commit(asked).await.map_err(|error| streams.refuse(error))?;
    if stores {
        let is_kept = |result: &&Produced| result.status != Status::Duplicate;
        let results = || committed.produced.iter().flat_map(|stored| &stored.results);
        let (kept, all) = (results().filter(is_kept).count(), results().count());
        streams.door.app.metrics.streams().stored(kept, all - kept, bytes);
    }
    Ok(match wanted {
        Format::Json => written(committed_json(&committed), "application/json"),
        Format::MessagePack => packed(committed_msgpack(&committed)),
    })
}
