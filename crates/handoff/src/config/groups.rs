//! `[[streams.group]]`: groups that are made at start.

use std::time::Duration;

use handoff_server::settings::DeclaredGroup;

use super::declared::{self, Declared, DeclaredKey, declared_key};
use super::value::{Field as _, Kind, ORDERS, STARTS, Unit, Value};

const DAY: Duration = Duration::from_secs(86_400);

impl Declared for DeclaredGroup {
    const SECTION: &'static str = "streams";
    const WORD: &'static str = "group";
    const KEYS: &'static [DeclaredKey<Self>] = GROUP_KEYS;

    fn blank() -> Self {
        Self::named(unnamed())
    }

    fn name(&self) -> String {
        self.name.to_string()
    }

    fn wrong(&self) -> Option<String> {
        if self.backoff > self.backoff_max {
            return Some("backoff_ms is at most backoff_max_ms".to_owned());
        }
        let settings = self.settings();
        let own = settings.topics.contains(&settings.dead_letter);
        own.then(|| "a group does not read the topic its dead letters go to".to_owned())
    }
}

/// Every key of a group.
const GROUP_KEYS: &[DeclaredKey<DeclaredGroup>] = &[
    DeclaredKey {
        name: "name",
        kind: Kind::Text,
        doc: "Its name: 1 to 244 of a-z, A-Z, 0-9, '.', '_' and '-'.",
        get: |group| Value::Text(group.name.to_string()),
        put: |group, value| {
            if let Value::Text(text) = value {
                group.name = text.parse().map_err(|why| format!("{why}"))?;
            }
            Ok(())
        },
    },
    DeclaredKey {
        name: "topics",
        kind: Kind::Names,
        doc: "What members that name no topics read. They have to be there, declared or not.",
        get: |group| Value::Names(group.topics.iter().map(ToString::to_string).collect()),
        put: |group, value| {
            if let Value::Names(names) = value {
                let read = names.iter().map(|name| name.parse().map_err(|why| format!("{why}")));
                group.topics = read.collect::<Result<_, String>>()?;
            }
            Ok(())
        },
    },
    declared_key!(start: Kind::Choice(STARTS), start,
        "Where it begins in a partition it has not read yet."),
    declared_key!(ordering: Kind::Choice(ORDERS), order,
        "What waits while a message is out or waits for its retry: later ones of its key, the rest of its partition, or nothing."),
    declared_key!(max_attempts: Kind::Count(1, 1_000_000), max_attempts,
        "How often a message is handed out before it is a dead letter."),
    DeclaredKey {
        name: "dead_letter",
        kind: Kind::Text,
        doc: "The topic of dead letters, made when it is needed; <name>.dead if absent.",
        get: |group| match &group.dead_letter {
            Some(topic) => Value::Text(topic.to_string()),
            None => Value::Unset,
        },
        put: |group, value| {
            if let Value::Text(text) = value {
                group.dead_letter = Some(text.parse().map_err(|why| format!("{why}"))?);
            }
            Ok(())
        },
    },
    declared_key!(lease_ms: Kind::Time(Unit::Millis, Duration::from_millis(100), DAY), lease,
        "How long a member has for what it was handed."),
    declared_key!(backoff_ms: Kind::Time(Unit::Millis, Duration::ZERO, DAY), backoff,
        "How long a message waits for its second attempt; doubled each time."),
    declared_key!(backoff_max_ms: Kind::Time(Unit::Millis, Duration::ZERO, DAY), backoff_max,
        "How long at most."),
    declared_key!(in_flight_max: Kind::Count(1, 1_000_000), in_flight_max,
        "How many messages of a partition may be out, wait for their retry, or wait for those before them."),
];

#[expect(clippy::unwrap_used, reason = "one letter is a name")]
fn unnamed() -> handoff_server::settings::GroupName {
    "x".parse().unwrap()
}

/// A group that says everything, for people who begin.
pub(crate) fn example() -> DeclaredGroup {
    declared::with([
        ("name", Value::Text("billing".to_owned())),
        ("topics", Value::Names(vec!["orders".to_owned()])),
        ("dead_letter", Value::Text("billing.dead".to_owned())),
    ])
}
