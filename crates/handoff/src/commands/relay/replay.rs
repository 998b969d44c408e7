//! `handoff relay replay`

use std::io;

use handoff_relay_agent::{Address, Progress, ReplayError, replay};
use serde_json::json;

use super::inspect::unreadable;
use super::run::outside;
use crate::cli::ReplayArgs;
use crate::commands::Context;
use crate::commands::progress::Line;
use crate::config::bytes;
use crate::exit::{Exit, Failure};

/// Sends a refill file to a receiver.
pub(super) async fn run(context: Context<'_>, args: ReplayArgs) -> Result<(), Failure> {
    let address: Address = args.to.parse().map_err(|bad: handoff_relay_agent::BadAddress| {
        Failure::new(Exit::Usage, bad.to_string())
    })?;
    let token = context.surroundings.token(context.global)?.unwrap_or_default();
    let ca_file = context.surroundings.ca_file(context.global);
    let mut line = Line::new(context.terminal);
    let told = |progress: Progress| {
        let Progress { segments, confirmed, sent_bytes, .. } = progress;
        line.draw(Some((confirmed, segments)), || {
            format!("{confirmed} of {segments} segments, {}", bytes::about(sent_bytes))
        });
    };
    let ended = replay(&args.file, &args.agent, (address, token, ca_file), outside()?, told).await;
    line.clear();
    let Progress { segments, confirmed, sent_bytes, skipped } = ended.map_err(failed)?;
    if context.terminal.json {
        context.terminal.print_json(&json!({
            "version": 1,
            "segments": segments,
            "confirmed": confirmed,
            "sentBytes": sent_bytes,
            "skipped": skipped,
        }))?;
    } else {
        context.terminal.talk(&format!(
            "{confirmed} of {segments} segments are confirmed, {} were sent",
            bytes::about(sent_bytes)
        ));
    }
    if skipped > 0 {
        return Err(Failure::new(
            Exit::Failed,
            format!("{skipped} segments are damaged or were refused for good"),
        )
        .remedy("the receiver's log says why; the file is as it was"));
    }
    Ok(())
}

fn failed(error: ReplayError) -> Failure {
    match &error {
        ReplayError::Unreadable { path, fault } if fault.kind() == io::ErrorKind::NotFound => {
            unreadable(path, fault)
        }
        ReplayError::Name(_) | ReplayError::Way(_) => Failure::new(Exit::Usage, error.to_string()),
        ReplayError::Lost { .. } => Failure::new(Exit::Unavailable, error.to_string()),
        ReplayError::Refused { .. } => Failure::new(Exit::Refused, error.to_string()),
        _ => Failure::new(Exit::Failed, error.to_string()),
    }
}
