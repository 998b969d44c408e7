//! WebSockets: the greeting of RFC 6455, and the farewell.

use std::io;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::SinkExt as _;
use handoff_types::Code;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tokio_websockets::{CloseCode, Limits, Message, ServerBuilder, WebSocketStream};

use super::problem::Problem;
use super::streams::base64;

/// What RFC 6455 has a server put behind a client's key.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The longest reason that a WebSocket can give for its end.
const REASON_BYTES_MAX: usize = 120;

/// How long a client may take to take leave, and how much it may still say.
const FAREWELL: Duration = Duration::from_secs(2);
const DRAINED_AT_ONCE: usize = 16 << 10;
const DRAINED_MAX: usize = 4_096;

/// A WebSocket that came by HTTP.
pub(super) type WebSocket = WebSocketStream<TokioIo<Upgraded>>;

/// A request that becomes a WebSocket once it is answered.
pub(super) struct Greeted {
    response: Response,
    upgrade: OnUpgrade,
}

/// Why a connection ends.
#[derive(Debug)]
pub(super) struct End {
    pub(super) code: CloseCode,
    pub(super) words: String,
}

impl End {
    pub(super) fn protocol(words: impl Into<String>) -> Self {
        Self { code: CloseCode::PROTOCOL_ERROR, words: words.into() }
    }

    pub(super) fn policy(words: impl Into<String>) -> Self {
        Self { code: CloseCode::POLICY_VIOLATION, words: words.into() }
    }

    pub(super) fn stopping() -> Self {
        Self { code: CloseCode::SERVICE_RESTART, words: "the server is stopping".to_owned() }
    }
}

/// Greets a client that asks for a WebSocket.
pub(super) fn greet(request: &mut Request, subprotocol: &'static str) -> Result<Greeted, Problem> {
    let response = shaken(request.headers(), subprotocol)?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| no_websocket("the connection cannot be upgraded"))?;
    Ok(Greeted { response, upgrade })
}

impl Greeted {
    /// The answer to send; then this is done with the WebSocket, in a task of its own.
    pub(super) fn then<F>(
        self,
        payload_bytes_max: usize,
        serve: impl FnOnce(WebSocket) -> F + Send + 'static,
    ) -> Response
    where
        F: Future<Output = ()> + Send,
    {
        let Self { mut response, upgrade } = self;
        tokio::spawn(async move {
            // A client that breaks off is nobody's fault here.
            if let Ok(upgraded) = upgrade.await {
                let limits = Limits::default().max_payload_len(Some(payload_bytes_max));
                let builder = ServerBuilder::new().limits(limits);
                serve(builder.serve(TokioIo::new(upgraded))).await;
            }
        });
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
    }
}

/// The answer to a client that asks for a WebSocket as RFC 6455 says.
fn shaken(headers: &HeaderMap, subprotocol: &'static str) -> Result<Response, Problem> {
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
        if !says(header::SEC_WEBSOCKET_PROTOCOL, subprotocol) {
            return Err(no_websocket(&format!("the subprotocol is {subprotocol}")));
        }
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(subprotocol));
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

/// Says why a connection ends, to a client that takes it within a time.
pub(super) async fn farewell(mut socket: WebSocket, End { code, words }: End, patience: Duration) {
    let cut = words.floor_char_boundary(REASON_BYTES_MAX);
    let close = Message::close(Some(code), words.get(..cut).unwrap_or_default());
    let said = async {
        // What is no WebSocket at all the library has answered already.
        if socket.send(close).await.is_err() {
            drop(socket.flush().await);
        }
    };
    // Whoever does not take it has gone.
    drop(timeout(patience, said).await);
    drop(timeout(FAREWELL, drained(socket.into_inner())).await);
}

/// Takes what is still on its way from a client that was told why its connection ends: if it were left,
/// the system would take the reason back.
async fn drained(mut io: TokioIo<Upgraded>) -> io::Result<()> {
    io.shutdown().await?;
    let mut buffer = vec![0; DRAINED_AT_ONCE];
    for _ in 0..DRAINED_MAX {
        if io.read(&mut buffer).await? == 0 {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::accepted;

    #[test]
    fn a_key_is_answered_as_the_standard_says() {
        assert_eq!(accepted(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
