//! Routes.

use axum::response::{IntoResponse as _, Response};
use handoff_exchange::{Admin, Route};
use handoff_house::ActKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::access::Manager;
use super::super::{Named, not_found};
use super::{DeletedBody, bodies, page, status, subsystem};
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::rooms::exchange::Directory;

/// Where messages go.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewRoute)]
pub(in crate::http) struct NewRoute {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// A database of the company.
    database: String,
}

/// Where the messages of a company's subsystem go.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeRoute)]
pub(in crate::http) struct RouteBody {
    company: String,
    app_system: String,
    database: String,
}

bodies!(OneRoute, RoutePage, RouteBody, route, routes, OneExchangeRoute, ExchangeRoutes);

fn route_body(known: &Directory, route: &Route) -> Option<RouteBody> {
    Some(RouteBody {
        company: known.company(route.company)?.id.to_string(),
        app_system: known.subsystem(route.subsystem)?.id.to_string(),
        database: known.database(route.database)?.id.to_string(),
    })
}

/// Routes in sight, by company and subsystem.
#[utoipa::path(
    get, path = "/v1/exchange/routes", operation_id = "listRoutes", tag = "exchange",
    params(
        ("company" = Option<String>, Query, description = "Only those of this company."),
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = RoutePage))
)]
pub(in crate::http) async fn list_routes(
    manager: Manager,
    query: Query,
) -> Result<Json<RoutePage>, Problem> {
    let asked = query.known(&["company", "after", "limit"])?;
    let of = manager.wanted(&asked)?;
    let all = manager.room.directory(|known| {
        let wanted = |one: &Route| match &of {
            Some(company) => one.company == company.no,
            None => manager.sees(known, one.company),
        };
        let bodies = known.routes().filter(wanted).filter_map(|one| route_body(known, &one));
        bodies.map(|one| (format!("{}/{}", one.company, one.app_system), one)).collect()
    });
    let (routes, next) = page(all, &asked)?;
    Ok(Json(RoutePage { version: V1, routes, next }))
}

fn route(manager: &Manager, of: &str, text: &str) -> Result<RouteBody, Problem> {
    let company = manager.company(of)?;
    let subsystem = subsystem(manager, text)?;
    let found = manager.room.directory(|known| {
        let database = known.route(company.no, subsystem.no)?;
        let (company, subsystem) = (company.no, subsystem.no);
        route_body(known, &Route { company, subsystem, database })
    });
    found.ok_or_else(|| not_found("route", &format!("{of}/{text}")))
}

/// Where the messages of a company's subsystem go.
#[utoipa::path(
    get, path = "/v1/exchange/routes/{company}/{subsystem}", operation_id = "showRoute", tag = "exchange",
    params(
        ("company" = String, Path, description = "The company."),
        ("subsystem" = String, Path, description = "The subsystem."),
    ),
    responses((status = 200, description = "The route.", body = OneRoute))
)]
pub(in crate::http) async fn show_route(
    manager: Manager,
    Named((company, subsystem)): Named<(String, String)>,
) -> Result<Json<OneRoute>, Problem> {
    let route = route(&manager, &company, &subsystem)?;
    Ok(Json(OneRoute { version: V1, route }))
}

/// Sends what a company's subsystem sends to a database of the company. What was sent before stays
/// where it is.
#[utoipa::path(
    put, path = "/v1/exchange/routes/{company}/{subsystem}", operation_id = "putRoute", tag = "exchange",
    params(
        ("company" = String, Path, description = "The company."),
        ("subsystem" = String, Path, description = "The subsystem."),
    ),
    request_body = NewRoute,
    responses(
        (status = 200, description = "There was one, and it is so now.", body = OneRoute),
        (status = 201, description = "It is made.", body = OneRoute),
    )
)]
pub(in crate::http) async fn put_route(
    manager: Manager,
    Named((of, text)): Named<(String, String)>,
    Json(body): Json<NewRoute>,
) -> Result<Response, Problem> {
    let company = manager.company(&of)?.id;
    let found = subsystem(&manager, &text)?.id;
    let database = manager.database(&body.database)?.id;
    let new = route(&manager, &of, &text).is_err();
    let words = format!("exchange route {of}/{text} to database {database}");
    manager.put(Admin::PutRoute { company, subsystem: found, database }).await?;
    manager.note(ActKind::Altered, &words).await;
    let route = route(&manager, &of, &text)?;
    Ok((status(new), Json(OneRoute { version: V1, route })).into_response())
}

/// Removes a route. What was sent before stays where it is.
#[utoipa::path(
    delete, path = "/v1/exchange/routes/{company}/{subsystem}", operation_id = "deleteRoute", tag = "exchange",
    params(
        ("company" = String, Path, description = "The company."),
        ("subsystem" = String, Path, description = "The subsystem."),
    ),
    responses((status = 200, description = "It is gone.", body = DeletedBody))
)]
pub(in crate::http) async fn delete_route(
    manager: Manager,
    Named((of, text)): Named<(String, String)>,
) -> Result<Json<DeletedBody>, Problem> {
    let company = manager.company(&of)?.id;
    let found = subsystem(&manager, &text)?.id;
    let what = format!("route {company}/{found}");
    manager.remove(Admin::RemoveRoute { company, subsystem: found }, what).await
}
