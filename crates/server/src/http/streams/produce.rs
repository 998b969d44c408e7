//! `POST /v1/streams/topics/{topic}/messages`

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request};
use axum::response::Response;
use bytes::Bytes;
use handoff_streams::{Produce, Status, TopicName};
use tokio::task::spawn_blocking;

use super::format::{Format, packed, written};
use super::incoming;
use super::outgoing::{NewMessages, StoredBody, stored_json, stored_msgpack};
use crate::http::access::Streams;
use crate::http::json::read;
use crate::http::problem::Problem;
use crate::http::query::Query;

/// A larger body is read where it keeps nobody from working.
const READ_HERE_BYTES: usize = 256 << 10;

/// Stores messages, all or none.
///
/// With `producer` and `sequence` a request can be repeated until it is answered: each message is
/// stored once. They are on disk when this answers, unless the topic says `durability: os`.
#[utoipa::path(
    post, path = "/v1/streams/topics/{topic}/messages", operation_id = "produce", tag = "streams",
    params(("topic" = String, Path, description = "Its name.")),
    request_body(content(
        (NewMessages = "application/json"),
        (NewMessages = "application/msgpack"),
    )),
    responses((
        status = 200, description = "What became of each message.",
        content((StoredBody = "application/json"), (StoredBody = "application/msgpack")),
    ))
)]
pub(in crate::http) async fn produce(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
    request: Request,
) -> Result<Response, Problem> {
    query.known(&[])?;
    let name = streams.topic(topic)?;
    let given = Format::of_body(request.headers())?;
    let body = read(request, streams.room.settings().request_bytes_max).await?;
    let charged = streams.room.charge(streams.caller.token.as_ref(), body.len());
    charged.map_err(|error| streams.refuse(error))?;
    let bytes = body.len();
    let messages = if bytes <= READ_HERE_BYTES {
        decode(given, name, body)?
    } else {
        let decoding = spawn_blocking(move || decode(given, name, body)).await;
        decoding.map_err(|_| Problem::panicked())??
    };
    let stored = streams.room.produce(messages).await.map_err(|error| streams.refuse(error))?;
    let kept = stored.results.iter().filter(|result| result.status != Status::Duplicate).count();
    streams.door.app.metrics.streams().stored(kept, stored.results.len() - kept, bytes);
    Ok(match format {
        Format::Json => written(stored_json(&stored), "application/json"),
        Format::MessagePack => packed(stored_msgpack(&stored)),
    })
}

fn decode(format: Format, topic: TopicName, body: Bytes) -> Result<Produce, Problem> {
    match format {
        Format::Json => incoming::from_json(topic, &body),
        Format::MessagePack => incoming::from_msgpack(topic, body),
    }
}
