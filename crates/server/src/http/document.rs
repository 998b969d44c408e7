//! The routes, and the document that describes them.
//!
//! Both are made of the same handlers. What each may refuse stands in [`REFUSALS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware::from_fn_with_state;
use bytes::Bytes;
use handoff_types::Code;
use tokio_util::sync::CancellationToken;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, Ref, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::events::{StreamClosed, dead};
use super::front::{Door, Routes, front};
use super::problem::{self, Problem, ProblemBody};
use super::streams::groups;
use super::{App, calls, events, exchange, house, relay, stream, streams, tokens};

/// What every route that asks for a token may refuse.
const GUARDED: &[Code] = &[
    Code::TokenMissing,
    Code::TokenUnknown,
    Code::OutOfScope,
    Code::RoomOff,
    Code::RoomDamaged,
    Code::ServerStopping,
    Code::RequestTooSlow,
    Code::Internal,
];

/// What a body may be refused for.
const BODY: &[Code] =
    &[Code::RequestMalformed, Code::RequestInvalid, Code::RequestTooLarge, Code::WrongMediaType];

/// What a change may be refused for.
const CHANGE: &[Code] = &[
    Code::RoomBusy,
    Code::JournalFull,
    Code::JournalPoisoned,
    Code::JournalClosed,
    Code::DiskFull,
    Code::DiskFault,
];

/// What a topic may be refused for.
const TOPIC: &[Code] = &[Code::StreamsInvalid, Code::TopicNotFound];

/// What a group may be refused for.
const GROUP: &[Code] = &[Code::StreamsInvalid, Code::GroupNotFound, Code::RequestMalformed];

/// What a read may be refused for.
const READ: &[Code] = &[Code::RequestMalformed, Code::Trimmed, Code::DiskFault];

/// What each operation may refuse, by its id.
const REFUSALS: &[(&str, &[&[Code]])] = &[
    ("home", &[]),
    ("healthz", &[]),
    ("readyz", &[]),
    ("metrics", &[&[Code::TokenMissing, Code::TokenUnknown, Code::RoomOff]]),
    ("openapi", &[]),
    ("showServer", &[GUARDED]),
    ("showLogs", &[GUARDED]),
    (
        "createEvent",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::EventInvalid, Code::EventsFull, Code::TopicNotFound, Code::DiskLow],
        ],
    ),
    ("listEvents", &[GUARDED, &[Code::RequestMalformed]]),
    ("deleteEvents", &[GUARDED, CHANGE, &[Code::RequestMalformed]]),
    ("showEvent", &[GUARDED, &[Code::RequestMalformed, Code::EventNotFound]]),
    ("deleteEvent", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::EventNotFound]]),
    ("eventStats", &[GUARDED]),
    ("listDeadLetters", &[GUARDED, &[Code::RequestMalformed]]),
    ("retryDeadLetters", &[GUARDED, CHANGE, &[Code::RequestMalformed]]),
    ("deleteDeadLetters", &[GUARDED, CHANGE, &[Code::RequestMalformed]]),
    (
        "streamEvents",
        &[
            GUARDED,
            &[Code::RequestMalformed, Code::EventNotFound, Code::FilterTooLarge, Code::ServerBusy],
        ],
    ),
    (
        "createTopic",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::StreamsInvalid, Code::StreamsLimit, Code::TopicExists, Code::DiskLow],
        ],
    ),
    ("listTopics", &[GUARDED, &[Code::RequestMalformed]]),
    ("showTopic", &[GUARDED, TOPIC]),
    ("alterTopic", &[GUARDED, BODY, CHANGE, TOPIC]),
    ("growTopic", &[GUARDED, BODY, CHANGE, TOPIC, &[Code::StreamsLimit, Code::DiskLow]]),
    ("deleteTopic", &[GUARDED, CHANGE, TOPIC]),
    (
        "produce",
        &[
            GUARDED,
            BODY,
            CHANGE,
            TOPIC,
            &[
                Code::ChangeTooLarge,
                Code::PartitionNotFound,
                Code::StreamsLimit,
                Code::SequenceReused,
                Code::SequenceTooOld,
                Code::StreamsQuota,
                Code::DiskLow,
            ],
        ],
    ),
    ("registerProducer", &[GUARDED, BODY, CHANGE, &[Code::StreamsInvalid, Code::StreamsLimit]]),
    ("readMessages", &[GUARDED, TOPIC, READ, &[Code::PartitionNotFound]]),
    ("browseKey", &[GUARDED, TOPIC, READ]),
    ("tailTopic", &[GUARDED, TOPIC, &[Code::RequestMalformed, Code::PartitionNotFound]]),
    ("listScheduled", &[GUARDED, TOPIC, &[Code::RequestMalformed]]),
    ("cancelScheduled", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ScheduledNotFound]]),
    ("streamStats", &[GUARDED]),
    (
        "createGroup",
        &[GUARDED, BODY, CHANGE, TOPIC, &[Code::GroupExists, Code::StreamsLimit, Code::DiskLow]],
    ),
    ("listGroups", &[GUARDED, &[Code::RequestMalformed]]),
    ("showGroup", &[GUARDED, GROUP]),
    ("alterGroup", &[GUARDED, BODY, CHANGE, GROUP, &[Code::TopicNotFound]]),
    ("deleteGroup", &[GUARDED, CHANGE, GROUP]),
    ("joinGroup", &[GUARDED, BODY, CHANGE, GROUP, &[Code::TopicNotFound, Code::StreamsLimit]]),
    ("leaveGroup", &[GUARDED, CHANGE, GROUP, &[Code::MemberGone]]),
    ("heartbeat", &[GUARDED, BODY, CHANGE, GROUP, &[Code::MemberGone]]),
    ("poll", &[GUARDED, BODY, CHANGE, GROUP, &[Code::MemberGone]]),
    (
        "commit",
        &[
            GUARDED,
            BODY,
            CHANGE,
            GROUP,
            &[
                Code::Fenced,
                Code::TopicNotFound,
                Code::PartitionNotFound,
                Code::ChangeTooLarge,
                Code::StreamsLimit,
                Code::SequenceReused,
                Code::SequenceTooOld,
                Code::StreamsQuota,
                Code::DiskLow,
            ],
        ],
    ),
    ("seekGroup", &[GUARDED, BODY, CHANGE, GROUP, &[Code::TopicNotFound, Code::PartitionNotFound]]),
    ("groupMessageStatus", &[GUARDED, GROUP, &[Code::TopicNotFound, Code::PartitionNotFound]]),
    ("listGroupLetters", &[GUARDED, GROUP, &[Code::DiskFault]]),
    (
        "replayGroupLetters",
        &[GUARDED, BODY, CHANGE, GROUP, &[Code::PartitionNotFound, Code::DiskLow]],
    ),
    (
        "activateDevice",
        &[BODY, CHANGE, &[Code::WrongCode, Code::TooManyTries, Code::DeviceBlocked, Code::RoomOff]],
    ),
    ("showOwnDevice", &[GUARDED, &[Code::DeviceBlocked]]),
    ("postDeviceLog", &[GUARDED, BODY, &[Code::DeviceBlocked, Code::ExchangeInvalid]]),
    (
        "fetchMessages",
        &[GUARDED, &[Code::DeviceBlocked, Code::RequestMalformed, Code::RoomBusy, Code::DiskFault]],
    ),
    (
        "postMessages",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[
                Code::DeviceBlocked,
                Code::ExchangeInvalid,
                Code::ExchangeFull,
                Code::NoRoute,
                Code::MessageReused,
                Code::ChangeTooLarge,
                Code::DiskLow,
            ],
        ],
    ),
    (
        "ackMessages",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::DeviceBlocked, Code::ExchangeInvalid, Code::ExchangeNotFound],
        ],
    ),
    ("beginProcess", &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound, Code::ExchangeInvalid]]),
    ("listProcesses", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showProcess", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "narrowProcess",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::ExchangeNotFound, Code::ExchangeInvalid, Code::ProcessUnfit],
        ],
    ),
    (
        "prepareProcess",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[
                Code::ExchangeNotFound,
                Code::ExchangeInvalid,
                Code::ProcessUnfit,
                Code::PreparedOtherwise,
                Code::ExchangeFull,
                Code::ChangeTooLarge,
                Code::DiskLow,
            ],
        ],
    ),
    (
        "commitProcess",
        &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound, Code::NotPrepared, Code::Contradiction]],
    ),
    ("rollbackProcess", &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound, Code::Contradiction]]),
    ("interruptProcess", &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound, Code::ProcessReady]]),
    ("heartbeatProcess", &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound]]),
    ("listInDoubt", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "resolveProcesses",
        &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound, Code::ExchangeInvalid]],
    ),
    ("listCompanies", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showCompany", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "putCompany",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::ExchangeNotFound, Code::ExchangeInvalid, Code::ExchangeFull, Code::DiskLow],
        ],
    ),
    (
        "deleteCompany",
        &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound, Code::ExchangeInUse]],
    ),
    ("listSubsystems", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showSubsystem", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "putSubsystem",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::ExchangeNotFound, Code::ExchangeInvalid, Code::ExchangeFull, Code::DiskLow],
        ],
    ),
    (
        "deleteSubsystem",
        &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound, Code::ExchangeInUse]],
    ),
    ("listDatabases", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showDatabase", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "putDatabase",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[
                Code::ExchangeNotFound,
                Code::ExchangeInvalid,
                Code::ExchangeFull,
                Code::DiskLow,
                Code::ExchangeTaken,
            ],
        ],
    ),
    (
        "deleteDatabase",
        &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound, Code::ExchangeInUse]],
    ),
    ("listDevices", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showDevice", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "putDevice",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::ExchangeNotFound, Code::ExchangeInvalid, Code::ExchangeFull, Code::DiskLow],
        ],
    ),
    (
        "deleteDevice",
        &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound, Code::ExchangeInUse]],
    ),
    ("listRoutes", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showRoute", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "putRoute",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::ExchangeNotFound, Code::ExchangeInvalid, Code::ExchangeFull, Code::DiskLow],
        ],
    ),
    ("deleteRoute", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("createDatabaseToken", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("createDeviceCode", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("blockDevice", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("unblockDevice", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showDeviceLog", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("listExchangeMessages", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("showExchangeMessage", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("listExchangeLog", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("rescanFolders", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    ("listForeignFiles", &[GUARDED, &[Code::RequestMalformed, Code::ExchangeNotFound]]),
    (
        "downloadExchangeMessage",
        &[
            GUARDED,
            &[Code::RequestMalformed, Code::ExchangeNotFound, Code::Corrupt, Code::DiskFault],
        ],
    ),
    ("requeueMessages", &[GUARDED, BODY, CHANGE, &[Code::ExchangeNotFound, Code::ExchangeInvalid]]),
    ("exchangeStats", &[GUARDED, &[Code::RequestMalformed]]),
    ("connectCalls", &[GUARDED, &[Code::RequestMalformed, Code::ServerBusy]]),
    (
        "call",
        &[
            GUARDED,
            BODY,
            CHANGE,
            &[Code::CallsInvalid, Code::CallsFull, Code::KeyReused, Code::DiskLow],
        ],
    ),
    ("listRelayAgents", &[GUARDED, &[Code::RequestMalformed]]),
    ("takeRelaySegments", &[GUARDED, &[Code::RequestMalformed, Code::CallbackOff]]),
    ("showRelayAgent", &[GUARDED, &[Code::RequestMalformed, Code::AgentNotFound]]),
    ("showCall", &[GUARDED, &[Code::RequestMalformed, Code::CallNotFound]]),
    ("cancelCall", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::CallNotFound]]),
    ("listCalls", &[GUARDED, &[Code::RequestMalformed, Code::CallsInvalid]]),
    ("callStats", &[GUARDED, &[Code::RequestMalformed]]),
    (
        "requeueCall",
        &[
            GUARDED,
            CHANGE,
            &[Code::RequestMalformed, Code::CallNotFound, Code::CallsFull, Code::DiskLow],
        ],
    ),
    ("listDeadCalls", &[GUARDED, &[Code::RequestMalformed, Code::CallsInvalid]]),
    ("purgeDeadCalls", &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::CallsInvalid]]),
    (
        "purgeDeadCall",
        &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::CallsInvalid, Code::CallNotFound]],
    ),
    ("listCallChannels", &[GUARDED, &[Code::RequestMalformed]]),
    ("showCallChannel", &[GUARDED, &[Code::RequestMalformed, Code::CallsInvalid]]),
    (
        "putCallChannel",
        &[GUARDED, BODY, CHANGE, &[Code::CallsInvalid, Code::CallsFull, Code::DiskLow]],
    ),
    (
        "deleteCallChannel",
        &[GUARDED, CHANGE, &[Code::RequestMalformed, Code::CallsInvalid, Code::CallNotFound]],
    ),
    ("listTokens", &[GUARDED]),
    ("createToken", &[GUARDED, BODY, CHANGE]),
    ("revokeToken", &[GUARDED, CHANGE, &[Code::TokenNotFound]]),
    ("listActs", &[GUARDED, &[Code::RequestMalformed]]),
];

/// Operations that ask for no token.
const OPEN: &[&str] = &["home", "healthz", "readyz", "openapi", "activateDevice"];

/// The routes of a server, and what their handlers reach.
pub(super) fn router(app: Arc<App>, stop: CancellationToken) -> (Router, Door) {
    let (router, document) = described().split_for_parts();
    let document = finished(document);
    let routes = Routes::new(document.paths.paths.keys().map(String::as_str));
    let text = serde_json::to_vec(&document).unwrap_or_default();
    let door = Door::new(app, stop, routes, Bytes::from(text));
    let router = router
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .with_state(door.clone())
        .layer(from_fn_with_state(door.clone(), front));
    (router, door)
}

/// The API as an OpenAPI 3.1 document.
#[must_use]
pub fn openapi() -> OpenApi {
    finished(described().into_openapi())
}

/// Schemas that no handler names.
#[derive(utoipa::OpenApi)]
#[openapi(components(schemas(ProblemBody, StreamClosed)))]
struct Schemas;

fn described() -> OpenApiRouter<Door> {
    let mut document = Schemas::openapi();
    document.info = info();
    OpenApiRouter::with_openapi(document)
        .routes(routes!(house::home))
        .routes(routes!(house::healthz))
        .routes(routes!(house::readyz))
        .routes(routes!(house::metrics))
        .routes(routes!(house::openapi))
        .routes(routes!(house::show_server))
        .routes(routes!(house::show_logs))
        .routes(routes!(events::list_events, events::create_event, events::delete_events))
        .routes(routes!(events::show_event, events::delete_event))
        .routes(routes!(events::event_stats))
        .routes(routes!(dead::list_dead_letters, dead::delete_dead_letters))
        .routes(routes!(dead::retry_dead_letters))
        .routes(routes!(stream::stream_events))
        .routes(routes!(streams::list_topics, streams::create_topic))
        .routes(routes!(streams::show_topic, streams::alter_topic, streams::delete_topic))
        .routes(routes!(streams::grow_topic))
        .routes(routes!(streams::browse_key, streams::produce))
        .routes(routes!(streams::read_messages))
        .routes(routes!(streams::tail_topic))
        .routes(routes!(streams::list_scheduled))
        .routes(routes!(streams::cancel_scheduled))
        .routes(routes!(streams::register_producer))
        .routes(routes!(streams::stream_stats))
        .routes(routes!(groups::list_groups, groups::create_group))
        .routes(routes!(groups::show_group, groups::alter_group, groups::delete_group))
        .routes(routes!(groups::join_group))
        .routes(routes!(groups::leave_group))
        .routes(routes!(groups::heartbeat))
        .routes(routes!(groups::poll))
        .routes(routes!(groups::commit))
        .routes(routes!(groups::seek_group))
        .routes(routes!(groups::message_status))
        .routes(routes!(groups::list_letters))
        .routes(routes!(groups::replay_letters))
        .routes(routes!(calls::connect_calls))
        .routes(routes!(calls::list_calls))
        .routes(routes!(calls::call_stats))
        .routes(routes!(calls::list_call_channels))
        .routes(routes!(
            calls::show_call_channel,
            calls::put_call_channel,
            calls::delete_call_channel
        ))
        .routes(routes!(calls::list_dead_calls, calls::purge_dead_calls))
        .routes(routes!(calls::purge_dead_call))
        .routes(routes!(calls::show_call, calls::call, calls::cancel_call))
        .routes(routes!(calls::requeue_call))
        .routes(routes!(relay::list_relay_agents))
        .routes(routes!(relay::show_relay_agent))
        .routes(routes!(relay::take_relay_segments))
        .routes(routes!(exchange::activate_device))
        .routes(routes!(exchange::show_self))
        .routes(routes!(exchange::device_log))
        .routes(routes!(exchange::fetch_messages, exchange::post_messages))
        .routes(routes!(exchange::ack_messages))
        .routes(routes!(exchange::list_processes, exchange::begin_process))
        .routes(routes!(exchange::show_process))
        .routes(routes!(exchange::narrow_process))
        .routes(routes!(exchange::prepare_process))
        .routes(routes!(exchange::commit_process))
        .routes(routes!(exchange::rollback_process))
        .routes(routes!(exchange::interrupt_process))
        .routes(routes!(exchange::heartbeat_process))
        .routes(routes!(exchange::list_in_doubt))
        .routes(routes!(exchange::resolve_processes))
        .routes(routes!(exchange::list_companies))
        .routes(routes!(exchange::show_company, exchange::put_company, exchange::delete_company))
        .routes(routes!(exchange::list_subsystems))
        .routes(routes!(
            exchange::show_subsystem,
            exchange::put_subsystem,
            exchange::delete_subsystem
        ))
        .routes(routes!(exchange::list_databases))
        .routes(routes!(exchange::show_database, exchange::put_database, exchange::delete_database))
        .routes(routes!(exchange::create_database_token))
        .routes(routes!(exchange::list_devices))
        .routes(routes!(exchange::show_device, exchange::put_device, exchange::delete_device))
        .routes(routes!(exchange::create_device_code))
        .routes(routes!(exchange::block_device))
        .routes(routes!(exchange::unblock_device))
        .routes(routes!(exchange::show_device_log))
        .routes(routes!(exchange::list_routes))
        .routes(routes!(exchange::show_route, exchange::put_route, exchange::delete_route))
        .routes(routes!(exchange::list_exchange_messages))
        .routes(routes!(exchange::show_exchange_message))
        .routes(routes!(exchange::download_exchange_message))
        .routes(routes!(exchange::list_exchange_log))
        .routes(routes!(exchange::requeue_messages))
        .routes(routes!(exchange::rescan_folders))
        .routes(routes!(exchange::list_foreign_files))
        .routes(routes!(exchange::exchange_stats))
        .routes(routes!(tokens::list_tokens, tokens::create_token))
        .routes(routes!(tokens::revoke_token))
        .routes(routes!(tokens::list_acts))
}

fn info() -> utoipa::openapi::Info {
    let words = "Messages that must arrive. Bodies are JSON in camelCase and carry `version`: 1; times \
                 are RFC 3339 in UTC. Every refusal is `application/problem+json` with a stable \
                 `code`; every answer has an `X-Request-Id`.";
    InfoBuilder::new()
        .title("Handoff")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(words))
        .license(Some(
            LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ))
        .build()
}

/// Adds what the handlers do not say themselves: refusals, and who needs a token.
fn finished(mut document: OpenApi) -> OpenApi {
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A token of `handoff token create`. Not asked for while auth is off."))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("token", SecurityScheme::Http(bearer));
    for item in document.paths.paths.values_mut() {
        for operation in operations(item) {
            finish(operation);
        }
    }
    document
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.delete, &mut item.put, &mut item.patch]
        .into_iter()
        .filter_map(Option::as_mut)
}

fn finish(operation: &mut Operation) {
    let id = operation.operation_id.as_deref().unwrap_or_default();
    if !OPEN.contains(&id) {
        let token = SecurityRequirement::new::<_, [&str; 0], &str>("token", []);
        operation.security = Some(vec![token]);
    }
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    let rows = REFUSALS.iter().filter(|(named, _)| *named == id);
    for code in rows.flat_map(|(_, codes)| codes.iter().copied().flatten()) {
        by_status.entry(problem::status(*code).as_u16()).or_default().push(*code);
    }
    for (status, codes) in by_status {
        operation.responses.responses.insert(status.to_string(), refusal(&codes).into());
    }
}

fn refusal(codes: &[Code]) -> utoipa::openapi::Response {
    let names: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    let schema = Ref::from_schema_name("Problem");
    let content = ContentBuilder::new().schema(Some(schema)).build();
    ResponseBuilder::new()
        .description(names.join(", "))
        .content(problem::MEDIA_TYPE, content)
        .build()
}

async fn nothing_here(uri: Uri) -> Problem {
    Problem::new(Code::NoSuchPath, format!("there is nothing at {}", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    Problem::new(Code::WrongMethod, format!("{} does not take {method}", uri.path()))
}

#[cfg(test)]
mod tests {
    use super::{OPEN, REFUSALS, described, openapi, router};
    use crate::http::events::{
        Deleted, Event, EventStats, NewEvent, Notified, Registered, StreamClosed, dead,
    };
    use crate::http::house::{Ready, RoomState, Server};
    use crate::http::problem::{ProblemBody, status};
    use crate::http::streams::groups::examples;
    use crate::http::{App, streams, tokens};
    use crate::runtime::Readiness;
    use crate::settings::Settings;
    use crate::telemetry::{LogHandle, Metrics};
    use handoff_types::Code;
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use tokio_util::sync::CancellationToken;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../openapi.json");

    fn document() -> Value {
        serde_json::to_value(openapi()).unwrap()
    }

    fn operations(document: &Value) -> Vec<(String, &Value)> {
        let paths = document["paths"].as_object().unwrap();
        let all = paths.values().flat_map(|item| item.as_object().unwrap().values());
        all.map(|operation| (operation["operationId"].as_str().unwrap().to_owned(), operation))
            .collect()
    }

    #[test]
    fn the_document_in_the_repository_is_the_one_that_is_served() {
        let mut text = serde_json::to_string_pretty(&openapi()).unwrap();
        text.push('\n');
        if std::env::var_os("HANDOFF_UPDATE").is_some() {
            std::fs::write(FILE, &text).unwrap();
        }
        let kept = std::fs::read_to_string(FILE).unwrap_or_default();
        assert!(
            kept == text,
            "openapi.json is not up to date: run this test with HANDOFF_UPDATE=1"
        );
        let metrics = Arc::new(Metrics::new("1"));
        let logs = LogHandle::silent();
        let app = App::new(&Settings::default(), "1", Readiness::new(), metrics, logs);
        let (_, door) = router(app, CancellationToken::new());
        let served: Value = serde_json::from_slice(&door.document).unwrap();
        assert_eq!(served, document());
    }

    #[test]
    fn every_route_is_in_the_document() {
        let (router, document) = described().split_for_parts();
        let shown = format!("{router:?}");
        let routes: BTreeSet<&str> = shown
            .split('"')
            .filter(|part| part.starts_with('/') && !part.contains("axum_fallback"))
            .collect();
        let documented: BTreeSet<&str> = document.paths.paths.keys().map(String::as_str).collect();
        assert_eq!(routes, documented);
    }

    #[test]
    fn every_operation_says_what_it_refuses_and_whom() {
        let document = document();
        let operations = operations(&document);
        let named: BTreeSet<&str> = REFUSALS.iter().map(|(id, _)| *id).collect();
        let found: BTreeSet<&str> = operations.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(named, found);
        for (id, operation) in &operations {
            let guarded = operation.get("security").is_some();
            assert_eq!(guarded, !OPEN.contains(&id.as_str()), "{id}");
            assert_eq!(operation["responses"].get("401").is_some(), guarded, "{id}");
            assert!(operation["tags"][0].is_string(), "{id}");
            assert!(operation["summary"].is_string(), "{id}");
        }
        let create = operations.iter().find(|(id, _)| id == "createEvent").unwrap().1;
        let full = &create["responses"][status(Code::DiskLow).as_str()];
        assert_eq!(full["description"], "`log.disk_full`, `disk_low`");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let mut count = 0;
        for part in text.split("\"#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "there is no schema {name}");
            count += 1;
        }
        assert!(count > 20);
    }

    fn decodes<T: DeserializeOwned>(example: &Value) -> Result<(), String> {
        serde_json::from_value::<T>(example.clone()).map(|_| ()).map_err(|why| why.to_string())
    }

    #[test]
    fn every_example_decodes() {
        let document = document();
        for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
            let Some(example) = schema.get("example") else { continue };
            let decoded = match name.as_str() {
                "Act" => decodes::<tokens::ActEntry>(example),
                "Cancelled" => decodes::<streams::Cancelled>(example),
                "Growth" => decodes::<streams::Growth>(example),
                "MessagePage" => decodes::<streams::PageBody>(example),
                "NewMessages" => decodes::<streams::NewMessages>(example),
                "NewProducer" => decodes::<streams::NewProducer>(example),
                "NewTopic" => decodes::<streams::NewTopic>(example),
                "Producer" => decodes::<streams::ProducerExample>(example),
                "ScheduledMessage" => decodes::<streams::ScheduledExample>(example),
                "StoredMessages" => decodes::<streams::StoredBody>(example),
                "StreamStats" => decodes::<streams::StreamStats>(example),
                "TailClosed" => decodes::<streams::TailClosed>(example),
                "Topic" => decodes::<streams::TopicExample>(example),
                "Beat" => decodes::<examples::BeatBody>(example),
                "Commit" => decodes::<examples::CommitBody>(example),
                "Committed" => decodes::<examples::CommittedBody>(example),
                "Group" => decodes::<examples::GroupBody>(example),
                "GroupChange" => decodes::<examples::GroupChange>(example),
                "GroupLetterPage" => decodes::<examples::LetterPageBody>(example),
                "GroupMessageStatus" => decodes::<examples::StatusBody>(example),
                "Heartbeat" => decodes::<examples::HeartbeatBody>(example),
                "Join" => decodes::<examples::JoinBody>(example),
                "Joined" => decodes::<examples::JoinedBody>(example),
                "NewGroup" => decodes::<examples::NewGroup>(example),
                "Poll" => decodes::<examples::PollBody>(example),
                "Polled" => decodes::<examples::PolledBody>(example),
                "Replay" => decodes::<examples::ReplayBody>(example),
                "ReplayedLetters" => decodes::<examples::ReplayedBody>(example),
                "Seek" => decodes::<examples::SeekBody>(example),
                "Sought" => decodes::<examples::SoughtBody>(example),
                "TopicChange" => decodes::<streams::TopicChange>(example),
                "CreatedToken" => decodes::<tokens::CreatedToken>(example),
                "DamagedRange" => decodes::<crate::http::house::DamagedRange>(example),
                "DeadLetter" => decodes::<dead::DeadLetter>(example),
                "DeadLetterNumbers" => decodes::<dead::DeadLetterNumbers>(example),
                "Published" => decodes::<crate::http::events::Published>(example),
                "Deleted" => decodes::<Deleted>(example),
                "Event" => decodes::<Event>(example),
                "EventStats" => decodes::<EventStats>(example),
                "NewEvent" => decodes::<NewEvent>(example),
                "NewToken" => decodes::<tokens::NewToken>(example),
                "Notification" => decodes::<Notified>(example),
                "Problem" => decodes::<ProblemBody>(example),
                "Ready" => decodes::<Ready>(example),
                "Registered" => decodes::<Registered>(example),
                "RevokedToken" => decodes::<tokens::RevokedToken>(example),
                "RoomState" => decodes::<RoomState>(example),
                "Server" => decodes::<Server>(example),
                "StreamClosed" => decodes::<StreamClosed>(example),
                "Token" => decodes::<tokens::TokenEntry>(example),
                other => panic!("the example of {other} is decoded by nobody"),
            };
            assert_eq!(decoded, Ok(()), "{name}");
        }
    }
}
