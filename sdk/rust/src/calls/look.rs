//! Calls and channels as an administrator sees them, over HTTP.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CallId, Calls};
use crate::client::VERSION;
use crate::{Error, Target, Time};

const ROOM: &str = "/v1/calls";

/// Which calls to list, the latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct CallQuery {
    pub(super) channel: Option<String>,
    pub(super) open: bool,
    pub(super) before: Option<u64>,
    pub(super) limit: Option<u32>,
}

impl CallQuery {
    /// All that are known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only those of this channel.
    pub fn channel(mut self, channel: impl Into<String>) -> Self {
        self.channel = Some(channel.into());
        self
    }

    /// Only those that are not over.
    pub fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// The next page: [`CallPage::next`] of the one before.
    pub fn before(mut self, place: u64) -> Self {
        self.before = Some(place);
        self
    }

    /// At most so many a page.
    pub fn limit(mut self, calls: u32) -> Self {
        self.limit = Some(calls);
        self
    }

    fn target(&self) -> Target {
        Target::new(ROOM)
            .queries("channel", self.channel.as_deref())
            .queries("open", self.open.then_some(true))
            .queries("before", self.before)
            .queries("limit", self.limit)
    }
}

/// A call, as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallView {
    /// Which.
    pub id: String,
    /// Where it went.
    pub channel: String,
    /// `waiting`, `later`, `offered`, `running`, `following` or `over`.
    pub stage: String,
    /// `answer`, `error`, `timeout` or `cancelled`, once it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FailedView>,
    /// Whose it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Who has it, or whose result counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executor: Option<String>,
    /// How often it was begun.
    pub attempt: u32,
    /// How often it was offered.
    pub fence: u64,
    /// When it came.
    pub created: Time,
    /// When its time is over.
    pub deadline: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// Its idempotency key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// W3C trace context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The dead letter that it was before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requeued_from: Option<String>,
    /// Whether a crash of the server leaves it.
    pub durable: bool,
    /// It is a dead letter.
    pub dead: bool,
    /// What the handler gets, of calls that are not over and of dead letters, where one is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// What happened to it, where one is shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Happened>,
}

/// What went wrong with a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct FailedView {
    /// What kind of error it is.
    pub name: String,
    /// What happened.
    pub message: String,
    /// For programs.
    pub code: String,
}

/// Something that happened to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Happened {
    /// When.
    pub at: Time,
    /// What.
    pub what: String,
    /// Which client did it, or had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
}

/// A page of calls.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct CallPage {
    /// The latest first.
    pub calls: Vec<CallView>,
    /// What to give for the next page; none: this is the last.
    #[serde(default)]
    pub next: Option<u64>,
}

/// Dead letters of a channel.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[non_exhaustive]
pub struct DeadCalls {
    /// The oldest first.
    pub calls: Vec<CallView>,
    /// How many there are.
    pub total: u64,
    /// Where the next page begins; none if this is the last.
    #[serde(default)]
    pub next: Option<u64>,
}

/// A channel, as an administrator sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChannelView {
    /// Which.
    pub channel: String,
    /// Whether it has settings of its own.
    pub described: bool,
    /// How its calls are treated.
    pub settings: ChannelSettings,
    /// Calls that wait.
    pub waiting: u64,
    /// Calls that are offered or running.
    pub in_flight: u64,
    /// Dead letters.
    pub dead: u64,
    /// Workers that serve it.
    pub consumers: u64,
}

/// How the calls of a channel are treated. What is left out is as the server has it for channels
/// that nobody described.
///
/// ```
/// use handoff_sdk::calls::ChannelSettings;
///
/// let settings = ChannelSettings { on_lost: Some("fail".to_owned()), ..Default::default() };
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChannelSettings {
    /// `redeliver` or `fail`: what becomes of a call whose executor is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_lost: Option<String>,
    /// How often a call is begun at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u16>,
    /// How long it waits after the first attempt that failed; doubled each time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_ms: Option<u64>,
    /// What doubling ends at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_max_ms: Option<u64>,
    /// How long an executor may be silent about a call that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    /// How long a call waits to be begun; 0 for as long as its time lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_timeout_ms: Option<u64>,
    /// `disk` or `memory`: what a crash of the server leaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
    /// `park` or `fail`: what becomes of a call that nobody is there to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_consumer: Option<String>,
}

impl Calls<'_> {
    /// Calls that the server knows, the latest first, page by page.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn list(&self, query: &CallQuery) -> Result<CallPage, Error> {
        let page: CallPage = self.client.get_json(query.target().as_str()).await?;
        // Whoever asks for page after page must not do it for ever.
        if page.next.is_some_and(|next| next >= query.before.unwrap_or(u64::MAX)) {
            return Err(self.client.inner.protocol("its list does not go on".to_owned()));
        }
        Ok(page)
    }

    /// One call, with what happened to it.
    ///
    /// # Errors
    /// [`Error`], with `calls.not_found` if it is not known, or not any more.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn show(&self, id: CallId) -> Result<CallView, Error> {
        self.client.get_json(of_call(id).as_str()).await
    }

    /// Cancels a call, whoever made it. One that runs is over too, and whoever runs it is told. Gives
    /// the call: one that was over before is as it was.
    ///
    /// # Errors
    /// [`Error`], with `calls.not_found` if it is not known, or not any more.
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn cancel(&self, id: CallId) -> Result<CallView, Error> {
        self.client.delete_json(of_call(id).as_str()).await
    }

    /// Dead letters of a channel, the oldest first, page by page: `from` is `next` of the page before.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn dead(
        &self,
        channel: &str,
        from: Option<u64>,
        limit: Option<u32>,
    ) -> Result<DeadCalls, Error> {
        let target = letters(channel).queries("from", from).queries("limit", limit);
        let page: DeadCalls = self.client.get_json(target.as_str()).await?;
        // Whoever asks for page after page must not do it for ever.
        if page.next.is_some_and(|next| next <= from.unwrap_or(0)) {
            return Err(self.client.inner.protocol("its list does not go on".to_owned()));
        }
        Ok(page)
    }

    /// Calls a dead letter again, under an id of its own. Gives that.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn requeue(&self, id: CallId) -> Result<CallId, Error> {
        #[derive(Deserialize)]
        struct Requeued {
            id: CallId,
        }
        let target = of_call(id).segment("requeue");
        let body = Described { version: VERSION, settings: &ChannelSettings::default() };
        let requeued: Requeued = self.client.post_json(target.as_str(), &body).await?;
        Ok(requeued.id)
    }

    /// Drops dead letters of a channel, all of them or one. Gives how many are gone.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn purge(&self, channel: &str, only: Option<CallId>) -> Result<u64, Error> {
        #[derive(Deserialize)]
        struct Purged {
            purged: u64,
        }
        let target = match only {
            Some(id) => letters(channel).segment(id),
            None => letters(channel),
        };
        let purged: Purged = self.client.delete_json(target.as_str()).await?;
        Ok(purged.purged)
    }

    /// Channels, by their names, those after one.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn channels(
        &self,
        after: Option<&str>,
        limit: Option<u32>,
    ) -> Result<Vec<ChannelView>, Error> {
        #[derive(Deserialize)]
        struct Channels {
            channels: Vec<ChannelView>,
        }
        let target = Target::new(ROOM).segment("channels");
        let target = target.queries("after", after).queries("limit", limit);
        let listed: Channels = self.client.get_json(target.as_str()).await?;
        Ok(listed.channels)
    }

    /// Describes a channel: its settings hold from now on.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn describe(
        &self,
        channel: &str,
        settings: &ChannelSettings,
    ) -> Result<ChannelView, Error> {
        let body = Described { version: VERSION, settings };
        self.client.put_json(of_channel(channel).as_str(), &body).await
    }

    /// Takes the settings of a channel back: it is as nobody described it.
    ///
    /// # Errors
    /// [`Error`]
    ///
    /// # Cancel safety
    /// As [`crate::Client`] says.
    pub async fn undescribe(&self, channel: &str) -> Result<ChannelView, Error> {
        self.client.delete_json(of_channel(channel).as_str()).await
    }
}

/// Settings, and the version beside them.
#[derive(Serialize)]
struct Described<'a> {
    version: u32,
    #[serde(flatten)]
    settings: &'a ChannelSettings,
}

fn of_call(id: CallId) -> Target {
    Target::new(ROOM).segment(id)
}

fn of_channel(channel: &str) -> Target {
    Target::new(ROOM).segment("channels").segment(channel)
}

fn letters(channel: &str) -> Target {
    of_channel(channel).segment("dead")
}
