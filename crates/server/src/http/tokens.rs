//! `/v1/tokens` and `/v1/audit`, for whoever may do everything.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use handoff_house::{Act, Token, TokenId};
use handoff_types::{Code, Scope};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::Admin;
use super::json::{Created, Json, V1};
use super::problem::Problem;
use super::query::Query;
use super::stamp::{read_stamp, stamp};
use crate::auth::mint;

/// Acts of a page unless the client says otherwise.
const PAGE: usize = 100;

/// Acts of the largest page.
const PAGE_MAX: usize = 1_000;

/// All tokens, without their texts.
#[utoipa::path(
    get, path = "/v1/tokens", operation_id = "listTokens", tag = "tokens",
    responses((status = 200, description = "Tokens, by id.", body = Tokens))
)]
pub(super) async fn list_tokens(admin: Admin, query: Query) -> Result<Json<Tokens>, Problem> {
    query.known(&[])?;
    let tokens = admin.house.tokens().await.map_err(|error| admin.refuse(error))?;
    let tokens = tokens.iter().map(TokenEntry::from).collect();
    Ok(Json(Tokens { version: V1, tokens }))
}

/// Makes a token. Its text is in this answer and nowhere else, ever.
#[utoipa::path(
    post, path = "/v1/tokens", operation_id = "createToken", tag = "tokens",
    request_body = NewToken,
    responses((
        status = 201, description = "The token, with its text.", body = CreatedToken,
        headers(("location" = String, description = "Where it can be revoked.")),
    ))
)]
pub(super) async fn create_token(
    admin: Admin,
    query: Query,
    Json(asked): Json<NewToken>,
) -> Result<Created<CreatedToken>, Problem> {
    query.known(&[])?;
    let NewToken { name, scopes, expires_at, .. } = asked;
    let invalid = |detail: String| Problem::new(Code::RequestInvalid, detail);
    let read = scopes.iter().map(|scope| scope.parse::<Scope>()).collect::<Result<Vec<_>, _>>();
    let read = read.map_err(|why| invalid(why.to_string()))?;
    let expires = expires_at.as_deref().map(read_stamp).transpose().map_err(invalid)?;
    // The verifiers cost some milliseconds of computing, on purpose.
    let label = name.clone();
    let minted = tokio::task::spawn_blocking(move || mint(&label, read, expires)).await;
    let Ok(Ok((token, kept))) = minted else {
        return Err(Problem::new(Code::Internal, "no token could be drawn"));
    };
    let id = kept.id.0.to_string();
    let done = admin.house.create(kept, admin.caller.name()).await;
    done.map_err(|error| admin.refuse(error))?;
    let location = format!("/v1/tokens/{id}");
    let body =
        CreatedToken { version: V1, id, token, name, scopes, expires_at: expires.map(stamp) };
    Ok(Created { location, body })
}

/// Revokes a token. From the answer on it opens nothing.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", operation_id = "revokeToken", tag = "tokens",
    params(("id" = String, Path, description = "Its id.")),
    responses((status = 200, description = "It opens nothing any more.", body = RevokedToken))
)]
pub(super) async fn revoke_token(
    admin: Admin,
    id: Result<Path<String>, PathRejection>,
    query: Query,
) -> Result<Json<RevokedToken>, Problem> {
    query.known(&[])?;
    let not_found = |id: &str| Problem::new(Code::TokenNotFound, format!("there is no token {id}"));
    let Path(id) = id.map_err(|rejection| not_found(&rejection.body_text()))?;
    let done = admin.house.revoke(TokenId(id.as_str().into()), admin.caller.name()).await;
    done.map_err(|error| admin.refuse(error))?;
    Ok(Json(RevokedToken { version: V1, id }))
}

/// Administrative acts, the latest first.
#[utoipa::path(
    get, path = "/v1/audit", operation_id = "listActs", tag = "tokens",
    params(
        ("below" = Option<u64>, Query, description = "Only acts with smaller numbers: `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "Acts of a page: 1 to 1000, 100 if absent."),
    ),
    responses((status = 200, description = "A page.", body = Acts))
)]
pub(super) async fn list_acts(admin: Admin, query: Query) -> Result<Json<Acts>, Problem> {
    let asked = query.known(&["below", "limit"])?;
    let below = asked.one("below", "the number of an act")?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    // One more than asked for, to know whether there is more.
    let acts = admin.house.acts(below, limit + 1).await.map_err(|error| admin.refuse(error))?;
    let more = acts.len() > limit;
    let acts: Vec<ActEntry> = acts.iter().take(limit).map(ActEntry::from).collect();
    let next = acts.last().filter(|_| more).map(|act| act.number);
    Ok(Json(Acts { version: V1, acts, next }))
}

/// A token to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1, "name": "backup job", "scopes": ["events:backup.*"],
    "expiresAt": "2028-01-01T00:00:00Z",
}))]
pub(super) struct NewToken {
    version: V1,
    /// For people.
    name: String,
    /// What it allows: `admin`, or rooms and names like `events` and `events:backup.*`.
    scopes: Vec<String>,
    /// When it ends; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

/// A token just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({
    "version": 1, "id": "k3m9x2q7", "token": "ho_k3m9x2q7_…", "name": "backup job",
    "scopes": ["events:backup.*"],
}))]
pub(super) struct CreatedToken {
    version: V1,
    /// What it is revoked by; also the user name for SASL.
    id: String,
    /// The secret.
    token: String,
    /// For people.
    name: String,
    /// What it allows.
    scopes: Vec<String>,
    /// When it ends; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

/// Tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Tokens {
    version: V1,
    tokens: Vec<TokenEntry>,
}

/// A token, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Token, example = json!({
    "id": "k3m9x2q7", "name": "backup job", "scopes": ["events:backup.*"],
    "createdAt": "2027-01-01T00:00:00Z",
}))]
pub(super) struct TokenEntry {
    /// What it is revoked by; also the user name for SASL.
    id: String,
    /// For people.
    name: String,
    /// What it allows.
    scopes: Vec<String>,
    created_at: String,
    /// When it ends; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

impl From<&Token> for TokenEntry {
    fn from(kept: &Token) -> Self {
        Self {
            id: kept.token.id.0.to_string(),
            name: kept.token.name.clone(),
            scopes: kept.token.scopes.iter().map(ToString::to_string).collect(),
            created_at: stamp(kept.created),
            expires_at: kept.token.expires.map(stamp),
        }
    }
}

/// A token that was revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(example = json!({"version": 1, "id": "k3m9x2q7"}))]
pub(super) struct RevokedToken {
    version: V1,
    id: String,
}

/// A page of administrative acts, the latest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Acts {
    version: V1,
    acts: Vec<ActEntry>,
    /// What `below` takes for the next page; absent on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// An administrative act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = Act, example = json!({
    "number": 3, "at": "2027-01-01T00:00:00Z", "who": "k3m9x2q7", "kind": "token_revoked",
    "target": "m4n5p6q7",
}))]
pub(super) struct ActEntry {
    /// Counts from 1, never used again.
    number: u64,
    at: String,
    /// A token's id, or `local` for whoever holds the data directory or the loopback.
    who: String,
    /// What kind of act.
    kind: String,
    /// To what, in words.
    target: String,
}

impl From<&Act> for ActEntry {
    fn from(act: &Act) -> Self {
        Self {
            number: act.number,
            at: stamp(act.at),
            who: act.who.clone(),
            kind: act.kind.text().to_owned(),
            target: act.target.clone(),
        }
    }
}
