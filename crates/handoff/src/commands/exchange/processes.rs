//! Processes of a database, and those of which nobody knows how they ended.

use handoff_sdk::exchange::{Exchange, Outcome, Process};

use super::{absent, all, of_database, or_dash};
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

const COLUMNS: &[&str] = &["process", "state", "begun", "until", "messages", "replies", "words"];

pub(super) async fn list(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    limit: u64,
) -> Result<(), Failure> {
    let mut list = terminal.list(COLUMNS);
    let ask = async |below: Option<&str>, most| room.processes(database, below, Some(most)).await;
    all(Some(limit), ask, |process: Process| list.row(&cells(&process), &process)).await?;
    if list.finish()? == 0 {
        terminal.talk(&format!("the ERP of database {database} has begun no process yet"));
    }
    Ok(())
}

pub(super) async fn show(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    id: &str,
) -> Result<(), Failure> {
    let process = find(room, database, id).await?;
    if terminal.json {
        return terminal.print_json(&process);
    }
    terminal.record(&rows(&process))?;
    let mut list = terminal.list(&["seq", "message", "verdict"]);
    for file in &process.files_to_erp {
        let cells = [
            file.seq.to_string(),
            or_dash(file.message_id.as_ref()),
            or_dash(file.verdict.as_ref()),
        ];
        list.row(&cells, file)?;
    }
    list.finish()?;
    let mut list = terminal.list(&["seq", "reply", "notice"]);
    for file in &process.files_from_erp {
        let cells =
            [file.seq.to_string(), or_dash(file.message_id.as_ref()), super::yes(file.notice)];
        list.row(&cells, file)?;
    }
    list.finish()?;
    if is_in_doubt(&process) {
        terminal.talk(&advice(database, &process));
    }
    Ok(())
}

pub(super) async fn in_doubt(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
) -> Result<(), Failure> {
    let processes = room.as_erp(database).in_doubt().await.map_err(of_database)?;
    let mut list = terminal.list(COLUMNS);
    for process in &processes {
        list.row(&cells(process), process)?;
    }
    list.finish()?;
    match processes.first() {
        None => terminal.talk(&format!("no process of database {database} is in doubt")),
        Some(first) => terminal.talk(&advice(database, first)),
    }
    Ok(())
}

pub(super) async fn resolve(
    room: Exchange<'_>,
    terminal: &Terminal,
    database: &str,
    id: &str,
    committed: bool,
) -> Result<(), Failure> {
    let process = find(room, database, id).await?;
    terminal.confirm(&consequence(&process, committed))?;
    let outcome = if committed { Outcome::committed(id) } else { Outcome::rolled_back(id) };
    let results = room.as_erp(database).resolve(&[outcome]).await.map_err(Failure::of_change)?;
    let Some(result) = results.first() else {
        return Err(Failure::new(Exit::Failed, "nothing was answered"));
    };
    if !result.is_ok() {
        let why = result.reason.clone().unwrap_or_else(|| "it cannot be said any more".to_owned());
        let failure = Failure::new(Exit::Refused, why).remedy(format!(
            "`handoff exchange process {database} {id}` shows what is known of it"
        ));
        return Err(Failure { reference: result.code.clone(), ..failure });
    }
    if terminal.json {
        return terminal.print_json(result);
    }
    let what = if committed { "committed" } else { "was rolled back" };
    terminal.talk(&format!("process {id} {what}"));
    Ok(())
}

async fn find(room: Exchange<'_>, database: &str, id: &str) -> Result<Process, Failure> {
    room.as_erp(database).process(id).await.map_err(|error| {
        absent(error, &format!("`handoff exchange processes {database}` shows those there are"))
    })
}

fn is_in_doubt(process: &Process) -> bool {
    matches!(process.state.as_str(), "READY_TO_COMMIT" | "UNKNOWN")
}

fn advice(database: &str, process: &Process) -> String {
    format!(
        "look in the database whether it committed, and say so: handoff exchange resolve \
         {database} {} --committed (or --rolled-back)",
        process.process_id
    )
}

/// What saying it leads to.
fn consequence(process: &Process, committed: bool) -> String {
    let id = &process.process_id;
    let messages = counted(process.files_to_erp.len(), "message");
    let replies = counted(process.files_from_erp.len(), "message");
    if committed {
        format!(
            "process {id} ({}) counts as committed: {messages} for the ERP end as its verdicts \
             say, {replies} of the ERP go to devices",
            process.state
        )
    } else {
        format!(
            "process {id} ({}) counts as rolled back: {messages} for the ERP are given out again, \
             {replies} of the ERP are dropped",
            process.state
        )
    }
}

fn cells(process: &Process) -> [String; 7] {
    [
        process.process_id.clone(),
        process.state.clone(),
        process.started_at.to_string(),
        or_dash(process.ended_at.as_ref().or(process.deadline.as_ref())),
        process.files_to_erp.len().to_string(),
        process.files_from_erp.len().to_string(),
        or_dash(process.words.as_ref()),
    ]
}

fn rows(process: &Process) -> Vec<(&'static str, String)> {
    let state = match process.committed {
        Some(true) => format!("{} (committed)", process.state),
        Some(false) => format!("{} (rolled back)", process.state),
        None => process.state.clone(),
    };
    let mut rows = vec![
        ("process", process.process_id.clone()),
        ("number", process.number.to_string()),
        ("database", process.db_id.clone()),
        ("state", state),
        ("begun", process.started_at.to_string()),
        ("ready", or_dash(process.ready_at.as_ref())),
        ("ended", or_dash(process.ended_at.as_ref())),
        ("given up", or_dash(process.deadline.as_ref())),
        ("folders agree", super::yes(process.settled)),
    ];
    if let Some(words) = &process.words {
        rows.push(("words", words.clone()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::{advice, cells, consequence, is_in_doubt, rows};
    use handoff_sdk::exchange::Process;
    use serde_json::json;

    fn process(state: &str) -> Process {
        serde_json::from_value(json!({"processId": "2a-0", "number": 42, "dbId": "books",
            "state": state, "startedAt": "2027-01-15T08:00:00Z", "committed": false,
            "endedAt": "2027-01-15T08:10:00Z", "filesToErp": [{"seq": 1, "messageId": "a"},
            {"seq": 2}], "filesFromErp": [{"seq": 3, "notice": false}]}))
        .unwrap()
    }

    #[test]
    fn a_line_tells_how_much_a_process_has() {
        let cells = cells(&process("RESOLVED"));
        assert_eq!(cells[..2], ["2a-0", "RESOLVED"]);
        assert_eq!(cells[3..], ["2027-01-15T08:10:00Z", "2", "1", "-"]);
        let rows = rows(&process("RESOLVED"));
        assert!(rows.contains(&("state", "RESOLVED (rolled back)".to_owned())), "{rows:?}");
    }

    #[test]
    fn whoever_resolves_is_told_what_becomes_of_the_messages() {
        let words = consequence(&process("UNKNOWN"), true);
        assert!(words.contains("1 message of the ERP go to devices"), "{words}");
        let words = consequence(&process("UNKNOWN"), false);
        assert!(words.contains("2 messages for the ERP are given out again"), "{words}");
        assert!(advice("books", &process("UNKNOWN")).contains("resolve books 2a-0 --committed"));
        assert!(is_in_doubt(&process("READY_TO_COMMIT")) && !is_in_doubt(&process("DONE")));
    }
}
