//! Where words go: data to stdout, talk to stderr.
//!
//! * A list is a table when stdout is a terminal, and tab-separated lines without a header when it
//!   is not, so that `cut` and `while read` work. With `--json` it is one JSON object a line.
//! * Text of others is shown without its control characters: a description must not be able to
//!   write anywhere else on the screen, or to make two lines of one.
//! * Whoever stops reading stdout has had enough: that ends the command well.

use std::io::{self, BufRead as _, BufWriter, IsTerminal, Stdout, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;

use crate::exit::{Exit, Failure};

/// How many rows one table on the terminal has at most; then the next begins.
const TABLE_ROWS_MAX: usize = 500;

/// How to talk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terminal {
    /// `--json`
    pub(crate) json: bool,
    /// `--quiet`
    pub(crate) quiet: bool,
    /// `--yes`
    pub(crate) yes: bool,
    table: bool,
    colour: bool,
}

impl Terminal {
    /// The terminal of this process. `no_color` is whether the environment asks for no colours.
    pub(crate) fn of_process(json: bool, quiet: bool, yes: bool, no_color: bool) -> Self {
        let colour = io::stderr().is_terminal() && !no_color;
        Self { json, quiet, yes, table: io::stdout().is_terminal(), colour }
    }

    /// Says something to people, unless they asked for quiet.
    pub(crate) fn talk(&self, words: &str) {
        if !self.quiet {
            say(words);
        }
    }

    /// Says something that must be heard.
    pub(crate) fn warn(&self, words: &str) {
        say(&format!("{} {words}", self.paint("warning:", "33")));
    }

    /// Says why the command failed.
    pub(crate) fn fail(&self, failure: &Failure) {
        if !failure.what.is_empty() {
            say(&format!("{} {failure}", self.paint("error:", "31;1")));
        }
    }

    /// Words in a colour, where there are colours.
    pub(crate) fn paint(&self, words: &str, colour: &str) -> String {
        if self.colour { format!("\x1b[{colour}m{words}\x1b[0m") } else { words.to_owned() }
    }

    /// Prints data: one line, or several.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn print(&self, data: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(data.as_bytes())
            .and_then(|()| if data.ends_with('\n') { Ok(()) } else { out.write_all(b"\n") })
            .and_then(|()| out.flush())
            .map_err(unwritable)
    }

    /// Prints octets as they are.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn print_octets(&self, octets: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(octets).and_then(|()| out.flush()).map_err(unwritable)
    }

    /// Prints one JSON object on a line of its own.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn print_json(&self, data: &impl Serialize) -> Result<(), Failure> {
        self.print(&json_line(data)?)
    }

    /// Begins a list with these columns.
    pub(crate) fn list(&self, columns: &'static [&'static str]) -> List {
        let style = match (self.json, self.table) {
            (true, _) => Style::Json,
            (false, true) => Style::Table,
            (false, false) => Style::Lines,
        };
        List { style, columns, rows: Vec::new(), out: BufWriter::new(io::stdout()), count: 0 }
    }

    /// Prints names and values: a table on a terminal, tab-separated lines elsewhere.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn record(&self, rows: &[(&str, String)]) -> Result<(), Failure> {
        let mut list = self.list(&[]);
        for (name, value) in rows {
            list.row(&[(*name).to_owned(), value.clone()], &serde_json::json!({ *name: value }))?;
        }
        list.finish().map(drop)
    }

    /// Asks whether to go on. Without somebody to ask it is refused, with words.
    ///
    /// # Errors
    /// [`Exit::Refused`] when the answer is no, or when nobody can be asked.
    pub(crate) fn confirm(&self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            return Err(Failure::new(
                Exit::Refused,
                format!("{what}: nobody is there to be asked"),
            )
            .remedy("say --yes if it is meant; nothing was changed"));
        }
        let mut err = io::stderr().lock();
        let asked = write!(err, "{what}. Go on? [y/N] ").and_then(|()| err.flush());
        drop(err);
        let mut answer = String::new();
        let read = asked.and_then(|()| io::stdin().lock().read_line(&mut answer));
        match (read, answer.trim().to_lowercase().as_str()) {
            (Ok(_), "y" | "yes") => Ok(()),
            _ => Err(Failure::new(Exit::Refused, "nothing was changed")),
        }
    }
}

/// Writes to stderr. Nobody can be told that stderr is gone.
fn say(words: &str) {
    let mut err = io::stderr().lock();
    drop(writeln!(err, "{words}"));
}

fn unwritable(error: io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::said(Exit::Done);
    }
    Failure::new(Exit::Failed, format!("stdout cannot be written: {error}"))
}

fn json_line(data: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(data).map_err(|error| {
        Failure::new(Exit::Failed, format!("this cannot be shown as JSON: {error}"))
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Table,
    Lines,
}

/// A list on its way to stdout.
#[derive(Debug)]
pub(crate) struct List {
    style: Style,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
    out: BufWriter<Stdout>,
    count: u64,
}

impl List {
    /// Adds a row, and the same as JSON.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn row(&mut self, cells: &[String], data: &impl Serialize) -> Result<(), Failure> {
        self.count += 1;
        let cells = cells.iter().map(|cell| plain(cell));
        match self.style {
            Style::Json => writeln!(self.out, "{}", json_line(data)?).map_err(unwritable),
            Style::Lines => {
                let line = cells.collect::<Vec<_>>().join("\t");
                writeln!(self.out, "{line}").map_err(unwritable)
            }
            Style::Table => {
                self.rows.push(cells.collect());
                if self.rows.len() >= TABLE_ROWS_MAX { self.flush_table() } else { Ok(()) }
            }
        }
    }

    /// Shows what there is so far.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.flush_table()?;
        self.out.flush().map_err(unwritable)
    }

    /// Ends the list and gives the number of its rows.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        self.flush()?;
        Ok(self.count)
    }

    fn flush_table(&mut self) -> Result<(), Failure> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let text = table(self.columns, std::mem::take(&mut self.rows));
        writeln!(self.out, "{text}").map_err(unwritable)
    }
}

/// A table for a terminal. A long line is left to the terminal to wrap: nothing is cut off.
fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !columns.is_empty() {
        table.set_header(columns.iter().map(|name| name.to_uppercase()));
    }
    table.add_rows(rows);
    table.trim_fmt()
}

/// A number of things, in words.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Text without control characters: they are shown as escapes.
pub(crate) fn plain(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars().fold(String::new(), |mut plain, c| {
        match c {
            '\n' => plain.push_str("\\n"),
            '\t' => plain.push_str("\\t"),
            '\r' => plain.push_str("\\r"),
            c if c.is_control() => plain += &format!("\\u{{{:x}}}", u32::from(c)),
            c => plain.push(c),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::{plain, table};
    use proptest::prelude::*;

    #[test]
    fn control_characters_of_others_are_shown_and_not_obeyed() {
        assert_eq!(plain("nightly backup äß"), "nightly backup äß");
        assert_eq!(plain("a\tb\nc\x1b[2J\u{9b}"), "a\\tb\\nc\\u{1b}[2J\\u{9b}");
    }

    proptest! {
        #[test]
        fn no_text_of_others_makes_two_lines_of_one(text: String) {
            prop_assert!(!plain(&text).chars().any(char::is_control));
        }
    }

    #[test]
    fn a_table_has_its_columns_and_no_white_space_at_the_end() {
        let rows = vec![vec!["1".to_owned(), "backup".to_owned()]];
        let text = table(&["id", "type"], rows);
        assert!(text.starts_with(" ID"), "{text}");
        assert!(text.lines().all(|line| line == line.trim_end()), "{text:?}");
        assert!(text.contains("backup"));
    }
}
