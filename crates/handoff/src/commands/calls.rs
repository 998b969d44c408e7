//! `handoff calls`

mod books;

use handoff_sdk::calls::{CallId, CallQuery, CallView};
use serde_json::json;

use self::books::{Books, LARGE_PAGE};
use super::Context;
use super::through::Place;
use crate::cli::{CallsArgs, CallsVerb, DeadCallVerb};
use crate::exit::Failure;
use crate::terminal::{Terminal, counted};

/// How many are asked for at once.
const PAGE: u32 = 200;

/// Does what the verb says.
pub(super) async fn run(context: Context<'_>, args: CallsArgs) -> Result<(), Failure> {
    let terminal = context.terminal;
    let place = Place::of(context, &args.through)?;
    let books = Books::of(&place).await?;
    match args.verb {
        CallsVerb::List { channel, open, limit } => {
            list(&books, terminal, channel, open, limit).await
        }
        CallsVerb::Show { id } => show(terminal, &books.show(id).await?),
        CallsVerb::Cancel { ids } => cancel(&books, terminal, &ids).await,
        CallsVerb::Dead(verb) => dead(&books, terminal, verb).await,
        CallsVerb::Channels => channels(&books, terminal).await,
    }
}

async fn list(
    books: &Books<'_>,
    terminal: &Terminal,
    channel: Option<String>,
    open: bool,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let mut list = terminal.list(&["id", "channel", "stage", "outcome", "attempts", "created"]);
    let mut left = limit.unwrap_or(u64::MAX);
    let mut query = CallQuery::new();
    if let Some(channel) = channel {
        query = query.channel(channel);
    }
    if open {
        query = query.open();
    }
    loop {
        let page = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = books.list(&query.clone().limit(page)).await?;
        for call in &page.calls {
            let cells = [
                call.id.clone(),
                call.channel.clone(),
                call.stage.clone(),
                call.outcome.clone().unwrap_or_else(|| "-".to_owned()),
                call.attempt.to_string(),
                call.created.to_string(),
            ];
            list.row(&cells, call)?;
            left = left.saturating_sub(1);
        }
        match page.next {
            Some(next) if left > 0 => query = query.before(next),
            _ => break,
        }
    }
    if list.finish()? == 0 {
        terminal.talk("there are no calls");
    }
    Ok(())
}

fn show(terminal: &Terminal, call: &CallView) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(call);
    }
    let or_none = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![
        ("id", call.id.clone()),
        ("channel", call.channel.clone()),
        ("stage", call.stage.clone()),
        ("outcome", or_none(call.outcome.as_ref())),
        ("attempts", call.attempt.to_string()),
        ("fence", call.fence.to_string()),
        ("caller", or_none(call.caller.as_ref())),
        ("executor", or_none(call.executor.as_ref())),
        ("created", call.created.to_string()),
        ("deadline", call.deadline.to_string()),
    ];
    if let Some(ended) = &call.ended {
        rows.push(("ended", ended.to_string()));
    }
    if let Some(key) = &call.key {
        rows.push(("key", key.clone()));
    }
    if let Some(from) = &call.requeued_from {
        rows.push(("requeued from", from.clone()));
    }
    if call.dead {
        rows.push(("dead", "yes".to_owned()));
    }
    if let Some(params) = &call.params {
        rows.push(("params", params.to_string()));
    }
    if let Some(answer) = &call.answer {
        rows.push(("answer", answer.to_string()));
    }
    if call.error.is_some() {
        rows.push(("error", why(call)));
    }
    for event in &call.history {
        let who = event.client.as_ref().map(|client| format!(" by {client}"));
        let line = format!("{} {}{}", event.at, event.what, who.unwrap_or_default());
        rows.push(("history", line));
    }
    terminal.record(&rows)
}

/// What went wrong, in a line.
fn why(call: &CallView) -> String {
    let Some(error) = &call.error else { return "-".to_owned() };
    let code = if error.code.is_empty() { String::new() } else { format!(" ({})", error.code) };
    format!("{}: {}{code}", error.name, error.message)
}

async fn cancel(books: &Books<'_>, terminal: &Terminal, ids: &[CallId]) -> Result<(), Failure> {
    for id in ids {
        // Not `of_change`: one that is over stays as it is, so it may be repeated.
        let call = books.cancel(*id).await?;
        if terminal.json {
            terminal.print_json(&call)?;
        } else if call.outcome.as_deref() == Some("cancelled") {
            terminal.talk(&format!("call {id} is cancelled"));
        } else {
            let how = call.outcome.as_deref().unwrap_or("-");
            terminal.talk(&format!("call {id} was over before: {how}"));
        }
    }
    Ok(())
}

async fn channels(books: &Books<'_>, terminal: &Terminal) -> Result<(), Failure> {
    let columns = &["channel", "workers", "waiting", "running", "dead", "attempts", "on lost"];
    let mut list = terminal.list(columns);
    for channel in books.channels().await? {
        let settings = &channel.settings;
        let cells = [
            channel.channel.clone(),
            channel.consumers.to_string(),
            channel.waiting.to_string(),
            channel.in_flight.to_string(),
            channel.dead.to_string(),
            settings.attempts_max.map_or_else(|| "-".to_owned(), |many| many.to_string()),
            settings.on_lost.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        list.row(&cells, &channel)?;
    }
    if list.finish()? == 0 {
        terminal.talk("there are no channels");
    }
    Ok(())
}

async fn dead(books: &Books<'_>, terminal: &Terminal, verb: DeadCallVerb) -> Result<(), Failure> {
    match verb {
        DeadCallVerb::List { channel, limit } => {
            let channels = match channel {
                Some(channel) => vec![channel],
                None => {
                    let all = books.channels().await?.into_iter();
                    all.filter(|one| one.dead > 0).map(|one| one.channel).collect()
                }
            };
            list_dead(books, terminal, &channels, limit).await
        }
        DeadCallVerb::Show { id } => show(terminal, &books.show(id).await?),
        DeadCallVerb::Requeue { ids, channel } => {
            let ids = match channel {
                Some(channel) => dead_ids(books, &channel).await?,
                None => ids,
            };
            requeue(books, terminal, &ids).await
        }
        DeadCallVerb::Purge { channel, id } => purge(books, terminal, &channel, id).await,
    }
}

async fn list_dead(
    books: &Books<'_>,
    terminal: &Terminal,
    channels: &[String],
    limit: Option<u64>,
) -> Result<(), Failure> {
    let mut list = terminal.list(&["id", "channel", "attempts", "ended", "error"]);
    for channel in channels {
        let (mut from, mut shown) = (None, 0);
        let more = loop {
            let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(shown));
            let many = u32::try_from(left).unwrap_or(LARGE_PAGE).min(LARGE_PAGE);
            let page = books.dead(channel, from, many).await?;
            for call in &page.calls {
                let ended = call.ended.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
                let attempts = call.attempt.to_string();
                let cells = [call.id.clone(), call.channel.clone(), attempts, ended, why(call)];
                list.row(&cells, call)?;
                shown += 1;
            }
            from = page.next;
            if from.is_none() || limit.is_some_and(|limit| shown >= limit) {
                break page.next.map_or(0, |_| page.total.saturating_sub(shown));
            }
        };
        if more > 0 {
            terminal.talk(&format!("channel {channel} has {more} more"));
        }
    }
    if list.finish()? == 0 {
        terminal.talk("there are no dead letters");
    }
    Ok(())
}

/// All dead letters of a channel.
async fn dead_ids(books: &Books<'_>, channel: &str) -> Result<Vec<CallId>, Failure> {
    let (mut ids, mut from) = (Vec::new(), None);
    loop {
        let page = books.dead(channel, from, LARGE_PAGE).await?;
        ids.extend(page.calls.iter().filter_map(|call| call.id.parse::<CallId>().ok()));
        from = page.next;
        if from.is_none() {
            return Ok(ids);
        }
    }
}

async fn requeue(books: &Books<'_>, terminal: &Terminal, ids: &[CallId]) -> Result<(), Failure> {
    for id in ids {
        let again = books.requeue(*id).await.map_err(Failure::of_change)?;
        if terminal.json {
            terminal.print_json(&json!({ "id": again, "requeuedFrom": id }))?;
        } else {
            terminal.print(&again.to_string())?;
        }
    }
    terminal.talk(&format!("{} called again", counted(ids.len(), "dead letter")));
    Ok(())
}

async fn purge(
    books: &Books<'_>,
    terminal: &Terminal,
    channel: &str,
    id: Option<CallId>,
) -> Result<(), Failure> {
    let what = match id {
        Some(id) => format!("dead letter {id} of channel {channel} will be dropped"),
        None => {
            let total = books.dead(channel, None, 1).await?.total;
            let many = counted(usize::try_from(total).unwrap_or(usize::MAX), "dead letter");
            format!("{many} of channel {channel} will be dropped")
        }
    };
    terminal.confirm(&what)?;
    let purged = books.purge(channel, id).await?;
    if terminal.json {
        return terminal.print_json(&json!({ "purged": purged }));
    }
    let many = counted(usize::try_from(purged).unwrap_or(usize::MAX), "dead letter");
    terminal.talk(&format!("{many} dropped"));
    Ok(())
}
