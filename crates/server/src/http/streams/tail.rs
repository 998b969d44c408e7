//! `/v1/streams/topics/{topic}/tail`: messages as they come, as server-sent events.
//!
//! ```text
//!  event: ready      what is published from now on is told, or from the first message on
//!  event: message    id: <partition>:<offset>, data: JSON
//!  event: skipped    offsets that cannot be told: removed already, or lost by the disk
//!  : …               every 15 s, so that both sides know that the other is there
//!  event: closed     why it ends, if the client still reads
//! ```
//!
//! A client that is slow keeps nothing in memory here: what it has not read is read from storage
//! when it does. A `Last-Event-ID` is not looked at: it names one partition of many.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use handoff_streams::{PartitionId, Refusal, partition_of_key};
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use utoipa::ToSchema;

use super::outgoing::told_json;
use crate::http::access::{Key, Streams};
use crate::http::front::Door;
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::speech::{Said, speak};
use crate::rooms::RoomError;
use crate::rooms::streams::{Browse, Page, ReadFault, Skipped, StreamsRoom, Visible, Waits, Why};
use crate::settings::OnCorrupt;

/// How much is told at once when there is much to say.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_MESSAGES: usize = 1_000;

/// The data of a server-sent `closed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "reason": "deleted"}))]
pub(in crate::http) struct TailClosed {
    version: V1,
    reason: TailEnd,
}

/// Why a tail has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) enum TailEnd {
    /// The server is stopping.
    Stopping,
    /// The topic was deleted, or the room closed.
    Deleted,
    /// The token was revoked, or has expired.
    Revoked,
    /// The disk lost messages, and `streams.on_corrupt` is `stop`.
    Corrupt,
    /// The disk does not answer.
    Fault,
}

/// Messages of a topic as they come, as server-sent events.
#[utoipa::path(
    get, path = "/v1/streams/topics/{topic}/tail", operation_id = "tailTopic", tag = "streams",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("partition" = Option<u32>, Query, description = "One partition only."),
        ("from" = Option<String>, Query, description = "`earliest`: the first message that is kept; `latest`, and if absent: those that come from now on."),
        ("key" = Option<String>, Query, description = "Only messages of this key, of its partition unless `partition` says otherwise."),
    ),
    responses((
        status = 200, content_type = "text/event-stream", body = TailClosed,
        description = "`ready`, then `message` for each message with id `partition:offset`, `skipped` for what cannot be told, `closed` with a reason at the end; a comment every 15 s.",
    ))
)]
pub(in crate::http) async fn tail_topic(
    streams: Streams,
    headers: HeaderMap,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Response, Problem> {
    let asked = query.known(&["partition", "from", "key"])?;
    let name = streams.topic(topic)?;
    let earliest = match asked.one::<String>("from", "earliest or latest")?.as_deref() {
        Some("earliest") => true,
        Some("latest") | None => false,
        Some(other) => {
            let detail = format!("`from` is `{other}`; it is earliest or latest");
            return Err(Problem::new(Code::RequestMalformed, detail));
        }
    };
    let key = asked.one::<String>("key", "a key")?.map(Bytes::from);
    let only = asked.one::<u32>("partition", "a partition: a number from 0 on")?;
    let topic = streams.room.visible(&name).map_err(|error| streams.refuse(error))?;
    let count = topic.count();
    if let Some(partition) = only.filter(|number| *number >= count) {
        let refusal = Refusal::NoPartition { topic: name, partition, count };
        return Err(streams.refuse(RoomError::from(refusal)));
    }
    let only = only.or_else(|| key.as_deref().map(|key| partition_of_key(key, count)));
    let cursors = Cursors::begin(&topic, only, earliest);
    let open = streams.door.app.metrics.http().streams.clone();
    let heartbeat = streams.door.app.limits().heartbeat;
    let waits = streams.room.waits();
    let (room, door) = (streams.room, streams.door);
    let key_held = Key::of(&headers);
    let source =
        Source { room, topic, cursors, key, door, token: key_held, heartbeat, _waits: waits };
    Ok(speak(Box::new(source), open, say))
}

/// How far each partition was told.
#[derive(Debug)]
struct Cursors {
    /// The first partition, and whether it is the only one.
    first: u32,
    only: bool,
    next: Vec<u64>,
    /// Where to look first, so that none is told at the cost of others.
    turn: usize,
}

impl Cursors {
    fn begin(topic: &Visible, only: Option<u32>, earliest: bool) -> Self {
        let numbers = only.map_or(0..topic.count(), |number| number..number.saturating_add(1));
        let place = |number| {
            let ends = topic.partition(number);
            ends.map_or(0, |ends| if earliest { ends.start() } else { ends.end() })
        };
        let first = numbers.start;
        Self { first, only: only.is_some(), next: numbers.map(place).collect(), turn: 0 }
    }

    /// A partition that has more than was told, and where it begins and ends.
    fn find(&mut self, topic: &Visible) -> Option<(u32, u64, u64)> {
        let count = usize::try_from(topic.count()).unwrap_or(usize::MAX);
        if !self.only && count > self.next.len() {
            // Partitions that the topic has grown by: all of what is in them is new.
            self.next.resize(count, 0);
        }
        for step in 0..self.next.len() {
            let at = (self.turn + step) % self.next.len();
            let number = self.first.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
            let (Some(next), Some(ends)) = (self.next.get(at), topic.partition(number)) else {
                continue;
            };
            if ends.end() > *next {
                self.turn = at + 1;
                return Some((number, *next, ends.end()));
            }
        }
        None
    }

    fn set(&mut self, number: u32, next: u64) {
        let at = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(place) = self.next.get_mut(at) {
            *place = next;
        }
    }
}

/// What is told, and what ends it.
struct Source {
    room: StreamsRoom,
    topic: Arc<Visible>,
    cursors: Cursors,
    key: Option<Bytes>,
    door: Door,
    token: Key,
    heartbeat: Duration,
    _waits: Waits,
}

/// The next thing to say.
async fn say(mut source: Box<Source>) -> Said<Box<Source>> {
    let heartbeat = Instant::now() + source.heartbeat;
    loop {
        let Source { topic, cursors, door, .. } = &mut *source;
        let mut found = None;
        let more = tokio::select! {
            biased;
            () = door.stop.cancelled() => return closed(TailEnd::Stopping),
            () = topic.until(|topic| {
                found = cursors.find(topic);
                found.is_some()
            }) => true,
            () = sleep_until(heartbeat) => false,
        };
        if !source.token.fits(&source.door) {
            return closed(TailEnd::Revoked);
        }
        if !more {
            return Said { text: Bytes::from_static(b":\n\n"), rest: Some(source) };
        }
        let Some(found) = found else { return closed(TailEnd::Deleted) };
        match source.tell(found).await {
            // A key that is rare: nothing of what came was of it.
            Ok(text) if text.is_empty() => {}
            Ok(text) => return Said { text: text.into(), rest: Some(source) },
            Err(end) => return closed(end),
        }
    }
}

impl Source {
    /// Tells what a partition has, a bounded part of it.
    async fn tell(&mut self, (number, from, end): (u32, u64, u64)) -> Result<Vec<u8>, TailEnd> {
        let partition = PartitionId { topic: self.topic.id, number };
        let browse = Browse {
            partition,
            from,
            end,
            since: None,
            key: self.key.clone(),
            limit: CHUNK_MESSAGES,
            bytes_max: CHUNK_BYTES,
        };
        let (topic, now) = (Arc::clone(&self.topic), self.room.wall());
        let stops = self.room.settings().on_corrupt == OnCorrupt::Stop;
        let read = self.room.reading().browse(browse, move |page| {
            let next = page.found.next;
            let corrupt = page.found.skipped.iter().any(|skipped| skipped.why == Why::Corrupt);
            (write_page(&page, topic.name.as_str(), number, now), next, corrupt && stops)
        });
        let (text, next, stop) = match read.await {
            Ok(read) => read,
            Err(ReadFault::Trimmed { start }) => {
                let to = start.max(from + 1);
                let skipped = Skipped { why: Why::Trimmed, from, to };
                let mut text = Vec::new();
                write_skipped(&mut text, number, &skipped);
                (text, to, false)
            }
            Err(fault) => {
                let error = &fault as &dyn std::error::Error;
                tracing::error!(error, topic = %self.topic.name, partition = number, "a tail cannot be read");
                return Err(TailEnd::Fault);
            }
        };
        if stop {
            return Err(TailEnd::Corrupt);
        }
        self.cursors.set(number, next);
        Ok(text)
    }
}

fn write_page(page: &Page, topic: &str, number: u32, now: handoff_types::Wall) -> Vec<u8> {
    let mut text = Vec::with_capacity(page.records.len() * 256);
    for skipped in &page.found.skipped {
        write_skipped(&mut text, number, skipped);
    }
    for record in &page.records {
        text.extend_from_slice(b"event: message\nid: ");
        text.extend_from_slice(format!("{number}:{}", record.offset).as_bytes());
        text.extend_from_slice(b"\ndata: ");
        told_json(&mut text, record, (topic, number), now);
        text.extend_from_slice(b"\n\n");
    }
    text
}

fn write_skipped(text: &mut Vec<u8>, number: u32, skipped: &Skipped) {
    let reason = match skipped.why {
        Why::Corrupt => "corrupt",
        Why::Trimmed => "trimmed",
    };
    let to = skipped.to.saturating_sub(1);
    let data = format!(
        "event: skipped\ndata: {{\"version\":1,\"partition\":{number},\"from\":{},\"to\":{to},\"reason\":\"{reason}\"}}\n\n",
        skipped.from
    );
    text.extend_from_slice(data.as_bytes());
}

fn closed(reason: TailEnd) -> Said<Box<Source>> {
    let data = serde_json::to_string(&TailClosed { version: V1, reason }).unwrap_or_default();
    Said { text: format!("event: closed\ndata: {data}\n\n").into(), rest: None }
}
