//! What devices ask.

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use handoff_exchange::Digest;
use handoff_types::Code;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::access::{DEVICE_PREFIX, DeviceCaller, Entrance};
use super::incoming::{Bounds, Sender, acked, posted, words};
use super::{CONTROL_BYTES_MAX, invalid};
use crate::auth::text::{digest, draw_secret};
use crate::http::connection::Peer;
use crate::http::direct::Written;
use crate::http::front::Door;
use crate::http::json::{JSON, Json, V1, check_media_type, decode, encode, read};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::{read_stamp, stamp};
use crate::rooms::exchange::{LINE_BYTES_MAX, Line, Tried};

/// A body up to this size is read on the spot.
pub(super) const READ_HERE_BYTES: usize = 64 << 10;

/// A code.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Activation)]
pub(in crate::http) struct ActivationBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// Eight characters, in either case, with or without blanks and dashes.
    code: String,
}

/// A device that is active, and what it shows from now on.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ActivatedDevice)]
pub(in crate::http) struct ActivatedBody {
    version: V1,
    /// Shown once; not kept here.
    token: String,
    company: String,
    id: String,
    name: String,
    app_system: String,
}

/// A device, as it sees itself.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = OwnDevice)]
pub(in crate::http) struct SelfBody {
    version: V1,
    company: String,
    id: String,
    name: String,
    app_system: String,
    /// Where its messages go; absent if nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    database: Option<String>,
    /// Messages that wait for it.
    waiting: u64,
}

/// A message that a device sends; or `{version, messages: […]}` with several of them.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeviceMessage)]
#[allow(dead_code, reason = "what is read is borrowed; this says how it looks")]
pub(in crate::http) struct MessageDocument {
    version: V1,
    /// The device's own name for it, the same when it is sent again: 1 to 36 of `A-Za-z0-9-`.
    id: String,
    /// When it was made, RFC 3339.
    created_at: String,
    /// 1 to 24 of `A-Za-z0-9_-`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The message that it answers.
    reply_to: Option<String>,
    /// The device, if it is said.
    from: Option<String>,
    /// The database, if it is said.
    to: Option<String>,
    /// The subsystem, if it is said.
    app_system: Option<String>,
    /// Any JSON. It is kept as it is written.
    #[schema(value_type = Object)]
    payload: serde_json::Value,
}

/// What became of messages, in their order.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PostedMessages)]
pub(in crate::http) struct PostedBody {
    version: V1,
    results: Vec<ReceiptBody>,
}

/// What became of a message.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessageReceipt)]
pub(in crate::http) struct ReceiptBody {
    id: String,
    /// `stored`, or `duplicate` if it was before.
    status: &'static str,
    /// Its place in the order of all messages.
    seq: u64,
    /// When it was received first.
    received_at: String,
}

/// Messages that a device has.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Acknowledgement)]
#[allow(dead_code, reason = "what is read is borrowed; this says how it looks")]
pub(in crate::http) struct AckDocument {
    version: V1,
    ids: Vec<String>,
}

/// What became of an acknowledgement.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Acknowledged)]
pub(in crate::http) struct AckedBody {
    version: V1,
    /// Messages that were waiting.
    acked: u32,
    /// Messages that were acknowledged before.
    again: u32,
}

/// What a device says of itself.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = DeviceLog)]
pub(in crate::http) struct DeviceLogBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    entries: Vec<DeviceLogEntry>,
}

/// A line of it.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::http) struct DeviceLogEntry {
    /// When, by the device's clock.
    at: String,
    text: String,
}

/// How many lines were taken.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeviceLogKept)]
pub(in crate::http) struct LogKeptBody {
    version: V1,
    kept: usize,
}

/// Activates a device: its code is void, and the token that is answered is the device's from now on.
#[utoipa::path(
    post, path = "/v1/exchange/device/activate", operation_id = "activateDevice", tag = "exchange",
    request_body = ActivationBody,
    responses((status = 200, description = "It is active.", body = ActivatedBody))
)]
pub(in crate::http) async fn activate_device(
    State(door): State<Door>,
    Entrance(room): Entrance,
    peer: Option<Extension<Peer>>,
    query: Query,
    Json(activation): Json<ActivationBody>,
) -> Result<Json<ActivatedBody>, Problem> {
    query.known(&[])?;
    let from = peer.and_then(|Extension(Peer(from))| from);
    let from = from.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let token = draw_secret(DEVICE_PREFIX).map_err(no_chance)?;
    let code = code_digest(&activation.code);
    let tried = room.activate(from, code, digest(token.as_bytes())).await;
    let refused = |error| Problem::of(&door.app, handoff_types::Room::Exchange, error);
    let device = match tried.map_err(refused)? {
        Tried::Right(device) => device,
        Tried::TooMany(seconds) => {
            let words = format!("too many wrong codes came from here; try again in {seconds} s");
            return Err(Problem::new(Code::TooManyTries, words).again_in(seconds));
        }
    };
    let named = room.directory(|known| {
        let device = known.device(device)?;
        let company = known.company(device.company)?.id.to_string();
        let app_system = known.subsystem(device.subsystem)?.id.to_string();
        Some((company, device.id.to_string(), device.name.to_string(), app_system))
    });
    // It was removed in the same breath.
    let gone = || Problem::new(Code::WrongCode, handoff_exchange::Refusal::WrongCode.to_string());
    let (company, id, name, app_system) = named.ok_or_else(gone)?;
    Ok(Json(ActivatedBody { version: V1, token, company, id, name, app_system }))
}

/// The device whose token is shown.
#[utoipa::path(
    get, path = "/v1/exchange/device", operation_id = "showOwnDevice", tag = "exchange",
    responses((status = 200, description = "The device.", body = SelfBody))
)]
pub(in crate::http) async fn show_self(
    State(door): State<Door>,
    headers: HeaderMap,
    query: Query,
) -> Result<Json<SelfBody>, Problem> {
    query.known(&[])?;
    let caller = DeviceCaller::admit(&door, &headers)?;
    let Sender { from, to, subsystem } = sender(&caller)?;
    let (company, name) = caller.look(|known, device| {
        let company = known.company(device.company).map(|company| company.id.to_string());
        Some((company, device.name.to_string()))
    })?;
    let counts = caller.room.device_counts(caller.device).await;
    let (waiting, _) = counts.map_err(|error| caller.refuse(error))?;
    Ok(Json(SelfBody {
        version: V1,
        company: company.unwrap_or_default(),
        id: from.to_string(),
        name,
        app_system: subsystem.to_string(),
        database: to.map(|to| to.to_string()),
        waiting,
    }))
}

/// Takes messages of a device, all or none. They are on disk when this answers; sent again they are
/// known again.
#[utoipa::path(
    post, path = "/v1/exchange/messages", operation_id = "postMessages", tag = "exchange",
    request_body = MessageDocument,
    responses(
        (status = 201, description = "Some were new, and are on disk.", body = PostedBody),
        (status = 200, description = "All of them were there already.", body = PostedBody),
    )
)]
pub(in crate::http) async fn post_messages(
    State(door): State<Door>,
    query: Query,
    request: Request,
) -> Result<Response, Problem> {
    query.known(&[])?;
    let posting = Posting::new(&door, request.headers())?;
    let body = read(request, posting.bytes_max()).await?;
    posting.store(body).await.map(Written::into_response)
}

/// A request that may store messages of a device, once its body is there.
pub(in crate::http) struct Posting<'a> {
    caller: DeviceCaller<'a>,
    bounds: Bounds,
    bytes_max: usize,
}

impl<'a> Posting<'a> {
    pub(in crate::http) fn new(door: &'a Door, headers: &HeaderMap) -> Result<Self, Problem> {
        let caller = DeviceCaller::admit(door, headers)?;
        check_media_type(headers)?;
        let settings = caller.room.settings();
        let (message_bytes, many) = (settings.message_bytes_max, settings.request_messages_max);
        let (bounds, bytes_max) = (Bounds { message_bytes, many }, settings.request_bytes_max);
        Ok(Self { caller, bounds, bytes_max })
    }

    /// What the body may weigh.
    pub(in crate::http) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Stores the messages of the body.
    pub(in crate::http) async fn store(self, body: Bytes) -> Result<Written, Problem> {
        let Self { caller, bounds, .. } = self;
        let sender = sender(&caller)?;
        let messages = if body.len() <= READ_HERE_BYTES {
            posted(&body, &sender, bounds)?
        } else {
            let reading = spawn_blocking(move || posted(&body, &sender, bounds)).await;
            reading.map_err(|_| Problem::panicked())??
        };
        let ids: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
        let receipts = caller.room.post(caller.device, messages).await;
        let receipts = receipts.map_err(|error| caller.refuse(error))?;
        let fresh = receipts.iter().any(|receipt| !receipt.again);
        let results = ids.into_iter().zip(receipts).map(|(id, receipt)| ReceiptBody {
            id,
            status: if receipt.again { "duplicate" } else { "stored" },
            seq: receipt.seq.0,
            received_at: stamp(receipt.received),
        });
        let body = PostedBody { version: V1, results: results.collect() };
        let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
        Ok(Written { status, media_type: JSON, bytes: encode(&body)? })
    }
}

/// A device has messages: they are not given to it again.
#[utoipa::path(
    post, path = "/v1/exchange/messages/ack", operation_id = "ackMessages", tag = "exchange",
    request_body = AckDocument,
    responses((status = 200, description = "It is noted, and on disk.", body = AckedBody))
)]
pub(in crate::http) async fn ack_messages(
    State(door): State<Door>,
    query: Query,
    request: Request,
) -> Result<Json<AckedBody>, Problem> {
    query.known(&[])?;
    let caller = DeviceCaller::admit(&door, request.headers())?;
    check_media_type(request.headers())?;
    let body = read(request, door.app.limits().body_bytes_max).await?;
    let ids = acked(&body, caller.room.settings().request_messages_max)?;
    let acked = caller.room.ack(caller.device, ids).await;
    let (acked, again) = acked.map_err(|error| caller.refuse(error))?;
    Ok(Json(AckedBody { version: V1, acked, again }))
}

/// Keeps what a device says of itself, in memory, for whoever looks. A restart of the server forgets
/// it: a device whose lines matter sends them as messages.
#[utoipa::path(
    post, path = "/v1/exchange/device/log", operation_id = "postDeviceLog", tag = "exchange",
    request_body = DeviceLogBody,
    responses((status = 200, description = "It is kept, the last of it.", body = LogKeptBody))
)]
pub(in crate::http) async fn device_log(
    State(door): State<Door>,
    query: Query,
    request: Request,
) -> Result<Json<LogKeptBody>, Problem> {
    query.known(&[])?;
    let caller = DeviceCaller::admit(&door, request.headers())?;
    check_media_type(request.headers())?;
    let body = read(request, 16 * CONTROL_BYTES_MAX).await?;
    let DeviceLogBody { entries, .. } = decode(&body)?;
    let many = caller.room.settings().request_messages_max;
    if entries.len() > many {
        return Err(invalid(format!("a request has at most {many} lines")));
    }
    let received = caller.room.wall();
    let lines = entries.into_iter().map(|entry| {
        let at = read_stamp(&entry.at).map_err(invalid)?;
        let text = words(&entry.text);
        let text = text.get(..text.floor_char_boundary(LINE_BYTES_MAX)).unwrap_or_default();
        Ok(Line { at, received, text: text.into() })
    });
    let lines: Vec<Line> = lines.collect::<Result<_, Problem>>()?;
    let kept = lines.len();
    caller.room.keep_log(caller.device, lines);
    Ok(Json(LogKeptBody { version: V1, kept }))
}

/// Who a device is, and where what it sends goes.
fn sender(caller: &DeviceCaller<'_>) -> Result<Sender, Problem> {
    caller.look(|known, device| {
        let subsystem = known.subsystem(device.subsystem)?.id.clone();
        let to = known.route(device.company, device.subsystem).and_then(|no| known.database(no));
        let to = to.map(|database| database.id.clone());
        Some(Sender { from: device.id.clone(), to, subsystem })
    })
}

/// What a code is known by, however it was typed.
pub(super) fn code_digest(code: &str) -> Digest {
    let typed = code.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let plain: String = typed.take(64).map(|c| c.to_ascii_uppercase()).collect();
    digest(format!("code:{plain}").as_bytes())
}

pub(super) fn no_chance(error: crate::dice::NoChance) -> Problem {
    Problem::new(Code::Internal, error.to_string())
}
