//! `GET /v1/calls/connect`: where clients come in.

use axum::extract::Request;
use axum::response::Response;
use handoff_calls::wire::SUBPROTOCOL;
use handoff_types::Code;

use super::CallsAsker;
use super::connection::Connection;
use crate::http::access::Key;
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::websocket::greet;

/// What a frame takes besides its body.
const FRAME_BYTES: usize = 16 << 10;

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
    let greeted = greet(&mut request, SUBPROTOCOL)?;
    let place = asker.room.place_to_connect().ok_or_else(|| {
        let words = "as many clients are connected as calls.clients_max allows";
        Problem::new(Code::ServerBusy, words)
    })?;
    let bytes_max = asker.room.settings().body_bytes_max + FRAME_BYTES;
    let key = Key::of(request.headers());
    let CallsAsker { room, sight, caller, door } = asker;
    let connection = Connection::new(room, (sight, &caller), door, key);
    Ok(greeted.then(bytes_max, move |socket| async move {
        connection.serve(socket).await;
        drop(place);
    }))
}
