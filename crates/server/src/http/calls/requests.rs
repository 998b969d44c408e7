//! `POST /v1/calls/{target}` and what is asked of one call.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use handoff_calls::{CallId, Failure, NewCall, Outcome};
use handoff_types::{Code, Span};
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::views::{CallDocument, answer};
use super::{CallsAsker, bad_name, call_id, no_call};
use crate::http::front::MayWait;
use crate::http::json::{check_media_type, read};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::rooms::calls::CallView;

static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static PREFER: HeaderName = HeaderName::from_static("prefer");
static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// So much is left of a request's time for its answer.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// Calls a channel and waits for the end. The body is what the handler gets.
///
/// A call that is not over when the wait is, is answered 202; it goes on, and `Location` says where to
/// ask for it. Sent again with the same `Idempotency-Key`, it is the same call.
#[utoipa::path(
    post, path = "/v1/calls/{target}", operation_id = "call", tag = "calls",
    params(
        ("target" = String, Path, description = "The channel."),
        ("Idempotency-Key" = Option<String>, Header, description = "Calls of the channel with the same key and body are one."),
        ("Prefer" = Option<String>, Header, description = "`wait=30`: how many seconds to wait; 0 for not at all."),
        ("timeoutMs" = Option<u64>, Query, description = "The time of the whole call."),
        ("queueTimeoutMs" = Option<u64>, Query, description = "The time until it is begun."),
        ("onlyWithConsumer" = Option<bool>, Query, description = "`true`: it ends at once if nobody serves the channel."),
    ),
    request_body(content = Object, description = "Any JSON."),
    responses(
        (status = 200, description = "The answer.", body = CallDocument<'static>),
        (status = 202, description = "The call goes on.", body = CallDocument<'static>),
        (status = 409, description = "It was cancelled.", body = CallDocument<'static>),
        (status = 502, description = "The handler failed, or its executor was lost.", body = CallDocument<'static>),
        (status = 503, description = "Nobody serves the channel, and it was not to wait.", body = CallDocument<'static>),
        (status = 504, description = "Its time was over.", body = CallDocument<'static>),
    )
)]
pub(in crate::http) async fn call(
    asker: CallsAsker,
    Path(target): Path<String>,
    query: Query,
    request: Request,
) -> Result<(Extension<MayWait>, Response), Problem> {
    let channel = asker.channel(&target)?;
    let asked = query.known(&["timeoutMs", "queueTimeoutMs", "onlyWithConsumer"])?;
    let millis = "a number of milliseconds";
    let timeout = asked.one::<u64>("timeoutMs", millis)?;
    let queue_timeout = asked.one::<u64>("queueTimeoutMs", millis)?;
    let only_with_consumer = asked.one::<bool>("onlyWithConsumer", "true or false")?;
    let headers = request.headers().clone();
    check_media_type(&headers)?;
    let settings = asker.room.settings();
    let params = read(request, settings.body_bytes_max).await?;
    serde_json::from_slice::<&RawValue>(&params).map_err(|bad| {
        Problem::new(Code::RequestMalformed, format!("the body is no JSON: {bad}"))
    })?;
    let key = text_of(&headers, &IDEMPOTENCY_KEY)?;
    let key = key.map(str::parse).transpose().map_err(bad_name)?;
    // A trace that cannot be read is begun anew by whoever traces.
    let trace = text_of(&headers, &TRACEPARENT).ok().flatten();
    let new = NewCall {
        id: asker.room.new_id(),
        caller: None,
        channel,
        params,
        key,
        timeout: timeout.map(Span::from_millis),
        queue_timeout: queue_timeout.map(Span::from_millis),
        only_with_consumer: only_with_consumer.unwrap_or(false),
        trace: trace.and_then(|text| text.parse().ok()),
    };
    let wait = patience(&asker, wait_of(&headers)?);
    let place = match wait.is_zero() {
        true => None,
        false => Some(asker.room.place_to_wait().ok_or_else(|| {
            let words = "as many requests wait for calls as calls.waiting_max allows";
            Problem::new(Code::RoomBusy, words)
        })?),
    };
    let until = Instant::now() + wait;
    let id = asker.room.request(new).await.map_err(|error| asker.refuse(error))?;
    let view = over(&asker, id, until).await?;
    drop(place);
    let mut response = answer(CallDocument::brief(&view));
    *response.status_mut() = status_of(view.outcome.as_ref());
    if let Ok(location) = HeaderValue::try_from(format!("/v1/calls/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    Ok((Extension(MayWait(wait)), response))
}

/// A call, with what happened to it. With `wait` it is waited for its end.
#[utoipa::path(
    get, path = "/v1/calls/{target}", operation_id = "showCall", tag = "calls",
    params(
        ("target" = String, Path, description = "The id of the call."),
        ("wait" = Option<u64>, Query, description = "How many seconds to wait for its end."),
    ),
    responses((status = 200, description = "The call.", body = CallDocument<'static>))
)]
pub(in crate::http) async fn show_call(
    asker: CallsAsker,
    Path(target): Path<String>,
    query: Query,
) -> Result<(Extension<MayWait>, Response), Problem> {
    let asked = query.known(&["wait"])?;
    let wait = asked.one::<u64>("wait", "a number of seconds")?;
    let wait = patience(&asker, Some(Duration::from_secs(wait.unwrap_or(0))));
    let view = over(&asker, call_id(&target)?, Instant::now() + wait).await?;
    Ok((Extension(MayWait(wait)), answer(CallDocument::whole(&view))))
}

/// Cancels a call. One that waits is over at once; so is one that runs, and whoever runs it is told.
#[utoipa::path(
    delete, path = "/v1/calls/{target}", operation_id = "cancelCall", tag = "calls",
    params(("target" = String, Path, description = "The id of the call.")),
    responses((status = 200, description = "The call, which is over.", body = CallDocument<'static>))
)]
pub(in crate::http) async fn cancel_call(
    asker: CallsAsker,
    Path(target): Path<String>,
    query: Query,
) -> Result<Response, Problem> {
    query.known(&[])?;
    let id = call_id(&target)?;
    seen(&asker, id).await?;
    asker.room.cancel(id).await.map_err(|error| asker.refuse(error))?;
    let view = seen(&asker, id).await?;
    Ok(answer(CallDocument::whole(&view)))
}

/// A call, once it is over or the time is.
async fn over(asker: &CallsAsker, id: CallId, until: Instant) -> Result<CallView, Problem> {
    // Before the first look, so that nothing comes between it and the wait.
    let wait = asker.room.wait(id);
    loop {
        let rung = wait.rung();
        let view = seen(asker, id).await?;
        if view.outcome.is_some() {
            return Ok(view);
        }
        let rung = tokio::select! {
            rung = timeout_at(until, rung) => rung.is_ok(),
            () = asker.door.stop.cancelled() => false,
        };
        if !rung {
            return Ok(view);
        }
    }
}

/// A call that the asker sees.
pub(super) async fn seen(asker: &CallsAsker, id: CallId) -> Result<CallView, Problem> {
    let looked =
        asker.room.look(move |state, now| state.call(id).map(|call| CallView::of(call, now)));
    let found = looked.await.map_err(|error| asker.refuse(error))?;
    let in_sight = found.filter(|view| asker.sight.sees(view.channel.as_str()));
    in_sight.ok_or_else(|| no_call(&id.to_string()))
}

fn status_of(outcome: Option<&Outcome>) -> StatusCode {
    match outcome {
        None => StatusCode::ACCEPTED,
        Some(Outcome::Answer(_)) => StatusCode::OK,
        Some(Outcome::Failed(Failure::NoConsumer)) => StatusCode::SERVICE_UNAVAILABLE,
        Some(Outcome::Failed(_)) => StatusCode::BAD_GATEWAY,
        Some(Outcome::TimedOut(_)) => StatusCode::GATEWAY_TIMEOUT,
        Some(Outcome::Cancelled) => StatusCode::CONFLICT,
    }
}

/// How long to wait: as long as is asked for, and not longer than may be.
fn patience(asker: &CallsAsker, asked: Option<Duration>) -> Duration {
    let most = asker.door.app.limits().request_time_max.saturating_sub(ANSWER_TIME);
    let most = most.min(asker.room.settings().wait_max);
    asked.unwrap_or(most).min(most)
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = value.to_str().map_err(|_| {
        Problem::new(Code::RequestMalformed, format!("`{name}` has characters that it cannot have"))
    })?;
    Ok(Some(text.trim()))
}

/// `Prefer: wait=30` (RFC 7240). Other preferences are passed over.
fn wait_of(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(text) = text_of(headers, &PREFER)? else { return Ok(None) };
    let wait = text.split(',').find_map(|one| one.trim().strip_prefix("wait="));
    let Some(wait) = wait else { return Ok(None) };
    let seconds = wait.trim_matches('"').parse().map_err(|_| {
        Problem::new(Code::RequestMalformed, format!("`Prefer: wait={wait}` names no seconds"))
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

#[cfg(test)]
mod tests {
    use super::{PREFER, wait_of};
    use axum::http::HeaderMap;
    use std::time::Duration;

    #[test]
    fn a_wait_is_found_among_preferences() {
        let wait = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(&PREFER, text.parse().unwrap());
            wait_of(&headers)
        };
        let secs = |secs| Some(Duration::from_secs(secs));
        assert_eq!(wait("wait=30").unwrap(), secs(30));
        assert_eq!(wait("respond-async, wait=\"0\"").unwrap(), secs(0));
        assert_eq!(wait("respond-async").unwrap(), None);
        assert!(wait("wait=soon").is_err());
        assert_eq!(wait_of(&HeaderMap::new()).unwrap(), None);
    }
}
