//! Reading a partition: by offset, by time, by key; as messages or as batches.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use handoff_streams::{PartitionId, Refusal, TopicName, partition_of_key};
use handoff_types::{Code, Wall};
use tokio::time::timeout;

use super::format::{BATCH, Format, packed, wants_batches, written};
use super::outgoing::{PageBody, Range, Shown};
use crate::http::access::Streams;
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query};
use crate::http::stamp::read_stamp;
use crate::rooms::RoomError;
use crate::rooms::streams::{Browse, Ends, Found, ReadFault, Visible, Why};

/// Messages of a page unless the client says otherwise, and at most.
const LIMIT: usize = 1_000;
const LIMIT_MAX: usize = 10_000;

/// Bytes of them likewise.
const BYTES: usize = 1 << 20;
const BYTES_MAX: usize = 16 << 20;

/// How long a reader may wait for more.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// What of the time a request may take is left for its answer.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Where partitions stand, in headers.
const START: &str = "handoff-start";
const END: &str = "handoff-end";
const NEXT: &str = "handoff-next-offset";
const CORRUPT: &str = "handoff-corrupt";

/// Ranges that a header names at most.
const RANGES_MAX: usize = 64;

/// Reads messages of a partition from an offset or a time on.
///
/// With `Accept: application/vnd.handoff.batch` the batches are given as they are stored, one behind
/// the other: the first may begin before the offset, and `key` and `limit` are not looked at.
#[utoipa::path(
    get, path = "/v1/streams/topics/{topic}/partitions/{partition}/messages",
    operation_id = "readMessages", tag = "streams",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("partition" = u32, Path, description = "Which partition."),
        ("offset" = Option<u64>, Query, description = "The first offset; the first that is kept if absent."),
        ("time" = Option<String>, Query, description = "Instead: the first message from this time on."),
        ("key" = Option<String>, Query, description = "Only messages of this key."),
        ("limit" = Option<u32>, Query, description = "How many at most; 1000 if absent, 10000 at most."),
        ("maxBytes" = Option<u64>, Query, description = "How many bytes of messages, give or take one; 1 MiB if absent, 16 MiB at most."),
        ("waitMs" = Option<u64>, Query, description = "How long to wait for more if there is none; 30000 at most."),
    ),
    responses((
        status = 200, description = "Messages, or batches with `handoff-start`, `handoff-end`, `handoff-next-offset`.",
        content(
            (PageBody = "application/json"),
            (PageBody = "application/msgpack"),
            (Vec<u8> = "application/vnd.handoff.batch"),
        ),
    ))
)]
pub(in crate::http) async fn read_messages(
    streams: Streams,
    format: Format,
    headers: HeaderMap,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Query,
) -> Result<Response, Problem> {
    let names = ["offset", "time", "key", "limit", "maxBytes", "waitMs"];
    let asked = Asked::of(&query.known(&names)?)?;
    let malformed = |detail: String| Problem::new(Code::RequestMalformed, detail);
    let Path((topic, partition)) = path.map_err(|bad| malformed(bad.body_text()))?;
    let name = streams.name(&topic)?;
    let number = partition
        .parse()
        .map_err(|_| malformed(format!("`{partition}` is no partition: a number from 0 on")))?;
    let at = Place::find(&streams, &name, number)?;
    let form = if wants_batches(&headers) { Form::Batches } else { Form::Messages(format) };
    answer(&streams, at, asked, form).await
}

/// Reads messages of a key: those of the partition that its messages go to.
#[utoipa::path(
    get, path = "/v1/streams/topics/{topic}/messages", operation_id = "browseKey", tag = "streams",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("key" = String, Query, description = "The key."),
        ("offset" = Option<u64>, Query, description = "The first offset; the first that is kept if absent."),
        ("time" = Option<String>, Query, description = "Instead: the first message from this time on."),
        ("limit" = Option<u32>, Query, description = "How many at most; 1000 if absent, 10000 at most."),
        ("maxBytes" = Option<u64>, Query, description = "How many bytes of messages, give or take one; 1 MiB if absent, 16 MiB at most."),
        ("waitMs" = Option<u64>, Query, description = "How long to wait for more if there is none; 30000 at most."),
    ),
    responses((
        status = 200, description = "Messages.",
        content((PageBody = "application/json"), (PageBody = "application/msgpack")),
    ))
)]
pub(in crate::http) async fn browse_key(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Response, Problem> {
    let names = ["key", "offset", "time", "limit", "maxBytes", "waitMs"];
    let asked = Asked::of(&query.known(&names)?)?;
    let name = streams.topic(topic)?;
    let Some(key) = &asked.key else {
        let detail = "which key? without one, read a partition: …/partitions/0/messages";
        return Err(Problem::new(Code::RequestMalformed, detail));
    };
    let topic = streams.room.visible(&name).map_err(|error| streams.refuse(error))?;
    let number = partition_of_key(key, topic.count());
    let at = Place::find(&streams, &name, number)?;
    answer(&streams, at, asked, Form::Messages(format)).await
}

/// How messages are given.
#[derive(Clone, Copy, Debug)]
enum Form {
    Messages(Format),
    Batches,
}

/// What is asked.
#[derive(Clone, Debug)]
struct Asked {
    from: From,
    key: Option<Bytes>,
    limit: usize,
    bytes_max: usize,
    wait: Duration,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Start,
    Offset(u64),
    Time(Wall),
}

impl Asked {
    fn of(asked: &Parameters) -> Result<Self, Problem> {
        let malformed = |detail: String| Problem::new(Code::RequestMalformed, detail);
        let offset = asked.one("offset", "an offset: a number from 0 on")?;
        let time = asked.one::<String>("time", "a time")?;
        let from = match (offset, time) {
            (Some(_), Some(_)) => {
                return Err(malformed("give `offset` or `time`, not both".to_owned()));
            }
            (Some(offset), None) => From::Offset(offset),
            (None, Some(time)) => From::Time(read_stamp(&time).map_err(malformed)?),
            (None, None) => From::Start,
        };
        let bytes_max = asked.one("maxBytes", "a number of bytes")?.unwrap_or(BYTES);
        if bytes_max == 0 || bytes_max > BYTES_MAX {
            let detail = format!("`maxBytes` is {bytes_max}; it is a number from 1 to {BYTES_MAX}");
            return Err(malformed(detail));
        }
        let wait = Duration::from_millis(asked.one("waitMs", "a number of ms")?.unwrap_or(0));
        if wait > WAIT_MAX {
            let millis = WAIT_MAX.as_millis();
            return Err(malformed(format!("`waitMs` is at most {millis}")));
        }
        Ok(Self {
            from,
            key: asked.one::<String>("key", "a key")?.map(Bytes::from),
            limit: asked.limit(LIMIT, LIMIT_MAX)?,
            bytes_max,
            wait,
        })
    }
}

/// A partition that may be read.
struct Place {
    topic: Arc<Visible>,
    ends: Arc<Ends>,
    partition: PartitionId,
}

impl Place {
    fn find(streams: &Streams, name: &TopicName, number: u32) -> Result<Self, Problem> {
        let topic = streams.room.visible(name).map_err(|error| streams.refuse(error))?;
        let Some(ends) = topic.partition(number) else {
            let (topic, count) = (name.clone(), topic.count());
            let refusal = Refusal::NoPartition { topic, partition: number, count };
            return Err(streams.refuse(RoomError::from(refusal)));
        };
        let partition = PartitionId { topic: topic.id, number };
        Ok(Self { topic, ends, partition })
    }
}

async fn answer(
    streams: &Streams,
    at: Place,
    asked: Asked,
    form: Form,
) -> Result<Response, Problem> {
    let (start, end) = (at.ends.start(), at.ends.end());
    let reading = streams.room.reading();
    let (from, since) = match asked.from {
        From::Start => (start, None),
        From::Offset(offset) if offset < start => return Err(Problem::trimmed(start)),
        From::Offset(offset) => (offset, None),
        From::Time(time) => {
            let found = reading.find_time(at.partition, time, (start, end)).await;
            (found.map_err(refuse)?, Some(time))
        }
    };
    if from >= end && !asked.wait.is_zero() {
        wait(streams, &at, from, asked.wait).await;
    }
    if at.topic.is_gone() {
        let gone = Refusal::NoTopic(at.topic.name.clone());
        return Err(streams.refuse(RoomError::from(gone)));
    }
    let (start, end) = (at.ends.start(), at.ends.end());
    let Asked { key, limit, bytes_max, .. } = asked;
    let partition = at.partition;
    let browse = Browse { partition, from, end, since, key, limit, bytes_max };
    let stand = Stand { start, end };
    match form {
        Form::Batches => {
            let read = reading.batches(browse, |pieces| {
                let found = pieces.found;
                (pieces.batches.concat(), found)
            });
            let (body, found) = read.await.map_err(refuse)?;
            Ok(stand.on(written(body, BATCH), &found))
        }
        Form::Messages(format) => {
            let (topic, now) = (at.topic.name.to_string(), streams.room.wall());
            let read = reading.browse(browse, move |page| {
                let shown = Shown { topic, partition: partition.number, start, end, page, now };
                let body = match format {
                    Format::Json => shown.json(),
                    Format::MessagePack => shown.msgpack(),
                };
                (body, shown.page.found)
            });
            let (body, found) = read.await.map_err(refuse)?;
            let response = match format {
                Format::Json => written(body, "application/json"),
                Format::MessagePack => packed(body),
            };
            Ok(stand.on(response, &found))
        }
    }
}

/// Waits until there is more, the topic or the server goes, or the time is over.
async fn wait(streams: &Streams, at: &Place, from: u64, patience: Duration) {
    let waiting = streams.room.waits();
    let most = streams.door.app.limits().request_time_max.saturating_sub(ANSWER_TIME);
    let more = at.topic.beyond(&at.ends, from);
    tokio::select! {
        // That it is over is an answer too.
        over = timeout(patience.min(most), more) => drop(over),
        () = streams.door.stop.cancelled() => {}
    }
    drop(waiting);
}

/// Where a partition stands.
#[derive(Clone, Copy, Debug)]
struct Stand {
    start: u64,
    end: u64,
}

impl Stand {
    fn on(self, mut response: Response, found: &Found) -> Response {
        let headers = response.headers_mut();
        headers.insert(START, HeaderValue::from(self.start));
        headers.insert(END, HeaderValue::from(self.end));
        headers.insert(NEXT, HeaderValue::from(found.next));
        let corrupt = found.skipped.iter().filter(|skipped| skipped.why == Why::Corrupt);
        let ranges = corrupt.map(Range::from).map(|Range { from, to }| format!("{from}-{to}"));
        let ranges: Vec<_> = ranges.take(RANGES_MAX).collect();
        if !ranges.is_empty()
            && let Ok(ranges) = HeaderValue::try_from(ranges.join(","))
        {
            headers.insert(CORRUPT, ranges);
        }
        response
    }
}

/// A read that failed.
fn refuse(fault: ReadFault) -> Problem {
    match fault {
        ReadFault::Trimmed { start } => Problem::trimmed(start),
        ReadFault::Disk(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "a partition cannot be read");
            let detail = format!("the disk did not give what is stored: {error}");
            Problem::new(Code::DiskFault, detail)
        }
        ReadFault::Closed => Problem::new(Code::ServerStopping, fault.to_string()),
        ReadFault::Panicked => Problem::panicked(),
    }
}
