//! What groups gave up.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::Time;
use crate::streams::message::{data, maybe_data, named};
use crate::streams::message::{json_data, json_headers, json_maybe_data, json_time};

/// A message that a group gave up: a copy of it, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Letter {
    /// Where it is in the dead-letter topic.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// Where it came from.
    pub origin: Origin,
    /// How often it was delivered.
    #[serde(default)]
    pub attempt: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Its key.
    #[serde(
        default,
        serialize_with = "maybe_data",
        deserialize_with = "json_maybe_data",
        skip_serializing_if = "Option::is_none"
    )]
    pub key: Option<Bytes>,
    /// What it is about. Empty if retention or damage took it first.
    #[serde(default, serialize_with = "data", deserialize_with = "json_data")]
    pub payload: Bytes,
    /// Names and values beside the payload.
    #[serde(
        default,
        serialize_with = "named",
        deserialize_with = "json_headers",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub headers: Vec<(String, Bytes)>,
    /// Whether it was put back before.
    #[serde(default)]
    pub replayed: bool,
}

/// Where a message came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Origin {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// When it got that offset.
    #[serde(default, deserialize_with = "json_time", skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
}

/// One page of dead letters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LetterPage {
    /// The oldest first.
    pub letters: Vec<Letter>,
    /// What to give as `after` for the next page; none: this is the last.
    #[serde(default, deserialize_with = "cursor", skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A place to go on, which may be a number.
fn cursor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Option::<Value>::deserialize(deserializer)? {
        None => None,
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
    })
}

/// Which dead letters are put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replay {
    /// All of them.
    All,
    /// Those of a partition of the dead-letter topic, from and to inclusive.
    Range {
        /// The partition.
        partition: u32,
        /// The first offset.
        from: u64,
        /// The last.
        to: u64,
    },
}

impl Serialize for Replay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(untagged)]
        enum Written {
            All { all: bool },
            Range { partition: u32, from: u64, to: u64 },
        }
        match *self {
            Self::All => Written::All { all: true },
            Self::Range { partition, from, to } => Written::Range { partition, from, to },
        }
        .serialize(serializer)
    }
}

/// What became of dead letters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Replayed {
    /// How many were put back.
    pub replayed: u64,
    /// How many had been put back before.
    pub already: u64,
    /// Where each is now, as the server says it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<Value>,
}
