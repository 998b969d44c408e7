//! `[calls]`

use std::time::Duration;

use handoff_calls::{ChannelName, ChannelSettings, Durability, OnLost, Rules, WithoutConsumer};
use handoff_types::Span;

/// `[calls]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// `calls.enabled`
    pub enabled: bool,
    /// `calls.on_lost`, `calls.attempts_max`, `calls.backoff_ms`, `calls.backoff_max_ms`,
    /// `calls.lease_ms`, `calls.queue_timeout_ms`, `calls.durability`, `calls.without_consumer`: of
    /// channels that nobody described.
    pub channel: ChannelSettings,
    /// `calls.body_bytes_max`: what a call or its answer takes.
    pub body_bytes_max: usize,
    /// `calls.bytes_max`: all bodies together.
    pub bytes_max: u64,
    /// `calls.calls_max`: calls that are known.
    pub calls_max: u64,
    /// `calls.queue_max`: calls of one channel that wait.
    pub queue_max: u64,
    /// `calls.channels_max`: channels that have settings, calls or consumers.
    pub channels_max: u64,
    /// `calls.clients_max`: clients that are known, and connections.
    pub clients_max: u64,
    /// `calls.client_timeout_ms`: how long a client may be silent.
    pub client_timeout: Span,
    /// `calls.offer_timeout_ms`: how long a consumer has to accept a call.
    pub offer_timeout: Span,
    /// `calls.call_secs_max`: the time of a call that names none, and the longest it can name.
    pub call_time_max: Span,
    /// `calls.kept_secs`: how long a call that is over is known.
    pub kept: Span,
    /// `calls.key_kept_secs`: the same for one with an idempotency key.
    pub key_kept: Span,
    /// `calls.kept_max`: calls that are over and that nobody needs any more.
    pub kept_max: u64,
    /// `calls.dead_kept_secs`: how long a dead letter is kept.
    pub dead_kept: Span,
    /// `calls.dead_max`: dead letters of one channel.
    pub dead_max: u64,
    /// `calls.ping_interval_ms`: how often clients ask whether the way is alive.
    pub ping_interval: Duration,
    /// `calls.ping_timeout_ms`: how long they wait for the answer.
    pub ping_timeout: Duration,
    /// `calls.line_bytes_max`: what may be on its way to one client.
    pub line_bytes_max: usize,
    /// `calls.wait_secs_max`: how long a request of plain HTTP waits for the end of its call.
    pub wait_max: Duration,
    /// `calls.waiting_max`: requests of plain HTTP that may wait at once.
    pub waiting_max: usize,
    /// `calls.redis_url`: the Redis whose calls are guarded.
    pub redis_url: Option<String>,
    /// `[[calls.channel]]`
    pub channels: Vec<DeclaredChannel>,
}

/// `[[calls.channel]]`: a channel that is described at start. What it does not say is as `[calls]` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredChannel {
    /// Its name.
    pub name: ChannelName,
    /// `on_lost`
    pub on_lost: Option<OnLost>,
    /// `attempts_max`
    pub attempts_max: Option<u16>,
    /// `backoff_ms`
    pub backoff_min: Option<Span>,
    /// `backoff_max_ms`
    pub backoff_max: Option<Span>,
    /// `lease_ms`
    pub lease: Option<Span>,
    /// `queue_timeout_ms`
    pub queue_timeout: Option<Span>,
    /// `durability`
    pub durability: Option<Durability>,
    /// `without_consumer`
    pub without_consumer: Option<WithoutConsumer>,
}

impl DeclaredChannel {
    /// One that says nothing but its name.
    #[must_use]
    pub fn named(name: ChannelName) -> Self {
        Self {
            name,
            on_lost: None,
            attempts_max: None,
            backoff_min: None,
            backoff_max: None,
            lease: None,
            queue_timeout: None,
            durability: None,
            without_consumer: None,
        }
    }

    /// How its calls are treated, where those of others are treated as `usual`.
    #[must_use]
    pub fn settings(&self, usual: &ChannelSettings) -> ChannelSettings {
        ChannelSettings {
            on_lost: self.on_lost.unwrap_or(usual.on_lost),
            attempts_max: self.attempts_max.unwrap_or(usual.attempts_max),
            backoff_min: self.backoff_min.unwrap_or(usual.backoff_min),
            backoff_max: self.backoff_max.unwrap_or(usual.backoff_max),
            lease: self.lease.unwrap_or(usual.lease),
            queue_timeout: self.queue_timeout.or(usual.queue_timeout),
            durability: self.durability.unwrap_or(usual.durability),
            without_consumer: self.without_consumer.unwrap_or(usual.without_consumer),
        }
    }
}

impl Calls {
    /// What decisions depend on.
    #[must_use]
    pub fn rules(&self) -> Rules {
        Rules {
            channel: self.channel,
            body_bytes_max: self.body_bytes_max as u64,
            bytes_max: self.bytes_max,
            calls_max: self.calls_max,
            queue_max: self.queue_max,
            channels_max: self.channels_max,
            clients_max: self.clients_max,
            client_timeout: self.client_timeout,
            offer_timeout: self.offer_timeout,
            call_time_max: self.call_time_max,
            kept: self.kept,
            key_kept: self.key_kept,
            kept_max: self.kept_max,
            dead_kept: self.dead_kept,
            dead_max: self.dead_max,
        }
    }
}

impl Default for Calls {
    fn default() -> Self {
        let Rules {
            channel,
            body_bytes_max: _,
            bytes_max,
            calls_max,
            queue_max,
            channels_max,
            clients_max,
            client_timeout,
            offer_timeout,
            call_time_max,
            kept,
            key_kept,
            kept_max,
            dead_kept,
            dead_max,
        } = Rules::default();
        Self {
            enabled: true,
            channel,
            body_bytes_max: 1 << 20,
            bytes_max,
            calls_max,
            queue_max,
            channels_max,
            clients_max,
            client_timeout,
            offer_timeout,
            call_time_max,
            kept,
            key_kept,
            kept_max,
            dead_kept,
            dead_max,
            ping_interval: Duration::from_secs(1),
            ping_timeout: Duration::from_secs(1),
            line_bytes_max: 16 << 20,
            wait_max: Duration::from_secs(60),
            waiting_max: 10_000,
            redis_url: None,
            channels: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Calls;
    use handoff_calls::Rules;

    #[test]
    fn the_usual_settings_are_the_usual_rules() {
        assert_eq!(Calls::default().rules(), Rules::default());
    }
}
