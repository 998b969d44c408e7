//! `handoff event watch`

use handoff_sdk::Client;
use handoff_sdk::events::{Backoff, Filter, Notice, WatchOptions};

use super::repeat;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, plain};

/// Prints occurrences as they happen.
pub(super) async fn run(
    client: &Client,
    terminal: &Terminal,
    filter: Filter,
    count: Option<u64>,
) -> Result<(), Failure> {
    let options = WatchOptions::new().reconnect(Backoff::default());
    let mut watch = client.events().watch_with(filter, options).await?;
    terminal.talk(&format!("watching {}; stop with Ctrl-C", client.url()));
    let mut left = count.unwrap_or(u64::MAX);
    while left > 0 {
        let notice = tokio::select! {
            // Both may be dropped: a watch loses nothing by it, a signal is told again.
            notice = watch.next() => notice,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        match notice {
            Some(Ok(Notice::Occurred(occurrence))) => {
                left -= 1;
                if terminal.json {
                    terminal.print_json(&occurrence)?;
                    continue;
                }
                let line = [
                    occurrence.due_at.to_string(),
                    occurrence.id.to_string(),
                    occurrence.occurrence.to_string(),
                    repeat(occurrence.repeat),
                    occurrence.types.join(","),
                    occurrence.description,
                ]
                .map(|cell| plain(&cell))
                .join("\t");
                terminal.print(&line)?;
            }
            Some(Ok(Notice::Interrupted { cause })) => {
                terminal.talk(&format!("{cause}; connecting again"));
            }
            Some(Ok(Notice::Reconnected { .. })) => {
                terminal.talk("connected again; what occurred meanwhile was not told");
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Failure::new(Exit::Unavailable, "the server ended the watch")),
        }
    }
    Ok(())
}
