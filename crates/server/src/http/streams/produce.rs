//! `POST /v1/streams/topics/{topic}/messages`

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use handoff_streams::{Produce, Produced, Status, TopicName};
use handoff_types::Room;
use tokio::task::spawn_blocking;

use super::format::{Format, JSON, MSGPACK};
use super::outgoing::{NewMessages, StoredBody, stored_json, stored_msgpack};
use super::wire::topic_name;
use super::{in_sight, incoming, path_text};
use crate::http::access::StreamsAsker;
use crate::http::direct::Written;
use crate::http::front::Door;
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
    State(door): State<Door>,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
    request: Request,
) -> Result<Response, Problem> {
    let asker = StreamsAsker::admit(&door, request.headers())?;
    query.known(&[])?;
    let topic = topic_name(&path_text(topic)?)?;
    let intake = Intake::new(&door, asker, topic, request.headers())?;
    let body = read(request, intake.bytes_max()).await?;
    intake.store(body).await.map(Written::into_response)
}

/// A request that may store something, once its body is there.
pub(in crate::http) struct Intake<'a> {
    door: &'a Door,
    asker: StreamsAsker<'a>,
    topic: TopicName,
    given: Format,
    wanted: Format,
}

impl<'a> Intake<'a> {
    pub(in crate::http) fn new(
        door: &'a Door,
        asker: StreamsAsker<'a>,
        topic: TopicName,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        in_sight(&asker.sight, &topic)?;
        let (given, wanted) = (Format::of_body(headers)?, Format::wanted(headers));
        Ok(Self { door, asker, topic, given, wanted })
    }

    /// What the body may weigh.
    pub(in crate::http) fn bytes_max(&self) -> usize {
        self.asker.room.settings().request_bytes_max
    }

    /// Stores the messages of the body.
    pub(in crate::http) async fn store(self, body: Bytes) -> Result<Written, Problem> {
        let Self { door, asker, topic, given, wanted } = self;
        let refuse = |error| Problem::of(&door.app, Room::Streams, error);
        let bytes = body.len();
        asker.room.charge(asker.caller.token.as_ref(), bytes).map_err(refuse)?;
        let messages = if bytes <= READ_HERE_BYTES {
            decode(given, topic, body)?
        } else {
            let decoding = spawn_blocking(move || decode(given, topic, body)).await;
            decoding.map_err(|_| Problem::panicked())??
        };
        let stored = asker.room.produce(messages).await.map_err(refuse)?;
        let is_kept = |result: &&Produced| result.status != Status::Duplicate;
        let kept = stored.results.iter().filter(is_kept).count();
        door.app.metrics.streams().stored(kept, stored.results.len() - kept, bytes);
        let (media_type, bytes) = match wanted {
            Format::Json => (JSON, stored_json(&stored)),
            Format::MessagePack => (MSGPACK, stored_msgpack(&stored)),
        };
        Ok(Written { status: StatusCode::OK, media_type, bytes })
    }
}

fn decode(format: Format, topic: TopicName, body: Bytes) -> Result<Produce, Problem> {
    match format {
        Format::Json => incoming::from_json(topic, &body),
        Format::MessagePack => incoming::from_msgpack(topic, body),
    }
}
