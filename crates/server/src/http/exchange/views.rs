//! What is seen of processes, messages and the log.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use handoff_exchange::{Happened, LogEntry, Phase, Place, ProcessId, Seq, Standing, Way};
use handoff_types::Code;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::{ErpCaller, Manager};
use super::{Named, PAGE, PAGE_MAX, not_found, path_text};
use crate::http::front::Door;
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::stamp;
use crate::rooms::exchange::{MessageView, ProcessView, Wanted};

/// A process.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeProcess)]
pub(in crate::http) struct ProcessBody {
    process_id: String,
    /// Processes are counted.
    number: u64,
    db_id: String,
    /// `STARTED`, `READY_TO_COMMIT`, `CLEANUP`, `FAILED`, `DONE`, `ROLLED_BACK`, `INTERRUPTED`,
    /// `EXPIRED`, `UNKNOWN` or `RESOLVED`.
    state: &'static str,
    started_at: String,
    /// When it is given up, while it is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
    /// Of one that is `RESOLVED`: whether the database had committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    committed: Option<bool>,
    /// Why it ended, or why files are not where they belong.
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<String>,
    /// The folders show what it decided.
    settled: bool,
    /// The ERP reported the opposite of an earlier report.
    contradicted: bool,
    files_to_erp: Vec<ServedBody>,
    files_from_erp: Vec<PreparedBody>,
}

/// A message given to the ERP.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ServedMessage)]
pub(in crate::http) struct ServedBody {
    /// Absent if the message was forgotten since.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
}

/// A message taken from the ERP.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PreparedMessage)]
pub(in crate::http) struct PreparedBody {
    /// Absent if the message was forgotten since.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    seq: u64,
    /// It tells a device that one of its messages could not be processed.
    notice: bool,
}

/// One process.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OneExchangeProcess)]
pub(in crate::http) struct OneProcess {
    version: V1,
    process: ProcessBody,
}

/// Processes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeProcesses)]
pub(in crate::http) struct ProcessPage {
    version: V1,
    processes: Vec<ProcessBody>,
    /// `below` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// A message, without its body.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeMessage)]
pub(in crate::http) struct MessageEntry {
    seq: u64,
    id: String,
    /// `toErp` or `toDevice`.
    direction: &'static str,
    device: String,
    app_system: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    created_at: String,
    received_at: String,
    bytes: u32,
    /// How often a process ended without a last word about it.
    attempts: u32,
    /// The folder: `messages`, `prepared`, `log`, `unknown` or `error`.
    place: &'static str,
    since: String,
    /// `free`, `late` (it waits after a deadlock), `served` (a process has it) or `aside`.
    standing: &'static str,
    /// The process that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    /// Why it was set aside.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// One message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OneExchangeMessage)]
pub(in crate::http) struct OneMessage {
    version: V1,
    message: MessageEntry,
}

/// Messages, in the order they were received.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeMessages)]
pub(in crate::http) struct MessagePage {
    version: V1,
    messages: Vec<MessageEntry>,
    /// `after` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// What happened, the latest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeLog)]
pub(in crate::http) struct LogPage {
    version: V1,
    entries: Vec<LogBody>,
    /// `below` of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// Something that happened.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeLogEntry)]
pub(in crate::http) struct LogBody {
    number: u64,
    at: String,
    what: &'static str,
    /// Whether an administrator is to be told.
    alarming: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    process_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<i64>,
    words: String,
}

impl ProcessBody {
    pub(super) fn of(view: ProcessView, database: &str) -> Self {
        let committed = match view.phase {
            Phase::Resolved { committed } => Some(committed),
            _ => None,
        };
        let served = view.to_erp.into_iter().map(|(seq, id, status)| ServedBody {
            message_id: id.map(|id| id.to_string()),
            seq: seq.0,
            verdict: status.map(handoff_exchange::Status::text),
        });
        let prepared = view.from_erp.into_iter().map(|(seq, id, notice)| PreparedBody {
            message_id: id.map(|id| id.to_string()),
            seq: seq.0,
            notice,
        });
        Self {
            process_id: view.id.to_string(),
            number: view.id.number,
            db_id: database.to_owned(),
            state: view.phase.text(),
            started_at: stamp(view.started),
            deadline: view.deadline.map(stamp),
            ready_at: view.ready.map(stamp),
            ended_at: view.ended.map(stamp),
            committed,
            words: view.words.map(Into::into),
            settled: view.settled,
            contradicted: view.contradicted,
            files_to_erp: served.collect(),
            files_from_erp: prepared.collect(),
        }
    }
}

impl From<MessageView> for MessageEntry {
    fn from(view: MessageView) -> Self {
        let MessageView { seq, message, device, subsystem, process } = view;
        let (standing, reason) = match message.standing {
            Standing::Free => ("free", None),
            Standing::Late(_) => ("late", None),
            Standing::Served(_) => ("served", None),
            Standing::Aside(words) => ("aside", Some(words.into())),
        };
        Self {
            seq: seq.0,
            id: message.id.to_string(),
            direction: match message.way {
                Way::ToErp => "toErp",
                Way::ToDevice => "toDevice",
            },
            device,
            app_system: subsystem,
            kind: message.kind.map(|kind| kind.to_string()),
            created_at: stamp(message.created),
            received_at: stamp(message.received),
            bytes: message.bytes,
            attempts: u32::from(message.attempts) + u32::from(message.silences),
            place: place_name(message.place),
            since: stamp(message.since),
            standing,
            process: process.map(|id| id.to_string()),
            reason,
        }
    }
}

impl From<LogEntry> for LogBody {
    fn from(entry: LogEntry) -> Self {
        let (seq, message_id) = entry.message.map(|(seq, id)| (seq.0, id.to_string())).unzip();
        Self {
            number: entry.number,
            at: stamp(entry.at),
            what: entry.what.text(),
            alarming: entry.what.is_alarming(),
            process_id: entry.process.map(|id| id.to_string()),
            seq,
            message_id,
            code: entry.code,
            words: entry.words.into(),
        }
    }
}

const PLACES: [Place; 5] =
    [Place::Messages, Place::Prepared, Place::Log, Place::Unknown, Place::Error];

fn place_name(place: Place) -> &'static str {
    match place {
        Place::Messages => "messages",
        Place::Prepared => "prepared",
        Place::Log => "log",
        Place::Unknown => "unknown",
        Place::Error => "error",
    }
}

/// A process, also one that is over.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/processes/{process}",
    operation_id = "showProcess", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("process" = String, Path, description = "`processId`"),
    ),
    responses((status = 200, description = "The process.", body = OneProcess))
)]
pub(in crate::http) async fn show_process(
    State(door): State<Door>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    query: Query,
) -> Result<Json<OneProcess>, Problem> {
    let (database, process) = path_text(path)?;
    let caller = ErpCaller::admit(&door, &headers, &database)?;
    query.known(&[])?;
    let not_there = || not_found("process", &process);
    let id = process.parse::<ProcessId>().map_err(|_| not_there())?;
    let view = caller.room.process(caller.database.no, id).await;
    let view = view.map_err(|error| caller.refuse(error))?.ok_or_else(not_there)?;
    Ok(Json(OneProcess { version: V1, process: ProcessBody::of(view, &database) }))
}

/// Processes whose outcome nobody reported yet, or not in time.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/indoubt",
    operation_id = "listInDoubt", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    responses((status = 200, description = "They are `READY_TO_COMMIT` or `UNKNOWN`.", body = ProcessPage))
)]
pub(in crate::http) async fn list_in_doubt(
    State(door): State<Door>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    query: Query,
) -> Result<Json<ProcessPage>, Problem> {
    let database = path_text(path)?;
    let caller = ErpCaller::admit(&door, &headers, &database)?;
    query.known(&[])?;
    let found = caller.room.in_doubt(caller.database.no).await;
    let found = found.map_err(|error| caller.refuse(error))?;
    let processes = found.into_iter().map(|view| ProcessBody::of(view, &database)).collect();
    Ok(Json(ProcessPage { version: V1, processes, next: None }))
}

/// Processes of a database, the latest first.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/processes",
    operation_id = "listProcesses", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("below" = Option<u64>, Query, description = "Those below this number: the `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = ProcessPage))
)]
pub(in crate::http) async fn list_processes(
    manager: Manager,
    path: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<ProcessPage>, Problem> {
    let database = manager.database(&path_text(path)?)?;
    let asked = query.known(&["below", "limit"])?;
    let below = asked.one::<u64>("below", "the number of a process")?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let page = manager.room.processes(database.no, below, limit).await;
    let page = page.map_err(|error| manager.refuse(error))?;
    let body = |view| ProcessBody::of(view, database.id.as_str());
    let processes = page.items.into_iter().map(body).collect();
    Ok(Json(ProcessPage { version: V1, processes, next: page.next }))
}

/// Messages of a database, in the order they were received.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/messages",
    operation_id = "listExchangeMessages", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("place" = Option<String>, Query, description = "Only those there: messages, prepared, log, unknown or error."),
        ("direction" = Option<String>, Query, description = "Only those that go there: toErp or toDevice."),
        ("device" = Option<String>, Query, description = "Only those of this device, and for it."),
        ("after" = Option<u64>, Query, description = "Those behind this one: the `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = MessagePage))
)]
pub(in crate::http) async fn list_exchange_messages(
    manager: Manager,
    path: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<MessagePage>, Problem> {
    let database = manager.database(&path_text(path)?)?;
    let asked = query.known(&["place", "direction", "device", "after", "limit"])?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let place =
        match asked.one::<String>("place", "a folder")? {
            None => None,
            Some(name) => {
                let found = PLACES.into_iter().find(|place| place_name(*place) == name);
                Some(found.ok_or_else(|| {
                    choice("place", &name, "messages, prepared, log, unknown, error")
                })?)
            }
        };
    let way = match asked.one::<String>("direction", "a direction")?.as_deref() {
        None => None,
        Some("toErp") => Some(Way::ToErp),
        Some("toDevice") => Some(Way::ToDevice),
        Some(other) => return Err(choice("direction", other, "toErp, toDevice")),
    };
    let device = match asked.one::<String>("device", "a device")? {
        None => None,
        Some(id) => {
            let found = id.parse().ok().and_then(|id| {
                let company = database.company;
                manager.room.directory(|known| known.device_by_id(company, &id).map(|one| one.no))
            });
            Some(found.ok_or_else(|| not_found("device", &id))?)
        }
    };
    let after = asked.one::<u64>("after", "the number of a message")?.map(Seq);
    let wanted = Wanted { database: database.no, place, device, way, after, limit };
    let page = manager.room.messages(wanted).await.map_err(|error| manager.refuse(error))?;
    let messages = page.items.into_iter().map(Into::into).collect();
    Ok(Json(MessagePage { version: V1, messages, next: page.next }))
}

fn choice(name: &str, given: &str, words: &str) -> Problem {
    let given = given.get(..given.floor_char_boundary(64)).unwrap_or_default();
    let detail = format!("`{name}` is `{given}`; it is one of {words}");
    Problem::new(Code::RequestMalformed, detail)
}

/// A message, without its body.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/messages/{seq}",
    operation_id = "showExchangeMessage", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("seq" = u64, Path, description = "Its place in the order of all messages."),
    ),
    responses((status = 200, description = "The message.", body = OneMessage))
)]
pub(in crate::http) async fn show_exchange_message(
    manager: Manager,
    Named((database, seq)): Named<(String, String)>,
) -> Result<Json<OneMessage>, Problem> {
    let database = manager.database(&database)?;
    let not_there = || not_found("message", &seq);
    let number = seq.parse::<u64>().map_err(|_| not_there())?;
    let found = manager.room.message(database.no, Seq(number)).await;
    let found = found.map_err(|error| manager.refuse(error))?;
    let (message, _) = found.ok_or_else(not_there)?;
    Ok(Json(OneMessage { version: V1, message: message.into() }))
}

/// The body of a message, as it is stored.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/messages/{seq}/body",
    operation_id = "downloadExchangeMessage", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("seq" = u64, Path, description = "Its place in the order of all messages."),
    ),
    responses((status = 200, description = "The message.", content_type = "application/json", body = Object))
)]
pub(in crate::http) async fn download_exchange_message(
    State(door): State<Door>,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    query: Query,
) -> Result<Response, Problem> {
    let manager = Manager::admit(&door, &headers)?;
    let (database, seq) = path_text(path)?;
    let database = manager.database(&database)?;
    query.known(&[])?;
    let not_there = || not_found("message", &seq);
    let number = seq.parse::<u64>().map_err(|_| not_there())?;
    let found = manager.room.message(database.no, Seq(number)).await;
    let found = found.map_err(|error| manager.refuse(error))?;
    let filed = found.and_then(|(_, filed)| filed).ok_or_else(not_there)?;
    let read = manager.room.bodies(vec![filed], usize::MAX).await;
    let read = read.map_err(|error| manager.refuse(error))?;
    let lost =
        || Problem::new(Code::Corrupt, format!("the body of message {number} is damaged or gone"));
    let body = read.into_iter().flatten().next().ok_or_else(lost)?;
    let mut response = Response::new(Body::from(body));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

/// What happened to a database's processes and messages, the latest first.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}/log",
    operation_id = "listExchangeLog", tag = "exchange",
    params(
        ("database" = String, Path, description = "`dbId`"),
        ("below" = Option<u64>, Query, description = "Entries below this number: the `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
        ("what" = Option<Vec<String>>, Query, description = "Only what this happened to: `deadlock`, `incorrect`, `unknown` and others."),
    ),
    responses((status = 200, description = "A page of them.", body = LogPage))
)]
pub(in crate::http) async fn list_exchange_log(
    manager: Manager,
    path: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<LogPage>, Problem> {
    let database = manager.database(&path_text(path)?)?;
    let asked = query.known(&["below", "limit", "what"])?;
    let below = asked.one::<u64>("below", "the number of an entry")?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let what = asked.all("what").into_iter().map(|name| {
        let found = Happened::ALL.into_iter().find(|what| what.text() == name);
        let words = Happened::ALL.map(Happened::text).join(", ");
        found.ok_or_else(|| choice("what", &name, &words))
    });
    let what: Vec<Happened> = what.collect::<Result<_, _>>()?;
    let page = manager.room.log(database.no, below, limit, what).await;
    let page = page.map_err(|error| manager.refuse(error))?;
    let entries = page.items.into_iter().map(Into::into).collect();
    Ok(Json(LogPage { version: V1, entries, next: page.next }))
}
