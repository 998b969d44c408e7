//! Devices.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use handoff_exchange::{Admin, Device, EntityId};
use handoff_house::ActKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::super::access::Manager;
use super::super::device::{code_digest, no_chance};
use super::super::{Named, bad_name};
use super::{DeletedBody, bodies, page, status, subsystem};
use crate::auth::text::draw_code;
use crate::http::json::{Json, V1};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::stamp::stamp;
use crate::rooms::exchange::Directory;

/// A device to be.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schema(as = NewDevice)]
pub(in crate::http) struct NewDevice {
    #[allow(dead_code, reason = "only that it is there")]
    version: V1,
    /// The subsystem that it is part of.
    app_system: String,
    /// Its id if absent.
    #[serde(default)]
    name: Option<String>,
}

/// A device.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ExchangeDevice)]
pub(in crate::http) struct DeviceBody {
    company: String,
    id: String,
    name: String,
    app_system: String,
    created_at: String,
    /// It has a token.
    active: bool,
    blocked: bool,
    /// It has a code, until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    code_expires_at: Option<String>,
    /// Messages that wait for it. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<u64>,
    /// Messages of it and for it that are known. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<u64>,
}

/// A code, shown once.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DeviceCode)]
pub(in crate::http) struct CodeBody {
    version: V1,
    /// Eight characters.
    code: String,
    expires_at: String,
}

bodies!(OneDevice, DevicePage, DeviceBody, device, devices, OneExchangeDevice, ExchangeDevices);

fn device_body(known: &Directory, device: &Device) -> DeviceBody {
    let company = known.company(device.company).map(|company| company.id.to_string());
    let app_system = known.subsystem(device.subsystem).map(|subsystem| subsystem.id.to_string());
    DeviceBody {
        company: company.unwrap_or_default(),
        id: device.id.to_string(),
        name: device.name.to_string(),
        app_system: app_system.unwrap_or_default(),
        created_at: stamp(device.created),
        active: device.token.is_some(),
        blocked: device.blocked,
        code_expires_at: device.code.map(|code| stamp(code.expires)),
        waiting: None,
        messages: None,
    }
}

/// Devices in sight, by company and id.
#[utoipa::path(
    get, path = "/v1/exchange/devices", operation_id = "listDevices", tag = "exchange",
    params(
        ("company" = Option<String>, Query, description = "Only those of this company."),
        ("after" = Option<String>, Query, description = "The `next` of the page before."),
        ("limit" = Option<u32>, Query, description = "How many at most; 100 if absent, 1000 at most."),
    ),
    responses((status = 200, description = "A page of them.", body = DevicePage))
)]
pub(in crate::http) async fn list_devices(
    manager: Manager,
    query: Query,
) -> Result<Json<DevicePage>, Problem> {
    let asked = query.known(&["company", "after", "limit"])?;
    let of = manager.wanted(&asked)?;
    let all: Vec<(String, handoff_exchange::DeviceNo)> = manager.room.directory(|known| {
        let wanted = |one: &&Device| match &of {
            Some(company) => one.company == company.no,
            None => manager.sees(known, one.company),
        };
        let name = |one: &Device| {
            let company = known.company(one.company).map_or("", |company| company.id.as_str());
            (format!("{company}/{}", one.id), one.no)
        };
        known.devices().filter(wanted).map(name).collect()
    });
    let (numbers, next) = page(all, &asked)?;
    let devices = manager.room.directory(|known| {
        let found = numbers.iter().filter_map(|no| known.device(*no));
        found.map(|device| device_body(known, device)).collect()
    });
    Ok(Json(DevicePage { version: V1, devices, next }))
}

async fn one_device(manager: &Manager, company: &str, id: &str) -> Result<OneDevice, Problem> {
    let (_, found) = manager.device(company, id)?;
    let counts = manager.room.device_counts(found.no).await;
    let (waiting, messages) = counts.map_err(|error| manager.refuse(error))?;
    let mut device = manager.room.directory(|known| device_body(known, &found));
    (device.waiting, device.messages) = (Some(waiting), Some(messages));
    Ok(OneDevice { version: V1, device })
}

/// A device, and what waits for it.
#[utoipa::path(
    get, path = "/v1/exchange/devices/{company}/{device}", operation_id = "showDevice", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id."),
    ),
    responses((status = 200, description = "The device.", body = OneDevice))
)]
pub(in crate::http) async fn show_device(
    manager: Manager,
    Named((company, device)): Named<(String, String)>,
) -> Result<Json<OneDevice>, Problem> {
    one_device(&manager, &company, &device).await.map(Json)
}

/// Makes a device of a company, or gives it another name or subsystem.
#[utoipa::path(
    put, path = "/v1/exchange/devices/{company}/{device}", operation_id = "putDevice", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id, unique in its company: 1 to 16 of `A-Za-z0-9-`."),
    ),
    request_body = NewDevice,
    responses(
        (status = 200, description = "It was there, and is so now.", body = OneDevice),
        (status = 201, description = "It is made.", body = OneDevice),
    )
)]
pub(in crate::http) async fn put_device(
    manager: Manager,
    Named((of, text)): Named<(String, String)>,
    Json(body): Json<NewDevice>,
) -> Result<Response, Problem> {
    let company = manager.company(&of)?.id;
    let id = text.parse::<EntityId>().map_err(bad_name)?;
    let new = manager.device(&of, &text).is_err();
    let subsystem = subsystem(&manager, &body.app_system)?.id;
    let name = body.name.unwrap_or_else(|| text.clone()).into();
    manager.put(Admin::PutDevice { company, id, subsystem, name }).await?;
    let body = one_device(&manager, &of, &text).await?;
    Ok((status(new), Json(body)).into_response())
}

/// Removes a device without messages.
#[utoipa::path(
    delete, path = "/v1/exchange/devices/{company}/{device}", operation_id = "deleteDevice", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id."),
    ),
    responses((status = 200, description = "It is gone.", body = DeletedBody))
)]
pub(in crate::http) async fn delete_device(
    manager: Manager,
    Named((company, device)): Named<(String, String)>,
) -> Result<Json<DeletedBody>, Problem> {
    let (company, device) = manager.device(&company, &device)?;
    let what = format!("device {}/{}", company.id, device.id);
    manager.remove(Admin::RemoveDevice { company: company.id, id: device.id }, what).await
}

/// Gives a device a code that activates it, once. One that it had is void.
#[utoipa::path(
    post, path = "/v1/exchange/devices/{company}/{device}/code", operation_id = "createDeviceCode", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id."),
    ),
    responses((status = 201, description = "The code, shown once.", body = CodeBody))
)]
pub(in crate::http) async fn create_device_code(
    manager: Manager,
    Named((company, device)): Named<(String, String)>,
) -> Result<Response, Problem> {
    let (company, device) = manager.device(&company, &device)?;
    let code = draw_code().map_err(no_chance)?;
    let expires = manager.room.wall() + manager.room.settings().activation;
    let words = format!("exchange code of device {}/{}", company.id, device.id);
    let admin =
        Admin::DeviceCode { company: company.id, id: device.id, code: code_digest(&code), expires };
    manager.put(admin).await?;
    manager.note(ActKind::TokenCreated, &words).await;
    let body = CodeBody { version: V1, code, expires_at: stamp(expires) };
    Ok((StatusCode::CREATED, Json(body)).into_response())
}

/// Locks a device out. Its messages wait.
#[utoipa::path(
    post, path = "/v1/exchange/devices/{company}/{device}/block", operation_id = "blockDevice", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id."),
    ),
    responses((status = 200, description = "The device as it is now.", body = OneDevice))
)]
pub(in crate::http) async fn block_device(
    manager: Manager,
    Named((company, device)): Named<(String, String)>,
) -> Result<Json<OneDevice>, Problem> {
    set_blocked(&manager, (&company, &device), true).await
}

/// Lets a device in again.
#[utoipa::path(
    post, path = "/v1/exchange/devices/{company}/{device}/unblock", operation_id = "unblockDevice", tag = "exchange",
    params(
        ("company" = String, Path, description = "Its company."),
        ("device" = String, Path, description = "Its id."),
    ),
    responses((status = 200, description = "The device as it is now.", body = OneDevice))
)]
pub(in crate::http) async fn unblock_device(
    manager: Manager,
    Named((company, device)): Named<(String, String)>,
) -> Result<Json<OneDevice>, Problem> {
    set_blocked(&manager, (&company, &device), false).await
}

async fn set_blocked(
    manager: &Manager,
    (of, text): (&str, &str),
    blocked: bool,
) -> Result<Json<OneDevice>, Problem> {
    let (company, device) = manager.device(of, text)?;
    let what = if blocked { "locked out" } else { "let in again" };
    let words = format!("exchange device {}/{} {what}", company.id, device.id);
    manager.put(Admin::BlockDevice { company: company.id, id: device.id, blocked }).await?;
    manager.note(ActKind::Altered, &words).await;
    one_device(manager, of, text).await.map(Json)
}
