//! `GET /v1/calls/connect`: where clients come in.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use handoff_calls::wire::SUBPROTOCOL;
use handoff_types::Code;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_websockets::{Limits, ServerBuilder};

use super::CallsAsker;
use super::connection::Connection;
use crate::http::access::Key;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::streams::base64;

/// What a frame takes besides its body.
const FRAME_BYTES: usize = 16 << 10;

/// What RFC 6455 has a server put behind a client's key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A WebSocket for clients that call and serve channels. `docs/calls-protocol.md` has its frames.
#[utoipa::path(
    get, path = "/v1/calls/connect", operation_id = "connectCalls", tag = "calls",
    responses((status = 101, description = "A WebSocket of the subprotocol `handoff.calls.v1`."))
)]
pub(in crate::http) async fn connect_calls(
    asker: CallsAsker,
    query: Query,
    mut request: Request,
) -> Result<Response, Problem> {
    query.known(&[])?;
    let mut response = shaken(request.headers())?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| no_websocket("the connection cannot be upgraded"))?;
    let place = asker.room.place_to_connect().ok_or_else(|| {
        let words = "as many clients are connected as calls.clients_max allows";
        Problem::new(Code::ServerBusy, words)
    })?;
    let bytes_max = asker.room.settings().body_bytes_max + FRAME_BYTES;
    let key = Key::of(request.headers());
    let CallsAsker { room, sight, caller, door } = asker;
    let connection = Connection::new(room, (sight, &caller), door, key);
    tokio::spawn(async move {
        // A client that breaks off is nobody's fault here.
        if let Ok(upgraded) = upgrade.await {
            let limits = Limits::default().max_payload_len(Some(bytes_max));
            let builder = ServerBuilder::new().limits(limits);
            connection.serve(builder.serve(TokioIo::new(upgraded))).await;
        }
        drop(place);
    });
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    Ok(response)
}

/// The answer to a client that asks for a WebSocket as RFC 6455 says.
fn shaken(headers: &HeaderMap) -> Result<Response, Problem> {
    let says = |name: HeaderName, word: &str| {
        let words = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        words.flat_map(|text| text.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
    };
    if !says(header::UPGRADE, "websocket") || !says(header::CONNECTION, "upgrade") {
        return Err(no_websocket("the request does not ask for one"));
    }
    if !says(header::SEC_WEBSOCKET_VERSION, "13") {
        return Err(no_websocket("it is version 13 that is spoken here"));
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| no_websocket("Sec-WebSocket-Key is missing"))?;
    let mut response = Response::new(Body::empty());
    let answer = response.headers_mut();
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(accepted) = HeaderValue::try_from(accepted(key.as_bytes())) {
        answer.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    }
    if headers.contains_key(header::SEC_WEBSOCKET_PROTOCOL) {
        if !says(header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL) {
            return Err(no_websocket("the subprotocol is handoff.calls.v1"));
        }
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
    }
    Ok(response)
}

fn accepted(key: &[u8]) -> String {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    context.update(key);
    context.update(GUID);
    let mut text = String::new();
    base64::encode(context.finish().as_ref(), &mut text);
    text
}

fn no_websocket(why: &str) -> Problem {
    Problem::new(Code::RequestMalformed, format!("this is no WebSocket: {why}"))
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn a_key_is_answered_as_the_standard_says() {
        assert_eq!(accepted(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
