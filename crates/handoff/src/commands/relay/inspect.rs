//! `handoff relay inspect`

use std::io;
use std::path::Path;

use handoff_log::disk::Real;
use handoff_relay::ShardId;
use handoff_relay::refill::{Ledger, RefillLimits, Source, Stored, Tail};
use serde_json::{Value, json};

use crate::commands::Context;
use crate::config::bytes;
use crate::exit::{Exit, Failure};

/// Shows what is in a refill file.
pub(super) fn run(context: Context<'_>, path: &Path) -> Result<(), Failure> {
    let source = open(path)?;
    let bytes = source.bytes().map_err(|error| unreadable(path, &error))?;
    let found = source.found();
    let Some(ledger) = &found.ledger else {
        return Err(Failure::new(
            Exit::Failed,
            format!("{} is no refill file, or its beginning is damaged", path.display()),
        )
        .remedy("an agent that finds it in its spool sets it aside and goes on"));
    };
    let (tail, tail_bytes) = match found.tail {
        Tail::Clean => ("clean", 0),
        Tail::Zeros(at) => ("zeros", bytes - at),
        Tail::Torn(at) => ("torn", bytes - at),
    };
    let damaged = !found.damage.is_empty() || tail == "torn";
    if context.terminal.json {
        let damage: Vec<Value> =
            found.damage.iter().map(|one| json!({ "from": one.from, "to": one.to })).collect();
        let shards = ledger.acks().shards().ids().map(|shard| shard_json(ledger, shard));
        context.terminal.print_json(&json!({
            "version": 1,
            "block": ledger.block().to_string(),
            "bytes": bytes,
            "destinations": names(ledger),
            "delivered": ledger.is_delivered(),
            "rejects": ledger.rejects().len(),
            "tail": tail,
            "tailBytes": tail_bytes,
            "damage": damage,
            "shards": shards.collect::<Vec<_>>(),
        }))?;
    } else {
        context.terminal.record(&[
            ("block", ledger.block().to_string()),
            ("size", bytes::about(bytes)),
            ("destinations", names(ledger).join(", ")),
            ("delivered", if ledger.is_delivered() { "yes" } else { "no" }.to_owned()),
            ("rejects", ledger.rejects().len().to_string()),
            (
                "end",
                if tail_bytes > 0 { format!("{tail}, {tail_bytes} bytes") } else { tail.into() },
            ),
        ])?;
        let mut list = context.terminal.list(&[
            "SHARD",
            "SEGMENTS",
            "FIRST",
            "LAST",
            "SNAPSHOTS",
            "CONFIRMED",
        ]);
        for shard in ledger.acks().shards().ids() {
            let row = Row::of(ledger, shard);
            let cells = [
                shard.to_string(),
                row.segments.to_string(),
                row.first.map_or_else(String::new, |first| first.to_string()),
                row.last.map_or_else(String::new, |last| last.to_string()),
                row.snapshots.to_string(),
                row.confirmed_words(ledger),
            ];
            list.row(&cells, &shard_json(ledger, shard))?;
        }
        list.finish()?;
        for damage in &found.damage {
            let (from, to) = (damage.from, damage.to);
            context.terminal.warn(&format!("bytes {from} to {to} are damaged"));
        }
    }
    if damaged {
        return Err(Failure::new(Exit::Failed, "the file is damaged").remedy(
            "what is sound in it can be sent: leave it to its agent, or use `handoff relay replay`",
        ));
    }
    Ok(())
}

/// Opens a file by its path, to look at it.
fn open(path: &Path) -> Result<Source, Failure> {
    let whole = std::path::absolute(path).map_err(|error| unreadable(path, &error))?;
    let name = whole.file_name().and_then(|name| name.to_str());
    let (Some(dir), Some(name)) = (whole.parent().filter(|dir| dir.is_dir()), name) else {
        return Err(unreadable(path, &io::ErrorKind::NotFound.into()));
    };
    let disk = Real::new(dir).map_err(|error| unreadable(path, &error))?;
    let opened = Source::open(&disk, name, RefillLimits::default());
    opened.map_err(|error| unreadable(path, &error))
}

/// A file that cannot be read.
pub(super) fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let shown = path.display();
    if error.kind() == io::ErrorKind::NotFound {
        return Failure::new(Exit::NotFound, format!("there is no file {shown}"))
            .remedy("refill files are in spool/ and quarantine/ of the agent's data directory");
    }
    Failure::new(Exit::Failed, format!("{shown} cannot be read: {error}"))
}

fn names(ledger: &Ledger) -> Vec<String> {
    ledger.acks().names().iter().map(ToString::to_string).collect()
}

/// One shard.
struct Row {
    segments: usize,
    snapshots: usize,
    first: Option<u32>,
    last: Option<u32>,
    confirmed: Vec<Option<u32>>,
}

impl Row {
    fn of(ledger: &Ledger, shard: ShardId) -> Self {
        let entries = ledger.entries(shard);
        let count = |stored| entries.iter().filter(|entry| entry.stored == stored).count();
        let mut segments = entries.iter().filter(|entry| entry.stored == Stored::Segment);
        let everybody = 0..ledger.acks().names().len();
        Self {
            segments: count(Stored::Segment),
            snapshots: count(Stored::Snapshot),
            first: segments.next().map(|entry| entry.segment),
            last: ledger.last_segment(shard),
            confirmed: everybody.map(|one| ledger.acks().last(shard, one)).collect(),
        }
    }

    fn confirmed_words(&self, ledger: &Ledger) -> String {
        let each = ledger.acks().names().iter().zip(&self.confirmed);
        let words = each.map(|(name, last)| match last {
            Some(last) => format!("{name} to {last}"),
            None => format!("{name} none"),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

fn shard_json(ledger: &Ledger, shard: ShardId) -> Value {
    let row = Row::of(ledger, shard);
    let confirmed = ledger.acks().names().iter().zip(&row.confirmed);
    let confirmed: serde_json::Map<String, Value> =
        confirmed.map(|(name, last)| (name.to_string(), json!(last))).collect();
    json!({
        "shard": shard,
        "segments": row.segments,
        "snapshots": row.snapshots,
        "first": row.first,
        "last": row.last,
        "unreachable": ledger.unreachable(shard),
        "confirmed": confirmed,
    })
}
