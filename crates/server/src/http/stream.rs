//! `/v1/events/stream`: occurrences as server-sent events.
//!
//! ```text
//!  event: ready      once the filter is in force: what occurs from now on is told
//!  event: notify     id: <event>-<occurrence>, data: JSON
//!  : …               every 15 s, so that both sides know that the other is there
//!  event: closed     why it ends, if the client still reads
//! ```
//!
//! A token that is revoked or expires ends its streams when they next say something.
//! Nothing is told twice, and nothing that occurred before `ready`: a `Last-Event-ID` is not
//! looked at.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use handoff_types::Room;
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use super::access::{Events, Key};
use super::events::{Notified, StreamClosed, StreamEnd, selection};
use super::front::Door;
use super::json::V1;
use super::problem::Problem;
use super::query::Query;
use super::speech::{Said, speak};
use crate::rooms::events::{Session, Told};
use crate::runtime::{Phase, RoomStatus};

/// How much is written at once when there is much to say.
const CHUNK_BYTES: usize = 32 << 10;

/// Occurrences as they happen, as server-sent events: of the types and ids that are named, or all
/// that are in sight.
#[utoipa::path(
    get, path = "/v1/events/stream", operation_id = "streamEvents", tag = "events",
    params(
        ("type" = Option<Vec<String>>, Query, description = "Events that have one of these types."),
        ("id" = Option<Vec<u32>>, Query, description = "These events."),
    ),
    responses((
        status = 200, content_type = "text/event-stream", body = Notified,
        description = "`ready` once the filter is in force, `notify` for each occurrence, `closed` with a reason at the end; a comment every 15 s.",
    ))
)]
pub(super) async fn stream_events(
    events: Events,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, Problem> {
    let selection = selection(&query.known(&["type", "id"])?)?;
    let opened = events.room.open_session(events.sight.clone()).await;
    let session = opened.map_err(|error| events.refuse(error))?;
    let subscribed = if selection.ids.is_empty() && selection.types.is_empty() {
        session.subscribe_to_everything().await
    } else {
        session.subscribe(selection).await
    };
    subscribed.map_err(|error| events.refuse(error))?;
    let open = events.door.app.metrics.http().streams.clone();
    let heartbeat = events.door.app.limits().heartbeat;
    let source = Source { session, door: events.door, key: Key::of(&headers), heartbeat };
    Ok(speak(source, open, say))
}

/// A session, and what ends it.
struct Source {
    session: Session,
    door: Door,
    key: Key,
    heartbeat: Duration,
}

impl Source {
    /// Why the room has ended the session.
    fn why_over(&self) -> StreamEnd {
        match self.door.app.room(Room::Events) {
            _ if self.door.stop.is_cancelled() => StreamEnd::Stopping,
            (Phase::Stopping, _) => StreamEnd::Stopping,
            (_, RoomStatus::Open) => StreamEnd::Slow,
            _ => StreamEnd::Closed,
        }
    }
}

/// The next thing to say.
async fn say(source: Source) -> Said<Source> {
    let heartbeat = Instant::now() + source.heartbeat;
    let told = tokio::select! {
        biased;
        () = source.door.stop.cancelled() => return closed(StreamEnd::Stopping),
        told = source.session.next() => match told {
            Some(told) => Some(told),
            None => return closed(source.why_over()),
        },
        () = sleep_until(heartbeat) => None,
    };
    if !source.key.fits(&source.door) {
        return closed(StreamEnd::Revoked);
    }
    let Some(told) = told else {
        return Said { text: Bytes::from_static(b":\n\n"), rest: Some(source) };
    };
    let mut text = String::with_capacity(512);
    write_told(&mut text, &told);
    // Whatever else waits goes with it, up to a measure.
    while text.len() < CHUNK_BYTES {
        match at_once(source.session.next()).await {
            Some(Some(told)) => write_told(&mut text, &told),
            // The end is met again by whoever asks next.
            Some(None) | None => break,
        }
    }
    Said { text: text.into(), rest: Some(source) }
}

/// What a future has now, if it has something.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

fn write_told(text: &mut String, told: &Told) {
    let id = format_args!("{}-{}", told.notification.id, told.notification.occurrence).to_string();
    write(text, "notify", Some(&id), &Notified::from(&told.notification));
}

fn closed(reason: StreamEnd) -> Said<Source> {
    let mut text = String::new();
    write(&mut text, "closed", None, &StreamClosed { version: V1, reason });
    Said { text: text.into(), rest: None }
}

/// JSON has no line breaks of its own, so it is one line of data.
fn write(text: &mut String, event: &str, id: Option<&str>, data: &impl Serialize) {
    text.push_str("event: ");
    text.push_str(event);
    if let Some(id) = id {
        text.push_str("\nid: ");
        text.push_str(id);
    }
    text.push_str("\ndata: ");
    text.push_str(&serde_json::to_string(data).unwrap_or_default());
    text.push_str("\n\n");
}
