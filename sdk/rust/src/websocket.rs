//! A WebSocket to the server.

use http::{HeaderValue, Method, StatusCode, Uri, header};
use tokio::time::{Instant, timeout_at};
use tokio_websockets::upgrade::Error as Upgrade;
use tokio_websockets::{ClientBuilder, Error as SocketError, Limits, WebSocketStream};

use crate::Error;
use crate::client::Inner;
use crate::connect::{Stream, connect, later};

/// A WebSocket.
pub(crate) type Web = WebSocketStream<Box<dyn Stream>>;

/// Makes a connection, within the time for it.
pub(crate) async fn open(
    inner: &Inner,
    path: &str,
    subprotocol: &'static str,
    payload_bytes_max: usize,
) -> Result<Web, Error> {
    let transport = &inner.transport;
    let base = &transport.base;
    let within = transport.connect_time_max;
    let deadline = later(Instant::now(), within);
    let late = || Error::Timeout { url: base.url.clone(), waited: within, sent: false };
    let unreachable = |cause| Error::Unreachable { url: base.url.clone(), cause };
    let stream = connect(&base.host, base.port, transport.tls.as_ref(), within).await;
    let stream = stream.map_err(|error| match error.kind() {
        std::io::ErrorKind::TimedOut => late(),
        _ => unreachable(error.into()),
    })?;
    let uri = Uri::builder()
        .scheme(if base.https { "wss" } else { "ws" })
        .authority(&*base.authority)
        .path_and_query(base.resolve(path)?.path())
        .build()
        .map_err(|error| Error::Invalid(error.to_string()))?;
    let limits = Limits::default().max_payload_len(Some(payload_bytes_max));
    let mut builder = ClientBuilder::from_uri(uri).limits(limits);
    let protocol = HeaderValue::from_static(subprotocol);
    let shown = [header::AUTHORIZATION, header::USER_AGENT];
    let shown = shown.into_iter().filter_map(|name| {
        let value = transport.headers.get(&name)?.clone();
        Some((name, value))
    });
    for (name, value) in shown.chain([(header::SEC_WEBSOCKET_PROTOCOL, protocol)]) {
        builder =
            builder.add_header(name, value).map_err(|error| Error::Invalid(error.to_string()))?;
    }
    let shaken = timeout_at(deadline, builder.connect_on(stream)).await.map_err(|_| late())?;
    match shaken {
        Ok((web, _)) => Ok(web),
        Err(SocketError::Upgrade(Upgrade::DidNotSwitchProtocols(status))) => {
            Err(why_not(inner, path, status).await)
        }
        Err(SocketError::Io(error)) => Err(unreachable(error.into())),
        Err(error) => Err(inner.protocol(error.to_string())),
    }
}

/// Why the server makes no WebSocket of a connection. Asked for the same without one, it says so in
/// words.
async fn why_not(inner: &Inner, path: &str, status: u16) -> Error {
    let told = async {
        let asking = inner.outgoing(Method::GET, path, "application/json", None)?;
        inner.ask(&asking).await.and_then(|answer| inner.success(answer))
    };
    match told.await {
        Err(Error::Problem(problem)) if problem.status == status => Error::Problem(problem),
        _ => match StatusCode::from_u16(status) {
            Ok(status) => inner.refused(status),
            Err(_) => inner.protocol(format!("it answers with status {status}")),
        },
    }
}
