//! `/v1/streams`
//!
//! Names that a token does not see are refused by their name, whether or not there is such a topic:
//! who may not use a name does not learn whether somebody else does.

pub(super) mod base64;
mod format;
pub(super) mod groups;
mod incoming;
mod msgpack;
mod outgoing;
mod produce;
mod read;
mod tail;
mod wire;

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use handoff_house::ActKind;
use handoff_streams::TopicName;
use handoff_types::{Code, Sight};

#[cfg(test)]
pub(super) use self::outgoing::{NewMessages, PageBody, StoredBody};
pub(super) use self::produce::{__path_produce, Intake, produce};
pub(super) use self::read::{__path_browse_key, __path_read_messages, browse_key, read_messages};
#[cfg(test)]
pub(super) use self::tail::TailClosed;
pub(super) use self::tail::{__path_tail_topic, tail_topic};
pub(super) use self::wire::{
    Cancelled, Growth, NewProducer, NewTopic, OneTopic, ProducerBody, ScheduledPage, StreamStats,
    TopicChange, TopicPage,
};
#[cfg(test)]
pub(super) use self::wire::{
    ProducerBody as ProducerExample, ScheduledBody as ScheduledExample, TopicBody as TopicExample,
};

use self::format::{Answer, Format, Given};
use self::wire::{place_text, read_place, topic_name};
use super::access::Streams;
use super::json::V1;
use super::problem::Problem;
use super::query::{Page, Query, next_of};

impl Streams {
    /// The topic of a path, if its name may be used.
    fn topic(&self, path: Result<Path<String>, PathRejection>) -> Result<TopicName, Problem> {
        self.name(&path_text(path)?)
    }

    /// A name, if it may be used.
    fn name(&self, text: &str) -> Result<TopicName, Problem> {
        let name = topic_name(text)?;
        in_sight(&self.sight, &name)?;
        Ok(name)
    }

    /// An act to remember. What was done stands even if the note does not.
    async fn note(&self, kind: ActKind, target: &str) {
        let Some(house) = self.door.app.rooms().and_then(|rooms| rooms.house.as_ref()) else {
            return;
        };
        if let Err(error) = house.note(kind, target, self.caller.name()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "an act could not be noted");
        }
    }
}

/// What a path says, as text.
fn path_text(path: Result<Path<String>, PathRejection>) -> Result<String, Problem> {
    let Path(text) = path.map_err(|bad| Problem::new(Code::RequestMalformed, bad.body_text()))?;
    Ok(text)
}

/// Whether a name may be used.
fn in_sight(sight: &Sight, name: &TopicName) -> Result<(), Problem> {
    if sight.sees(name.as_str()) {
        return Ok(());
    }
    let detail = format!("the token does not see topics of the name `{name}`");
    Err(Problem::new(Code::OutOfScope, detail))
}

/// Makes a topic. It is on disk when this answers.
#[utoipa::path(
    post, path = "/v1/streams/topics", operation_id = "createTopic", tag = "streams",
    request_body = NewTopic,
    responses((
        status = 201, description = "It is made, and on disk.", body = OneTopic,
        headers(("location" = String, description = "Where it is.")),
    ))
)]
pub(super) async fn create_topic(
    streams: Streams,
    format: Format,
    query: Query,
    Given(topic): Given<NewTopic>,
) -> Result<Answer<OneTopic>, Problem> {
    query.known(&[])?;
    let spec = topic.into_spec(&streams.room.settings())?;
    streams.name(spec.name.as_str())?;
    let topic = streams.room.create(spec).await.map_err(|error| streams.refuse(error))?;
    let location = Some(format!("/v1/streams/topics/{}", topic.name));
    let body = OneTopic { version: V1, topic: topic.into() };
    Ok(Answer { format, status: StatusCode::CREATED, location, body })
}

/// Topics in sight, by name.
#[utoipa::path(
    get, path = "/v1/streams/topics", operation_id = "listTopics", tag = "streams",
    params(
        ("after" = Option<String>, Query, description = "Topics behind this name: the `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of topics.", body = TopicPage))
)]
pub(super) async fn list_topics(
    streams: Streams,
    format: Format,
    query: Query,
) -> Result<Answer<TopicPage>, Problem> {
    let Page { after, limit } = query.page::<TopicName>("the name of a topic")?;
    let found = streams.room.topics(streams.sight.clone(), after, limit).await;
    let (topics, more) = found.map_err(|error| streams.refuse(error))?;
    let next = next_of(&topics, more, |last| last.topic.name.to_string());
    let topics = topics.into_iter().map(Into::into).collect();
    Ok(Answer::ok(format, TopicPage { version: V1, topics, next }))
}

/// A topic, its partitions, and how evenly they are filled.
#[utoipa::path(
    get, path = "/v1/streams/topics/{topic}", operation_id = "showTopic", tag = "streams",
    params(("topic" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The topic.", body = OneTopic))
)]
pub(super) async fn show_topic(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<OneTopic>, Problem> {
    query.known(&[])?;
    let name = streams.topic(topic)?;
    let view = streams.room.topic(name).await.map_err(|error| streams.refuse(error))?;
    Ok(Answer::ok(format, OneTopic { version: V1, topic: view.into() }))
}

/// Changes a topic's settings. What is absent stays.
#[utoipa::path(
    patch, path = "/v1/streams/topics/{topic}", operation_id = "alterTopic", tag = "streams",
    params(("topic" = String, Path, description = "Its name.")),
    request_body = TopicChange,
    responses((status = 200, description = "The topic as it is now.", body = OneTopic))
)]
pub(super) async fn alter_topic(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
    Given(change): Given<TopicChange>,
) -> Result<Answer<OneTopic>, Problem> {
    query.known(&[])?;
    let name = streams.topic(topic)?;
    let altered = streams.room.alter(name, change.into()).await;
    let topic = altered.map_err(|error| streams.refuse(error))?;
    streams.note(ActKind::Altered, &format!("settings of topic {}", topic.name)).await;
    Ok(Answer::ok(format, OneTopic { version: V1, topic: topic.into() }))
}

/// Gives a topic more partitions. Keys go elsewhere from then on.
#[utoipa::path(
    post, path = "/v1/streams/topics/{topic}/partitions", operation_id = "growTopic", tag = "streams",
    params(("topic" = String, Path, description = "Its name.")),
    request_body = Growth,
    responses((status = 200, description = "The topic as it is now.", body = OneTopic))
)]
pub(super) async fn grow_topic(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
    Given(growth): Given<Growth>,
) -> Result<Answer<OneTopic>, Problem> {
    query.known(&[])?;
    let name = streams.topic(topic)?;
    let grown = streams.room.grow(name, growth.partitions).await;
    let topic = grown.map_err(|error| streams.refuse(error))?;
    let words = format!("topic {} to {} partitions", topic.name, topic.partitions);
    streams.note(ActKind::Altered, &words).await;
    Ok(Answer::ok(format, OneTopic { version: V1, topic: topic.into() }))
}

/// Deletes a topic and everything in it.
#[utoipa::path(
    delete, path = "/v1/streams/topics/{topic}", operation_id = "deleteTopic", tag = "streams",
    params(("topic" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The topic as it was.", body = OneTopic))
)]
pub(super) async fn delete_topic(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<OneTopic>, Problem> {
    query.known(&[])?;
    let name = streams.topic(topic)?;
    let topic = streams.room.delete(name).await.map_err(|error| streams.refuse(error))?;
    streams.note(ActKind::Deleted, &format!("topic {}", topic.name)).await;
    Ok(Answer::ok(format, OneTopic { version: V1, topic: topic.into() }))
}

/// Makes a producer known, or says what is known of it: a producer that was restarted goes on there.
#[utoipa::path(
    post, path = "/v1/streams/producers", operation_id = "registerProducer", tag = "streams",
    request_body = NewProducer,
    responses((status = 200, description = "The producer.", body = ProducerBody))
)]
pub(super) async fn register_producer(
    streams: Streams,
    format: Format,
    query: Query,
    Given(producer): Given<NewProducer>,
) -> Result<Answer<ProducerBody>, Problem> {
    query.known(&[])?;
    let registration = producer.into_registration()?;
    let registered = streams.room.register(registration, streams.sight.clone()).await;
    let registered = registered.map_err(|error| streams.refuse(error))?;
    Ok(Answer::ok(format, registered.into()))
}

/// Messages of a topic that wait for their time, by that time.
#[utoipa::path(
    get, path = "/v1/streams/topics/{topic}/scheduled", operation_id = "listScheduled", tag = "streams",
    params(
        ("topic" = String, Path, description = "Its name."),
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = ScheduledPage))
)]
pub(super) async fn list_scheduled(
    streams: Streams,
    format: Format,
    topic: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<ScheduledPage>, Problem> {
    let Page { after, limit } = query.page::<String>("the `next` of a page")?;
    let name = streams.topic(topic)?;
    let after = match after {
        Some(text) => Some(read_place(&text).ok_or_else(|| {
            let detail = format!("`after` is `{text}`; it is the `next` of a page");
            Problem::new(Code::RequestMalformed, detail)
        })?),
        None => None,
    };
    let found = streams.room.scheduled(name, after, limit).await;
    let (waiting, more) = found.map_err(|error| streams.refuse(error))?;
    let next = next_of(&waiting, more, |last| place_text(last.due, last.id));
    let scheduled = waiting.into_iter().map(Into::into).collect();
    Ok(Answer::ok(format, ScheduledPage { version: V1, scheduled, next }))
}

/// Takes back a message that waits for its time.
#[utoipa::path(
    delete, path = "/v1/streams/scheduled/{id}", operation_id = "cancelScheduled", tag = "streams",
    params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "It will not be delivered.", body = Cancelled))
)]
pub(super) async fn cancel_scheduled(
    streams: Streams,
    format: Format,
    id: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Answer<Cancelled>, Problem> {
    query.known(&[])?;
    let malformed = |detail: String| Problem::new(Code::RequestMalformed, detail);
    let Path(text) = id.map_err(|bad| malformed(bad.body_text()))?;
    let id = text.parse().map_err(|()| {
        malformed(format!("`{text}` is no id of a message that waits: 32 digits of 0-9 and a-f"))
    })?;
    let cancelled = streams.room.cancel(id, streams.sight.clone()).await;
    cancelled.map_err(|error| streams.refuse(error))?;
    Ok(Answer::ok(format, Cancelled { version: V1, cancelled: text }))
}

/// How the room is doing. Needs a token that sees the whole room.
#[utoipa::path(
    get, path = "/v1/streams/stats", operation_id = "streamStats", tag = "streams",
    responses((status = 200, description = "Figures.", body = StreamStats))
)]
pub(super) async fn stream_stats(
    streams: Streams,
    format: Format,
    query: Query,
) -> Result<Answer<StreamStats>, Problem> {
    query.known(&[])?;
    if streams.sight != Sight::All {
        let detail = "these are figures of all topics; the token sees some of them";
        return Err(Problem::new(Code::OutOfScope, detail));
    }
    let stats = streams.room.stats().await.map_err(|error| streams.refuse(error))?;
    Ok(Answer::ok(format, stats.into()))
}
