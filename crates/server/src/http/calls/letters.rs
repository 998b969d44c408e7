//! Dead letters: calls that were given up.

use axum::extract::Path;
use axum::http::StatusCode;
use axum::response::Response;
use handoff_calls::CallId;
use handoff_house::ActKind;
use serde::Serialize;
use utoipa::ToSchema;

use super::requests::seen;
use super::views::{CallDocument, answer};
use super::{CallsAsker, PAGE, PAGE_MAX, call_id};
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::rooms::calls::CallView;

/// Dead letters of a channel, the oldest first.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeadCalls)]
pub(in crate::http) struct DeadDocument<'a> {
    version: V1,
    calls: Vec<CallDocument<'a>>,
    /// How many there are.
    total: u64,
    /// What to give as `from` to go on; none at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// Dead letters that are gone.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PurgedCalls)]
pub(in crate::http) struct PurgedDocument {
    version: V1,
    /// How many.
    purged: u64,
}

/// A dead letter that is called again.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RequeuedCall)]
pub(in crate::http) struct RequeuedDocument {
    version: V1,
    /// The call that it is now.
    #[schema(value_type = String)]
    id: CallId,
}

/// The dead letters of a channel, the oldest first, with what the handler was given.
#[utoipa::path(
    get, path = "/v1/calls/channels/{channel}/dead", operation_id = "listDeadCalls", tag = "calls",
    params(
        ("channel" = String, Path, description = "The channel."),
        ("from" = Option<u64>, Query, description = "Go on with this, from `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 unless said otherwise."),
    ),
    responses((status = 200, description = "A page of dead letters.", body = DeadDocument<'static>))
)]
pub(in crate::http) async fn list_dead_calls(
    asker: CallsAsker,
    Path(channel): Path<String>,
    query: Query,
) -> Result<Response, Problem> {
    let asked = query.known(&["from", "limit"])?;
    let from = asked.one::<u64>("from", "a number")?.unwrap_or(0);
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    let channel = asker.channel(&channel)?;
    let looked = asker.room.look(move |state, now| {
        let mut dead = state.dead_from(&channel, from);
        let views = dead.by_ref().take(limit).map(|call| CallView::of(call, now));
        let views = views.collect::<Vec<_>>();
        (views, dead.next().map(|call| call.seq), state.counts(&channel).dead)
    });
    let (views, next, total) = looked.await.map_err(|error| asker.refuse(error))?;
    let calls = views.iter().map(CallDocument::whole).collect();
    Ok(answer(DeadDocument { version: V1, calls, total, next }))
}

/// Drops all dead letters of a channel.
#[utoipa::path(
    delete, path = "/v1/calls/channels/{channel}/dead", operation_id = "purgeDeadCalls", tag = "calls",
    params(("channel" = String, Path, description = "The channel.")),
    responses((status = 200, description = "How many are gone.", body = PurgedDocument))
)]
pub(in crate::http) async fn purge_dead_calls(
    asker: CallsAsker,
    Path(channel): Path<String>,
    query: Query,
) -> Result<Json<PurgedDocument>, Problem> {
    query.known(&[])?;
    let channel = asker.channel(&channel)?;
    let purged = asker.room.purge(&channel, None).await.map_err(|error| asker.refuse(error))?;
    asker.note(ActKind::Deleted, &format!("{purged} dead letters of channel {channel}")).await;
    Ok(Json(PurgedDocument { version: V1, purged }))
}

/// Drops one dead letter.
#[utoipa::path(
    delete, path = "/v1/calls/channels/{channel}/dead/{id}", operation_id = "purgeDeadCall", tag = "calls",
    params(
        ("channel" = String, Path, description = "The channel."),
        ("id" = String, Path, description = "The id of the call."),
    ),
    responses((status = 200, description = "It is gone.", body = PurgedDocument))
)]
pub(in crate::http) async fn purge_dead_call(
    asker: CallsAsker,
    Path((channel, id)): Path<(String, String)>,
    query: Query,
) -> Result<Json<PurgedDocument>, Problem> {
    query.known(&[])?;
    let (channel, id) = (asker.channel(&channel)?, call_id(&id)?);
    let purged = asker.room.purge(&channel, Some(id)).await;
    let purged = purged.map_err(|error| asker.refuse(error))?;
    asker.note(ActKind::Deleted, &format!("dead letter {id} of channel {channel}")).await;
    Ok(Json(PurgedDocument { version: V1, purged }))
}

/// Calls a dead letter again, under an id of its own: its caller was told of its end before.
#[utoipa::path(
    post, path = "/v1/calls/{target}/requeue", operation_id = "requeueCall", tag = "calls",
    params(("target" = String, Path, description = "The id of the call.")),
    responses((status = 201, description = "The call that it is now.", body = RequeuedDocument))
)]
pub(in crate::http) async fn requeue_call(
    asker: CallsAsker,
    Path(target): Path<String>,
    query: Query,
) -> Result<(StatusCode, Json<RequeuedDocument>), Problem> {
    query.known(&[])?;
    let id = call_id(&target)?;
    seen(&asker, id).await?;
    let again = asker.room.requeue(id).await.map_err(|error| asker.refuse(error))?;
    asker.note(ActKind::Altered, &format!("dead letter {id} is called again as {again}")).await;
    Ok((StatusCode::CREATED, Json(RequeuedDocument { version: V1, id: again })))
}
