//! Timed events over the HTTP API.

mod dead;
mod page;
mod watch;

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::client::{Client, VERSION};
use crate::{Error, Target, Time};

pub use crate::Backoff;
pub use dead::{DeadLetter, DeadLetterPage, DeadLetters};
pub use page::{ListQuery, Page, Pages};
pub use watch::{Filter, Notice, Occurrence, Watch, WatchOptions};

/// Registers, shows, deletes and watches events.
#[derive(Clone, Copy, Debug)]
pub struct Events<'a> {
    client: &'a Client,
}

impl<'a> Events<'a> {
    pub(crate) fn new(client: &'a Client) -> Self {
        Self { client }
    }

    /// Registers an event. On disk when it answers.
    ///
    /// # Errors
    /// [`Error`]. After [`crate::Outcome::Unknown`] the event may be there; it is not registered
    /// again by itself, as that would make two of it.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn register(&self, event: &NewEvent) -> Result<Registered, Error> {
        #[derive(Serialize)]
        struct Body<'a> {
            version: u32,
            #[serde(flatten)]
            event: &'a NewEvent,
        }
        self.client.post_json("/v1/events", &Body { version: VERSION, event }).await
    }

    /// One event.
    ///
    /// # Errors
    /// [`Error`]; `event_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn get(&self, id: u32) -> Result<Event, Error> {
        self.client.get_json(Target::new("/v1/events").segment(id).as_str()).await
    }

    /// One page of events, in ascending order of their ids.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn list(&self, query: &ListQuery) -> Result<Page, Error> {
        self.client.get_json(query.target().as_str()).await
    }

    /// All events, page by page as they are taken.
    #[must_use]
    pub fn list_all(&self, query: ListQuery) -> Pages {
        Pages::new(self.client.clone(), query)
    }

    /// Deletes one event.
    ///
    /// # Errors
    /// [`Error`]; `event_not_found` if there is none.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn delete(&self, id: u32) -> Result<(), Error> {
        self.client.delete_path(Target::new("/v1/events").segment(id).as_str()).await
    }

    /// Deletes all events that are selected, and gives the ids of those that were there. An empty
    /// selection selects nothing, and nothing is sent.
    ///
    /// # Errors
    /// [`Error`]; [`Error::Invalid`] for more ids and types than a URL can hold, about 60,000
    /// characters of them.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn delete_where(&self, selection: &Selection) -> Result<Vec<u32>, Error> {
        #[derive(Deserialize)]
        struct Deleted {
            deleted: Vec<u32>,
        }
        if selection.is_empty() {
            return Ok(Vec::new());
        }
        let target = selection.ask(Target::new("/v1/events"));
        let deleted: Deleted = self.client.delete_json(target.as_str()).await?;
        Ok(deleted.deleted)
    }

    /// How the room is doing.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn stats(&self) -> Result<Stats, Error> {
        self.client.get_json("/v1/events/stats").await
    }

    /// Watches occurrences, until the connection breaks. See [`Events::watch_with`].
    ///
    /// # Errors
    /// [`Error`]; `event_not_found` if the filter names an event that is not there.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn watch(&self, filter: Filter) -> Result<Watch, Error> {
        self.watch_with(filter, WatchOptions::new()).await
    }

    /// Watches occurrences. When this answers, the filter is in force: what occurs from then on is
    /// told. Nothing that occurred before is.
    ///
    /// # Errors
    /// [`Error`], also when connections are to be made anew: the first one is not tried twice.
    ///
    /// # Cancel safety
    /// As [`Client`] says.
    pub async fn watch_with(&self, filter: Filter, options: WatchOptions) -> Result<Watch, Error> {
        Watch::open(self.client, &filter, options).await
    }
}

/// How many occurrences are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// No end. On the wire −1.
    Forever,
    /// This many.
    Times(u32),
}

impl Serialize for Repeat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(match self {
            Self::Forever => -1,
            Self::Times(times) => i64::from(*times),
        })
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = i64::deserialize(deserializer)?;
        match u32::try_from(number) {
            Ok(times) => Ok(Self::Times(times)),
            Err(_) if number == -1 => Ok(Self::Forever),
            Err(_) => Err(serde::de::Error::custom(format!("{number} is no number of times"))),
        }
    }
}

/// When an event occurs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Schedule {
    /// Every so often, counted from the registration.
    Every {
        /// Seconds between two occurrences.
        period_secs: f64,
    },
    /// At times of a calendar.
    Cron {
        /// Minute, hour, day of the month, month, day of the week.
        cron: String,
    },
    /// Once.
    At {
        /// When.
        at: Time,
    },
}

/// An event to be registered.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
#[non_exhaustive]
pub struct NewEvent {
    /// For people.
    pub description: String,
    /// Names by which it is found and watched.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<String>,
    /// When it occurs.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Whose calendar a cron expression is read in, by its name in the IANA database; none: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// How often; none: for ever, or once at a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// A topic that gets a message for each occurrence that is told: its name, and behind a colon
    /// the key of the messages, which is the event's id if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publish: Option<String>,
}

impl NewEvent {
    /// An event with a schedule.
    pub fn new(schedule: Schedule, description: impl Into<String>) -> Self {
        let description = description.into();
        Self {
            description,
            types: Vec::new(),
            schedule,
            time_zone: None,
            repeat: None,
            publish: None,
        }
    }

    /// An event that occurs every so often, the first time one period after its registration.
    pub fn every(period: Duration, description: impl Into<String>) -> Self {
        Self::new(Schedule::Every { period_secs: period.as_secs_f64() }, description)
    }

    /// An event at times of a calendar: minute, hour, day of the month, month, day of the week.
    /// In UTC, unless [`NewEvent::time_zone`] says otherwise.
    pub fn cron(expression: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(Schedule::Cron { cron: expression.into() }, description)
    }

    /// An event that occurs once, at a time.
    pub fn at(time: impl Into<Time>, description: impl Into<String>) -> Self {
        Self::new(Schedule::At { at: time.into() }, description)
    }

    /// Whose calendar the cron expression is read in, such as `Europe/Minsk`. The server refuses it
    /// with any other schedule.
    pub fn time_zone(mut self, name: impl Into<String>) -> Self {
        self.time_zone = Some(name.into());
        self
    }

    /// Adds a type.
    pub fn of_type(mut self, name: impl Into<String>) -> Self {
        self.types.push(name.into());
        self
    }

    /// Occurs this often, then is gone.
    pub fn times(mut self, times: u32) -> Self {
        self.repeat = Some(Repeat::Times(times));
        self
    }

    /// Publishes each occurrence that is told, exactly once, to a topic: `topic`, or `topic:key`.
    pub fn publish(mut self, to: impl Into<String>) -> Self {
        self.publish = Some(to.into());
        self
    }

    /// Occurs until it is deleted.
    pub fn forever(mut self) -> Self {
        self.repeat = Some(Repeat::Forever);
        self
    }
}

/// An event just registered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Registered {
    /// Its id.
    pub id: u32,
    /// When it was registered.
    pub registered_at: Time,
    /// When it occurs first; none if it never does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Event {
    /// Its id.
    pub id: u32,
    /// For people.
    pub description: String,
    /// Names by which it is found and watched.
    #[serde(default)]
    pub types: Vec<String>,
    /// Seconds between two occurrences; for other schedules than a period the seconds to the next.
    pub period_secs: f64,
    /// The cron expression, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<String>,
    /// Whose calendar the cron expression is read in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The one time it occurs at, if it is such an event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// What is left.
    pub repeat: Repeat,
    /// The registration, or the last occurrence as it was scheduled.
    pub updated_at: Time,
    /// When it occurs next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_at: Option<Time>,
    /// Occurrences so far, missed ones included.
    #[serde(default)]
    pub occurrences: u64,
    /// Of those, missed while the server was down and not told.
    #[serde(default)]
    pub skipped: u64,
    /// Where its occurrences are published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Published>,
}

/// Where an event's occurrences are published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Published {
    /// The topic.
    pub topic: String,
    /// The key of the messages; none: the event's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the topic knows the event by.
    pub producer: String,
    /// Occurrences that the topic has not answered yet.
    #[serde(default)]
    pub waiting: u64,
    /// Occurrences that did not come to the topic.
    #[serde(default)]
    pub dead_letters: u64,
}

/// Events by id and by type: whatever has one of the ids or one of the types.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Selection {
    /// These events.
    pub ids: Vec<u32>,
    /// Events of these types.
    pub types: Vec<String>,
}

impl Selection {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// And this event.
    pub fn id(mut self, id: u32) -> Self {
        self.ids.push(id);
        self
    }

    /// And all events of a type.
    pub fn of_type(mut self, name: impl Into<String>) -> Self {
        self.types.push(name.into());
        self
    }

    /// Whether nothing is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.types.is_empty()
    }

    pub(crate) fn ask(&self, target: Target) -> Target {
        target.queries("type", &self.types).queries("id", &self.ids)
    }
}

/// How the room of events is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Stats {
    /// Events there are.
    pub events: u64,
    /// Sessions there are: sevent connections and watches.
    pub sessions: u64,
    /// Late occurrences held for whoever subscribes soon.
    pub held: u64,
    /// Sessions closed since start because they did not read.
    pub slow_sessions: u64,
    /// Events registered since the data directory was made.
    pub registered: u64,
    /// Events deleted.
    pub deleted: u64,
    /// Events that ran out.
    pub finished: u64,
    /// Occurrences, missed ones included.
    pub occurred: u64,
    /// Of those, missed and not told.
    pub skipped: u64,
    /// Occurrences that wait for their topics.
    pub publish_waiting: u64,
    /// Dead letters there are.
    pub dead_letters: u64,
    /// Occurrences that their topics have.
    pub published: u64,
    /// Occurrences that became dead letters.
    pub dead: u64,
    /// Of those, dropped because there were too many.
    pub dropped: u64,
    /// Everything else that was said.
    #[serde(flatten)]
    pub more: serde_json::Map<String, serde_json::Value>,
}
