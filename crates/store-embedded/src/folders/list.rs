//! The list of processes that people read.

use std::fmt::{self, Write};

use handoff_exchange::{Process, Seq, State};
use handoff_types::Wall;

use super::name::day;

/// The file's name, in the folder of all databases.
pub(super) const FILE: &str = "processes.json";

/// How many processes are listed at most.
const PROCESSES_MAX: usize = 10_000;

/// Whether a name in the folder of all databases is one of ours.
pub(super) fn is_ours(name: &str) -> bool {
    name.strip_prefix('.').unwrap_or(name) == FILE
}

/// The processes that are not over, as JSON: those that are live, those whose files are being moved,
/// and those that nobody decided.
#[must_use]
pub fn processes_json(state: &State) -> String {
    let live = state.deadlines().map(|(_, process)| process);
    let unknown = state.databases().flat_map(|database| state.unknown(database.no));
    let mut processes: Vec<&Process> = live.chain(unknown).chain(state.unsettled()).collect();
    processes.sort_by_key(|process| process.id.number);
    processes.dedup_by_key(|process| process.id.number);
    processes.truncate(PROCESSES_MAX);
    let mut out = String::from("{\"version\":1,\"processes\":[");
    for (at, process) in processes.into_iter().enumerate() {
        out.push_str(if at == 0 { "\n" } else { ",\n" });
        // Writing to a string cannot fail.
        if put(&mut out, state, process).is_err() {
            break;
        }
    }
    out.push_str("\n]}\n");
    out
}

fn put(out: &mut String, state: &State, process: &Process) -> fmt::Result {
    let database = state.database(process.database).map_or("", |database| database.id.as_str());
    write!(out, "{{\"processId\":\"{}\",\"dbId\":\"{database}\"", process.id)?;
    write!(
        out,
        ",\"state\":\"{}\",\"startedAt\":\"{}\"",
        process.phase.text(),
        time(process.started)
    )?;
    if let Some(ready) = process.ready {
        write!(out, ",\"readyAt\":\"{}\"", time(ready))?;
    }
    if let Some(words) = &process.words {
        out.push_str(",\"reason\":");
        text(out, words)?;
    }
    out.push_str(",\"filesToErp\":[");
    for (at, served) in process.to_erp.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        file(out, state, served.seq)?;
        if let Some(status) = served.status {
            write!(out, ",\"verdict\":\"{}\"", status.text())?;
        }
        out.push('}');
    }
    out.push_str("],\"filesFromErp\":[");
    for (at, prepared) in process.from_erp.iter().enumerate() {
        out.push_str(if at == 0 { "" } else { "," });
        file(out, state, prepared.seq)?;
        out.push('}');
    }
    write!(out, "],\"settled\":{}}}", process.settled)
}

/// A message and the folder it belongs to, without the closing brace.
fn file(out: &mut String, state: &State, seq: Seq) -> fmt::Result {
    write!(out, "{{\"seq\":{}", seq.0)?;
    if let Some(message) = state.message(seq) {
        let place = super::name::place_name(message.place);
        write!(out, ",\"messageId\":\"{}\",\"folder\":\"{place}\"", message.id)?;
    }
    Ok(())
}

/// A time in RFC 3339, in UTC, to the second.
fn time(at: Wall) -> String {
    let seconds = at.0.div_euclid(1_000_000).rem_euclid(86_400);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{}T{hours:02}:{minutes:02}:{seconds:02}Z", day(at))
}

/// A text as JSON has it.
fn text(out: &mut String, text: &str) -> fmt::Result {
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            char if u32::from(char) < 0x20 => write!(out, "\\u{:04x}", u32::from(char))?,
            char => out.push(char),
        }
    }
    out.push('"');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{text, time};
    use handoff_types::Wall;

    #[test]
    fn times_and_texts_are_written_as_json_has_them() {
        assert_eq!(time(Wall(1_794_843_548_999_999)), "2026-11-16T15:39:08Z");
        assert_eq!(time(Wall(-1)), "1969-12-31T23:59:59Z");
        let mut out = String::new();
        text(&mut out, "a \"b\" \\ \n ä").unwrap();
        assert_eq!(out, "\"a \\\"b\\\" \\\\ \\u000a ä\"");
    }
}
