//! `handoff topic`

use handoff_sdk::Client;
use handoff_sdk::streams::{Compression, Durability, NewTopic, Topic, TopicChanges};
use std::time::Duration;

use super::Context;
use crate::cli::{Bound, CompressionArg, DurabilityArg, TopicSettings, TopicVerb};
use crate::config::bytes;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

/// How many are asked for at once.
const PAGE: u32 = 500;

/// Does what the verb says.
pub(super) async fn run(context: Context<'_>, verb: TopicVerb) -> Result<(), Failure> {
    let terminal = context.terminal;
    let client = context.surroundings.client(context.global)?;
    match verb {
        TopicVerb::Create { name, partitions, settings } => {
            create(&client, terminal, name, partitions, settings).await
        }
        TopicVerb::List { limit } => list(&client, terminal, limit).await,
        TopicVerb::Show { name } => show(terminal, &client.streams().topic(&name).await?),
        TopicVerb::Grow { name, partitions } => grow(&client, terminal, &name, partitions).await,
        TopicVerb::Set { name, settings } => set(&client, terminal, &name, settings).await,
        TopicVerb::Delete { name } => delete(&client, terminal, &name).await,
        TopicVerb::Scheduled { name } => scheduled(&client, terminal, &name).await,
        TopicVerb::Cancel { id } => {
            client.streams().cancel(&id).await.map_err(Failure::of_change)?;
            if terminal.json {
                return terminal.print_json(&serde_json::json!({ "cancelled": id }));
            }
            terminal.talk(&format!("message {id} will not be delivered"));
            Ok(())
        }
    }
}

async fn create(
    client: &Client,
    terminal: &Terminal,
    name: String,
    partitions: Option<u32>,
    settings: TopicSettings,
) -> Result<(), Failure> {
    let TopicSettings { retention, retention_bytes, durability, compression } = settings;
    let mut topic = NewTopic::new(name);
    if let Some(partitions) = partitions {
        topic = topic.partitions(partitions);
    }
    if let Some(Bound(time)) = retention {
        topic = topic.retention(time);
    }
    if let Some(Bound(bytes)) = retention_bytes {
        topic = topic.retention_bytes(bytes);
    }
    if let Some(when) = durability {
        topic = topic.durability(durable(when));
    }
    if let Some(how) = compression {
        topic = topic.compression(compressed(how));
    }
    let made = client.streams().create(&topic).await.map_err(Failure::of_change)?;
    told(terminal, &made, "is there")
}

async fn list(client: &Client, terminal: &Terminal, limit: Option<u64>) -> Result<(), Failure> {
    let columns = &["name", "partitions", "messages", "bytes", "kept", "durability", "compression"];
    let mut list = terminal.list(columns);
    let mut left = limit.unwrap_or(u64::MAX);
    let mut after: Option<String> = None;
    loop {
        let limit = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = client.streams().list(after.as_deref(), Some(limit)).await?;
        for topic in &page.topics {
            let cells = [
                topic.name.clone(),
                topic.partitions.to_string(),
                counted(topic.messages),
                counted(topic.bytes),
                kept(topic),
                word(topic.durability),
                word(topic.compression),
            ];
            list.row(&cells, topic)?;
            left = left.saturating_sub(1);
        }
        match page.next {
            Some(next) if left > 0 => after = Some(next),
            _ => break,
        }
    }
    if list.finish()? == 0 {
        terminal.talk("there are no topics; `handoff topic create NAME` makes one");
    }
    Ok(())
}

fn show(terminal: &Terminal, topic: &Topic) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(topic);
    }
    let mut rows = vec![
        ("name", topic.name.clone()),
        ("partitions", topic.partitions.to_string()),
        ("messages", counted(topic.messages)),
        ("bytes", counted(topic.bytes)),
        ("kept", kept(topic)),
        ("durability", word(topic.durability)),
        ("compression", word(topic.compression)),
        ("created", topic.created_at.to_string()),
    ];
    if let Some(skew) = &topic.skew {
        let ratio = skew.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let words = format!(
            "{ratio} (fullest over mean; {} to {})",
            bytes::about(skew.least),
            bytes::about(skew.most)
        );
        rows.push(("skew", words));
    }
    terminal.record(&rows)?;
    let mut list = terminal.list(&["partition", "start", "end", "bytes", "last"]);
    for partition in &topic.partition_list {
        let last = partition.last_timestamp.as_ref();
        let cells = [
            partition.partition.to_string(),
            partition.start.to_string(),
            partition.end.to_string(),
            partition.bytes.to_string(),
            last.map_or_else(|| "-".to_owned(), ToString::to_string),
        ];
        list.row(&cells, partition)?;
    }
    list.finish().map(drop)
}

async fn grow(
    client: &Client,
    terminal: &Terminal,
    name: &str,
    partitions: u32,
) -> Result<(), Failure> {
    let now = client.streams().topic(name).await?.partitions;
    if partitions <= now {
        let what = format!("topic {name} has {now} partitions already; it never gets fewer");
        return Err(Failure::new(Exit::Refused, what).remedy("ask for more than that"));
    }
    let what = format!(
        "topic {name} grows from {now} to {partitions} partitions; keys go elsewhere from then on, \
         so messages of one key before and after are not in order"
    );
    terminal.confirm(&what)?;
    let grown = client.streams().grow(name, partitions).await.map_err(Failure::of_change)?;
    told(terminal, &grown, "has grown")
}

async fn set(
    client: &Client,
    terminal: &Terminal,
    name: &str,
    settings: TopicSettings,
) -> Result<(), Failure> {
    let TopicSettings { retention, retention_bytes, durability, compression } = settings;
    let mut changes = TopicChanges::new();
    if let Some(Bound(time)) = retention {
        changes = changes.retention(time);
    }
    if let Some(Bound(bytes)) = retention_bytes {
        changes = changes.retention_bytes(bytes);
    }
    if let Some(when) = durability {
        changes = changes.durability(durable(when));
    }
    if let Some(how) = compression {
        changes = changes.compression(compressed(how));
    }
    let altered = client.streams().alter(name, &changes).await.map_err(Failure::of_change)?;
    told(terminal, &altered, "is changed")
}

async fn delete(client: &Client, terminal: &Terminal, name: &str) -> Result<(), Failure> {
    let topic = client.streams().topic(name).await?;
    let what = format!(
        "topic {name} will be deleted with {} messages, {}",
        counted(topic.messages),
        bytes::about(topic.bytes.unwrap_or_default())
    );
    terminal.confirm(&what)?;
    client.streams().delete(name).await.map_err(Failure::of_change)?;
    if terminal.json {
        return terminal.print_json(&serde_json::json!({ "deleted": name }));
    }
    terminal.talk(&format!("topic {name} is deleted"));
    Ok(())
}

async fn scheduled(client: &Client, terminal: &Terminal, name: &str) -> Result<(), Failure> {
    let mut list = terminal.list(&["id", "deliver at", "key", "bytes"]);
    let mut after: Option<String> = None;
    loop {
        let page = client.streams().scheduled(name, after.as_deref(), Some(PAGE)).await?;
        for waiting in &page.scheduled {
            let key = match &waiting.key {
                None => "-".to_owned(),
                Some(serde_json::Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            let cells = [
                waiting.id.clone(),
                waiting.deliver_at.to_string(),
                key,
                waiting.bytes.to_string(),
            ];
            list.row(&cells, waiting)?;
        }
        // A server that does not move on must not be asked for ever.
        if page.next.is_none() || page.next == after {
            break;
        }
        after = page.next;
    }
    if list.finish()? == 0 {
        terminal.talk(&format!("nothing waits for topic {name}"));
    }
    Ok(())
}

/// Says what became of a topic.
fn told(terminal: &Terminal, topic: &Topic, what: &str) -> Result<(), Failure> {
    if terminal.json {
        return terminal.print_json(topic);
    }
    let (name, partitions) = (&topic.name, topic.partitions);
    let words = crate::terminal::counted(usize::try_from(partitions).unwrap_or(0), "partition");
    terminal.talk(&format!("topic {name} {what}: {words}, kept {}", kept(topic)));
    Ok(())
}

/// How long messages are kept, in a few words.
fn kept(topic: &Topic) -> String {
    let age = topic.retention_ms.map(|millis| duration::show(Duration::from_millis(millis)));
    let size = topic.retention_bytes.map(bytes::show);
    match (age, size) {
        (None, None) => "for ever".to_owned(),
        (Some(age), None) => age,
        (None, Some(size)) => size,
        (Some(age), Some(size)) => format!("{age}, {size}"),
    }
}

fn counted(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "-".to_owned(),
    }
}

fn durable(when: DurabilityArg) -> Durability {
    match when {
        DurabilityArg::Fsync => Durability::Fsync,
        DurabilityArg::Os => Durability::Os,
    }
}

fn compressed(how: CompressionArg) -> Compression {
    match how {
        CompressionArg::None => Compression::None,
        CompressionArg::Gzip => Compression::Gzip,
        CompressionArg::Snappy => Compression::Snappy,
        CompressionArg::Lz4 => Compression::Lz4,
        CompressionArg::Zstd => Compression::Zstd,
    }
}
