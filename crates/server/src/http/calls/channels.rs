//! Channels and their settings.

use axum::extract::Path;
use handoff_calls::{ChannelSettings, Durability, OnLost, WithoutConsumer};
use handoff_house::ActKind;
use handoff_types::{Code, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{CallsAsker, PAGE_MAX};
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::rooms::calls::ChannelView;

/// A channel.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallChannel)]
pub(in crate::http) struct ChannelDocument {
    version: V1,
    /// Its name.
    channel: String,
    /// Whether it has settings of its own; otherwise they are those of the server.
    described: bool,
    /// How its calls are treated.
    settings: SettingsDocument,
    /// Calls that wait.
    waiting: u64,
    /// Calls that are offered or running.
    in_flight: u64,
    /// Dead letters.
    dead: u64,
    /// Consumers that are told of calls.
    consumers: u64,
}

/// Channels, by their names.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallChannels)]
pub(in crate::http) struct ChannelsDocument {
    version: V1,
    channels: Vec<ChannelDocument>,
}

/// How the calls of a channel are treated. What is left out is as the server has it for channels that
/// nobody described.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = CallChannelSettings)]
pub(in crate::http) struct SettingsDocument {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<V1>,
    /// `redeliver` or `fail`: what becomes of a call whose executor is lost.
    #[serde(default)]
    on_lost: Option<OnLostName>,
    /// How often a call is begun at most.
    #[serde(default)]
    attempts_max: Option<u16>,
    /// How long it waits after the first attempt that failed.
    #[serde(default)]
    backoff_ms: Option<u64>,
    /// What doubling ends at.
    #[serde(default)]
    backoff_max_ms: Option<u64>,
    /// How long an executor may be silent.
    #[serde(default)]
    lease_ms: Option<u64>,
    /// How long a call waits to be begun; 0 for as long as its time lasts.
    #[serde(default)]
    queue_timeout_ms: Option<u64>,
    /// `disk` or `memory`: what a crash of the server leaves.
    #[serde(default)]
    durability: Option<DurabilityName>,
    /// `park` or `fail`: what becomes of a call that nobody is there to run.
    #[serde(default)]
    without_consumer: Option<WithoutConsumerName>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CallOnLost)]
pub(in crate::http) enum OnLostName {
    Redeliver,
    Fail,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CallDurability)]
pub(in crate::http) enum DurabilityName {
    Disk,
    Memory,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = CallWithoutConsumer)]
pub(in crate::http) enum WithoutConsumerName {
    Park,
    Fail,
}

impl SettingsDocument {
    fn of(settings: &ChannelSettings) -> Self {
        let millis = |span: Span| Some(span.0 / 1_000);
        Self {
            version: None,
            on_lost: Some(match settings.on_lost {
                OnLost::Redeliver => OnLostName::Redeliver,
                OnLost::Fail => OnLostName::Fail,
            }),
            attempts_max: Some(settings.attempts_max),
            backoff_ms: millis(settings.backoff_min),
            backoff_max_ms: millis(settings.backoff_max),
            lease_ms: millis(settings.lease),
            queue_timeout_ms: millis(settings.queue_timeout.unwrap_or(Span::ZERO)),
            durability: Some(match settings.durability {
                Durability::Disk => DurabilityName::Disk,
                Durability::Memory => DurabilityName::Memory,
            }),
            without_consumer: Some(match settings.without_consumer {
                WithoutConsumer::Park => WithoutConsumerName::Park,
                WithoutConsumer::Fail => WithoutConsumerName::Fail,
            }),
        }
    }

    /// What it says, and what the server has where it says nothing.
    fn over(&self, usual: ChannelSettings) -> ChannelSettings {
        let millis = |said: Option<u64>, usual| said.map_or(usual, Span::from_millis);
        ChannelSettings {
            on_lost: self.on_lost.map_or(usual.on_lost, |name| match name {
                OnLostName::Redeliver => OnLost::Redeliver,
                OnLostName::Fail => OnLost::Fail,
            }),
            attempts_max: self.attempts_max.unwrap_or(usual.attempts_max),
            backoff_min: millis(self.backoff_ms, usual.backoff_min),
            backoff_max: millis(self.backoff_max_ms, usual.backoff_max),
            lease: millis(self.lease_ms, usual.lease),
            queue_timeout: match self.queue_timeout_ms {
                None => usual.queue_timeout,
                Some(0) => None,
                Some(said) => Some(Span::from_millis(said)),
            },
            durability: self.durability.map_or(usual.durability, |name| match name {
                DurabilityName::Disk => Durability::Disk,
                DurabilityName::Memory => Durability::Memory,
            }),
            without_consumer: self.without_consumer.map_or(
                usual.without_consumer,
                |name| match name {
                    WithoutConsumerName::Park => WithoutConsumer::Park,
                    WithoutConsumerName::Fail => WithoutConsumer::Fail,
                },
            ),
        }
    }
}

impl ChannelDocument {
    fn of(view: &ChannelView) -> Self {
        Self {
            version: V1,
            channel: view.name.to_string(),
            described: view.described,
            settings: SettingsDocument::of(&view.settings),
            waiting: view.counts.waiting,
            in_flight: view.counts.in_flight,
            dead: view.counts.dead,
            consumers: view.counts.consumers,
        }
    }
}

/// The channels that have settings, calls that are not over, dead letters or consumers.
#[utoipa::path(
    get, path = "/v1/calls/channels", operation_id = "listCallChannels", tag = "calls",
    params(
        ("after" = Option<String>, Query, description = "Names behind this one."),
        ("limit" = Option<u32>, Query, description = "1 to 1000, which is also what it is unless said otherwise."),
    ),
    responses((status = 200, description = "Channels, by their names.", body = ChannelsDocument))
)]
pub(in crate::http) async fn list_call_channels(
    asker: CallsAsker,
    query: Query,
) -> Result<Json<ChannelsDocument>, Problem> {
    let asked = query.known(&["after", "limit"])?;
    let after = asked.one::<String>("after", "a channel")?.unwrap_or_default();
    let limit = asked.limit(PAGE_MAX, PAGE_MAX)?;
    let (sight, usual) = (asker.sight.clone(), asker.room.settings().channel);
    let looked = asker.room.look(move |state, _| {
        let names = state
            .channels()
            .filter(|name| name.as_str() > after.as_str() && sight.sees(name.as_str()));
        let views = names.take(limit).map(|name| ChannelView::of(state, name, &usual));
        views.collect::<Vec<_>>()
    });
    let views = looked.await.map_err(|error| asker.refuse(error))?;
    Ok(Json(ChannelsDocument {
        version: V1,
        channels: views.iter().map(ChannelDocument::of).collect(),
    }))
}

/// A channel, whether somebody described it or not.
#[utoipa::path(
    get, path = "/v1/calls/channels/{channel}", operation_id = "showCallChannel", tag = "calls",
    params(("channel" = String, Path, description = "The channel.")),
    responses((status = 200, description = "The channel.", body = ChannelDocument))
)]
pub(in crate::http) async fn show_call_channel(
    asker: CallsAsker,
    Path(channel): Path<String>,
    query: Query,
) -> Result<Json<ChannelDocument>, Problem> {
    query.known(&[])?;
    let channel = asker.channel(&channel)?;
    shown(&asker, channel).await
}

/// Describes a channel. The settings hold from now on, for calls that are there too, except how durable
/// those are.
#[utoipa::path(
    put, path = "/v1/calls/channels/{channel}", operation_id = "putCallChannel", tag = "calls",
    params(("channel" = String, Path, description = "The channel.")),
    request_body = SettingsDocument,
    responses((status = 200, description = "The channel.", body = ChannelDocument))
)]
pub(in crate::http) async fn put_call_channel(
    asker: CallsAsker,
    Path(channel): Path<String>,
    query: Query,
    Json(document): Json<SettingsDocument>,
) -> Result<Json<ChannelDocument>, Problem> {
    query.known(&[])?;
    let channel = asker.channel(&channel)?;
    let settings = document.over(asker.room.settings().channel);
    settings.check().map_err(|why| Problem::new(Code::CallsInvalid, why))?;
    let set = asker.room.set_channel(channel.clone(), settings).await;
    set.map_err(|error| asker.refuse(error))?;
    asker.note(ActKind::Altered, &format!("calls channel {channel}")).await;
    shown(&asker, channel).await
}

/// Takes the settings of a channel back: it is as nobody described it.
#[utoipa::path(
    delete, path = "/v1/calls/channels/{channel}", operation_id = "deleteCallChannel", tag = "calls",
    params(("channel" = String, Path, description = "The channel.")),
    responses((status = 200, description = "The channel.", body = ChannelDocument))
)]
pub(in crate::http) async fn delete_call_channel(
    asker: CallsAsker,
    Path(channel): Path<String>,
    query: Query,
) -> Result<Json<ChannelDocument>, Problem> {
    query.known(&[])?;
    let channel = asker.channel(&channel)?;
    let unset = asker.room.unset_channel(channel.clone()).await;
    unset.map_err(|error| asker.refuse(error))?;
    asker.note(ActKind::Deleted, &format!("calls channel {channel}: its settings")).await;
    shown(&asker, channel).await
}

async fn shown(
    asker: &CallsAsker,
    channel: handoff_calls::ChannelName,
) -> Result<Json<ChannelDocument>, Problem> {
    let usual = asker.room.settings().channel;
    let looked = asker.room.look(move |state, _| ChannelView::of(state, &channel, &usual));
    let view = looked.await.map_err(|error| asker.refuse(error))?;
    Ok(Json(ChannelDocument::of(&view)))
}
