//! A server that runs: what it says of itself.

use handoff_sdk::Client;

use super::Finding;

const CHECK: &str = "server";

/// What a server said, or that there is none.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// What to think of it.
    pub(super) findings: Vec<Finding>,
    /// Files for a bundle: name and content.
    pub(super) files: Vec<(&'static str, String)>,
}

impl Running {
    /// A server that is not asked.
    pub(crate) fn unasked(why: &str) -> Self {
        Self { findings: vec![Finding::skip(CHECK, why)], files: Vec::new() }
    }

    /// Asks a server.
    pub(crate) async fn ask(client: &Client) -> Self {
        let mut running = Self::default();
        let url = client.url().to_owned();
        let readiness = match client.ready().await {
            Ok(readiness) => readiness,
            Err(error) => {
                running.findings.push(Finding::skip(CHECK, format!("none to ask: {error}")));
                return running;
            }
        };
        running.findings.push(if readiness.ready {
            Finding::ok(CHECK, format!("{url} takes work"))
        } else {
            let why = readiness.obstacle.as_deref().unwrap_or(&readiness.phase);
            let what = format!("{url} is not ready: {why}");
            let remedy = "wait while it starts; what is damaged is repaired on a stopped server";
            Finding::warn(CHECK, what, remedy)
        });
        running.files.push(("readyz.json", json(&readiness)));
        match client.server().await {
            Ok(server) => {
                if server.proxy_headers_seen && !server.auth {
                    let what = "requests came through a proxy and auth is off: whoever reaches the proxy may do everything";
                    running.findings.push(Finding::warn("proxy", what, "set auth.enabled = true"));
                }
                running.files.push(("server.json", json(&server)));
            }
            Err(error) => {
                let what = format!("it does not say what it is: {error}");
                running.findings.push(Finding::skip(CHECK, what));
            }
        }
        if let Ok(metrics) = client.metrics().await {
            running.files.push(("metrics.txt", metrics));
        }
        if let Ok(logs) = client.logs().await {
            running.files.push(("logs.txt", logs));
        }
        running
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
