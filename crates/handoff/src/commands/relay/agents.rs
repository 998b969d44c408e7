//! `handoff relay agents` and `handoff relay show`: what a receiver knows of those who send.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::commands::Context;
use crate::duration;
use crate::exit::Failure;
use crate::terminal::{Terminal, counted};

/// How many are asked for at once.
const PAGE: u64 = 500;

const COLUMNS: &[&str] =
    &["agent", "connected", "lag", "samples", "rejected", "spool", "set aside", "heard"];

#[derive(Debug, Deserialize)]
struct Page {
    agents: Vec<Agent>,
    sinks: Vec<Sink>,
    next: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sink {
    name: String,
    takes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agent {
    agent: String,
    connected: bool,
    last_heard_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_ms: Option<u64>,
    segments: u64,
    samples: u64,
    rejected: u64,
    missing: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    told: Option<Told>,
    sessions: Vec<Session>,
    /// Everything else that was said.
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    spool_bytes: u64,
    spool_bytes_max: u64,
    files: usize,
    quarantine_bytes: u64,
    given_up: u64,
    destinations: Vec<Destination>,
    #[serde(flatten)]
    more: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Destination {
    name: String,
    connected: bool,
    gone_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lag_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    block: String,
    backlog: bool,
    peer: String,
    since: String,
    marks: Vec<Option<u32>>,
}

/// Lists agents.
pub(super) async fn list(context: Context<'_>, limit: Option<u64>) -> Result<(), Failure> {
    let terminal = context.terminal;
    let client = context.surroundings.client(context.global)?;
    let mut list = terminal.list(COLUMNS);
    let (mut left, mut after) = (limit.unwrap_or(u64::MAX), String::new());
    let sinks = loop {
        let path =
            format!("/v1/relay/agents?limit={}&after={}", left.clamp(1, PAGE), escaped(&after));
        let page: Page = client.get_json(&path).await?;
        for agent in &page.agents {
            let told = |of: fn(&Told) -> u64| {
                agent.told.as_ref().map_or_else(|| "-".to_owned(), |told| bytes(of(told)))
            };
            let cells = [
                agent.agent.clone(),
                yes(agent.connected).to_owned(),
                lag(agent.lag_ms),
                agent.samples.to_string(),
                agent.rejected.to_string(),
                told(|told| told.spool_bytes),
                told(|told| told.quarantine_bytes),
                agent.last_heard_at.clone(),
            ];
            list.row(&cells, agent)?;
            left = left.saturating_sub(1);
        }
        match page.next {
            Some(next) if left > 0 => after = next,
            _ => break page.sinks,
        }
    };
    if list.finish()? == 0 {
        terminal.talk("no agent was heard of since the server started; `handoff relay run` is one");
    }
    for Sink { name, trouble, .. } in &sinks {
        match trouble {
            Some(trouble) => terminal.warn(&format!("{name} takes no samples: {trouble}")),
            None => terminal.talk(&format!("samples go to: {name}")),
        }
    }
    Ok(())
}

/// Shows one agent.
pub(super) async fn show(context: Context<'_>, name: &str) -> Result<(), Failure> {
    let terminal = context.terminal;
    let client = context.surroundings.client(context.global)?;
    let agent: Agent = client.get_json(&format!("/v1/relay/agents/{}", escaped(name))).await?;
    if terminal.json {
        return terminal.print_json(&agent);
    }
    print(terminal, &agent)
}

fn print(terminal: &Terminal, agent: &Agent) -> Result<(), Failure> {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<12} {value}\n");
    line("agent", agent.agent.clone());
    line("connected", yes(agent.connected).to_owned());
    line("last heard", agent.last_heard_at.clone());
    line("lag", lag(agent.lag_ms));
    line("taken", format!("{} samples in {} segments", agent.samples, agent.segments));
    line("rejected", agent.rejected.to_string());
    if agent.missing > 0 {
        line("missing", format!("{} segments were confirmed once and are not here", agent.missing));
    }
    if let Some(trouble) = &agent.trouble {
        line("trouble", trouble.clone());
    }
    for Session { block, backlog, peer, since, marks } in &agent.sessions {
        let lane = if *backlog { "backlog" } else { "fresh" };
        let mark =
            |mark: &Option<u32>| mark.map_or_else(|| "-".to_owned(), |mark| mark.to_string());
        let marks: Vec<String> = marks.iter().map(mark).collect();
        line(lane, format!("block {block} from {peer} since {since}, up to {}", marks.join(",")));
    }
    if let Some(told) = &agent.told {
        let Told { spool_bytes, spool_bytes_max, files, quarantine_bytes, given_up, .. } = told;
        let (has, may) = (bytes(*spool_bytes), bytes(*spool_bytes_max));
        line("spool", format!("{has} of {may} in {}", counted(*files, "file")));
        line("set aside", bytes(*quarantine_bytes));
        line("given up", given_up.to_string());
        for Destination { name, connected, gone_ms, lag_ms } in &told.destinations {
            let how = match connected {
                true => "connected".to_owned(),
                false => format!("gone for {}", lag(Some(*gone_ms))),
            };
            let behind = match lag_ms {
                Some(_) => format!("the oldest it lacks is {} old", lag(*lag_ms)),
                None => "has everything".to_owned(),
            };
            line("sends to", format!("{name}: {how}, {behind}"));
        }
    }
    terminal.print(&text)
}

fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn lag(millis: Option<u64>) -> String {
    millis.map_or_else(|| "-".to_owned(), |millis| duration::show(Duration::from_millis(millis)))
}

fn bytes(bytes: u64) -> String {
    crate::config::bytes::about(bytes)
}

/// A name as a part of a URL.
fn escaped(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut text = String::new();
    for byte in name.bytes() {
        match plain(byte) {
            true => text.push(char::from(byte)),
            false => text += &format!("%{byte:02X}"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_that_mean_something_in_a_url_are_escaped() {
        assert_eq!(super::escaped("edge-7.b"), "edge-7.b");
        assert_eq!(super::escaped("a/b?c"), "a%2Fb%3Fc");
    }
}
