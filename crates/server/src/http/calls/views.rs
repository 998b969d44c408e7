//! Calls as they are shown.

use axum::response::Response;
use handoff_calls::{CallId, ChannelName};
use handoff_types::Code;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::{CallsAsker, PAGE, PAGE_MAX};
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::stamp;
use crate::rooms::calls::CallView;

/// A call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Call)]
pub(in crate::http) struct CallDocument<'a> {
    version: V1,
    /// A UUID.
    #[schema(value_type = String)]
    id: CallId,
    /// Where it went.
    #[schema(value_type = String)]
    channel: &'a ChannelName,
    /// `waiting`, `later`, `offered`, `running`, `following` or `over`.
    stage: &'static str,
    /// `answer`, `error`, `timeout` or `cancelled`, once it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    /// The answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    answer: Option<&'a RawValue>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorDocument>,
    /// The client that called; none for plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<String>,
    /// The client that has it, or whose result was taken last.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor: Option<String>,
    /// How often it was begun.
    attempt: u16,
    /// How often it was offered: the latest fencing token.
    fence: u64,
    /// When it came.
    created: String,
    /// When its time is over, or was.
    deadline: String,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
    /// Its idempotency key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    /// W3C trace context.
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    /// The dead letter that it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    requeued_from: Option<CallId>,
    /// Whether a crash of the server leaves it.
    durable: bool,
    /// It is a dead letter.
    dead: bool,
    /// What the handler gets, of calls that are not over and dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    params: Option<&'a RawValue>,
    /// What happened to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    history: Vec<EventDocument>,
}

/// Something that happened to a call.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallEvent)]
pub(in crate::http) struct EventDocument {
    /// When.
    at: String,
    /// What.
    what: &'static str,
    /// Which client did it, or had it.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
}

/// What went wrong with a call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallError)]
pub(in crate::http) struct ErrorDocument {
    /// What kind of error it is.
    name: Box<str>,
    /// What happened.
    message: Box<str>,
    /// For programs.
    code: Box<str>,
}

impl<'a> CallDocument<'a> {
    /// With its history and its params.
    pub(super) fn whole(view: &'a CallView) -> Self {
        let history = view.history.iter().map(|event| EventDocument {
            at: stamp(event.at),
            what: event.what.text(),
            client: event.who.map(|client| client.to_string()),
        });
        let params = Some(&view.params).filter(|params| !params.is_empty());
        Self {
            history: history.collect(),
            params: params.map(super::frames::raw),
            ..Self::brief(view)
        }
    }

    /// Without.
    pub(super) fn brief(view: &'a CallView) -> Self {
        use handoff_calls::Outcome;
        let outcome = view.outcome.as_ref();
        let answer = match outcome {
            Some(Outcome::Answer(body)) => Some(super::frames::raw(body)),
            _ => None,
        };
        let error = outcome.and_then(Outcome::error).map(|error| ErrorDocument {
            name: error.name,
            message: error.message,
            code: error.code,
        });
        Self {
            version: V1,
            id: view.id,
            channel: &view.channel,
            stage: view.stage,
            outcome: outcome.map(Outcome::name),
            answer,
            error,
            caller: view.caller.map(|client| client.to_string()),
            executor: view.executor.map(|client| client.to_string()),
            attempt: view.attempt,
            fence: view.fence,
            created: stamp(view.created),
            deadline: stamp(view.deadline),
            ended: view.ended.map(stamp),
            key: view.key.as_deref(),
            traceparent: view.trace.as_deref(),
            requeued_from: view.again_for,
            durable: view.durable,
            dead: view.dead,
            params: None,
            history: Vec::new(),
        }
    }
}

/// Calls, the latest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallPage)]
pub(in crate::http) struct PageDocument<'a> {
    version: V1,
    calls: Vec<CallDocument<'a>>,
    /// What to give as `before` to go on; none at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// Calls that one look goes through, at most.
const SEEN_AT_ONCE: usize = 10_000;

/// Calls that are known, the latest first.
#[utoipa::path(
    get, path = "/v1/calls", operation_id = "listCalls", tag = "calls",
    params(
        ("channel" = Option<String>, Query, description = "Of this channel only."),
        ("open" = Option<bool>, Query, description = "`true`: those that are not over."),
        ("before" = Option<u64>, Query, description = "Go on with this, from `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 unless said otherwise."),
    ),
    responses((status = 200, description = "A page of calls.", body = PageDocument<'static>))
)]
pub(in crate::http) async fn list_calls(
    asker: CallsAsker,
    query: Query,
) -> Result<Response, Problem> {
    let asked = query.known(&["channel", "open", "before", "limit"])?;
    let channel = asked.one::<String>("channel", "a channel")?;
    let channel = channel.map(|text| asker.channel(&text)).transpose()?;
    let open = asked.one::<bool>("open", "true or false")?.unwrap_or(false);
    let before = asked.one::<u64>("before", "a number")?.unwrap_or(u64::MAX);
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let sight = asker.sight.clone();
    let looked = asker.room.look(move |state, now| {
        let mut views = Vec::new();
        let mut next = None;
        for (seen, call) in state.calls_below(before).enumerate() {
            if views.len() >= limit || seen >= SEEN_AT_ONCE {
                next = Some(call.seq + 1);
                break;
            }
            let wanted = channel.as_ref().is_none_or(|channel| *channel == call.channel)
                && (!open || call.ended().is_none())
                && sight.sees(call.channel.as_str());
            if wanted {
                views.push(CallView::of(call, now));
            }
        }
        (views, next)
    });
    let (views, next) = looked.await.map_err(|error| asker.refuse(error))?;
    let calls = views.iter().map(CallDocument::brief).collect();
    Ok(answer(PageDocument { version: V1, calls, next }))
}

/// What the room looks like.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallStats)]
pub(in crate::http) struct StatsDocument {
    version: V1,
    /// Calls that are known.
    calls: u64,
    /// Calls that are not over.
    open: u64,
    /// Bytes of all bodies.
    bytes: u64,
    /// Clients there are.
    clients: u64,
    /// Channels there are.
    channels: u64,
    /// Calls that wait.
    waiting: u64,
    /// Calls that are offered or running.
    in_flight: u64,
    /// Dead letters.
    dead: u64,
    /// Results that came too late, since the start of the server.
    late: u64,
}

/// What the room looks like at this moment.
#[utoipa::path(
    get, path = "/v1/calls/stats", operation_id = "callStats", tag = "calls",
    responses((status = 200, description = "Figures of all channels.", body = StatsDocument))
)]
pub(in crate::http) async fn call_stats(
    asker: CallsAsker,
    query: Query,
) -> Result<Json<StatsDocument>, Problem> {
    query.known(&[])?;
    if asker.sight != handoff_types::Sight::All {
        let detail = "the figures are of all channels; the token sees some names only";
        return Err(Problem::new(Code::OutOfScope, detail));
    }
    let stats = asker.room.stats().await.map_err(|error| asker.refuse(error))?;
    Ok(Json(StatsDocument {
        version: V1,
        calls: stats.calls,
        open: stats.open,
        bytes: stats.bytes,
        clients: stats.clients,
        channels: stats.channels,
        waiting: stats.waiting,
        in_flight: stats.in_flight,
        dead: stats.dead,
        late: stats.late,
    }))
}

/// What is borrowed from a view is written before the view is gone.
pub(super) fn answer(document: impl Serialize) -> Response {
    use axum::response::IntoResponse as _;
    Json(document).into_response()
}
