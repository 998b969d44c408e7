//! `handoff health`

use super::Context;
use crate::cli::HealthArgs;
use crate::exit::{Exit, Failure};

/// Asks whether the server lives, or takes work.
pub(super) async fn run(context: Context<'_>, args: HealthArgs) -> Result<(), Failure> {
    let client = context.surroundings.client(context.global)?;
    if !args.ready {
        client.get_text("/healthz").await?;
        if context.terminal.json {
            return context.terminal.print_json(&serde_json::json!({ "alive": true }));
        }
        context.terminal.talk(&format!("{} lives", client.url()));
        return Ok(());
    }
    let readiness = client.ready().await?;
    if context.terminal.json {
        context.terminal.print_json(&readiness)?;
    } else if readiness.ready {
        context.terminal.talk(&format!("{} takes work", client.url()));
    }
    if readiness.ready {
        return Ok(());
    }
    if context.terminal.json {
        return Err(Failure::said(Exit::Unavailable));
    }
    let why = readiness.obstacle.unwrap_or(readiness.phase);
    Err(Failure::new(Exit::Unavailable, format!("{} takes no work: {why}", client.url()))
        .remedy("wait while it starts; `handoff doctor` says more"))
}
