//! The configuration as people and programs read it.

use handoff_server::settings::Settings;
use serde_json::{Value as Json, json};

use super::declared::{self, Declared, DeclaredKey};
use super::keys::{KEYS, Key, SECTIONS};
use super::value::{Kind, Value};
use super::{Config, Origin};
use super::{channels, groups, topics};

impl Origin {
    /// One word, for programs.
    const fn word(&self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::File(_) => "file",
            Self::Variable(_) => "env",
            Self::Flag(_) => "flag",
        }
    }

    /// The place, if there is one.
    fn place(&self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::File(at) => Some(at.to_string()),
            Self::Variable(name) | Self::Flag(name) => Some(name.clone()),
        }
    }
}

/// The effective values as TOML, each with where it came from.
pub(crate) fn text(config: &Config) -> String {
    let mut text = String::new();
    let keys = || KEYS.iter().zip(&config.origins);
    for section in SECTIONS {
        if !text.is_empty() {
            text.push('\n');
        }
        text += &format!("[{}]\n", section.name);
        let lines: Vec<(String, String)> = keys()
            .filter(|(key, _)| key.section == section.name)
            .map(|(key, origin)| {
                let from = origin.place().unwrap_or_else(|| origin.word().to_owned());
                (line(key, &(key.get)(&config.settings)), from)
            })
            .collect();
        let width = lines.iter().map(|(line, _)| line.chars().count()).max().unwrap_or(0);
        for (line, from) in lines {
            text += &format!("{line:width$}  # {from}\n");
        }
    }
    for topic in &config.settings.streams.topics {
        text.push('\n');
        text += &declared::toml(topic);
    }
    for group in &config.settings.streams.groups {
        text.push('\n');
        text += &declared::toml(group);
    }
    for channel in &config.settings.calls.channels {
        text.push('\n');
        text += &declared::toml(channel);
    }
    text
}

fn line(key: &Key, value: &Value) -> String {
    let written = if key.secret { None } else { key.kind.toml(value) };
    match written {
        Some(written) => format!("{} = {written}", key.name),
        None => format!("# {}: {}", key.name, key.show(value)),
    }
}

/// The effective values, for programs.
pub(crate) fn json(config: &Config) -> Json {
    let keys: Vec<Json> = KEYS
        .iter()
        .zip(&config.origins)
        .map(|(key, origin)| {
            json!({
                "key": key.path(),
                "value": value(key, &(key.get)(&config.settings)),
                "from": origin.word(),
                "at": origin.place(),
                "reload": key.reload,
                "takes": key.kind.name(),
                "range": key.kind.range(),
                "since": key.since,
            })
        })
        .collect();
    let file = config.file.as_ref().map(|file| file.display().to_string());
    let topics: Vec<Json> = config.settings.streams.topics.iter().map(table).collect();
    let groups: Vec<Json> = config.settings.streams.groups.iter().map(table).collect();
    let channels: Vec<Json> = config.settings.calls.channels.iter().map(table).collect();
    json!({ "file": file, "keys": keys, "topics": topics, "groups": groups, "channels": channels })
}

fn table<T: Declared>(one: &T) -> Json {
    let field = |key: &DeclaredKey<T>| {
        let value = match (key.get)(one) {
            Value::Unset => Json::Null,
            Value::Number(n) if matches!(key.kind, Kind::Count(..)) => json!(n),
            Value::Names(names) => json!(names),
            value => json!(key.kind.show(&value)),
        };
        (key.name.to_owned(), value)
    };
    Json::Object(T::KEYS.iter().map(field).collect())
}

fn value(key: &Key, value: &Value) -> Json {
    match value {
        Value::Unset => Json::Null,
        Value::Bool(value) if !key.secret => json!(value),
        Value::Number(n) if matches!(key.kind, Kind::Count(..)) && !key.secret => json!(n),
        _ => json!(key.show(value)),
    }
}

/// A file that sets nothing: every key with its meaning and its default, behind a `#`.
pub(crate) fn annotated() -> String {
    let mut text = String::from(
        "# Handoff's configuration, with the default of every key behind a `#`.\n\
         #\n\
         # Looked for as --config FILE, ./handoff.toml, /etc/handoff/handoff.toml; without one the\n\
         # defaults hold. A variable HANDOFF_<SECTION>__<KEY> wins over the file, a flag over both.\n\
         # Times are written 10s, 1h30m, 500ms; bytes 64MiB, 1GB or a number. Relative paths begin\n\
         # in the directory the server is started in. `handoff config check` reads it and says\n\
         # everything that is wrong; keys marked (reload) take effect on SIGHUP.\n",
    );
    let settings = Settings::default();
    for section in SECTIONS {
        text += &format!("\n# {}\n[{}]\n", section.doc, section.name);
        for key in KEYS.iter().filter(|key| key.section == section.name) {
            let mut about = key.doc.to_owned();
            if let Some(range) = key.kind.range() {
                about += &format!(" Allowed: {range}.");
            }
            if key.reload {
                about += " (reload)";
            }
            text.push('\n');
            for line in wrapped(&about, 96) {
                text += &format!("# {line}\n");
            }
            text += &match key.kind.toml(&(key.get)(&settings)) {
                Some(value) => format!("#{} = {value}\n", key.name),
                None => format!("#{} =            # default: {}\n", key.name, key.unset),
            };
        }
    }
    text += "\n# Topics that are made at start if they are not there, one table each.\n";
    text += &annotated_table(&topics::example());
    text += "\n# Groups that are made at start if they are not there, one table each.\n";
    text += &annotated_table(&groups::example());
    text += "\n# Channels of calls that are described at start, one table each. What one leaves out is as [calls]\n# has it.\n";
    text += &annotated_table(&channels::example());
    text
}

fn annotated_table<T: Declared>(example: &T) -> String {
    let mut text = format!("# [[{}.{}]]\n", T::SECTION, T::WORD);
    for key in T::KEYS {
        for line in wrapped(key.doc, 92) {
            text += &format!("#   {line}\n");
        }
        let example = key.kind.toml(&(key.get)(example));
        text += &format!("# {} = {}\n", key.name, example.unwrap_or_default());
    }
    text
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{annotated, json, text};
    use crate::config::{Inputs, load};
    use std::fs;

    #[test]
    fn what_is_shown_is_a_file_that_means_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("handoff.toml");
        let written = "[events]\ntypes_max = 3\n[server]\nslow_ms = \"1s\"\n[[streams.topic]]\nname = \"a\"\npartitions = 3\n[[streams.group]]\nname = \"g\"\ntopics = [\"a\", \"b\"]\n";
        fs::write(&path, written).unwrap();
        let inputs = Inputs { file: Some(path.clone()), ..Inputs::default() };
        let first = load(&inputs).unwrap();
        let shown = text(&first);
        assert!(shown.contains("types_max = 3"), "{shown}");
        assert!(shown.contains("handoff.toml:2:1"), "{shown}");
        fs::write(&path, shown).unwrap();
        let second = load(&inputs).unwrap();
        assert_eq!(format!("{:?}", first.settings), format!("{:?}", second.settings));
        assert_eq!(json(&first)["keys"][0]["key"], "server.listen");
        assert_eq!(json(&first)["keys"][0]["from"], "default");
    }

    #[test]
    fn the_annotated_file_sets_nothing_and_is_sound_without_its_marks() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("handoff.toml");
        let inputs = Inputs { file: Some(path.clone()), ..Inputs::default() };
        fs::write(&path, annotated()).unwrap();
        let plain = load(&Inputs::default()).unwrap();
        assert_eq!(load(&inputs).unwrap().origins, plain.origins);
        let set: String = annotated()
            .lines()
            .filter(|line| {
                let is_unset = ["larger of", "unless relay"].iter().any(|some| line.contains(some));
                !line.contains("= ") || !line.ends_with("none") && !is_unset
            })
            .map(|line| match line.strip_prefix('#') {
                Some(key) if !key.starts_with(' ') && !key.is_empty() => format!("{key}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        fs::write(&path, set).unwrap();
        let loaded = load(&inputs).unwrap();
        assert_eq!(format!("{:?}", loaded.settings), format!("{:?}", plain.settings));
    }
}
