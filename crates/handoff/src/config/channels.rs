//! `[[calls.channel]]`: channels that are described at start.

use std::time::Duration;

use handoff_server::settings::DeclaredChannel;

use super::declared::{self, Declared, DeclaredKey, declared_key};
use super::value::{CALL_DURABILITIES, Field as _, Kind, ON_LOST, Unit, Value, WITHOUT_CONSUMER};

/// The longest time a channel can set.
pub(super) const MONTH: Duration = Duration::from_secs(30 * 86_400);

impl Declared for DeclaredChannel {
    const SECTION: &'static str = "calls";
    const WORD: &'static str = "channel";
    const KEYS: &'static [DeclaredKey<Self>] = CHANNEL_KEYS;

    fn blank() -> Self {
        Self::named(unnamed())
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}

/// Every key of a channel. What one says must fit what `[calls]` says: `between.rs` looks.
const CHANNEL_KEYS: &[DeclaredKey<DeclaredChannel>] = &[
    DeclaredKey {
        name: "name",
        kind: Kind::Text,
        doc: "Its name: 1 to 128 of a-z, A-Z, 0-9, '.', '_', ':' and '-'.",
        get: |channel| Value::Text(channel.name.to_string()),
        put: |channel, value| {
            if let Value::Text(text) = value {
                channel.name = text.parse().map_err(|why| format!("{why}"))?;
            }
            Ok(())
        },
    },
    declared_key!(on_lost: Kind::Choice(ON_LOST), on_lost,
        "What becomes of a call whose executor is lost."),
    declared_key!(attempts_max: Kind::Count(1, 65_535), attempts_max,
        "How often a call is begun at most."),
    declared_key!(backoff_ms: Kind::Time(Unit::Millis, Duration::ZERO, MONTH), backoff_min,
        "How long a call waits after the first attempt that failed; doubled each time."),
    declared_key!(backoff_max_ms: Kind::Time(Unit::Millis, Duration::ZERO, MONTH), backoff_max,
        "How long at most."),
    declared_key!(lease_ms: Kind::Time(Unit::Millis, Duration::from_millis(100), MONTH), lease,
        "How long an executor may be silent about a call that it runs."),
    declared_key!(queue_timeout_ms: Kind::Time(Unit::Millis, Duration::from_millis(1), MONTH), queue_timeout,
        "How long a call waits to be begun; as long as its time lasts if absent."),
    declared_key!(durability: Kind::Choice(CALL_DURABILITIES), durability,
        "What a crash of the server leaves of a call: disk, all of it; memory, nothing."),
    declared_key!(without_consumer: Kind::Choice(WITHOUT_CONSUMER), without_consumer,
        "What becomes of a call that nobody is there to run."),
];

#[expect(clippy::unwrap_used, reason = "one letter is a name")]
fn unnamed() -> handoff_server::settings::ChannelName {
    "x".parse().unwrap()
}

/// A channel that says everything, for people who begin.
pub(crate) fn example() -> DeclaredChannel {
    declared::with([
        ("name", Value::Text("payments".to_owned())),
        ("on_lost", Value::Text("fail".to_owned())),
        ("attempts_max", Value::Number(3)),
        ("backoff_ms", Value::Time(Duration::from_millis(100))),
        ("backoff_max_ms", Value::Time(Duration::from_secs(60))),
        ("lease_ms", Value::Time(Duration::from_secs(30))),
        ("queue_timeout_ms", Value::Time(Duration::from_secs(30))),
        ("durability", Value::Text("disk".to_owned())),
        ("without_consumer", Value::Text("park".to_owned())),
    ])
}
