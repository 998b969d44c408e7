//! `handoff event`

mod dead;
mod watch;
mod when;

use std::time::Duration;

use handoff_sdk::Client;
use handoff_sdk::events::{Event, ListQuery, NewEvent, Repeat, Selection};

use super::Context;
use crate::cli::{AddArgs, EventVerb};
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// Does what the verb says.
pub(super) async fn run(context: Context<'_>, verb: EventVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    let client = context.surroundings.client(context.global)?;
    match verb {
        EventVerb::Add(args) => add(&client, terminal, args).await,
        EventVerb::List { types, limit } => list(&client, terminal, types, limit).await,
        EventVerb::Show { id } => show(terminal, &client.events().get(id).await?),
        EventVerb::Delete { ids, types } => delete(&client, terminal, ids, types).await,
        EventVerb::Watch { types, ids, count } => {
            let filter = Selection { ids, types };
            watch::run(&client, terminal, filter, count).await
        }
        EventVerb::Dead(verb) => dead::run(&client, terminal, verb).await,
        EventVerb::Stats => stats(&client, terminal).await,
    }
}

async fn add(client: &Client, terminal: &Terminal, args: AddArgs) -> Result<(), Failure> {
    let mut event = match (args.every, args.cron, args.at) {
        (Some(period), _, _) => NewEvent::every(period, args.description),
        (_, Some(expression), _) => {
            let event = NewEvent::cron(expression, args.description);
            match &args.tz {
                Some(zone) => event.time_zone(zone),
                None => event,
            }
        }
        (_, _, Some(time)) => {
            NewEvent::at(when::moment(&time, args.tz.as_deref())?, args.description)
        }
        (None, None, None) => {
            return Err(Failure::new(Exit::Usage, "say when: --every, --cron or --at"));
        }
    };
    for name in args.types {
        event = event.of_type(name);
    }
    if let Some(times) = args.times {
        event = event.times(times);
    }
    if let Some(topic) = args.publish {
        event = event.publish(topic);
    }
    let registered = client.events().register(&event).await.map_err(Failure::of_change)?;
    if terminal.json {
        return terminal.print_json(&registered);
    }
    terminal.print(&registered.id.to_string())?;
    match &registered.next_at {
        Some(next) => terminal.talk(&format!("event {} occurs first at {next}", registered.id)),
        None => terminal.talk(&format!("event {} never occurs", registered.id)),
    }
    Ok(())
}

async fn list(
    client: &Client,
    terminal: &Terminal,
    types: Vec<String>,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let query = types.into_iter().fold(ListQuery::new(), ListQuery::of_type);
    let query = match limit.map(u32::try_from) {
        Some(Ok(limit)) if limit < 1000 => query.limit(limit),
        _ => query.limit(1000),
    };
    let mut all = client.events().list_all(query);
    let mut list = terminal.list(&["id", "next", "when", "left", "types", "description"]);
    let mut left = limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some(event) = all.next().await else { break };
        let event = event?;
        let next = event.next_at.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let cells = [
            event.id.to_string(),
            next,
            schedule(&event),
            repeat(event.repeat),
            event.types.join(","),
            event.description.clone(),
        ];
        list.row(&cells, &event)?;
        left -= 1;
    }
    if list.finish()? == 0 {
        terminal.talk("there are no events");
    }
    Ok(())
}

fn show(terminal: &Terminal, event: &Event) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(event);
    }
    let next = event.next_at.as_ref().map_or_else(|| "never".to_owned(), ToString::to_string);
    let mut rows = vec![
        ("id", event.id.to_string()),
        ("description", event.description.clone()),
        ("types", event.types.join(",")),
        ("when", schedule(event)),
        ("next", next),
        ("left", repeat(event.repeat)),
        ("updated", event.updated_at.to_string()),
        ("occurrences", event.occurrences.to_string()),
        ("skipped", event.skipped.to_string()),
    ];
    if let Some(published) = &event.publish {
        let key = published.key.as_ref().map_or(String::new(), |key| format!(":{key}"));
        rows.extend([
            ("published to", format!("{}{key}", published.topic)),
            ("waiting for it", published.waiting.to_string()),
            ("dead letters", published.dead_letters.to_string()),
        ]);
    }
    terminal.record(&rows)
}

async fn delete(
    client: &Client,
    terminal: &Terminal,
    ids: Vec<u32>,
    types: Vec<String>,
) -> Result<(), Failure> {
    let mut wanted = ids.clone();
    if !types.is_empty() {
        let touched = of_types(client, &types).await?;
        if touched.is_empty() && ids.is_empty() {
            let what = format!("there is no event of type {}", types.join(" or "));
            return Err(Failure::new(Exit::NotFound, what)
                .remedy("`handoff event list` shows those there are"));
        }
        let what = format!(
            "{} of type {} will be deleted: {}",
            counted(touched.len(), "event"),
            types.join(" or "),
            some(&touched)
        );
        terminal.confirm(&what)?;
        // What was shown is what is deleted: events that came meanwhile stay.
        wanted.extend(touched);
    }
    wanted.sort_unstable();
    wanted.dedup();
    let mut deleted = Vec::new();
    for ids in wanted.chunks(DELETE_AT_ONCE) {
        let selection = Selection { ids: ids.to_vec(), types: Vec::new() };
        deleted.extend(client.events().delete_where(&selection).await?);
    }
    let mut list = terminal.list(&[]);
    for id in &deleted {
        list.row(&[id.to_string()], &serde_json::json!({ "deleted": id }))?;
    }
    list.finish()?;
    terminal.talk(&format!("{} deleted", counted(deleted.len(), "event")));
    let missing: Vec<u32> = ids.into_iter().filter(|id| !deleted.contains(id)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::NotFound, format!("there is no event {}", some(&missing)))
        .remedy("`handoff event list` shows those there are; it may have run out"))
}

/// How many ids go into one request: they stand in its URL.
const DELETE_AT_ONCE: usize = 1000;

async fn of_types(client: &Client, types: &[String]) -> Result<Vec<u32>, Failure> {
    let query = types.iter().fold(ListQuery::new().limit(1000), ListQuery::of_type);
    let mut all = client.events().list_all(query);
    let mut ids = Vec::new();
    while let Some(event) = all.next().await {
        ids.push(event?.id);
    }
    Ok(ids)
}

/// The first few of many.
fn some(ids: &[u32]) -> String {
    let shown: Vec<String> = ids.iter().take(20).map(ToString::to_string).collect();
    match ids.len().saturating_sub(shown.len()) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

async fn stats(client: &Client, terminal: &Terminal) -> Result<(), Failure> {
    let stats = client.events().stats().await?;
    if terminal.json {
        return terminal.print_json(&stats);
    }
    let rows = [
        ("events", stats.events),
        ("sessions", stats.sessions),
        ("held", stats.held),
        ("slow sessions", stats.slow_sessions),
        ("registered", stats.registered),
        ("deleted", stats.deleted),
        ("finished", stats.finished),
        ("occurred", stats.occurred),
        ("skipped", stats.skipped),
        ("published", stats.published),
        ("waiting for topics", stats.publish_waiting),
        ("dead letters", stats.dead_letters),
        ("dead letters dropped", stats.dropped),
    ];
    terminal.record(&rows.map(|(name, value)| (name, value.to_string())))
}

/// When an event occurs, in a few words.
fn schedule(event: &Event) -> String {
    match (&event.cron, &event.at) {
        (Some(cron), _) => match &event.time_zone {
            Some(zone) => format!("cron {cron} {zone}"),
            None => format!("cron {cron}"),
        },
        (None, Some(at)) => format!("at {at}"),
        (None, None) => match Duration::try_from_secs_f64(event.period_secs) {
            Ok(period) => format!("every {}", duration::show(period)),
            Err(_) => format!("every {} s", event.period_secs),
        },
    }
}

/// What is left, in a word.
fn repeat(repeat: Repeat) -> String {
    match repeat {
        Repeat::Forever => "forever".to_owned(),
        Repeat::Times(times) => times.to_string(),
    }
}
