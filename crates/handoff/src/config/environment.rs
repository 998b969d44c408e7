//! `HANDOFF_<SECTION>__<KEY>`: keys from the environment.
//!
//! Two underscores make a variable a key. Others that begin with `HANDOFF_` are somebody else's
//! (`HANDOFF_URL`, and what orchestrators put there for a service of this name), except those
//! that differ from a key by one underscore only.

use std::ffi::OsString;

use super::file::{sections_help, unknown_key_help};
use super::keys::{self, KEYS, Key, SECTIONS};
use super::problem::{At, Problem};
use super::value::{Raw, Value};

/// Reads the keys that variables set, in the order of their names.
pub(crate) fn read(
    variables: &[(OsString, OsString)],
) -> (Vec<(&'static Key, Value, String)>, Vec<Problem>) {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    let mut ours: Vec<(&str, &OsString)> = variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str()?, value)))
        .filter(|(name, _)| name.starts_with("HANDOFF_"))
        .collect();
    ours.sort_unstable();
    for (name, value) in ours {
        let mut problem = |what: String, help: Option<String>| {
            problems.push(Problem::new(Some(At::Variable(name.to_owned())), what, help));
        };
        match key_of(name) {
            Ok(Some(key)) => match key.kind.read(&Raw::Loose(value.clone())) {
                Ok(value) => found.push((key, value, name.to_owned())),
                Err(words) => {
                    let words = if key.secret { "is not allowed".to_owned() } else { words };
                    problem(format!("{}: {words}", key.path()), None);
                }
            },
            Ok(None) => {}
            Err((what, help)) => problem(what, help),
        }
    }
    (found, problems)
}

type Wrong = (String, Option<String>);

fn key_of(name: &str) -> Result<Option<&'static Key>, Wrong> {
    let rest = name.strip_prefix("HANDOFF_").unwrap_or(name);
    let Some((section, key)) = rest.split_once("__") else {
        let close = KEYS.iter().find(|key| {
            let one = key.variable().replacen("__", "_", 1);
            one == name
        });
        return match close {
            Some(key) => {
                let help = format!("did you mean {}, with two underscores?", key.variable());
                Err(("it sets no key".to_owned(), Some(help)))
            }
            None => Ok(None),
        };
    };
    let (section, key) = (section.to_lowercase(), key.to_lowercase());
    if let Some(found) = keys::find(&section, &key) {
        return if found.variable() == name {
            Ok(Some(found))
        } else {
            let help = format!("did you mean {}?", found.variable());
            Err(("it sets no key".to_owned(), Some(help)))
        };
    }
    if SECTIONS.iter().any(|known| known.name == section) {
        let what = format!("there is no key `{key}` in [{section}]");
        return Err((what, unknown_key_help(&section, &key)));
    }
    Err((format!("there is no section [{section}]"), Some(sections_help(&section))))
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::config::value::Value;

    fn check(name: &str, value: &str) -> Result<Vec<(String, Value)>, String> {
        let (found, problems) = read(&[(name.into(), value.into())]);
        match problems.first() {
            Some(problem) => Err(problem.to_string()),
            None => Ok(found.into_iter().map(|(key, value, _)| (key.path(), value)).collect()),
        }
    }

    #[test]
    fn a_variable_sets_its_key() {
        let found = check("HANDOFF_EVENTS__TYPES_MAX", "7").unwrap();
        assert_eq!(found, [("events.types_max".to_owned(), Value::Number(7))]);
    }

    #[test]
    fn a_variable_that_sets_nothing_is_refused_with_what_was_meant() {
        for (name, meant) in [
            ("HANDOFF_EVENTS__TYPE_MAX", "types_max"),
            ("HANDOFF_EVENT__TYPES_MAX", "[events]"),
            ("HANDOFF_EVENTS_TYPES_MAX", "HANDOFF_EVENTS__TYPES_MAX"),
            ("HANDOFF_events__types_max", "HANDOFF_EVENTS__TYPES_MAX"),
        ] {
            let words = check(name, "7").unwrap_err();
            assert!(words.contains(name) && words.contains(meant), "{words}");
        }
    }

    #[test]
    fn other_variables_are_left_alone() {
        for name in ["HANDOFF_URL", "HANDOFF_TOKEN", "HANDOFF_PORT", "PATH", "XHANDOFF_A__B"] {
            assert_eq!(check(name, "x"), Ok(Vec::new()), "{name}");
        }
    }

    #[test]
    fn a_bad_value_is_refused_with_the_range() {
        let words = check("HANDOFF_EVENTS__TYPES_MAX", "0").unwrap_err();
        assert!(words.contains("events.types_max") && words.contains("1 to 10000"), "{words}");
    }
}
