//! What ERPs ask: `API_1` to `API_6`, heartbeats, and what became of processes.
//!
//! An ERP switches on one field: `status` is `OK`, `IDLE`, `BUSY` or `CANCELLED`, in refusals too.

use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use handoff_exchange::{Cancelled, EntityId, Outcome, ProcessId, Step, Wish};
use handoff_types::{Code, Span, Wall};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::access::ErpCaller;
use super::device::READ_HERE_BYTES;
use super::incoming::{Bounds, OutcomeBody, files, outcomes, prepared, words};
use super::joined::Joined;
use super::{CONTROL_BYTES_MAX, bad_name, invalid, path_text};
use crate::http::front::Door;
use crate::http::json::{Json, V1, check_media_type, decode, read};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::stamp;
use crate::rooms::exchange::Started;

/// What an ERP wants to process.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewProcess)]
pub(in crate::http) struct BeginBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// A start that is repeated with the same key gives the same process.
    #[serde(default)]
    request_key: Option<String>,
    /// Only messages of these subsystems.
    #[serde(default)]
    app_systems: Option<Vec<String>>,
    /// Only messages of these devices.
    #[serde(default)]
    producers: Option<Vec<String>>,
    /// At most so many; the smaller of this and the server's counts.
    #[serde(default)]
    max_files: Option<u32>,
    /// At most so many MiB, likewise. The first is given however large it is.
    #[serde(default)]
    max_mb: Option<f64>,
    /// A shorter time than the server grants, in seconds.
    #[serde(default)]
    lease_sec: Option<u64>,
    /// What became of earlier processes.
    #[serde(default)]
    outcomes: Option<Vec<OutcomeBody>>,
}

/// The answer to a start.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BegunProcess)]
pub(in crate::http) struct BegunBody {
    version: V1,
    /// `OK`, `IDLE` or `BUSY`.
    status: &'static str,
    /// With `OK`.
    #[serde(skip_serializing_if = "Option::is_none")]
    process_id: Option<String>,
    /// With `OK`: when it is given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// With `OK`: messages as they are stored, and `attempt`: how often each was given out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    messages: Option<Vec<serde_json::Value>>,
    /// With `BUSY`: when to ask again, at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

/// The answer to a call about a process.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProcessAnswer)]
pub(in crate::http) struct StepBody {
    version: V1,
    /// `OK`, or `CANCELLED`: the ERP rolls back and stops.
    status: &'static str,
    /// When the process is given up, while it is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    /// Why it is cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Messages that the ERP takes.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ProcessFiles)]
#[allow(dead_code, reason = "what is read is borrowed; this says how it looks")]
pub(in crate::http) struct FilesDocument {
    version: V1,
    /// Their ids.
    files: Vec<String>,
}

/// What the ERP has done, before its database commits.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Preparation)]
#[allow(dead_code, reason = "what is read is borrowed; this says how it looks")]
pub(in crate::http) struct PrepareDocument {
    version: V1,
    /// One for each message of the process.
    verdicts: Vec<VerdictDocument>,
    /// Messages to devices: `{id, to, createdAt, type?, replyTo?, payload}`.
    #[schema(value_type = Option<Vec<Object>>)]
    messages: Option<Vec<serde_json::Value>>,
}

/// What the ERP says of a message.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Verdict)]
#[allow(dead_code, reason = "what is read is borrowed; this says how it looks")]
pub(in crate::http) struct VerdictDocument {
    message_id: String,
    /// `PROCESSED`, `PROCESSED_DEADLOCK` or `PROCESSED_INCORRECT`.
    status: String,
    /// The database's number for what went wrong.
    code: Option<i64>,
    /// The same in words.
    error: Option<String>,
}

/// A call that says no more than its path, or why.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ProcessReport)]
pub(in crate::http) struct ReportBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// Of a rollback: what went wrong.
    #[serde(default)]
    error: Option<String>,
    /// Of an interruption: why.
    #[serde(default)]
    reason: Option<String>,
}

/// What became of processes.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resolution)]
#[allow(dead_code, reason = "this says how it looks")]
pub(in crate::http) struct ResolveDocument {
    version: V1,
    outcomes: Vec<OutcomeBody>,
}

/// What became of a report, one by one.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Resolved)]
pub(in crate::http) struct ResolvedBody {
    version: V1,
    results: Vec<ResolvedOne>,
}

/// What became of one.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ResolvedProcess)]
pub(in crate::http) struct ResolvedOne {
    process_id: String,
    /// `OK` or `CANCELLED`.
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// `API_1`: gives messages to an ERP.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/processes",
    operation_id = "beginProcess", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    request_body = BeginBody,
    responses(
        (status = 201, description = "`OK`: a process and its messages.", body = BegunBody),
        (status = 200, description = "`IDLE`: there is nothing to process; `BUSY`: another process is live.", body = BegunBody),
    )
)]
pub(in crate::http) async fn begin_process(
    State(door): State<Door>,
    path: Result<Path<String>, PathRejection>,
    query: Query,
    request: Request,
) -> Result<Response, Problem> {
    let id = path_text(path)?;
    let caller = ErpCaller::admit(&door, request.headers(), &id)?;
    query.known(&[])?;
    check_media_type(request.headers())?;
    let body = read(request, 16 * CONTROL_BYTES_MAX).await?;
    let begin: BeginBody = decode(&body)?;
    let (wish, outcomes) = begin.into_wish(caller.room.settings().request_messages_max)?;
    let database = caller.database.no;
    if !outcomes.is_empty() {
        let resolved = caller.room.resolve(database, outcomes).await;
        // What is wrong with a report is written down; it keeps nobody from going on.
        resolved.map_err(|error| caller.refuse(error))?;
    }
    let started = caller.room.begin(database, wish).await;
    let (status, retry_after_ms) = match started.map_err(|error| caller.refuse(error))? {
        Started::Process { id, deadline, messages } => {
            let deadline = stamp(deadline);
            let head = format!(
                r#"{{"version":1,"status":"OK","processId":"{id}","deadline":"{deadline}","messages":["#
            );
            let files = messages.into_iter().map(|(attempt, filed)| (Some(attempt), filed));
            let joined = Joined::new(caller.room.clone(), files, head, "]}");
            let answer = joined.answer(StatusCode::CREATED).await;
            return answer.map_err(|error| caller.refuse(error));
        }
        Started::Idle => ("IDLE", None),
        Started::Busy { retry_after_ms } => ("BUSY", Some(retry_after_ms)),
    };
    let (process_id, deadline, messages) = (None, None, None);
    let body = BegunBody { version: V1, status, process_id, deadline, messages, retry_after_ms };
    Ok(Json(body).into_response())
}

impl BeginBody {
    fn into_wish(self, many: usize) -> Result<(Wish, Vec<Outcome>), Problem> {
        let entities = |ids: Option<Vec<String>>| {
            let read = |ids: Vec<String>| -> Result<Vec<EntityId>, Problem> {
                if ids.len() > many {
                    return Err(invalid(format!("a request has at most {many} of them")));
                }
                ids.iter().map(|id| id.parse::<EntityId>().map_err(bad_name)).collect()
            };
            ids.map(read).transpose()
        };
        let outcomes = self.outcomes.unwrap_or_default();
        if outcomes.len() > many {
            return Err(invalid(format!("a request has at most {many} outcomes")));
        }
        let outcomes = outcomes.iter().map(OutcomeBody::read).collect::<Result<_, _>>()?;
        let wish = Wish {
            request_key: self.request_key.map(Into::into),
            subsystems: entities(self.app_systems)?,
            producers: entities(self.producers)?,
            files_max: self.max_files,
            bytes_max: self.max_mb.map(mebibytes).transpose()?,
            lease: self.lease_sec.map(Span::from_secs),
        };
        Ok((wish, outcomes))
    }
}

/// MiB as bytes, fractions included.
fn mebibytes(mebibytes: f64) -> Result<u64, Problem> {
    // As a length of time, which is read without rounding to nothing or to everything.
    let length = Duration::try_from_secs_f64(mebibytes);
    let length = length.map_err(|_| invalid("`maxMb` is a number from 0 on"))?;
    let bytes = length.as_micros().saturating_mul(1 << 20) / 1_000_000;
    Ok(u64::try_from(bytes).unwrap_or(u64::MAX))
}

/// Which call about a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Files,
    Prepare,
    Commit,
    Rollback,
    Interrupt,
    Heartbeat,
}

impl Call {
    /// Whether the database has not decided yet, so that whoever gets no answer rolls back.
    fn is_early(self) -> bool {
        matches!(self, Self::Files | Self::Prepare)
    }
}

type ProcessPath = Result<Path<(String, String)>, PathRejection>;

/// `API_2`: the ERP takes only some of the messages.
#[utoipa::path(
    put, path = "/v1/exchange/databases/{database}/processes/{process}/files",
    operation_id = "narrowProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    request_body = FilesDocument,
    responses((status = 200, description = "`OK` or `CANCELLED`.", body = StepBody))
)]
pub(in crate::http) async fn narrow_process(
    State(door): State<Door>,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    answered(Call::Files, door, path, query, request).await
}

/// `API_3`: what the ERP has done, before its database commits. Verdicts and messages are on disk
/// when this answers `OK`.
#[utoipa::path(
    put, path = "/v1/exchange/databases/{database}/processes/{process}/prepare",
    operation_id = "prepareProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    request_body = PrepareDocument,
    responses((status = 200, description = "`OK` or `CANCELLED`.", body = StepBody))
)]
pub(in crate::http) async fn prepare_process(
    State(door): State<Door>,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    answered(Call::Prepare, door, path, query, request).await
}

/// `API_4`: the database has committed. It may be reported again and again.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/processes/{process}/commit",
    operation_id = "commitProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    request_body = Option<ReportBody>,
    responses((status = 200, description = "`OK`.", body = StepBody))
)]
pub(in crate::http) async fn commit_process(
    State(door): State<Door>,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    answered(Call::Commit, door, path, query, request).await
}

/// `API_5`: the database has rolled back. It may be reported again and again.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/processes/{process}/rollback",
    operation_id = "rollbackProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    request_body = ReportBody,
    responses((status = 200, description = "`OK`.", body = StepBody))
)]
pub(in crate::http) async fn rollback_process(
    State(door): State<Door>,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    answered(Call::Rollback, door, path, query, request).await
}

/// `API_6`: the ERP stops before it was ready to commit.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/processes/{process}/interrupt",
    operation_id = "interruptProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    request_body = ReportBody,
    responses((status = 200, description = "`OK`.", body = StepBody))
)]
pub(in crate::http) async fn interrupt_process(
    State(door): State<Door>,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    answered(Call::Interrupt, door, path, query, request).await
}

/// The ERP is still at work: the process is given up later.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/processes/{process}/heartbeat",
    operation_id = "heartbeatProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    request_body = Option<ReportBody>,
    responses((status = 200, description = "`OK` or `CANCELLED`.", body = StepBody))
)]
pub(in crate::http) async fn heartbeat_process(
    State(door): State<Door>,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    answered(Call::Heartbeat, door, path, query, request).await
}

/// What became of processes that were ready, reported by the ERP or by an administrator.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/resolve",
    operation_id = "resolveProcesses", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    request_body = ResolveDocument,
    responses((status = 200, description = "What became of each report.", body = ResolvedBody))
)]
pub(in crate::http) async fn resolve_processes(
    State(door): State<Door>,
    path: Result<Path<String>, PathRejection>,
    query: Query,
    request: Request,
) -> Result<Json<ResolvedBody>, Problem> {
    let id = path_text(path)?;
    let caller = ErpCaller::admit(&door, request.headers(), &id)?;
    query.known(&[])?;
    check_media_type(request.headers())?;
    let body = read(request, 16 * CONTROL_BYTES_MAX).await?;
    let outcomes = outcomes(&body, caller.room.settings().request_messages_max)?;
    let told = outcomes.clone();
    let results = caller.room.resolve(caller.database.no, outcomes).await;
    let results = results.map_err(|error| caller.refuse(error))?;
    let resolved = results.iter().filter(|result| result.is_ok()).count();
    if resolved > 0 {
        let plural = if resolved == 1 { "" } else { "es" };
        let words =
            format!("resolved {resolved} process{plural} of database {}", caller.database.id);
        caller.note(&words).await;
    }
    let results = told.into_iter().zip(results).map(|(outcome, result)| {
        let process_id = outcome.id.to_string();
        match result {
            Ok(()) => ResolvedOne { process_id, status: "OK", code: None, reason: None },
            Err(cancelled) => ResolvedOne {
                process_id,
                status: "CANCELLED",
                code: Some(code(&cancelled).text()),
                reason: Some(cancelled.to_string()),
            },
        }
    });
    Ok(Json(ResolvedBody { version: V1, results: results.collect() }))
}

/// The answer to a call about a process. A refusal carries the word that an ERP switches on; a
/// server that cannot answer says so only as long as the database can still roll back.
async fn answered(
    call: Call,
    door: Door,
    path: ProcessPath,
    query: Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    let answer = step(call, &door, path, &query, request).await;
    answer.map_err(|problem| match call.is_early() {
        true => problem.cancelling(),
        false => problem.cancelling_if_refused(),
    })
}

async fn step(
    call: Call,
    door: &Door,
    path: ProcessPath,
    query: &Query,
    request: Request,
) -> Result<Json<StepBody>, Problem> {
    let (database, process) = path_text(path)?;
    let caller = ErpCaller::admit(door, request.headers(), &database)?;
    query.known(&[])?;
    let body = body_of(call, &caller, request).await?;
    let bounds = bounds(&caller);
    let database = caller.database.id.to_string();
    let step = if body.len() <= READ_HERE_BYTES {
        read_step(call, &body, &database, bounds)?
    } else {
        let reading = spawn_blocking(move || read_step(call, &body, &database, bounds)).await;
        reading.map_err(|_| Problem::panicked())??
    };
    let Ok(id) = process.parse::<ProcessId>() else {
        let shown = process.get(..process.floor_char_boundary(64)).unwrap_or_default();
        return no_process(call, format!("the database has no process {shown}"));
    };
    let answer = caller.room.step(caller.database.no, id, step).await;
    match answer.map_err(|error| caller.refuse(error))? {
        Ok(deadline) => Ok(ok(deadline)),
        Err(cancelled @ Cancelled::NoProcess(_)) => no_process(call, cancelled.to_string()),
        Err(cancelled @ Cancelled::Past { .. }) => Ok(stopped(cancelled.to_string())),
        Err(cancelled) => Err(Problem::new(code(&cancelled), cancelled.to_string())),
    }
}

async fn body_of(call: Call, caller: &ErpCaller, request: Request) -> Result<Bytes, Problem> {
    let may_be_empty = matches!(call, Call::Commit | Call::Heartbeat);
    let media = check_media_type(request.headers());
    let max = match call {
        Call::Prepare => caller.room.settings().request_bytes_max,
        _ => 16 * CONTROL_BYTES_MAX,
    };
    let body = read(request, max).await?;
    if body.is_empty() && may_be_empty {
        return Ok(Bytes::from_static(b"{\"version\":1}"));
    }
    media.map(|()| body)
}

fn bounds(caller: &ErpCaller) -> Bounds {
    let settings = caller.room.settings();
    Bounds { message_bytes: settings.message_bytes_max, many: settings.request_messages_max }
}

fn read_step(call: Call, body: &Bytes, database: &str, bounds: Bounds) -> Result<Step, Problem> {
    let report = || decode::<ReportBody>(body);
    let said = |text: Option<String>| words(text.as_deref().unwrap_or_default());
    let silent = |report: ReportBody, step| match (report.error, report.reason) {
        (None, None) => Ok(step),
        _ => Err(Problem::new(Code::RequestInvalid, "this call says nothing but `version`")),
    };
    match call {
        Call::Files => files(body, bounds.many).map(Step::Narrow),
        Call::Prepare => prepared(body, database, bounds),
        Call::Commit => silent(report()?, Step::Commit),
        Call::Heartbeat => silent(report()?, Step::Heartbeat),
        Call::Rollback => Ok(Step::Rollback(said(report()?.error))),
        Call::Interrupt => Ok(Step::Interrupt(said(report()?.reason))),
    }
}

fn ok(deadline: Option<Wall>) -> Json<StepBody> {
    let deadline = deadline.map(stamp);
    Json(StepBody { version: V1, status: "OK", deadline, reason: None })
}

fn stopped(reason: String) -> Json<StepBody> {
    Json(StepBody { version: V1, status: "CANCELLED", deadline: None, reason: Some(reason) })
}

fn no_process(call: Call, words: String) -> Result<Json<StepBody>, Problem> {
    match call.is_early() {
        true => Ok(stopped(words)),
        false => Err(Problem::new(Code::ExchangeNotFound, words)),
    }
}

fn code(cancelled: &Cancelled) -> Code {
    match cancelled {
        Cancelled::NoProcess(_) => Code::ExchangeNotFound,
        Cancelled::NotPrepared(_) => Code::NotPrepared,
        Cancelled::Ready(_) => Code::ProcessReady,
        Cancelled::PreparedOtherwise(_) => Code::PreparedOtherwise,
        Cancelled::Contradicts { .. } => Code::Contradiction,
        _ => Code::ProcessUnfit,
    }
}
