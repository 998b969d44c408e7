//! Reading `handoff.toml`: every problem at once, each with its place.

use std::path::Path;

use handoff_server::settings::{DeclaredChannel, DeclaredGroup, DeclaredTopic};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declared::{self, Declared};
use super::keys::{self, KEYS, Key, SECTIONS};
use super::problem::{At, Problem};
use super::suggest;
use super::value::{Raw, Value};

/// A key that a file sets.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Which.
    pub(crate) key: &'static Key,
    /// To what.
    pub(crate) value: Value,
    /// Where.
    pub(crate) at: At,
}

/// What a file declares.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// `[[streams.topic]]`
    pub(crate) topics: Vec<DeclaredTopic>,
    /// `[[streams.group]]`
    pub(crate) groups: Vec<DeclaredGroup>,
    /// `[[calls.channel]]`
    pub(crate) channels: Vec<DeclaredChannel>,
}

/// Reads the text of a file. What is right is given even if something else is wrong.
pub(crate) fn read(file: &Path, text: &str) -> (Vec<Entry>, Vec<Problem>, Tables) {
    let mut reading = Reading::new(file, text);
    if let Some(table) = reading.parsed() {
        reading.sections(&table);
    }
    let (entries, declared) =
        (std::mem::take(&mut reading.entries), std::mem::take(&mut reading.declared));
    (entries, reading.problems(), declared)
}

/// A file on its way to become a configuration.
pub(super) struct Reading<'a> {
    file: &'a Path,
    text: &'a str,
    entries: Vec<Entry>,
    problems: Vec<Problem>,
    declared: Tables,
}

impl<'a> Reading<'a> {
    /// A file that nobody has looked at.
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        let declared = Tables::default();
        Self { file, text, entries: Vec::new(), problems: Vec::new(), declared }
    }

    /// What is in it. None if it is no TOML: what could not be parsed is not there, and would only
    /// bring problems that are none.
    pub(super) fn parsed(&mut self) -> Option<DeTable<'a>> {
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in errors {
            let span = error.span().unwrap_or(0..0);
            let what = error.message().trim_end().replace('\n', "; ");
            self.problem(span, what, None);
        }
        self.problems.is_empty().then(|| table.into_inner())
    }

    /// Everything that is wrong, in the order of the file.
    pub(super) fn problems(mut self) -> Vec<Problem> {
        self.problems.sort_by_key(|problem| match &problem.at {
            Some(At::Line { line, column, .. }) => (*line, *column),
            _ => (0, 0),
        });
        self.problems
    }
}

impl Reading<'_> {
    /// Something is wrong here.
    pub(super) fn problem(
        &mut self,
        span: std::ops::Range<usize>,
        what: String,
        help: Option<String>,
    ) {
        let at = Some(At::span(self.file, self.text, span));
        self.problems.push(Problem::new(at, what, help));
    }

    fn sections(&mut self, table: &DeTable<'_>) {
        for (name, value) in table {
            let span = name.span();
            let name: &str = name.get_ref();
            let known = SECTIONS.iter().find(|section| section.name == name);
            match (known, value.get_ref()) {
                (Some(section), DeValue::Table(keys)) => self.keys(section.name, keys),
                (Some(_), other) => {
                    let what =
                        format!("`{name}` is a section, not a key with this {}", word(other));
                    self.problem(span, what, Some(format!("write [{name}] on a line of its own")));
                }
                (None, DeValue::Table(_)) => {
                    let what = format!("there is no section [{name}]");
                    self.problem(span, what, Some(sections_help(name)));
                }
                (None, _) => {
                    let what = format!("`{name}` stands in no section");
                    self.problem(
                        span,
                        what,
                        Some(elsewhere(name).unwrap_or_else(|| sections_help(name))),
                    );
                }
            }
        }
    }

    fn keys(&mut self, section: &'static str, table: &DeTable<'_>) {
        for (name, value) in table {
            match (section, name.get_ref().as_ref()) {
                ("streams", DeclaredTopic::WORD) => {
                    self.declared.topics = self.tables(value);
                    continue;
                }
                ("streams", DeclaredGroup::WORD) => {
                    self.declared.groups = self.tables(value);
                    continue;
                }
                ("calls", DeclaredChannel::WORD) => {
                    self.declared.channels = self.tables(value);
                    continue;
                }
                _ => {}
            }
            let Some(key) = keys::find(section, name.get_ref()) else {
                let what = format!("there is no key `{}` in [{section}]", name.get_ref());
                self.problem(name.span(), what, unknown_key_help(section, name.get_ref()));
                continue;
            };
            match raw_of(value.get_ref()).and_then(|raw| key.kind.read(&raw)) {
                Ok(value_read) => {
                    let at = At::span(self.file, self.text, name.span());
                    self.entries.push(Entry { key, value: value_read, at });
                }
                Err(words) => {
                    self.problem(value.span(), format!("{}: {words}", key.path()), None);
                }
            }
        }
    }
}

impl Reading<'_> {
    /// The tables of a list.
    pub(super) fn tables<T: Declared>(&mut self, value: &Spanned<DeValue<'_>>) -> Vec<T> {
        let (section, word_of) = (T::SECTION, T::WORD);
        let help = || Some(format!("write [[{section}.{word_of}]] for each {word_of}"));
        let mut all = Vec::new();
        let DeValue::Array(list) = value.get_ref() else {
            let found = word(value.get_ref());
            let what = format!("{section}.{word_of} is a list of tables, not this {found}");
            self.problem(value.span(), what, help());
            return all;
        };
        for one in list {
            let DeValue::Table(table) = one.get_ref() else {
                let what = format!("a {word_of} is a table, not this {}", word(one.get_ref()));
                self.problem(one.span(), what, help());
                continue;
            };
            self.table(one.span(), table, &mut all);
        }
        all
    }

    fn table<T: Declared>(
        &mut self,
        span: std::ops::Range<usize>,
        table: &DeTable<'_>,
        all: &mut Vec<T>,
    ) {
        let (section, word_of) = (T::SECTION, T::WORD);
        let mut one = T::blank();
        let mut sound = true;
        for (name, value) in table {
            let Some(field) = declared::find::<T>(name.get_ref()) else {
                let what =
                    format!("there is no key `{}` in [[{section}.{word_of}]]", name.get_ref());
                self.problem(name.span(), what, Some(declared::unknown_help::<T>(name.get_ref())));
                sound = false;
                continue;
            };
            let read = raw_of(value.get_ref()).and_then(|raw| field.kind.read(&raw));
            if let Err(words) = read.and_then(|read| (field.put)(&mut one, read)) {
                let what = format!("{section}.{word_of}.{}: {words}", field.name);
                self.problem(value.span(), what, None);
                sound = false;
            }
        }
        if !table.iter().any(|(name, _)| name.get_ref() == "name") {
            let what = format!("a {word_of} has no name");
            return self.problem(span, what, Some("write name = \"orders\"".to_owned()));
        }
        if all.iter().any(|known| known.name() == one.name()) && sound {
            let what = format!("the {word_of} `{}` is declared twice", one.name());
            return self.problem(span, what, None);
        }
        if let Some(wrong) = one.wrong().filter(|_| sound) {
            let what = format!("the {word_of} `{}` cannot be: {wrong}", one.name());
            return self.problem(span, what, None);
        }
        all.push(one);
    }
}

/// A value as it was written.
pub(super) fn raw_of(value: &DeValue<'_>) -> Result<Raw, String> {
    Ok(match value {
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Float(float) => Raw::Number(float.as_str().to_owned()),
        DeValue::Integer(integer) => {
            let digits = integer.as_str();
            let number = i128::from_str_radix(digits, integer.radix());
            Raw::Number(number.map_err(|_| format!("`{digits}` is no number"))?.to_string())
        }
        DeValue::Array(list) => {
            let text = |one: &Spanned<DeValue<'_>>| match one.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            };
            match list.iter().map(text).collect() {
                Some(texts) => Raw::List(texts),
                None => Raw::Other("list"),
            }
        }
        other => Raw::Other(word(other)),
    })
}

fn word(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) | DeValue::Float(_) => "number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "date",
        DeValue::Array(_) => "list",
        DeValue::Table(_) => "table",
    }
}

/// What somebody probably meant by a key that a section does not have.
pub(crate) fn unknown_key_help(section: &str, name: &str) -> Option<String> {
    let here = KEYS.iter().filter(|key| key.section == section).map(|key| key.name);
    if let Some(near) = suggest::nearest(name, here) {
        return Some(format!("did you mean `{near}`?"));
    }
    elsewhere(name)
        .or_else(|| Some(format!("`handoff config show --defaults` lists the keys of [{section}]")))
}

/// The key as another section has it.
fn elsewhere(name: &str) -> Option<String> {
    let exact: Vec<String> = KEYS.iter().filter(|key| key.name == name).map(shown).collect();
    if !exact.is_empty() {
        return Some(format!("did you mean {}?", exact.join(" or ")));
    }
    let near = suggest::nearest(name, KEYS.iter().map(|key| key.name))?;
    let key = KEYS.iter().find(|key| key.name == near)?;
    Some(format!("did you mean {}?", shown(key)))
}

fn shown(key: &Key) -> String {
    format!("[{}] {}", key.section, key.name)
}

/// What somebody probably meant by a section that is not there.
pub(crate) fn sections_help(name: &str) -> String {
    let names = SECTIONS.iter().map(|section| section.name);
    match suggest::nearest(name, names.clone()) {
        Some(near) => format!("did you mean [{near}]?"),
        None => format!("the sections are {}", names.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::config::value::Value;
    use proptest::prelude::*;
    use std::path::Path;

    fn problems(text: &str) -> Vec<String> {
        read(Path::new("h.toml"), text).1.iter().map(ToString::to_string).collect()
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = problems(text);
        assert_eq!(found.len(), 1, "{found:#?}");
        for words in expected {
            assert!(found[0].contains(words), "{words} is not in {}", found[0]);
        }
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_is_read_or_refused_with_words(
            text in "(\\[(server|events|log|x)\\]\n|(listen|types_max|enabled|slow_ms|é) ?= ?(\"[^\"]{0,9}\"|[0-9a-z.:-]{1,12}|\\[1\\]|\\{a=1\\})\n|#.*\n|.{0,12}\n?){0,9}"
        ) {
            for problem in read(Path::new("h.toml"), &text).1 {
                prop_assert!(problem.to_string().starts_with("h.toml:"));
            }
        }
    }

    #[test]
    fn values_are_read_in_every_form_of_toml() {
        let text = "server.connections_max = 0x10\n[log]\njournal_bytes_max = 1_048_576\n\
                    checkpoint_secs = 1.5\nsegment_bytes = \"64MiB\"\n[events]\nenabled = false\n";
        let (entries, problems, _) = read(Path::new("h.toml"), text);
        assert_eq!(problems, []);
        let found: Vec<(String, Value)> =
            entries.into_iter().map(|entry| (entry.key.path(), entry.value)).collect();
        assert!(found.contains(&("server.connections_max".to_owned(), Value::Number(16))));
        assert!(found.contains(&("log.journal_bytes_max".to_owned(), Value::Number(1 << 20))));
        assert!(found.contains(&("log.segment_bytes".to_owned(), Value::Number(64 << 20))));
        assert!(found.contains(&("events.enabled".to_owned(), Value::Bool(false))));
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_place_and_what_was_meant() {
        check(
            "[server]\nlisen = \"x\"\n",
            &["h.toml:2:1", "no key `lisen` in [server]", "`listen`"],
        );
        check("[auth]\nlisten = \"x\"\n", &["[server] listen or [events] listen"]);
        check("[server]\nrepeat = 1\n", &["config show --defaults"]);
    }

    #[test]
    fn an_unknown_section_is_refused_with_what_was_meant() {
        check("[event]\nx = 1\n", &["h.toml:1:2", "no section [event]", "[events]"]);
        check(
            "[colours]\nx = 1\n",
            &["server, log, auth, events, streams, exchange, calls, relay"],
        );
        check("listen = \"127.0.0.1:1\"\n", &["stands in no section", "[server] listen"]);
        check("server = 5\n", &["`server` is a section"]);
    }

    #[test]
    fn everything_wrong_is_said_at_once_in_the_order_of_the_file() {
        let found = problems(
            "[server]\nlisten = 7\nslow_ms = \"1x\"\n[nope]\n[log]\nsegment_bytes = 1\njournal = 2\n",
        );
        assert_eq!(found.len(), 5, "{found:#?}");
        let lines: Vec<&str> = found.iter().map(|problem| &problem[..8]).collect();
        assert_eq!(lines, ["h.toml:2", "h.toml:3", "h.toml:4", "h.toml:6", "h.toml:7"]);
    }

    #[test]
    fn topics_are_declared_one_table_each() {
        let text = "[streams]\nheaders_max = 3\n[[streams.topic]]\nname = \"orders\"\npartitions = 8\n\
            retention_hours = 2\nretention_bytes = \"1GiB\"\ndurability = \"os\"\ncompression = \"zstd\"\n\
            [[streams.topic]]\nname = \"audit\"\n";
        let (entries, problems, declared) = read(Path::new("h.toml"), text);
        let topics = declared.topics;
        assert!(problems.is_empty(), "{problems:?}");
        assert_eq!((entries.len(), topics.len()), (1, 2));
        let first = &topics[0];
        assert_eq!((first.name.as_str(), first.partitions), ("orders", 8));
        assert_eq!(first.retention, Some(handoff_types::Span::from_secs(7200)));
        assert_eq!(first.retention_bytes, Some(1 << 30));
        assert_eq!((topics[1].partitions, topics[1].retention), (1, None));
    }

    #[test]
    fn a_topic_that_cannot_be_is_refused_with_its_place() {
        check("[[streams.topic]]\npartitions = 1\n", &["h.toml:1:", "has no name"]);
        check("[[streams.topic]]\nname = \"a b\"\n", &["h.toml:2:8", "no name of a topic"]);
        check("[[streams.topic]]\nname = \"a\"\npartitions = 0\n", &["h.toml:3:14", "1 to"]);
        check("[[streams.topic]]\nname = \"a\"\npartition = 1\n", &["did you mean `partitions`?"]);
        check("[[streams.topic]]\nname = \"a\"\ndurability = \"no\"\n", &["fsync, os"]);
        check("[streams]\ntopic = \"a\"\n", &["[[streams.topic]]"]);
        check("[streams]\ntopic = [1]\n", &["[[streams.topic]]"]);
        check("[[streams.topic]]\nname = \"a\"\n[[streams.topic]]\nname = \"a\"\n", &["twice"]);
    }

    #[test]
    fn groups_are_declared_one_table_each() {
        let text = "[[streams.group]]\nname = \"billing\"\ntopics = [\"orders\", \"bills\"]\n\
            start = \"latest\"\nordering = \"none\"\nmax_attempts = 3\nlease_ms = \"1m\"\n\
            [[streams.group]]\nname = \"audit\"\n";
        let (_, problems, declared) = read(Path::new("h.toml"), text);
        assert!(problems.is_empty(), "{problems:?}");
        let first = declared.groups[0].settings();
        assert_eq!((first.topics.len(), first.max_attempts), (2, 3));
        assert_eq!(first.lease, handoff_types::Span::from_secs(60));
        assert_eq!(first.dead_letter.as_str(), "billing.dead");
        assert_eq!(declared.groups[1].settings().max_attempts, 5);
    }

    #[test]
    fn a_group_that_cannot_be_is_refused_with_its_place() {
        check("[[streams.group]]\ntopics = []\n", &["h.toml:1:", "has no name"]);
        check("[[streams.group]]\nname = \"a b\"\n", &["no name of a group"]);
        check("[[streams.group]]\nname = \"a\"\ntopics = \"x\"\n", &["no list of names"]);
        check("[[streams.group]]\nname = \"a\"\ntopics = [1]\n", &["no list of names"]);
        check("[[streams.group]]\nname = \"a\"\ntopics = [\"b c\"]\n", &["no name of a topic"]);
        check("[[streams.group]]\nname = \"a\"\nlease_m = 1\n", &["did you mean `lease_ms`?"]);
        check("[[streams.group]]\nname = \"a\"\nordering = \"x\"\n", &["key, partition, none"]);
        check("[[streams.group]]\nname = \"a\"\ntopics = [\"a.dead\"]\n", &["dead letters"]);
        check("[[streams.group]]\nname = \"a\"\nbackoff_ms = \"1h\"\n", &["backoff_max_ms"]);
    }

    #[test]
    fn broken_toml_is_refused_with_its_place() {
        check("[server\n", &["h.toml:1:"]);
        check("[server]\nlisten = \n", &["h.toml:2:"]);
        check("[log]\nsegment_bytes = 1\nsegment_bytes = 2\n", &["h.toml:3:1", "duplicate key"]);
    }

    #[test]
    fn a_value_out_of_range_is_refused_with_the_range() {
        check(
            "[events]\ntypes_max = 0\n",
            &["h.toml:2:13", "events.types_max", "allowed is 1 to 10000"],
        );
        check("[events]\ntypes_max = -1\n", &["no whole number"]);
        check("[events]\ncatch_up = \"al\"\n", &["skip, once, all", "`all`"]);
        check("[events]\nenabled = [true]\n", &["this list"]);
    }
}
