//! The settings of a channel as a hash: `origami:x:settings:{channel}`. Scripts read `lease`,
//! `queue_timeout` and `without_consumer` of it.

use handoff_calls::{ChannelName, ChannelSettings, Durability, OnLost, WithoutConsumer};
use handoff_types::Span;

use crate::record::Record;

pub(crate) fn key(channel: &ChannelName) -> String {
    format!("origami:x:settings:{channel}")
}

/// The fields.
pub(crate) fn fields(settings: &ChannelSettings) -> Vec<(&'static str, String)> {
    let on_lost = match settings.on_lost {
        OnLost::Redeliver => "redeliver",
        OnLost::Fail => "fail",
    };
    let without_consumer = match settings.without_consumer {
        WithoutConsumer::Park => "park",
        WithoutConsumer::Fail => "fail",
    };
    let span = |span: Span| span.0.to_string();
    vec![
        ("on_lost", on_lost.to_owned()),
        ("attempts_max", settings.attempts_max.to_string()),
        ("backoff_min", span(settings.backoff_min)),
        ("backoff_max", span(settings.backoff_max)),
        ("lease", span(settings.lease)),
        ("queue_timeout", settings.queue_timeout.map(span).unwrap_or_default()),
        ("without_consumer", without_consumer.to_owned()),
    ]
}

/// The settings of a hash; what is missing is as the house has it.
pub(crate) fn read(record: &Record, house: &ChannelSettings) -> ChannelSettings {
    let span = |field: &str| record.text(field).parse().ok().map(Span);
    ChannelSettings {
        on_lost: match record.text("on_lost") {
            "redeliver" => OnLost::Redeliver,
            "fail" => OnLost::Fail,
            _ => house.on_lost,
        },
        attempts_max: record.text("attempts_max").parse().unwrap_or(house.attempts_max),
        backoff_min: span("backoff_min").unwrap_or(house.backoff_min),
        backoff_max: span("backoff_max").unwrap_or(house.backoff_max),
        lease: span("lease").unwrap_or(house.lease),
        queue_timeout: span("queue_timeout"),
        durability: Durability::Disk,
        without_consumer: match record.text("without_consumer") {
            "park" => WithoutConsumer::Park,
            "fail" => WithoutConsumer::Fail,
            _ => house.without_consumer,
        },
    }
}
