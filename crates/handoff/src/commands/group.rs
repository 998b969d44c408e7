//! `handoff group`

use std::time::Duration;

use handoff_sdk::Client;
use handoff_sdk::streams::{Group, GroupSettings, MessageStatus, Ordering, Seek, Sought};
use serde_json::Value;

use super::{Context, place};
use crate::cli::{GroupFlags, GroupVerb, OrderingArg};
use crate::duration;
use crate::exit::Failure;
use crate::terminal::{Terminal, counted};

/// How many are asked for at once.
const PAGE: u32 = 500;

/// Does what the verb says.
pub(super) async fn run(context: Context<'_>, verb: GroupVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    let client = context.surroundings.client(context.global)?;
    let groups = client.streams().groups();
    match verb {
        GroupVerb::Create { name, settings } => {
            let made = groups.create(&name, &of(settings)?).await.map_err(Failure::of_change)?;
            told(terminal, &made, "is there")
        }
        GroupVerb::List { limit } => list(&client, terminal, limit).await,
        GroupVerb::Show { name } => show(terminal, &groups.show(&name).await?),
        GroupVerb::Set { name, settings } => {
            let altered = groups.alter(&name, &of(settings)?).await.map_err(Failure::of_change)?;
            told(terminal, &altered, "is changed")
        }
        GroupVerb::Delete { name } => delete(&client, terminal, &name).await,
        GroupVerb::Seek { name, topic, partition, to, dry_run } => {
            let mut seek = Seek::new(topic, place(&to, "--to", partition.is_some())?);
            if let Some(partition) = partition {
                seek = seek.partition(partition);
            }
            move_to(&client, terminal, &name, &seek, dry_run).await
        }
        GroupVerb::Status { name, topic, partition, offset } => {
            status(terminal, &groups.status(&name, &topic, partition, offset).await?)
        }
        GroupVerb::Remove { name, member } => {
            groups.remove(&name, &member).await.map_err(Failure::of_change)?;
            if terminal.json {
                return terminal.print_json(&serde_json::json!({ "removed": member }));
            }
            terminal.talk(&format!("member {member} is out of group {name}"));
            Ok(())
        }
    }
}

fn of(flags: GroupFlags) -> Result<GroupSettings, Failure> {
    let mut settings = GroupSettings::new();
    if !flags.topics.is_empty() {
        settings = settings.topics(flags.topics);
    }
    if let Some(start) = &flags.start {
        settings = settings.start(place(start, "--start", false)?);
    }
    if let Some(how) = flags.ordering {
        settings = settings.ordering(match how {
            OrderingArg::Key => Ordering::Key,
            OrderingArg::Partition => Ordering::Partition,
            OrderingArg::None => Ordering::None,
        });
    }
    if let Some(times) = flags.max_attempts {
        settings = settings.max_attempts(times);
    }
    if let Some(topic) = flags.dead_letter {
        settings = settings.dead_letter(topic);
    }
    if let Some(time) = flags.lease {
        settings = settings.lease(time);
    }
    if let Some(time) = flags.backoff {
        settings = settings.backoff(time);
    }
    if let Some(time) = flags.backoff_max {
        settings = settings.backoff_max(time);
    }
    if let Some(messages) = flags.in_flight_max {
        settings = settings.in_flight_max(messages);
    }
    Ok(settings)
}

async fn list(client: &Client, terminal: &Terminal, limit: Option<u64>) -> Result<(), Failure> {
    let mut list = terminal.list(&["name", "topics", "ordering", "attempts", "members", "lag"]);
    let mut left = limit.unwrap_or(u64::MAX);
    let mut after: Option<String> = None;
    loop {
        let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = client.streams().groups().list(after.as_deref(), Some(limit)).await?;
        for group in &page.groups {
            let cells = [
                group.name.clone(),
                group.topics.join(","),
                word(group.ordering),
                number(group.max_attempts.map(u64::from)),
                number(group.member_count),
                number(group.lag),
            ];
            list.row(&cells, group)?;
            left = left.saturating_sub(1);
        }
        match page.next {
            Some(next) if left > 0 => after = Some(next),
            _ => break,
        }
    }
    if list.finish()? == 0 {
        terminal.talk("there are no groups; `handoff consume TOPIC --group NAME` makes one");
    }
    Ok(())
}

fn show(terminal: &Terminal, group: &Group) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(group);
    }
    let start = match &group.start {
        None => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let retry = match (group.backoff_ms, group.backoff_max_ms) {
        (Some(first), Some(longest)) => format!("{} to {}", time(first), time(longest)),
        _ => "-".to_owned(),
    };
    let mut rows = vec![
        ("name", group.name.clone()),
        ("topics", group.topics.join(",")),
        ("start", start),
        ("ordering", word(group.ordering)),
        ("attempts", number(group.max_attempts.map(u64::from))),
        ("dead letters", group.dead_letter.clone().unwrap_or_else(|| "-".to_owned())),
        ("lease", group.lease_ms.map_or_else(|| "-".to_owned(), time)),
        ("retry after", retry),
        ("in flight", number(group.in_flight_max)),
        ("generation", group.generation.to_string()),
        ("members", group.members.len().to_string()),
        ("lag", number(group.lag)),
        ("dead", number(group.dead)),
    ];
    if let Some(lost) = group.lost_to_retention.filter(|lost| *lost > 0) {
        rows.push(("lost to retention", lost.to_string()));
    }
    rows.extend(blocked(group).into_iter().map(|why| ("blocked", why)));
    terminal.record(&rows)?;
    members(terminal, group)?;
    partitions(terminal, group)
}

/// Why nothing is delivered, a line for each reason.
fn blocked(group: &Group) -> Vec<String> {
    let mut lines: Vec<String> = group.blocked_by.iter().cloned().collect();
    for partition in &group.partitions {
        if let Some(why) = &partition.blocked_by {
            lines.push(format!("{} {}: {why}", partition.topic, partition.partition));
        }
    }
    if lines.is_empty() && group.members.is_empty() && group.lag.unwrap_or_default() > 0 {
        lines.push("nobody consumes: the group has no members".to_owned());
    }
    lines
}

fn members(terminal: &Terminal, group: &Group) -> Result<(), Failure> {
    let columns = &["member", "client", "instance", "since", "silent for at most", "partitions"];
    let mut list = terminal.list(columns);
    for member in &group.members {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "-".to_owned());
        let has: Vec<String> = member
            .assignment
            .iter()
            .map(|assigned| format!("{} {}", assigned.topic, assigned.partition))
            .collect();
        let cells = [
            member.member.clone(),
            name(&member.client),
            name(&member.instance),
            member.since.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            member.session_left_ms.map_or_else(|| "-".to_owned(), time),
            if has.is_empty() { "-".to_owned() } else { has.join(", ") },
        ];
        list.row(&cells, member)?;
    }
    list.finish().map(drop)
}

fn partitions(terminal: &Terminal, group: &Group) -> Result<(), Failure> {
    let mut list = terminal.list(&[
        "topic",
        "partition",
        "committed",
        "next",
        "end",
        "lag",
        "processing",
        "waiting",
        "dead",
        "owner",
    ]);
    for partition in &group.partitions {
        let cells = [
            partition.topic.clone(),
            partition.partition.to_string(),
            partition.committed.to_string(),
            partition.next.to_string(),
            partition.end.to_string(),
            partition.lag.to_string(),
            partition.processing.to_string(),
            partition.waiting.to_string(),
            partition.dead.to_string(),
            partition.owner.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        list.row(&cells, partition)?;
    }
    list.finish().map(drop)
}

async fn delete(client: &Client, terminal: &Terminal, name: &str) -> Result<(), Failure> {
    let groups = client.streams().groups();
    let group = groups.show(name).await?;
    let what = format!(
        "group {name} will be deleted with {} and {} messages still to do; where it was is \
         forgotten",
        counted(group.members.len(), "member"),
        number(group.lag)
    );
    terminal.confirm(&what)?;
    groups.delete(name).await.map_err(Failure::of_change)?;
    if terminal.json {
        return terminal.print_json(&serde_json::json!({ "deleted": name }));
    }
    terminal.talk(&format!("group {name} is deleted"));
    Ok(())
}

async fn move_to(
    client: &Client,
    terminal: &Terminal,
    name: &str,
    seek: &Seek,
    dry_run: bool,
) -> Result<(), Failure> {
    let groups = client.streams().groups();
    let preview = groups.preview(name, seek).await?;
    if dry_run {
        return steps(terminal, &preview);
    }
    let sum = |of: fn(&handoff_sdk::streams::SeekStep) -> u64| -> u64 {
        preview.partitions.iter().map(of).fold(0, u64::saturating_add)
    };
    let what = format!(
        "group {name} goes on elsewhere in {}: {} messages are delivered again, {} never, and {} \
         that members hold are void",
        counted(preview.partitions.len(), "partition"),
        sum(|step| step.again),
        sum(|step| step.skipped),
        sum(|step| step.voided),
    );
    if !terminal.yes && !terminal.json {
        steps(terminal, &preview)?;
    }
    terminal.confirm(&what)?;
    let sought = groups.seek(name, seek).await.map_err(Failure::of_change)?;
    if terminal.yes || terminal.json {
        steps(terminal, &sought)?;
    }
    terminal.talk(&format!("group {name} goes on there"));
    Ok(())
}

fn steps(terminal: &Terminal, sought: &Sought) -> Result<(), Failure> {
    let mut list = terminal.list(&["topic", "partition", "from", "to", "again", "skipped", "void"]);
    for step in &sought.partitions {
        let cells = [
            step.topic.clone(),
            step.partition.to_string(),
            step.from.to_string(),
            step.to.to_string(),
            step.again.to_string(),
            step.skipped.to_string(),
            step.voided.to_string(),
        ];
        list.row(&cells, step)?;
    }
    list.finish().map(drop)
}

fn status(terminal: &Terminal, status: &MessageStatus) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(status);
    }
    let mut rows = vec![("status", word(status.status))];
    if let Some(attempt) = status.attempt {
        rows.push(("attempt", attempt.to_string()));
    }
    if let Some(member) = &status.member {
        rows.push(("member", member.clone()));
    }
    if let Some(left) = status.lease_left_ms {
        rows.push(("lease", format!("{} left", time(left))));
    }
    if let Some(error) = &status.error {
        rows.push(("error", error.clone()));
    }
    if let Some(letter) = &status.letter {
        rows.push(("letter", format!("{} {} {}", letter.topic, letter.partition, letter.offset)));
    }
    terminal.record(&rows)
}

/// Says what became of a group.
fn told(terminal: &Terminal, group: &Group, what: &str) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(group);
    }
    let topics =
        if group.topics.is_empty() { "no topics".to_owned() } else { group.topics.join(", ") };
    terminal.talk(&format!("group {} {what}: {topics}", group.name));
    Ok(())
}

fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn time(millis: u64) -> String {
    duration::show(Duration::from_millis(millis))
}

fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "-".to_owned(),
    }
}
