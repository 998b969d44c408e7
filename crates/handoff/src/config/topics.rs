//! `[[streams.topic]]`: topics that are made at start.

use handoff_server::settings::{Compression, DeclaredTopic, Durability};
use std::time::Duration;

use super::keys::HOURS_MAX;
use super::suggest;
use super::value::{COMPRESSIONS, DURABILITIES, Field as _, Kind, Unit, Value};

/// What a topic is called in `[streams]`.
pub(crate) const NAME: &str = "topic";

/// A key of a topic.
#[derive(Debug)]
pub(crate) struct TopicKey {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it takes.
    pub(crate) kind: Kind,
    /// One line for people.
    pub(crate) doc: &'static str,
    /// Its value, unset if it says nothing.
    pub(crate) get: fn(&DeclaredTopic) -> Value,
    /// Puts a value in.
    pub(crate) put: fn(&mut DeclaredTopic, Value) -> Result<(), String>,
}

macro_rules! topic_key {
    ($name:ident: $kind:expr, $field:ident, $doc:literal) => {
        TopicKey {
            name: stringify!($name),
            kind: $kind,
            doc: $doc,
            get: |topic| topic.$field.value(),
            put: |topic, value| {
                topic.$field.put(value);
                Ok(())
            },
        }
    };
}

/// Every key of a topic.
pub(crate) const TOPIC_KEYS: &[TopicKey] = &[
    TopicKey {
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
    topic_key!(partitions: Kind::Count(1, 1_000_000), partitions,
        "How many partitions. A topic that has fewer is grown; none is shrunk."),
    topic_key!(retention_hours: Kind::Time(Unit::Hours, Duration::from_secs(3600), Duration::from_secs(HOURS_MAX * 3600)),
        retention, "How long messages are kept; as streams.retention_hours if absent."),
    topic_key!(retention_bytes: Kind::Bytes(1, 1 << 50), retention_bytes,
        "How much each partition keeps; as streams.retention_bytes if absent."),
    topic_key!(durability: Kind::Choice(DURABILITIES), durability,
        "When a producer is answered: fsync, when its messages are on disk; os, at once."),
    topic_key!(compression: Kind::Choice(COMPRESSIONS), compression,
        "How batches are compressed."),
];

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static TopicKey> {
    TOPIC_KEYS.iter().find(|key| key.name == name)
}

/// What somebody probably meant by a key that a topic does not have.
pub(crate) fn unknown_help(name: &str) -> String {
    let names = || TOPIC_KEYS.iter().map(|key| key.name);
    match suggest::nearest(name, names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("the keys are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// A topic that says nothing but its name, which is still to come.
pub(crate) fn blank() -> DeclaredTopic {
    DeclaredTopic {
        name: unnamed(),
        partitions: 1,
        retention: None,
        retention_bytes: None,
        durability: Durability::default(),
        compression: Compression::default(),
    }
}

#[expect(clippy::unwrap_used, reason = "one letter is a name")]
fn unnamed() -> handoff_server::settings::TopicName {
    "x".parse().unwrap()
}

/// A topic that says everything, for people who begin.
pub(crate) fn example() -> DeclaredTopic {
    let mut topic = blank();
    let values = [
        ("name", Value::Text("orders".to_owned())),
        ("partitions", Value::Number(8)),
        ("retention_hours", Value::Time(Duration::from_secs(168 * 3600))),
        ("retention_bytes", Value::Number(10 << 30)),
        ("compression", Value::Text("zstd".to_owned())),
    ];
    for (name, value) in values {
        let put = find(name).map(|key| (key.put)(&mut topic, value));
        debug_assert_eq!(put, Some(Ok(())), "{name}");
    }
    topic
}

/// A topic as it is written into a file.
pub(crate) fn toml(topic: &DeclaredTopic) -> String {
    let mut text = "[[streams.topic]]\n".to_owned();
    for key in TOPIC_KEYS {
        if let Some(value) = key.kind.toml(&(key.get)(topic)) {
            text += &format!("{} = {value}\n", key.name);
        }
    }
    text
}
