//! Events as JSON says them.

use handoff_events::cron::Cron;
use handoff_events::{
    EventView, Notification, Publish, PublishView, Registered as RoomRegistered, Registration,
    Schedule,
};
use handoff_streams::{ProducerId, TopicName};
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::stamp::{read_stamp, stamp};
use crate::rooms::events::Stats;

/// An event to be registered. It has exactly one of `periodSecs`, `cron` and `at`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1,
    "description": "nightly backup",
    "types": ["backup"],
    "cron": "0 3 * * *",
    "timeZone": "Europe/Minsk",
    "repeat": 7,
}))]
pub(in crate::http) struct NewEvent {
    version: V1,
    /// For people.
    description: String,
    /// Names by which it is found and watched; repeated names count once.
    #[serde(default)]
    types: Vec<String>,
    /// Seconds between two occurrences. The first is one period after the registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    period_secs: Option<f64>,
    /// Minute, hour, day of the month, month, day of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// Whose calendar `cron` is read in, by its name in the IANA database; UTC if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// The one time it occurs at, with its offset from UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// How often it occurs: −1 for ever, 0 not at all. Absent: for ever, or once with `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    repeat: Option<i32>,
    /// A topic that gets a message for each occurrence that is told: its name, and behind a colon
    /// the key of the messages, which is the event's id if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    publish: Option<String>,
}

impl NewEvent {
    /// What it asks of the room.
    pub(super) fn into_registration(self) -> Result<(Registration, Option<TopicName>), Problem> {
        let Self { description, types, period_secs, cron, time_zone, at, repeat, .. } = self;
        let (publish, topic) = match self.publish.as_deref().map(read_publish) {
            Some(read) => read.map(|(publish, topic)| (Some(publish), Some(topic)))?,
            None => (None, None),
        };
        if time_zone.is_some() && cron.is_none() {
            return Err(invalid("`timeZone` goes with `cron` only"));
        }
        let bad =
            |why: handoff_events::BadSchedule| Problem::new(Code::EventInvalid, why.to_string());
        let (schedule, once) = match (period_secs, cron, at) {
            (Some(secs), None, None) => (Schedule::every_secs(secs).map_err(bad)?, false),
            (None, Some(cron), None) => {
                let cron = Cron::parse(&cron, time_zone.as_deref()).map_err(bad)?;
                (Schedule::Cron(Box::new(cron)), false)
            }
            (None, None, Some(at)) => {
                let at = read_stamp(&at).map_err(|why| Problem::new(Code::EventInvalid, why))?;
                (Schedule::At(at), true)
            }
            (None, None, None) => {
                return Err(invalid("when does it occur? give one of `periodSecs`, `cron`, `at`"));
            }
            _ => return Err(invalid("give only one of `periodSecs`, `cron`, `at`")),
        };
        let repeat = repeat.unwrap_or(if once { 1 } else { -1 });
        Ok((Registration { description, types, schedule, repeat, publish }, topic))
    }
}

/// `TOPIC` or `TOPIC:KEY`.
fn read_publish(text: &str) -> Result<(Publish, TopicName), Problem> {
    let (name, key) = match text.split_once(':') {
        Some((name, key)) => (name, Some(key.to_owned())),
        None => (text, None),
    };
    let topic: TopicName = name.parse().map_err(|bad: handoff_streams::BadTopicName| {
        Problem::new(Code::EventInvalid, format!("`publish`: {bad}"))
    })?;
    Ok((Publish { topic: name.to_owned(), key }, topic))
}

fn invalid(detail: &str) -> Problem {
    Problem::new(Code::RequestInvalid, detail)
}

/// An event that was registered. It is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1,
    "id": 0,
    "registeredAt": "2027-01-01T00:00:00Z",
    "nextAt": "2027-01-01T00:00:10Z",
}))]
pub(in crate::http) struct Registered {
    version: V1,
    id: u32,
    registered_at: String,
    /// When it occurs first; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_at: Option<String>,
}

impl From<RoomRegistered> for Registered {
    fn from(registered: RoomRegistered) -> Self {
        Self {
            version: V1,
            id: registered.id.number(),
            registered_at: stamp(registered.at),
            next_at: registered.next.map(stamp),
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": 0,
    "description": "nightly backup",
    "types": ["backup"],
    "periodSecs": 3600.0,
    "cron": "0 3 * * *",
    "timeZone": "Europe/Minsk",
    "repeat": -1,
    "updatedAt": "2027-01-01T00:00:00Z",
    "nextAt": "2027-01-02T00:00:00Z",
    "occurrences": 3,
    "skipped": 1,
}))]
pub(in crate::http) struct Event {
    pub(super) id: u32,
    /// For people.
    pub(super) description: String,
    /// Names, ascending.
    types: Vec<String>,
    /// Seconds between two occurrences; with `cron` or `at` the seconds to the next.
    period_secs: f64,
    /// The cron expression, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// Whose calendar `cron` is read in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    /// The one time it occurs at, if it is such an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// What is left; −1: for ever.
    repeat: i32,
    /// The registration, or the last occurrence as it was scheduled.
    updated_at: String,
    /// When it occurs next.
    next_at: String,
    /// Occurrences so far, missed ones included.
    occurrences: u64,
    /// Of those, missed while the server was down and not told.
    skipped: u64,
    /// Where its occurrences are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    publish: Option<Published>,
}

/// Where an event's occurrences are published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "topic": "reminders",
    "producer": "6f1c2d3e-4a5b-4c6d-8e7f-0123456789ab",
    "waiting": 0,
    "deadLetters": 0,
}))]
pub(in crate::http) struct Published {
    topic: String,
    /// The key of the messages; absent: the event's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// What the topic knows the event by.
    producer: String,
    /// Occurrences that the topic has not answered yet.
    waiting: u64,
    /// Occurrences that did not come to the topic.
    dead_letters: u64,
}

impl From<PublishView> for Published {
    fn from(view: PublishView) -> Self {
        Self {
            topic: view.topic.into(),
            key: view.key.map(Into::into),
            producer: ProducerId(view.producer).to_string(),
            waiting: view.waiting,
            dead_letters: view.dead,
        }
    }
}

impl Event {
    /// What it is worth in memory, roughly: a page is bounded by it.
    pub(super) fn weight(&self) -> usize {
        256 + self.description.len() + self.types.iter().map(|name| name.len() + 32).sum::<usize>()
    }
}

impl From<EventView> for Event {
    fn from(view: EventView) -> Self {
        let (mut cron, mut time_zone, mut at) = (None, None, None);
        match &view.schedule {
            Schedule::Every(_) => {}
            Schedule::Cron(schedule) => {
                cron = Some(schedule.expression().to_owned());
                time_zone = Some(schedule.zone().to_owned());
            }
            Schedule::At(wall) => at = Some(stamp(*wall)),
        }
        Self {
            id: view.id.number(),
            description: view.description,
            types: view.types.iter().map(ToString::to_string).collect(),
            period_secs: view.period_secs,
            cron,
            time_zone,
            at,
            repeat: view.repeat.wire(),
            updated_at: stamp(view.updated),
            next_at: stamp(view.next),
            occurrences: view.occurrences,
            skipped: view.skipped,
            publish: view.publish.map(Into::into),
        }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = OneEvent)]
pub(in crate::http) struct OneEvent {
    pub(super) version: V1,
    #[serde(flatten)]
    pub(super) event: Event,
}

/// A page of events, in ascending order of their ids.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = EventPage)]
pub(in crate::http) struct Page {
    pub(super) version: V1,
    pub(super) events: Vec<Event>,
    /// What `after` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<u32>,
}

/// Events that were deleted, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "deleted": [0, 7]}))]
pub(in crate::http) struct Deleted {
    pub(super) version: V1,
    pub(super) deleted: Vec<u32>,
}

/// How the events room is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1, "events": 2, "sessions": 1, "held": 0, "slowSessions": 0,
    "registered": 5, "deleted": 1, "finished": 2, "occurred": 40, "skipped": 3,
    "publishWaiting": 1, "deadLetters": 0, "published": 36, "dead": 0, "dropped": 0,
}))]
pub(in crate::http) struct EventStats {
    version: V1,
    /// Events there are.
    events: u64,
    /// Sessions there are, server-sent ones included.
    sessions: u64,
    /// Late occurrences held for whoever subscribes soon.
    held: u64,
    /// Sessions closed since start because they did not read.
    slow_sessions: u64,
    /// Events registered since the data directory was made.
    registered: u64,
    /// Events deleted.
    deleted: u64,
    /// Events that ran out.
    finished: u64,
    /// Occurrences, missed ones included.
    occurred: u64,
    /// Of those, missed and not told.
    skipped: u64,
    /// Occurrences that wait for their topics.
    publish_waiting: u64,
    /// Dead letters there are.
    dead_letters: u64,
    /// Occurrences that their topics have, since the data directory was made.
    published: u64,
    /// Occurrences that became dead letters.
    dead: u64,
    /// Of those, dropped because there were too many.
    dropped: u64,
}

impl From<Stats> for EventStats {
    fn from(stats: Stats) -> Self {
        Self {
            version: V1,
            events: stats.events,
            sessions: stats.sessions,
            held: stats.held,
            slow_sessions: stats.slow_sessions,
            registered: stats.totals.registered,
            deleted: stats.totals.deleted,
            finished: stats.totals.finished,
            occurred: stats.totals.occurred,
            skipped: stats.totals.skipped,
            publish_waiting: stats.publish_waiting,
            dead_letters: stats.dead_letters,
            published: stats.totals.published,
            dead: stats.totals.dead,
            dropped: stats.totals.dropped,
        }
    }
}

/// The data of a server-sent `notify`: the event as it was before this occurrence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Notification, example = json!({
    "version": 1,
    "id": 0,
    "types": ["backup"],
    "description": "nightly backup",
    "periodSecs": 10.0,
    "repeat": 3,
    "updatedAt": "2027-01-01T00:00:00Z",
    "dueAt": "2027-01-01T00:00:10Z",
    "occurrence": 1,
    "late": false,
}))]
pub(in crate::http) struct Notified {
    version: V1,
    id: u32,
    types: Vec<String>,
    description: String,
    /// Seconds between two occurrences; with `cron` or `at` those from the last update to this.
    period_secs: f64,
    /// What was left before this occurrence; −1: for ever.
    repeat: i32,
    /// The last update before this one.
    updated_at: String,
    /// When this occurrence was due.
    due_at: String,
    /// Its number; the first is 1, missed ones count.
    occurrence: u64,
    /// Told late, by the catch-up policy.
    late: bool,
}

impl From<&Notification> for Notified {
    fn from(told: &Notification) -> Self {
        Self {
            version: V1,
            id: told.id.number(),
            types: told.types.iter().map(ToString::to_string).collect(),
            description: told.description.to_string(),
            period_secs: told.period_secs,
            repeat: told.repeat.wire(),
            updated_at: stamp(told.updated),
            due_at: stamp(told.due),
            occurrence: told.occurrence,
            late: told.late,
        }
    }
}

/// The data of a server-sent `closed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "reason": "stopping"}))]
pub(in crate::http) struct StreamClosed {
    pub(in crate::http) version: V1,
    pub(in crate::http) reason: StreamEnd,
}

/// Why a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) enum StreamEnd {
    /// The server is stopping.
    Stopping,
    /// The client did not read: notifications were lost to it.
    Slow,
    /// The room was closed.
    Closed,
    /// The token was revoked, or has expired.
    Revoked,
}
