//! `handoff dead`

use handoff_sdk::Client;
use handoff_sdk::streams::{Letter, Replay, Replayed};

use super::Context;
use crate::cli::LetterVerb;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// How many are asked for at once.
const PAGE: u32 = 200;

/// Does what the verb says.
pub(super) async fn run(context: Context<'_>, verb: LetterVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    let client = context.surroundings.client(context.global)?;
    match verb {
        LetterVerb::List { group, limit } => list(&client, terminal, &group, limit).await,
        LetterVerb::Show { group, offset, partition } => {
            let found = find(&client, &group, partition, offset).await?;
            show(terminal, &found)
        }
        LetterVerb::Replay { group, offsets, range, all, partition } => {
            let which: Vec<Replay> = if all {
                vec![Replay::All]
            } else {
                let single = offsets.into_iter().map(|offset| (offset, offset));
                let ranges = single.chain(range);
                ranges.map(|(from, to)| Replay::Range { partition, from, to }).collect()
            };
            replay(&client, terminal, &group, &which, all).await
        }
    }
}

async fn list(
    client: &Client,
    terminal: &Terminal,
    group: &str,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let columns = &["offset", "partition", "origin", "attempts", "put back", "error"];
    let mut list = terminal.list(columns);
    let mut left = limit.unwrap_or(u64::MAX);
    let mut after: Option<String> = None;
    loop {
        let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = client.streams().groups().dead(group, after.as_deref(), Some(limit)).await?;
        for letter in &page.letters {
            let cells = [
                letter.offset.to_string(),
                letter.partition.to_string(),
                origin(letter),
                letter.attempt.to_string(),
                yes(letter.replayed),
                letter.error.clone().unwrap_or_else(|| "-".to_owned()),
            ];
            list.row(&cells, letter)?;
            left = left.saturating_sub(1);
        }
        match page.next {
            Some(next) if left > 0 => after = Some(next),
            _ => break,
        }
    }
    if list.finish()? == 0 {
        terminal.talk(&format!("group {group} has no dead letters"));
    }
    Ok(())
}

/// Looks for a letter page by page: they are listed in the order of their offsets.
async fn find(
    client: &Client,
    group: &str,
    partition: u32,
    offset: u64,
) -> Result<Letter, Failure> {
    let mut after: Option<String> = None;
    loop {
        let page = client.streams().groups().dead(group, after.as_deref(), Some(PAGE)).await?;
        let is_it = |letter: &Letter| (letter.partition, letter.offset) == (partition, offset);
        if let Some(letter) = page.letters.into_iter().find(is_it) {
            return Ok(letter);
        }
        after = page.next;
        if after.is_none() {
            let what =
                format!("group {group} has no dead letter {offset} in partition {partition}");
            return Err(Failure::new(Exit::NotFound, what)
                .remedy(format!("`handoff dead list {group}` shows those there are")));
        }
    }
}

fn show(terminal: &Terminal, letter: &Letter) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(letter);
    }
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    let at = letter.origin.timestamp.as_ref();
    let mut rows = vec![
        ("offset", letter.offset.to_string()),
        ("partition", letter.partition.to_string()),
        ("origin", origin(letter)),
        ("time", at.map_or_else(|| "-".to_owned(), ToString::to_string)),
        ("attempts", letter.attempt.to_string()),
        ("put back", yes(letter.replayed)),
        ("error", letter.error.clone().unwrap_or_else(|| "-".to_owned())),
        ("key", letter.key.as_deref().map_or_else(|| "-".to_owned(), text)),
    ];
    for (name, value) in &letter.headers {
        rows.push(("header", format!("{name}={}", text(value))));
    }
    rows.push(("message", text(&letter.payload)));
    terminal.record(&rows)
}

async fn replay(
    client: &Client,
    terminal: &Terminal,
    group: &str,
    which: &[Replay],
    all: bool,
) -> Result<(), Failure> {
    let mut sum = Replayed::default();
    for one in which {
        // Not `of_change`: one that was put back is not put back again, so it may be repeated.
        let done = client.streams().groups().replay(group, *one).await?;
        sum.replayed = sum.replayed.saturating_add(done.replayed);
        sum.already = sum.already.saturating_add(done.already);
        sum.results.extend(done.results);
    }
    if terminal.json {
        terminal.print_json(&sum)?;
    } else {
        let count =
            |number: u64| counted(usize::try_from(number).unwrap_or(usize::MAX), "dead letter");
        let mut words = format!("{} put back", count(sum.replayed));
        if sum.already > 0 {
            words = format!("{words}, {} had been before", sum.already);
        }
        terminal.talk(&words);
    }
    if sum.replayed == 0 && sum.already == 0 && !all {
        let what = format!("group {group} has no such dead letter");
        return Err(Failure::new(Exit::NotFound, what)
            .remedy(format!("`handoff dead list {group}` shows those there are")));
    }
    Ok(())
}

fn origin(letter: &Letter) -> String {
    let origin = &letter.origin;
    format!("{} {} {}", origin.topic, origin.partition, origin.offset)
}

fn yes(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_owned()
}
