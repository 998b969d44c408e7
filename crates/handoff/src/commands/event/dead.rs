//! `handoff event dead`

use handoff_sdk::Client;
use handoff_sdk::events::DeadLetters;

use crate::cli::{DeadArgs, DeadVerb};
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// How many numbers go into one request: they stand in its URL.
const AT_ONCE: usize = 1000;

pub(super) async fn run(
    client: &Client,
    terminal: &Terminal,
    verb: DeadVerb,
) -> Result<(), Failure> {
    match verb {
        DeadVerb::List { limit } => list(client, terminal, limit).await,
        DeadVerb::Retry(args) => retry(client, terminal, args).await,
        DeadVerb::Delete(args) => delete(client, terminal, args).await,
    }
}

async fn list(client: &Client, terminal: &Terminal, limit: Option<u64>) -> Result<(), Failure> {
    let mut list = terminal.list(&["number", "event", "occurrence", "at", "topic", "why"]);
    let (mut left, mut after) = (limit.unwrap_or(u64::MAX), None);
    loop {
        let most = u32::try_from(left.min(1000)).unwrap_or(1000);
        let page = client.events().dead_letters(after, Some(most)).await?;
        for letter in &page.dead_letters {
            let cells = [
                letter.number.to_string(),
                letter.event.to_string(),
                letter.occurrence.to_string(),
                letter.at.to_string(),
                letter.topic.clone(),
                letter.why.clone(),
            ];
            list.row(&cells, letter)?;
        }
        left = left.saturating_sub(page.dead_letters.len() as u64);
        after = page.next.filter(|next| left > 0 && after.is_none_or(|after| *next > after));
        if after.is_none() {
            break;
        }
    }
    if list.finish()? == 0 {
        terminal.talk("there are no dead letters");
    }
    Ok(())
}

async fn retry(client: &Client, terminal: &Terminal, args: DeadArgs) -> Result<(), Failure> {
    let events = client.events();
    let mut retried = Vec::new();
    if args.all {
        retried = events.retry_dead_letters(DeadLetters::All).await.map_err(Failure::of_change)?;
    }
    for numbers in args.numbers.chunks(AT_ONCE) {
        let which = DeadLetters::Numbers(numbers);
        retried.extend(events.retry_dead_letters(which).await.map_err(Failure::of_change)?);
    }
    tell(terminal, &args.numbers, &retried, "retried")
}

async fn delete(client: &Client, terminal: &Terminal, args: DeadArgs) -> Result<(), Failure> {
    let events = client.events();
    let mut deleted = Vec::new();
    if args.all {
        let there = events.stats().await?.dead_letters;
        let there = usize::try_from(there).unwrap_or(usize::MAX);
        terminal.confirm(&format!("{} will be deleted", counted(there, "dead letter")))?;
        deleted = events.delete_dead_letters(DeadLetters::All).await?;
    }
    for numbers in args.numbers.chunks(AT_ONCE) {
        deleted.extend(events.delete_dead_letters(DeadLetters::Numbers(numbers)).await?);
    }
    tell(terminal, &args.numbers, &deleted, "deleted")
}

/// Prints what was done, and complains about numbers that are not there.
fn tell(terminal: &Terminal, asked: &[u64], done: &[u64], word: &str) -> Result<(), Failure> {
    let mut list = terminal.list(&[]);
    for number in done {
        list.row(&[number.to_string()], &serde_json::json!({ word: number }))?;
    }
    list.finish()?;
    terminal.talk(&format!("{} {word}", counted(done.len(), "dead letter")));
    let missing: Vec<String> =
        asked.iter().filter(|number| !done.contains(number)).map(ToString::to_string).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let what = format!("there is no dead letter {}", missing.join(", "));
    Err(Failure::new(Exit::NotFound, what)
        .remedy("`handoff event dead list` shows those there are; it may be on its way already"))
}
