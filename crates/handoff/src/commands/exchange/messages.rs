//! Messages of a database, its folders, and what happened to it.

use handoff_sdk::exchange::{Entry, Exchange, LogEntry, MessageQuery};
use serde_json::{Value, json};

use super::{absent, all, of_database, or_dash};
use crate::cli::PlaceArg;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// How many are put back by one request.
const REQUEUED_AT_ONCE: usize = 1000;

pub(super) async fn list(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    place: Option<PlaceArg>,
    device: Option<String>,
    limit: Option<u64>,
) -> Result<(), Failure> {
    let mut list = terminal.list(&[
        "seq",
        "id",
        "direction",
        "device",
        "subsystem",
        "place",
        "standing",
        "attempts",
        "bytes",
        "received",
    ]);
    let mut query = MessageQuery::new();
    if let Some(place) = place {
        query = query.place(folder(place));
    }
    if let Some(device) = device {
        query = query.device(device);
    }
    let ask = async |after: Option<&str>, most| {
        let query = query.clone().limit(most);
        let query = after.into_iter().fold(query, |query, after| query.after(after));
        room.messages(database, &query).await
    };
    all(limit, ask, |entry: Entry| list.row(&cells(&entry), &entry)).await?;
    if list.finish()? == 0 {
        terminal.talk("there are no such messages");
    }
    Ok(())
}

pub(super) async fn show(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    seq: u64,
    body: bool,
) -> Result<(), Failure> {
    let lists = format!("`handoff exchange messages {database}` shows those there are");
    if body {
        let body = room.message_body(database, seq).await;
        return terminal.print(&body.map_err(|error| absent(error, &lists))?);
    }
    let entry = room.message(database, seq).await.map_err(|error| absent(error, &lists))?;
    if terminal.json {
        return terminal.print_json(&entry);
    }
    terminal.record(&rows(&entry))?;
    if entry.place == "error" {
        terminal
            .talk(&format!("once its cause is gone: handoff exchange requeue {database} {seq}"));
    }
    Ok(())
}

pub(super) async fn requeue(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    messages: &[u64],
) -> Result<(), Failure> {
    if messages.len() > REQUEUED_AT_ONCE {
        let what = format!("{} messages are more than one request takes", messages.len());
        return Err(Failure::new(Exit::Usage, what)
            .remedy(format!("give at most {REQUEUED_AT_ONCE} at once")));
    }
    terminal.confirm(&format!(
        "{} of database {database} will be given out again, also what was processed before",
        counted(messages.len(), "message")
    ))?;
    let lists = format!("`handoff exchange messages {database}` shows those there are");
    let requeued = room.requeue(database, messages).await;
    let requeued = requeued.map_err(|error| absent(error, &lists))?;
    if terminal.json {
        return terminal.print_json(&json!({ "requeued": requeued }));
    }
    let words = counted(usize::try_from(requeued).unwrap_or(usize::MAX), "message");
    terminal.talk(&format!("{words} of database {database} back in the queue"));
    Ok(())
}

pub(super) async fn rescan(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
) -> Result<(), Failure> {
    room.rescan(database).await.map_err(of_database)?;
    if terminal.json {
        return terminal.print_json(&json!({ "rescanned": database }));
    }
    terminal.talk(&format!(
        "the folders of database {database} are being compared; `handoff exchange log {database}` \
         says what was taken in, `handoff exchange foreign {database}` what was not"
    ));
    Ok(())
}

pub(super) async fn foreign(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
) -> Result<(), Failure> {
    let found = room.foreign(database).await.map_err(of_database)?;
    let mut list = terminal.list(&["path", "reason"]);
    for file in &found.files {
        list.row(&[file.path.clone(), file.reason.clone()], file)?;
    }
    if list.finish()? == 0 {
        terminal.talk(&match found.compared {
            true => format!("every file in the folders of database {database} is known"),
            false => "the folders were not compared yet; ask again in a moment".to_owned(),
        });
    }
    if found.more {
        terminal.talk("there are more than are named; remove these and look again");
    }
    Ok(())
}

pub(super) async fn log(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    what: &[String],
    limit: u64,
) -> Result<(), Failure> {
    let mut list = terminal.list(&["at", "what", "process", "message", "code", "words"]);
    let ask = async |below: Option<&str>, most| room.log(database, what, below, Some(most)).await;
    all(Some(limit), ask, |entry: LogEntry| {
        let message = entry.message_id.clone().or_else(|| entry.seq.map(|seq| seq.to_string()));
        let cells = [
            entry.at.to_string(),
            entry.what.clone(),
            or_dash(entry.process_id.as_ref()),
            or_dash(message),
            or_dash(entry.code),
            entry.words.clone(),
        ];
        list.row(&cells, &entry)
    })
    .await?;
    if list.finish()? == 0 {
        terminal.talk(&format!("nothing of note happened in database {database}"));
    }
    Ok(())
}

pub(super) async fn stats(room: Exchange<'_>, terminal: &Terminal) -> Result<(), Failure> {
    let mut stats = room.stats().await?;
    if let Some(map) = stats.as_object_mut() {
        map.remove("version");
    }
    if terminal.json {
        return terminal.print_json(&stats);
    }
    let mut figures = Vec::new();
    flat("", &stats, &mut figures);
    let rows: Vec<(&str, String)> =
        figures.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    terminal.record(&rows)
}

/// Figures by their path: the server may have more than this program knows.
fn flat(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flat(&path, value, rows);
            }
        }
        Value::String(text) => rows.push((path.to_owned(), text.clone())),
        other => rows.push((path.to_owned(), other.to_string())),
    }
}

fn folder(place: PlaceArg) -> &'static str {
    match place {
        PlaceArg::Messages => "messages",
        PlaceArg::Prepared => "prepared",
        PlaceArg::Log => "log",
        PlaceArg::Unknown => "unknown",
        PlaceArg::Error => "error",
    }
}

/// Where a message goes, in words.
fn direction(entry: &Entry) -> &str {
    match entry.direction.as_str() {
        "toErp" => "to the ERP",
        "toDevice" => "to its device",
        other => other,
    }
}

fn cells(entry: &Entry) -> [String; 10] {
    [
        entry.seq.to_string(),
        entry.id.clone(),
        direction(entry).to_owned(),
        entry.device.clone(),
        entry.app_system.clone(),
        entry.place.clone(),
        entry.standing.clone(),
        entry.attempts.to_string(),
        entry.bytes.to_string(),
        entry.received_at.to_string(),
    ]
}

fn rows(entry: &Entry) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("seq", entry.seq.to_string()),
        ("id", entry.id.clone()),
        ("direction", direction(entry).to_owned()),
        ("device", entry.device.clone()),
        ("subsystem", entry.app_system.clone()),
        ("type", or_dash(entry.kind.as_ref())),
        ("created", entry.created_at.to_string()),
        ("received", entry.received_at.to_string()),
        ("bytes", entry.bytes.to_string()),
        ("attempts", entry.attempts.to_string()),
        ("place", format!("{} since {}", entry.place, entry.since)),
        ("standing", entry.standing.clone()),
    ];
    if let Some(process) = &entry.process {
        rows.push(("process", process.clone()));
    }
    if let Some(reason) = &entry.reason {
        rows.push(("reason", reason.clone()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{cells, flat, rows};
    use handoff_sdk::exchange::Entry;
    use serde_json::json;

    fn entry() -> Entry {
        serde_json::from_value(json!({"seq": 42, "id": "order-1", "direction": "toErp",
            "device": "phone-1", "appSystem": "sales", "createdAt": "2027-01-15T08:00:00Z",
            "receivedAt": "2027-01-15T08:00:01Z", "bytes": 120, "attempts": 2, "place": "error",
            "since": "2027-01-15T08:01:00Z", "standing": "aside", "reason": "no such customer"}))
        .unwrap()
    }

    #[test]
    fn a_line_begins_with_what_other_commands_take() {
        let cells = cells(&entry());
        assert_eq!((cells[0].as_str(), cells[2].as_str()), ("42", "to the ERP"));
        assert_eq!(cells[9], "2027-01-15T08:00:01Z");
    }

    #[test]
    fn a_message_that_was_set_aside_says_why() {
        let rows = rows(&entry());
        assert!(rows.contains(&("reason", "no such customer".to_owned())), "{rows:?}");
        assert!(!rows.iter().any(|(name, _)| *name == "process"), "{rows:?}");
    }

    #[test]
    fn figures_that_are_not_known_yet_are_shown_too() {
        let mut rows = Vec::new();
        flat("", &json!({"messages": 7, "queues": {"toErp": 3}, "since": "now"}), &mut rows);
        let expected = [("messages", "7"), ("queues.toErp", "3"), ("since", "now")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(rows, expected);
    }
}
