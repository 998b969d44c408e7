//! `handoff audit`

use handoff_sdk::audit::AuditQuery;

use super::Context;
use crate::cli::AuditArgs;
use crate::exit::Failure;

/// How many acts are asked for at once.
const PAGE: u32 = 500;

/// Prints acts, the latest first.
pub(super) async fn run(context: Context<'_>, args: AuditArgs) -> Result<(), Failure> {
    let client = context.surroundings.client(context.global)?;
    let mut list = context.terminal.list(&["number", "at", "who", "act", "to"]);
    let mut left = args.limit;
    let mut below = None;
    loop {
        let query = AuditQuery::new().limit(u32::try_from(left).unwrap_or(PAGE).min(PAGE));
        let query = below.map_or(query, |number| query.below(number));
        let page = client.audit(&query).await?;
        for act in &page.acts {
            let cells = [
                act.number.to_string(),
                act.at.to_string(),
                act.who.clone(),
                act.kind.clone(),
                act.target.clone(),
            ];
            list.row(&cells, act)?;
            left = left.saturating_sub(1);
        }
        // A server that does not move on must not be asked for ever.
        match page.next {
            Some(next) if left > 0 && below.is_none_or(|below| next < below) => below = Some(next),
            _ => break,
        }
    }
    if list.finish()? == 0 {
        context.terminal.talk("nothing has been done yet");
    }
    Ok(())
}
