//! What a server says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Time;

/// What a server is and how it is doing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Server {
    /// The version of its program.
    pub release: String,
    /// When it was started; none as long as it is starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// How long it has served.
    pub uptime_secs: f64,
    /// Whether every room that is switched on takes work.
    pub ready: bool,
    /// How its rooms are.
    pub rooms: Vec<RoomState>,
    /// Where it listens, by the name of the listener.
    pub listeners: BTreeMap<String, String>,
    /// Whether tokens are asked for.
    pub auth: bool,
    /// Requests came through a proxy while auth is off: whoever reaches the proxy may do
    /// everything.
    pub proxy_headers_seen: bool,
    /// The version of the bundled time zone database.
    pub time_zone_database: String,
    /// Space on the disk of the data directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// What the last start found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Everything else that was said.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// How a room is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct RoomState {
    /// Which room.
    pub name: String,
    /// `starting`, `open`, `off` or `closed`.
    pub state: String,
    /// Why it is closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Space on the disk of the data directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Disk {
    /// What is left.
    pub free_bytes: u64,
    /// Below this, nothing new is taken.
    pub min_bytes: u64,
}

/// What a start found in the journal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Recovery {
    /// How long it took until the rooms were open.
    pub opening_secs: f64,
    /// Entries read back.
    pub entries: u64,
    /// How the journal ended: `clean` and `marked` are whole, everything else was cut.
    pub tail: String,
    /// Ranges that were durable once and are not whole any more.
    pub damage: Vec<Damage>,
    /// Rooms that stay closed because of it.
    pub closed_rooms: Vec<String>,
}

/// A damaged range of the journal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Damage {
    /// Where it begins.
    pub from: u64,
    /// Where the journal is readable again.
    pub to: u64,
    /// How many records each room lost; empty if every one was found.
    pub lost_records: BTreeMap<String, u64>,
}

/// Whether a server takes work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Readiness {
    /// Whether every room that is switched on takes work.
    pub ready: bool,
    /// `starting`, `ready` or `stopping`.
    #[serde(default)]
    pub phase: String,
    /// What keeps the server from being ready, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
    /// How its rooms are.
    #[serde(default)]
    pub rooms: Vec<RoomState>,
    /// Everything else that was said.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}
