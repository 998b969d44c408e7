//! `GET /v1/exchange/messages`: what waits for a device.

use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use handoff_types::Code;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use utoipa::ToSchema;

use super::access::DeviceCaller;
use super::joined::Joined;
use crate::http::front::{Door, MayWait};
use crate::http::json::V1;
use crate::http::problem::Problem;
use crate::http::query::Query;

/// So much is left of a request's time for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Messages for a device, oldest first.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FetchedMessages)]
#[allow(dead_code, reason = "bodies are joined as they are stored; this says how it looks")]
pub(in crate::http) struct FetchedDocument {
    version: V1,
    /// Messages as they are stored: `{version, id, from, to, appSystem, createdAt, replyTo?, type?,
    /// payload}`.
    #[schema(value_type = Vec<Object>)]
    messages: Vec<serde_json::Value>,
    /// Whether there are more.
    more: bool,
}

/// Messages for the device whose token is shown, oldest first. They are given again until they are
/// acknowledged.
#[utoipa::path(
    get, path = "/v1/exchange/messages", operation_id = "fetchMessages", tag = "exchange",
    params(
        ("limit" = Option<u32>, Query, description = "How many at most; the smaller of this and the server's counts."),
        ("maxBytes" = Option<u64>, Query, description = "How many bytes at most, likewise. The first is given however large it is."),
        ("wait" = Option<u64>, Query, description = "How many seconds to wait for a message if there is none; 30 at most unless the server says otherwise."),
    ),
    responses((status = 200, description = "Messages, or none.", body = FetchedDocument))
)]
pub(in crate::http) async fn fetch_messages(
    State(door): State<Door>,
    headers: HeaderMap,
    query: Query,
) -> Result<(Extension<MayWait>, Response), Problem> {
    let caller = DeviceCaller::admit(&door, &headers)?;
    let asked = query.known(&["limit", "maxBytes", "wait"])?;
    let settings = caller.room.settings();
    let limit = asked.one::<usize>("limit", "a number from 1 on")?;
    let bytes = asked.one::<u64>("maxBytes", "a number of bytes")?;
    let wait = asked.one::<u64>("wait", "a number of seconds")?.unwrap_or(0);
    if limit == Some(0) {
        return Err(Problem::new(Code::RequestMalformed, "`limit` is 0; it is a number from 1 on"));
    }
    let limit = limit.unwrap_or(usize::MAX).min(settings.fetch_messages_max);
    let bytes = bytes.unwrap_or(u64::MAX).min(settings.fetch_bytes_max);
    let patience = door.app.limits().request_time_max.saturating_sub(ANSWER_TIME);
    let wait = Duration::from_secs(wait).min(settings.wait_max).min(patience);
    let until = Instant::now() + wait;
    // Before the first look, so that nothing comes between it and the wait.
    let bell = match wait.is_zero() {
        true => None,
        false => {
            let busy = || {
                let words = "as many devices wait for messages as exchange.waiting_max allows";
                Problem::new(Code::RoomBusy, words)
            };
            Some(caller.room.wait(caller.device).ok_or_else(busy)?)
        }
    };
    let inbox = loop {
        let inbox = caller.room.inbox(caller.device, limit, bytes).await;
        let inbox = inbox.map_err(|error| caller.refuse(error))?;
        let Some((bell, _)) = bell.as_ref().filter(|_| inbox.files.is_empty()) else { break inbox };
        let rung = tokio::select! {
            rung = timeout_at(until, bell.rung()) => rung.is_ok(),
            () = door.stop.cancelled() => false,
        };
        if !rung {
            break inbox;
        }
        caller.expect_free()?;
    };
    drop(bell);
    let tail = if inbox.more { "],\"more\":true}" } else { "],\"more\":false}" };
    let files = inbox.files.into_iter().map(|filed| (None, filed));
    let head = "{\"version\":1,\"messages\":[".to_owned();
    let joined = Joined::new(caller.room.clone(), files, head, tail);
    let response = joined.answer(StatusCode::OK).await.map_err(|error| caller.refuse(error))?;
    Ok((Extension(MayWait(wait)), response))
}
