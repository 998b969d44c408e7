//! `/v1/relay`
//!
//! A token sees agents by their names. One that it does not see is answered as if it were not there.

mod segments;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use handoff_types::{Code, Room, Sight, Wall};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::admit_to;
use super::front::Door;
use super::json::{Json, V1};
use super::problem::Problem;
use super::query::{Page, Query, next_of};
use super::stamp::stamp;
use crate::relay::{AgentView, Reception, SessionView, SinkView};

pub(super) use self::segments::{__path_take_relay_segments, take_relay_segments};

/// Somebody who sees some agents.
#[derive(Debug)]
pub(super) struct RelayAsker {
    relay: Reception,
    sight: Sight,
    now: Wall,
    door: Door,
}

impl FromRequestParts<Door> for RelayAsker {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Door) -> Result<Self, Problem> {
        let (relay, sight, _) =
            admit_to(door, &parts.headers, Room::Relay, |rooms| rooms.relay.as_ref())?;
        Ok(Self { relay: relay.clone(), sight, now: relay.wall(), door: door.clone() })
    }
}

/// An agent, since this server started.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayAgent)]
pub(super) struct AgentDocument {
    version: V1,
    /// Its name.
    agent: String,
    /// Whether it is connected.
    connected: bool,
    /// When it was first heard of.
    first_heard_at: String,
    /// When it was last heard of.
    last_heard_at: String,
    /// How late its newest sample is, in milliseconds, of what is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_ms: Option<i64>,
    /// Segments that every sink has.
    segments: u64,
    /// Samples that every sink has.
    samples: u64,
    /// Their bytes as the sinks got them.
    bytes: u64,
    /// Segments that were not taken, for now or for good.
    rejected: u64,
    /// Segments that it was confirmed once and that are not here.
    missing: u64,
    /// Why something was not taken, last.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    /// What it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<ToldDocument>,
    /// Its connections.
    sessions: Vec<SessionDocument>,
}

/// What an agent says of itself.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayAgentTold)]
pub(super) struct ToldDocument {
    /// When.
    at: String,
    /// Bytes of segments in its memory.
    memory_bytes: u64,
    /// Bytes of its refill files.
    spool_bytes: u64,
    /// How many there may be.
    spool_bytes_max: u64,
    /// Refill files.
    files: u64,
    /// Bytes of what it set aside.
    quarantine_bytes: u64,
    /// Segments and files that it gave up.
    given_up: u64,
    /// Whom it sends to.
    destinations: Vec<DestinationDocument>,
}

/// One of those an agent sends to.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayAgentDestination)]
pub(super) struct DestinationDocument {
    /// What the agent calls it.
    name: String,
    /// Whether they talk.
    connected: bool,
    /// For how long it has not answered.
    gone_ms: u64,
    /// How old the oldest is that it has not confirmed, when the agent said so; absent if it has
    /// everything. Of what is in a file it is when the file was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_ms: Option<u64>,
}

/// A connection of an agent.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelaySession)]
pub(super) struct SessionDocument {
    /// The block it speaks for.
    block: String,
    /// Whether the block comes from a file.
    backlog: bool,
    /// From where it comes.
    peer: String,
    /// Since when.
    since: String,
    /// The last segment of each shard that every sink has.
    marks: Vec<Option<u32>>,
}

/// Agents, by their names.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelayAgents)]
pub(super) struct AgentsDocument {
    version: V1,
    agents: Vec<AgentDocument>,
    /// Where samples go.
    sinks: Vec<SinkDocument>,
    /// The name to ask for what follows with, if there is more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Where samples go.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RelaySink)]
pub(super) struct SinkDocument {
    /// What it is.
    name: String,
    /// Whether it took what it was given last.
    takes: bool,
    /// Since when it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// Why it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

impl AgentDocument {
    fn of(agent: &AgentView, now: Wall) -> Self {
        let told = agent.told.as_ref().map(|(at, told)| ToldDocument {
            at: stamp(*at),
            memory_bytes: told.memory_bytes,
            spool_bytes: told.spool_bytes,
            spool_bytes_max: told.spool_bytes_max,
            files: told.files,
            quarantine_bytes: told.quarantine_bytes,
            given_up: told.given_up,
            destinations: told
                .destinations
                .iter()
                .map(|one| DestinationDocument {
                    name: one.name.to_string(),
                    connected: one.connected,
                    gone_ms: one.gone_millis,
                    lag_ms: one.lag_millis,
                })
                .collect(),
        });
        Self {
            version: V1,
            agent: agent.name.to_string(),
            connected: !agent.sessions.is_empty(),
            first_heard_at: stamp(agent.first_heard),
            last_heard_at: stamp(agent.last_heard),
            lag_ms: agent.lag_millis(now),
            segments: agent.segments,
            samples: agent.samples,
            bytes: agent.bytes,
            rejected: agent.rejected,
            missing: agent.missing,
            trouble: agent.trouble.clone(),
            told,
            sessions: agent.sessions.values().map(SessionDocument::of).collect(),
        }
    }
}

impl SessionDocument {
    fn of(session: &SessionView) -> Self {
        Self {
            block: session.origin.block.to_string(),
            backlog: session.backlog,
            peer: session.peer.to_string(),
            since: stamp(session.since),
            marks: session.marks.clone(),
        }
    }
}

impl SinkDocument {
    fn of(sink: SinkView) -> Self {
        let (since, trouble) = sink.trouble.unzip();
        let takes = trouble.is_none();
        Self { name: sink.name, takes, since: since.map(stamp), trouble }
    }
}

/// Agents that were heard of since this server started, by their names, and where their samples go.
#[utoipa::path(
    get, path = "/v1/relay/agents", operation_id = "listRelayAgents", tag = "relay",
    params(
        ("after" = Option<String>, Query, description = "Names behind this one."),
        ("limit" = Option<u32>, Query, description = "1 to 1000; 100 unless said otherwise."),
    ),
    responses((status = 200, description = "Agents, by their names.", body = AgentsDocument))
)]
pub(super) async fn list_relay_agents(
    asker: RelayAsker,
    query: Query,
) -> Result<Json<AgentsDocument>, Problem> {
    let Page { after, limit } = query.page::<String>("an agent")?;
    let after = after.unwrap_or_default();
    let (agents, more) = asker.relay.agents(|name| asker.sight.sees(name), &after, limit);
    let next = next_of(&agents, more, |last| last.name.to_string());
    Ok(Json(AgentsDocument {
        version: V1,
        agents: agents.iter().map(|agent| AgentDocument::of(agent, asker.now)).collect(),
        sinks: asker.relay.sinks().into_iter().map(SinkDocument::of).collect(),
        next,
    }))
}

/// One agent.
#[utoipa::path(
    get, path = "/v1/relay/agents/{agent}", operation_id = "showRelayAgent", tag = "relay",
    params(("agent" = String, Path, description = "Its name.")),
    responses((status = 200, description = "The agent.", body = AgentDocument))
)]
pub(super) async fn show_relay_agent(
    asker: RelayAsker,
    Path(agent): Path<String>,
    query: Query,
) -> Result<Json<AgentDocument>, Problem> {
    query.known(&[])?;
    let found = Some(&*agent).filter(|name| asker.sight.sees(name));
    let found = found.and_then(|name| asker.relay.agent(name)).ok_or_else(|| {
        let shown = agent.get(..agent.floor_char_boundary(128)).unwrap_or_default();
        let detail = format!("no agent of the name {shown} was heard of since this server started");
        Problem::new(Code::AgentNotFound, detail)
    })?;
    Ok(Json(AgentDocument::of(&found, asker.now)))
}
