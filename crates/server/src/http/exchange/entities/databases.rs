//! Databases.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use handoff_exchange::{Admin, Database, EntityId};
use handoff_house::ActKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::access::{DATABASE_PREFIX, Manager};
use super::super::device::no_chance;
use super::super::views::ProcessBody;
use super::super::{Named, bad_name};
use super::{DeletedBody, bodies, page, status};
use crate::auth::text::{digest, draw_secret};
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::stamp;
use crate::rooms::exchange::{Directory, Figures};

/// A database to be.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewDatabase)]
pub(in crate::http) struct NewDatabase {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// Whose it is, for ever.
    company: String,
    /// Its id if absent.
    #[serde(default)]
    name: Option<String>,
}

/// A database.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeDatabase)]
pub(in crate::http) struct DatabaseBody {
    /// `dbId`
    id: String,
    company: String,
    name: String,
    created_at: String,
    has_token: bool,
    /// Messages that wait. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<WaitingBody>,
    /// Messages elsewhere. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    places: Option<PlacesBody>,
    /// Bytes of all of them. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// Processes that nobody decided. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown_processes: Option<u64>,
    /// The process that keeps it busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<ProcessBody>,
}

/// Messages that wait.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = WaitingMessages)]
pub(in crate::http) struct WaitingBody {
    to_erp: u64,
    to_devices: u64,
}

/// Messages by folder.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = MessagesByPlace)]
pub(in crate::http) struct PlacesBody {
    prepared: u64,
    log: u64,
    unknown: u64,
    error: u64,
}

/// A token, shown once.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DatabaseToken)]
pub(in crate::http) struct TokenBody {
    version: V1,
    token: String,
}

bodies!(
    OneDatabase,
    DatabasePage,
    DatabaseBody,
    database,
    databases,
    OneExchangeDatabase,
    ExchangeDatabases
);

fn database_body(known: &Directory, database: &Database) -> DatabaseBody {
    let company = known.company(database.company).map(|company| company.id.to_string());
    DatabaseBody {
        id: database.id.to_string(),
        company: company.unwrap_or_default(),
        name: database.name.to_string(),
        created_at: stamp(database.created),
        has_token: database.token.is_some(),
        waiting: None,
        places: None,
        bytes: None,
        unknown_processes: None,
        process: None,
    }
}

/// Databases in sight, by id.
#[utoipa::path(
    get, path = "/v1/exchange/databases", operation_id = "listDatabases", tag = "exchange",
    params(
        ("company" = Option<String>, Query, description = "Only those of this company."),
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = DatabasePage))
)]
pub(in crate::http) async fn list_databases(
    manager: Manager,
    query: Query,
) -> Result<Json<DatabasePage>, Problem> {
    let asked = query.known(&["company", "after", "limit"])?;
    let of = manager.wanted(&asked)?;
    let all = manager.room.directory(|known| {
        let wanted = |one: &&Database| match &of {
            Some(company) => one.company == company.no,
            None => manager.sees(known, one.company),
        };
        let seen = known.databases().filter(wanted);
        seen.map(|one| (one.id.to_string(), database_body(known, one))).collect()
    });
    let (databases, next) = page(all, &asked)?;
    Ok(Json(DatabasePage { version: V1, databases, next }))
}

/// A database, what waits for it and where its messages are.
#[utoipa::path(
    get, path = "/v1/exchange/databases/{database}", operation_id = "showDatabase", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    responses((status = 200, description = "The database.", body = OneDatabase))
)]
pub(in crate::http) async fn show_database(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<OneDatabase>, Problem> {
    let database = manager.database(&id)?;
    let figures = manager.room.figures(database.no).await;
    let Figures { counts, live, unknown } = figures.map_err(|error| manager.refuse(error))?;
    let mut body = manager.room.directory(|known| database_body(known, &database));
    body.waiting = Some(WaitingBody { to_erp: counts.to_erp, to_devices: counts.to_devices });
    body.places = Some(PlacesBody {
        prepared: counts.prepared,
        log: counts.log,
        unknown: counts.unknown,
        error: counts.error,
    });
    body.bytes = Some(counts.bytes);
    body.unknown_processes = Some(unknown);
    body.process = live.map(|live| ProcessBody::of(live, database.id.as_str()));
    Ok(Json(OneDatabase { version: V1, database: body }))
}

/// Makes a database of a company, or gives it another name.
#[utoipa::path(
    put, path = "/v1/exchange/databases/{database}", operation_id = "putDatabase", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`, unique among all companies: 1 to 16 of `A-Za-z0-9-`.")),
    request_body = NewDatabase,
    responses(
        (status = 200, description = "It was there, and is so now.", body = OneDatabase),
        (status = 201, description = "It is made.", body = OneDatabase),
    )
)]
pub(in crate::http) async fn put_database(
    manager: Manager,
    Named(text): Named<String>,
    Json(body): Json<NewDatabase>,
) -> Result<Response, Problem> {
    let id = text.parse::<EntityId>().map_err(bad_name)?;
    let company = manager.company(&body.company)?.id;
    let new = manager.database(&text).is_err();
    let name = body.name.unwrap_or_else(|| text.clone()).into();
    manager.put(Admin::PutDatabase { id, company, name }).await?;
    let found = manager.database(&text)?;
    let database = manager.room.directory(|known| database_body(known, &found));
    Ok((status(new), Json(OneDatabase { version: V1, database })).into_response())
}

/// Removes a database without routes and messages.
#[utoipa::path(
    delete, path = "/v1/exchange/databases/{database}", operation_id = "deleteDatabase", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    responses((status = 200, description = "It is gone.", body = DeletedBody))
)]
pub(in crate::http) async fn delete_database(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<DeletedBody>, Problem> {
    let database = manager.database(&id)?;
    let what = format!("database {}", database.id);
    manager.remove(Admin::RemoveDatabase(database.id), what).await
}

/// Gives a database another token. The one before opens nothing any more.
#[utoipa::path(
    post, path = "/v1/exchange/databases/{database}/token", operation_id = "createDatabaseToken", tag = "exchange",
    params(("database" = String, Path, description = "`dbId`")),
    responses((status = 201, description = "The token, shown once.", body = TokenBody))
)]
pub(in crate::http) async fn create_database_token(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Response, Problem> {
    let database = manager.database(&id)?;
    let token = draw_secret(DATABASE_PREFIX).map_err(no_chance)?;
    let admin = Admin::DatabaseToken { id: database.id.clone(), token: digest(token.as_bytes()) };
    manager.put(admin).await?;
    let words = format!("exchange token of database {}", database.id);
    manager.note(ActKind::TokenCreated, &words).await;
    Ok((StatusCode::CREATED, Json(TokenBody { version: V1, token })).into_response())
}
