//! `[[streams.topic]]`: topics that are made at start.

use handoff_server::settings::{Compression, DeclaredTopic, Durability};
use std::time::Duration;

use super::declared::{self, Declared, DeclaredKey, declared_key};
use super::keys::HOURS_MAX;
use super::value::{COMPRESSIONS, DURABILITIES, Field as _, Kind, Unit, Value};

impl Declared for DeclaredTopic {
    const SECTION: &'static str = "streams";
    const WORD: &'static str = "topic";
    const KEYS: &'static [DeclaredKey<Self>] = TOPIC_KEYS;

    fn blank() -> Self {
        Self {
            name: unnamed(),
            partitions: 1,
            retention: None,
            retention_bytes: None,
            durability: Durability::default(),
            compression: Compression::default(),
        }
    }

    fn name(&self) -> String {
        self.name.to_string()
    }
}

/// Every key of a topic.
const TOPIC_KEYS: &[DeclaredKey<DeclaredTopic>] = &[
    DeclaredKey {
        name: "name",
        kind: Kind::Text,
        doc: "Its name: 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'.",
        get: |topic| Value::Text(topic.name.to_string()),
        put: |topic, value| {
            if let Value::Text(text) = value {
                topic.name = text.parse().map_err(|why| format!("{why}"))?;
            }
            Ok(())
        },
    },
    declared_key!(partitions: Kind::Count(1, 1_000_000), partitions,
        "How many partitions. A topic that has fewer is grown; none is shrunk."),
    declared_key!(retention_hours: Kind::Time(Unit::Hours, Duration::from_secs(3600), Duration::from_secs(HOURS_MAX * 3600)),
        retention, "How long messages are kept; as streams.retention_hours if absent."),
    declared_key!(retention_bytes: Kind::Bytes(1, 1 << 50), retention_bytes,
        "How much each partition keeps; as streams.retention_bytes if absent."),
    declared_key!(durability: Kind::Choice(DURABILITIES), durability,
        "When a producer is answered: fsync, when its messages are on disk; os, at once."),
    declared_key!(compression: Kind::Choice(COMPRESSIONS), compression,
        "How batches are compressed."),
];

#[expect(clippy::unwrap_used, reason = "one letter is a name")]
fn unnamed() -> handoff_server::settings::TopicName {
    "x".parse().unwrap()
}

/// A topic that says everything, for people who begin.
pub(crate) fn example() -> DeclaredTopic {
    declared::with([
        ("name", Value::Text("orders".to_owned())),
        ("partitions", Value::Number(8)),
        ("retention_hours", Value::Time(Duration::from_secs(168 * 3600))),
        ("retention_bytes", Value::Number(10 << 30)),
        ("compression", Value::Text("zstd".to_owned())),
    ])
}
