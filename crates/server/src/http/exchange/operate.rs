//! What administrators do besides: put messages back, look at folders, figures and devices' logs.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use handoff_exchange::Seq;
use handoff_house::ActKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Named;
use super::access::Manager;
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::stamp;

/// Messages that are to be put back.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Requeue)]
pub(in crate::http) struct RequeueBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// Their places in the order of all messages: `seq`.
    messages: Vec<u64>,
}

/// How many were.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Requeued)]
pub(in crate::http) struct RequeuedBody {
    version: V1,
    requeued: u32,
}

/// It is begun.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RescanBegun)]
pub(in crate::http) struct RescanBody {
    version: V1,
    /// `OK`
    status: &'static str,
}

/// Files that are none of the exchange's, as the last comparison found them.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ForeignFiles)]
pub(in crate::http) struct ForeignBody {
    version: V1,
    files: Vec<ForeignFile>,
    /// Not all of them are named.
    more: bool,
    /// The folders were compared since the start.
    compared: bool,
}

/// A file that is none of the exchange's.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct ForeignFile {
    /// Where it is, in the data directory.
    path: String,
    /// Why it is not taken for a message.
    reason: String,
}

/// What a device said of itself, the latest last.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeviceLines)]
pub(in crate::http) struct DeviceLinesBody {
    version: V1,
    entries: Vec<DeviceLine>,
}

/// A line of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct DeviceLine {
    /// When, by the device's clock.
    at: String,
    received_at: String,
    text: String,
}

/// Figures of the room.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct ExchangeStats {
    version: V1,
    companies: u64,
    subsystems: u64,
    databases: u64,
    devices: u64,
    /// Messages that are known.
    messages: u64,
    /// Waiting for databases.
    to_erp: u64,
    /// Waiting for devices.
    to_devices: u64,
    prepared: u64,
    log: u64,
    unknown: u64,
    error: u64,
    /// Bytes of all bodies.
    bytes: u64,
    started_processes: u64,
    ready_processes: u64,
    unknown_processes: u64,
    /// Processes whose files are not where they belong.
    unsettled_processes: u64,
    /// Bodies that only the journal has.
    unfiled: u64,
    /// Files that are to be moved or removed.
    files_to_move: u64,
    files_behind_secs: f64,
    /// Files cannot be written for the moment. It is tried again.
    files_stuck: bool,
    /// `processes.json` cannot be written for the moment. Nothing depends on it, and it is tried again.
    process_list_stuck: bool,
    foreign_files: u64,
    waiting_devices: u64,
}

/// Puts messages of Error and Log back into their queues.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/requeue", operation_id = "requeueMessages", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    request_body = RequeueBody,
    responses((status = 200, description = "They are in their queues.", body = RequeuedBody))
)]
pub(in crate::http) async fn requeue_messages(
    manager: Manager,
    Named(id): Named<String>,
    Json(body): Json<RequeueBody>,
) -> Result<Json<RequeuedBody>, Problem> {
    let database = manager.database(&id)?;
    let messages = body.messages.into_iter().map(Seq).collect();
    let requeued = manager.room.requeue(database.no, messages).await;
    let requeued = requeued.map_err(|error| manager.refuse(error))?;
    let words = format!("exchange requeued {requeued} messages of database {}", database.id);
    manager.note(ActKind::Altered, &words).await;
    Ok(Json(RequeuedBody { version: V1, requeued }))
}

/// Has all folders compared with what is known, in the background.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/rescan", operation_id = "rescanFolders", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    responses((status = 202, description = "It is begun.", body = RescanBody))
)]
pub(in crate::http) async fn rescan_folders(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    manager.database(&id)?;
    manager.room.rescan();
    Ok((StatusCode::ACCEPTED, Json(RescanBody { version: V1, status: "OK" })).into_response())
}

/// Files in a database's folders that are none of the exchange's. They are never served.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/foreign", operation_id = "listForeignFiles", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    responses((status = 200, description = "Those that the last comparison named.", body = ForeignBody))
)]
pub(in crate::http) async fn list_foreign_files(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<ForeignBody>, Problem> {
    let database = manager.database(&id)?;
    let Some(found) = manager.room.compared() else {
        return Ok(Json(ForeignBody {
            version: V1,
            files: Vec::new(),
            more: false,
            compared: false,
        }));
    };
    let folder = format!("exchange/{}/", database.id);
    let own = found.shown.iter().filter(|file| file.path.starts_with(&folder));
    let files =
        own.map(|file| ForeignFile { path: file.path.clone(), reason: file.words.to_owned() });
    let more = found.foreign > found.shown.len() as u64;
    Ok(Json(ForeignBody { version: V1, files: files.collect(), more, compared: true }))
}

/// What a device said of itself since the server was started, the last of it.
#[utoipa::path(
    get, path = "/v1/exchange/devices/{company}/{device}/log", operation_id = "showDeviceLog", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id."),
    ),
    responses((status = 200, description = "Its lines.", body = DeviceLinesBody))
)]
pub(in crate::http) async fn show_device_log(
    manager: Manager,
    Named((company, device)): Named<(String, String)>,
) -> Result<Json<DeviceLinesBody>, Problem> {
    let (_, device) = manager.device(&company, &device)?;
    let lines = manager.room.device_log(device.no).into_iter();
    let entries = lines.map(|line| DeviceLine {
        at: stamp(line.at),
        received_at: stamp(line.received),
        text: line.text.into(),
    });
    Ok(Json(DeviceLinesBody { version: V1, entries: entries.collect() }))
}

/// How the room is doing. Needs a token that sees all companies.
#[utoipa::path(
    get, path = "/v1/exchange/stats", operation_id = "exchangeStats", tag = "exchange",
    responses((status = 200, description = "Figures.", body = ExchangeStats))
)]
pub(in crate::http) async fn exchange_stats(
    manager: Manager,
    query: Query,
) -> Result<Json<ExchangeStats>, Problem> {
    manager.expect_all()?;
    query.known(&[])?;
    let stats = manager.room.stats().await.map_err(|error| manager.refuse(error))?;
    let counts = stats.counts;
    Ok(Json(ExchangeStats {
        version: V1,
        companies: stats.companies,
        subsystems: stats.subsystems,
        databases: stats.databases,
        devices: stats.devices,
        messages: stats.messages,
        to_erp: counts.to_erp,
        to_devices: counts.to_devices,
        prepared: counts.prepared,
        log: counts.log,
        unknown: counts.unknown,
        error: counts.error,
        bytes: counts.bytes,
        started_processes: stats.started,
        ready_processes: stats.ready,
        unknown_processes: stats.unknown,
        unsettled_processes: stats.unsettled,
        unfiled: stats.unfiled,
        files_to_move: stats.to_move,
        files_behind_secs: std::time::Duration::from_micros(stats.behind_micros).as_secs_f64(),
        files_stuck: stats.stuck,
        process_list_stuck: stats.list_stuck,
        foreign_files: stats.foreign,
        waiting_devices: stats.waiting,
    }))
}
