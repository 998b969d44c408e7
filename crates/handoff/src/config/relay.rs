//! `relay.toml`: the configuration of an agent. The same rules as for a server: default < file <
//! environment < flag, unknown keys are errors, everything that is wrong is said at once.

mod destinations;
mod keys;
#[cfg(test)]
mod page;

use std::fs;
use std::path::PathBuf;

use handoff_relay::Shards;
use handoff_relay_agent::{Destination, Settings};
use handoff_server::settings::LogFormat;
use toml::de::{DeTable, DeValue};

use self::destinations::DeclaredDestination;
use self::keys::{KEYS, RelayKey};
use super::file::{Reading, raw_of};
use super::problem::{At, Problem};
use super::value::Raw;
use super::{Inputs, declared, find_file, suggest};
use crate::surroundings::read_token;

/// Where the file is looked for, in this order.
pub(crate) const PLACES: [&str; 2] = ["relay.toml", "/etc/handoff/relay.toml"];

/// An agent's configuration.
#[derive(Clone, Debug)]
pub(crate) struct RelayConfig {
    /// What it comes to.
    pub(crate) settings: Settings,
    /// `agent.log_level`
    pub(crate) log_level: String,
    /// `agent.log_format`
    pub(crate) log_format: LogFormat,
    /// `agent.tls_cert_file`
    pub(crate) tls_cert_file: Option<PathBuf>,
    /// `agent.tls_key_file`
    pub(crate) tls_key_file: Option<PathBuf>,
    token_file: Option<PathBuf>,
    name: Option<String>,
    shards: u16,
}

impl Default for RelayConfig {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            log_level: "info".to_owned(),
            log_format: LogFormat::Text,
            tls_cert_file: None,
            tls_key_file: None,
            token_file: None,
            name: None,
            shards: Shards::ONE.count(),
        }
    }
}

/// Puts the configuration together.
///
/// # Errors
/// Everything that is wrong, in the order of precedence.
pub(crate) fn load(inputs: &Inputs) -> Result<RelayConfig, Vec<Problem>> {
    let mut config = RelayConfig::default();
    let mut problems = Vec::new();
    let mut destinations = Vec::new();
    match find_file(inputs) {
        Ok(None) => {}
        Ok(Some((path, text))) => {
            let mut reading = Reading::new(&path, &text);
            if let Some(table) = reading.parsed() {
                sections(&mut reading, &table, &mut config, &mut destinations);
            }
            problems.extend(reading.problems());
        }
        Err(problem) => problems.push(*problem),
    }
    problems.extend(variables(inputs, &mut config));
    for (path, flag, text) in &inputs.flags {
        let at = Some(At::Flag(flag.clone()));
        let (section, name) = path.split_once('.').unwrap_or((path, ""));
        match keys::find(section, name).map(|key| (key, key.kind.read(&Raw::Loose(text.clone())))) {
            Some((key, Ok(value))) => (key.set)(&mut config, value),
            Some((_, Err(words))) => {
                problems.push(Problem::new(at, format!("{path}: {words}"), None));
            }
            None => {
                let what = format!("there is no key {path}");
                problems.push(Problem::new(at, what, Some(nearest(path))));
            }
        }
    }
    if problems.is_empty() {
        problems = config.complete(&destinations);
    }
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

fn nearest(path: &str) -> String {
    let paths: Vec<String> = KEYS.iter().map(RelayKey::path).collect();
    match suggest::nearest(path, paths.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => "deploy/relay.toml and docs/relay.md have every key".to_owned(),
    }
}

fn sections(
    reading: &mut Reading<'_>,
    table: &DeTable<'_>,
    config: &mut RelayConfig,
    declared: &mut Vec<DeclaredDestination>,
) {
    for (name, value) in table {
        let section: &str = name.get_ref();
        let known = keys::SECTIONS.iter().any(|(known, _)| *known == section);
        let DeValue::Table(entries) = value.get_ref() else {
            let what = format!("`{section}` stands in no section");
            reading.problem(name.span(), what, Some(nearest(&format!("agent.{section}"))));
            continue;
        };
        if !known {
            let what = format!("there is no section [{section}]");
            let help = "the sections are [agent], [relay] and [[relay.destination]]".to_owned();
            reading.problem(name.span(), what, Some(help));
            continue;
        }
        for (name, value) in entries {
            let key: &str = name.get_ref();
            if (section, key) == ("relay", "destination") {
                *declared = reading.tables(value);
                continue;
            }
            let Some(key) = keys::find(section, key) else {
                let what = format!("there is no key `{key}` in [{section}]");
                reading.problem(name.span(), what, Some(nearest(&format!("{section}.{key}"))));
                continue;
            };
            match raw_of(value.get_ref()).and_then(|raw| key.kind.read(&raw)) {
                Ok(value) => (key.set)(config, value),
                Err(words) => {
                    reading.problem(value.span(), format!("{}: {words}", key.path()), None);
                }
            }
        }
    }
}

/// `HANDOFF_AGENT__…` and `HANDOFF_RELAY__…`
fn variables(inputs: &Inputs, config: &mut RelayConfig) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut ours: Vec<_> =
        inputs.variables.iter().filter_map(|(name, value)| Some((name.to_str()?, value))).collect();
    ours.sort_unstable();
    for (name, value) in ours {
        let rest = name.strip_prefix("HANDOFF_").and_then(|rest| rest.split_once("__"));
        let Some((section, key)) = rest else { continue };
        let (section, key) = (section.to_lowercase(), key.to_lowercase());
        if !keys::SECTIONS.iter().any(|(known, _)| *known == section) {
            continue;
        }
        let at = Some(At::Variable(name.to_owned()));
        match keys::find(&section, &key).map(|key| (key, key.kind.read(&Raw::Loose(value.clone()))))
        {
            Some((key, Ok(value))) => (key.set)(config, value),
            Some((key, Err(words))) => {
                problems.push(Problem::new(at, format!("{}: {words}", key.path()), None));
            }
            None => {
                let help = nearest(&format!("{section}.{key}"));
                problems.push(Problem::new(at, "it sets no key".to_owned(), Some(help)));
            }
        }
    }
    problems
}

impl RelayConfig {
    /// Reads what the keys name, and compares them with each other.
    fn complete(&mut self, declared: &[DeclaredDestination]) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut wrong = |what: String, help: &str| {
            problems.push(Problem::new(None, what, Some(help.to_owned())));
        };
        self.settings.name = self.name.clone().unwrap_or_else(host_name);
        match u8::try_from(self.shards.trailing_zeros()).ok().and_then(Shards::from_power) {
            Some(shards) if self.shards.is_power_of_two() => self.settings.rules.shards = shards,
            _ => wrong(
                format!("relay.shards is {}, which is no power of two", self.shards),
                "write 1, 2, 4, 8, 16, 32 or 64",
            ),
        }
        if self.tls_cert_file.is_some() != self.tls_key_file.is_some() {
            wrong(
                "of agent.tls_cert_file and agent.tls_key_file only one is set".to_owned(),
                "set both, or none",
            );
        }
        if declared.is_empty() {
            wrong(
                "there is no destination: nothing could be sent anywhere".to_owned(),
                "write [[relay.destination]] with a name and a url = \"handoff://HOST:7071\"",
            );
        }
        let token = |file: &Option<PathBuf>| match file {
            Some(file) => read_token(file).map_err(|failure| failure.what),
            None => Ok(String::new()),
        };
        match token(&self.token_file) {
            Ok(text) => self.settings.token = Some(text).filter(|text| !text.is_empty()),
            Err(words) => wrong(format!("agent.token_file: {words}"), "name a file with a token"),
        }
        self.settings.destinations.clear();
        for one in declared {
            match token(&one.token_file) {
                Ok(token) => self.settings.destinations.push(Destination {
                    name: one.name.clone(),
                    address: one.address.clone(),
                    token,
                    ca_file: one.ca_file.clone(),
                }),
                Err(words) => {
                    wrong(format!("destination {}: {words}", one.name), "name a file with a token");
                }
            }
        }
        problems
    }
}

/// A file to begin with: every key, what it means, and its default.
pub(crate) fn annotated() -> String {
    let config = RelayConfig::default();
    let mut text = String::from(
        "# The agent of a relay: handoff relay run --config relay.toml\n\
         # Every key but the destinations shows its default; take the # away to change it.\n\n",
    );
    text += &declared::toml(&destinations::example());
    for (section, doc) in keys::SECTIONS {
        text += &format!("\n# {doc}\n[{section}]\n");
        for key in KEYS.iter().filter(|key| key.section == *section) {
            let value = key.kind.toml(&(key.get)(&config));
            text += &format!("# {}\n", key.doc);
            text += &format!("# {} = {}\n", key.name, value.unwrap_or_else(|| "…".to_owned()));
        }
    }
    text
}

/// What the machine is called.
fn host_name() -> String {
    let places = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let found = places.iter().find_map(|place| fs::read_to_string(place).ok());
    let name = found.unwrap_or_default();
    match name.trim() {
        "" => "agent".to_owned(),
        name => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::load;
    use crate::config::Inputs;
    use std::fs;

    const ENOUGH: &str = "[[relay.destination]]\nname = \"a\"\nurl = \"handoff://127.0.0.1\"\n";

    fn inputs(text: &str) -> (tempfile::TempDir, Inputs) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay.toml");
        fs::write(&path, text).unwrap();
        (dir, Inputs { file: Some(path), ..Inputs::default() })
    }

    fn problems(text: &str) -> String {
        let (_dir, inputs) = inputs(text);
        let problems = load(&inputs).unwrap_err();
        problems.iter().map(|problem| format!("{problem}\n")).collect()
    }

    #[test]
    fn a_name_and_a_url_are_enough() {
        let (_dir, inputs) = inputs(ENOUGH);
        let config = load(&inputs).unwrap();
        let settings = config.settings;
        assert_eq!(settings.listen.to_string(), "127.0.0.1:7072");
        assert_eq!(settings.destinations[0].address.to_string(), "handoff://127.0.0.1:7071");
        assert!(!settings.name.is_empty());
    }

    #[test]
    fn a_flag_wins_over_a_variable_over_the_file() {
        let (_dir, mut inputs) = inputs(&format!("[agent]\nname = \"file\"\n{ENOUGH}"));
        let name = |inputs: &Inputs| load(inputs).unwrap().settings.name;
        assert_eq!(name(&inputs), "file");
        inputs.variables = vec![("HANDOFF_AGENT__NAME".into(), "variable".into())];
        assert_eq!(name(&inputs), "variable");
        inputs.flags = vec![("agent.name".into(), "--set".into(), "flag".into())];
        assert_eq!(name(&inputs), "flag");
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once_with_its_place() {
        let words = problems(
            "[agent]\nlistne = \"127.0.0.1:1\"\npromise = \"durabel\"\n[relays]\n\
             [[relay.destination]]\nname = \"a\"\nurl = \"http://x\"\n",
        );
        for part in [
            "relay.toml:2:1",
            "did you mean agent.listen?",
            "did you mean `durable`?",
            "there is no section [relays]",
            "handoff://HOST:PORT",
        ] {
            assert!(words.contains(part), "{part} is not in\n{words}");
        }
    }

    #[test]
    fn an_agent_without_a_destination_or_with_odd_shards_does_not_start() {
        assert!(problems("").contains("there is no destination"));
        let words = problems(&format!("[relay]\nshards = 3\n{ENOUGH}"));
        assert!(words.contains("no power of two"), "{words}");
        let words = problems(&format!("{ENOUGH}{ENOUGH}"));
        assert!(words.contains("declared twice"), "{words}");
        let words = problems(&format!("[agent]\ntoken_file = \"/nowhere\"\n{ENOUGH}"));
        assert!(words.contains("/nowhere"), "{words}");
    }
}
