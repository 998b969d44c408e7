//! Companies and subsystems; and what all kinds of entities have in common.

mod databases;
mod devices;
mod routes;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use handoff_exchange::{Admin, Company, EntityId, Subsystem};
use handoff_house::ActKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub(in crate::http) use self::databases::*;
pub(in crate::http) use self::devices::*;
pub(in crate::http) use self::routes::*;
use super::access::Manager;
use super::{Named, PAGE, PAGE_MAX, bad_name, not_found};
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::{Parameters, Query};
use crate::http::stamp::stamp;

/// A name for people.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = ExchangeName)]
pub(in crate::http) struct NameBody {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// Its id if absent.
    #[serde(default)]
    name: Option<String>,
}

/// A company, or a subsystem.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeEntity)]
pub(in crate::http) struct EntityBody {
    id: String,
    name: String,
    created_at: String,
}

/// Something is gone.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeDeleted)]
pub(in crate::http) struct DeletedBody {
    version: V1,
    /// What it was.
    deleted: String,
}

/// The bodies of one kind of entity.
macro_rules! bodies {
    ($one:ident, $page:ident, $body:ty, $single:ident, $plural:ident, $as_one:ident, $as_page:ident) => {
        /// One of them.
        #[derive(Clone, Debug, Serialize, ToSchema)]
        #[serde(rename_all = "camelCase")]
        #[schema(as = $as_one)]
        pub(in crate::http) struct $one {
            version: V1,
            $single: $body,
        }

        /// A page of them.
        #[derive(Clone, Debug, Serialize, ToSchema)]
        #[serde(rename_all = "camelCase")]
        #[schema(as = $as_page)]
        pub(in crate::http) struct $page {
            version: V1,
            $plural: Vec<$body>,
            /// `after` of the next page.
            #[serde(skip_serializing_if = "Option::is_none")]
            next: Option<String>,
        }
    };
}

use bodies;

bodies!(
    OneCompany,
    CompanyPage,
    EntityBody,
    company,
    companies,
    ExchangeCompany,
    ExchangeCompanies
);
bodies!(
    OneSubsystem,
    SubsystemPage,
    EntityBody,
    subsystem,
    subsystems,
    ExchangeSubsystem,
    ExchangeSubsystems
);

impl From<&Company> for EntityBody {
    fn from(one: &Company) -> Self {
        let (id, name) = (one.id.to_string(), one.name.to_string());
        Self { id, name, created_at: stamp(one.created) }
    }
}

impl From<&Subsystem> for EntityBody {
    fn from(one: &Subsystem) -> Self {
        let (id, name) = (one.id.to_string(), one.name.to_string());
        Self { id, name, created_at: stamp(one.created) }
    }
}

/// A page of what is behind a text, in the order of texts; where the next one goes on.
fn page<T>(
    mut all: Vec<(String, T)>,
    asked: &Parameters,
) -> Result<(Vec<T>, Option<String>), Problem> {
    let after = asked.one::<String>("after", "the `next` of a page")?;
    let limit = asked.limit(PAGE, PAGE_MAX)?;
    all.retain(|(name, _)| after.as_ref().is_none_or(|after| name > after));
    all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| more).map(|(name, _)| name.clone());
    Ok((all.into_iter().map(|(_, one)| one).collect(), next))
}

fn status(new: bool) -> StatusCode {
    if new { StatusCode::CREATED } else { StatusCode::OK }
}

impl Manager {
    async fn put(&self, admin: Admin) -> Result<(), Problem> {
        self.room.admin(admin).await.map_err(|error| self.refuse(error))
    }

    async fn remove(&self, admin: Admin, what: String) -> Result<Json<DeletedBody>, Problem> {
        self.put(admin).await?;
        self.note(ActKind::Deleted, &format!("exchange {what}")).await;
        Ok(Json(DeletedBody { version: V1, deleted: what }))
    }

    /// The company that a list is asked for, if it is.
    fn wanted(&self, asked: &Parameters) -> Result<Option<Company>, Problem> {
        let company = asked.one::<String>("company", "a company")?;
        company.map(|id| self.company(&id)).transpose()
    }
}

/// Companies in sight, by id.
#[utoipa::path(
    get, path = "/v1/exchange/companies", operation_id = "listCompanies", tag = "exchange",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = CompanyPage))
)]
pub(in crate::http) async fn list_companies(
    manager: Manager,
    query: Query,
) -> Result<Json<CompanyPage>, Problem> {
    let asked = query.known(&["after", "limit"])?;
    let all = manager.room.directory(|known| {
        let seen = known.companies().filter(|one| manager.sight.sees(one.id.as_str()));
        seen.map(|one| (one.id.to_string(), EntityBody::from(one))).collect()
    });
    let (companies, next) = page(all, &asked)?;
    Ok(Json(CompanyPage { version: V1, companies, next }))
}

/// A company.
#[utoipa::path(
    get, path = "/v1/exchange/companies/{company}", operation_id = "showCompany", tag = "exchange",
    params(("company" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The company.", body = OneCompany))
)]
pub(in crate::http) async fn show_company(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<OneCompany>, Problem> {
    let company = manager.company(&id)?;
    Ok(Json(OneCompany { version: V1, company: (&company).into() }))
}

/// Makes a company, or gives it another name.
#[utoipa::path(
    put, path = "/v1/exchange/companies/{company}", operation_id = "putCompany", tag = "exchange",
    params(("company" = String, Path, description = "Its id: 1 to 16 of `A-Za-z0-9-`.")),
    request_body = NameBody,
    responses(
        (status = 200, description = "It was there, and is so now.", body = OneCompany),
        (status = 201, description = "It is made.", body = OneCompany),
    )
)]
pub(in crate::http) async fn put_company(
    manager: Manager,
    Named(text): Named<String>,
    Json(body): Json<NameBody>,
) -> Result<Response, Problem> {
    let id = text.parse::<EntityId>().map_err(bad_name)?;
    let id = manager.in_sight(id.as_str()).ok_or_else(|| not_found("company", &text))?;
    let new = manager.company(&text).is_err();
    let name = body.name.unwrap_or_else(|| text.clone()).into();
    manager.put(Admin::PutCompany { id, name }).await?;
    let company = manager.company(&text)?;
    let body = OneCompany { version: V1, company: (&company).into() };
    Ok((status(new), Json(body)).into_response())
}

/// Removes a company without databases, devices and routes.
#[utoipa::path(
    delete, path = "/v1/exchange/companies/{company}", operation_id = "deleteCompany", tag = "exchange",
    params(("company" = String, Path, description = "Its id.")),
    responses((status = 200, description = "It is gone.", body = DeletedBody))
)]
pub(in crate::http) async fn delete_company(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<DeletedBody>, Problem> {
    let company = manager.company(&id)?;
    let what = format!("company {}", company.id);
    manager.remove(Admin::RemoveCompany(company.id), what).await
}

/// Subsystems, by id. They are the same for all companies.
#[utoipa::path(
    get, path = "/v1/exchange/subsystems", operation_id = "listSubsystems", tag = "exchange",
    params(
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = SubsystemPage))
)]
pub(in crate::http) async fn list_subsystems(
    manager: Manager,
    query: Query,
) -> Result<Json<SubsystemPage>, Problem> {
    let asked = query.known(&["after", "limit"])?;
    let all = manager.room.directory(|known| {
        known.subsystems().map(|one| (one.id.to_string(), EntityBody::from(one))).collect()
    });
    let (subsystems, next) = page(all, &asked)?;
    Ok(Json(SubsystemPage { version: V1, subsystems, next }))
}

fn subsystem(manager: &Manager, id: &str) -> Result<Subsystem, Problem> {
    let found = id
        .parse::<EntityId>()
        .ok()
        .and_then(|id| manager.room.directory(|known| known.subsystem_by_id(&id).cloned()));
    found.ok_or_else(|| not_found("subsystem", id))
}

/// A subsystem.
#[utoipa::path(
    get, path = "/v1/exchange/subsystems/{subsystem}", operation_id = "showSubsystem", tag = "exchange",
    params(("subsystem" = String, Path, description = "Its id.")),
    responses((status = 200, description = "The subsystem.", body = OneSubsystem))
)]
pub(in crate::http) async fn show_subsystem(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<OneSubsystem>, Problem> {
    let found = subsystem(&manager, &id)?;
    Ok(Json(OneSubsystem { version: V1, subsystem: (&found).into() }))
}

/// Makes a subsystem, or gives it another name. Needs a token that sees all companies.
#[utoipa::path(
    put, path = "/v1/exchange/subsystems/{subsystem}", operation_id = "putSubsystem", tag = "exchange",
    params(("subsystem" = String, Path, description = "Its id: 1 to 16 of `A-Za-z0-9-`.")),
    request_body = NameBody,
    responses(
        (status = 200, description = "It was there, and is so now.", body = OneSubsystem),
        (status = 201, description = "It is made.", body = OneSubsystem),
    )
)]
pub(in crate::http) async fn put_subsystem(
    manager: Manager,
    Named(text): Named<String>,
    Json(body): Json<NameBody>,
) -> Result<Response, Problem> {
    manager.expect_all()?;
    let id = text.parse::<EntityId>().map_err(bad_name)?;
    let new = subsystem(&manager, &text).is_err();
    let name = body.name.unwrap_or_else(|| text.clone()).into();
    manager.put(Admin::PutSubsystem { id, name }).await?;
    let found = subsystem(&manager, &text)?;
    let body = OneSubsystem { version: V1, subsystem: (&found).into() };
    Ok((status(new), Json(body)).into_response())
}

/// Removes a subsystem without devices and routes. Needs a token that sees all companies.
#[utoipa::path(
    delete, path = "/v1/exchange/subsystems/{subsystem}", operation_id = "deleteSubsystem", tag = "exchange",
    params(("subsystem" = String, Path, description = "Its id.")),
    responses((status = 200, description = "It is gone.", body = DeletedBody))
)]
pub(in crate::http) async fn delete_subsystem(
    manager: Manager,
    Named(id): Named<String>,
) -> Result<Json<DeletedBody>, Problem> {
    manager.expect_all()?;
    let found = subsystem(&manager, &id)?;
    let what = format!("subsystem {}", found.id);
    manager.remove(Admin::RemoveSubsystem(found.id), what).await
}
