//! The configuration: default < file < environment < flag.
//!
//! The file is `--config FILE`, else `./handoff.toml`, else `/etc/handoff/handoff.toml`, else
//! none. Unknown keys are errors, wherever they are written; everything that is wrong is said at
//! once.

mod between;
pub(crate) mod bytes;
mod channels;
mod declared;
mod environment;
mod file;
mod groups;
pub(crate) mod keys;
#[cfg(test)]
mod page;
mod problem;
pub(crate) mod relay;
pub(crate) mod show;
mod suggest;
mod topics;
pub(crate) mod value;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use handoff_server::settings::Settings;

pub(crate) use self::between::open_doors;
use self::keys::{KEYS, Key};
pub(crate) use self::problem::{At, Problem};
use self::value::Raw;

/// Where the file is looked for, in this order.
pub(crate) const PLACES: [&str; 2] = ["handoff.toml", "/etc/handoff/handoff.toml"];

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Everything a configuration is made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    /// `--config`; must be there then.
    pub(crate) file: Option<PathBuf>,
    /// Where to look otherwise.
    pub(crate) places: Vec<PathBuf>,
    /// The environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// Flags: the key's path, the flag's name, the value.
    pub(crate) flags: Vec<(String, String, OsString)>,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody said anything.
    Default,
    /// The file.
    File(At),
    /// A variable.
    Variable(String),
    /// A flag.
    Flag(String),
}

/// A configuration in which nothing is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// What it comes to.
    pub(crate) settings: Settings,
    /// The file it was read from.
    pub(crate) file: Option<PathBuf>,
    /// Where each key's value came from, in the order of [`KEYS`].
    pub(crate) origins: Vec<Origin>,
}

/// Puts the configuration together.
///
/// # Errors
/// Everything that is wrong, in the order of precedence.
pub(crate) fn load(inputs: &Inputs) -> Result<Config, Vec<Problem>> {
    let mut config = Config {
        settings: Settings::default(),
        file: None,
        origins: vec![Origin::Default; KEYS.len()],
    };
    let mut problems = Vec::new();
    match find_file(inputs) {
        Ok(None) => {}
        Ok(Some((path, text))) => {
            let (entries, wrong, declared) = file::read(&path, &text);
            problems.extend(wrong);
            config.settings.streams.topics = declared.topics;
            config.settings.streams.groups = declared.groups;
            config.settings.calls.channels = declared.channels;
            for entry in entries {
                config.put(entry.key, entry.value, Origin::File(entry.at));
            }
            config.file = Some(path);
        }
        Err(problem) => problems.push(*problem),
    }
    let (set, wrong) = environment::read(&inputs.variables);
    problems.extend(wrong);
    for (key, value, name) in set {
        config.put(key, value, Origin::Variable(name));
    }
    for (path, flag, text) in &inputs.flags {
        match flag_value(path, text) {
            Ok((key, value)) => config.put(key, value, Origin::Flag(flag.clone())),
            Err((what, help)) => {
                problems.push(Problem::new(Some(At::Flag(flag.clone())), what, help));
            }
        }
    }
    // Between keys of which some are wrong there is nothing to compare.
    if problems.is_empty() {
        problems = between::check(&config.settings);
    }
    if problems.is_empty() { Ok(config) } else { Err(problems) }
}

impl Config {
    fn put(&mut self, key: &Key, value: value::Value, origin: Origin) {
        (key.set)(&mut self.settings, value);
        let at = KEYS.iter().position(|known| known.path() == key.path());
        if let Some(place) = at.and_then(|at| self.origins.get_mut(at)) {
            *place = origin;
        }
    }
}

fn flag_value(
    path: &str,
    text: &OsString,
) -> Result<(&'static Key, value::Value), (String, Option<String>)> {
    let (section, name) = path.split_once('.').unwrap_or((path, ""));
    let Some(key) = keys::find(section, name) else {
        let near = suggest::nearest(path, ALL_PATHS.iter().map(String::as_str));
        let help = near.map_or_else(
            || "`handoff config show --defaults` lists the keys".to_owned(),
            |near| format!("did you mean {near}?"),
        );
        return Err((format!("there is no key {path}"), Some(help)));
    };
    let value = key.kind.read(&Raw::Loose(text.clone()));
    value.map(|value| (key, value)).map_err(|words| (format!("{path}: {words}"), None))
}

static ALL_PATHS: std::sync::LazyLock<Vec<String>> =
    std::sync::LazyLock::new(|| KEYS.iter().map(Key::path).collect());

fn find_file(inputs: &Inputs) -> Result<Option<(PathBuf, String)>, Box<Problem>> {
    if let Some(path) = &inputs.file {
        return match read_file(path) {
            Ok(text) => Ok(Some((path.clone(), text))),
            Err(error) => Err(unreadable(path, &error)),
        };
    }
    for path in &inputs.places {
        match read_file(path) {
            Ok(text) => return Ok(Some((path.clone(), text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A file that is there and cannot be read must not be passed over in silence.
            Err(error) => return Err(unreadable(path, &error)),
        }
    }
    Ok(None)
}

fn read_file(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is larger than 1 MiB"));
    }
    fs::read_to_string(path)
}

fn unreadable(path: &Path, error: &io::Error) -> Box<Problem> {
    let help = match error.kind() {
        io::ErrorKind::NotFound => "check the path; without --config the file is optional",
        io::ErrorKind::PermissionDenied => "give this user the right to read it",
        _ => "a configuration is a TOML file in UTF-8",
    };
    let at = Some(At::File(path.to_owned()));
    let what = format!("the file cannot be read: {error}");
    Box::new(Problem::new(at, what, Some(help.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::{Inputs, Origin, keys, load};
    use std::fs;

    fn inputs(text: &str) -> (tempfile::TempDir, Inputs) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("handoff.toml");
        fs::write(&path, text).unwrap();
        (dir, Inputs { file: Some(path), ..Inputs::default() })
    }

    #[test]
    fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
        let (_dir, mut inputs) = inputs("[events]\ntypes_max = 3\n");
        let at = keys::KEYS.iter().position(|key| key.path() == "events.types_max").unwrap();
        let found = |inputs: &Inputs| {
            let config = load(inputs).unwrap();
            (config.settings.events.bounds.types_max, config.origins[at].clone())
        };
        assert_eq!(load(&Inputs::default()).unwrap().settings.events.bounds.types_max, 64);
        assert!(matches!(found(&inputs), (3, Origin::File(_))));
        inputs.variables = vec![("HANDOFF_EVENTS__TYPES_MAX".into(), "4".into())];
        assert!(matches!(found(&inputs), (4, Origin::Variable(_))));
        inputs.flags = vec![("events.types_max".into(), "--set".into(), "5".into())];
        assert!(matches!(found(&inputs), (5, Origin::Flag(_))));
    }

    #[test]
    fn the_first_file_that_is_there_counts() {
        let (dir, mut inputs) = inputs("[events]\ntypes_max = 3\n");
        inputs.places = vec![dir.path().join("none.toml"), inputs.file.take().unwrap()];
        assert_eq!(load(&inputs).unwrap().settings.events.bounds.types_max, 3);
        inputs.places.insert(0, dir.path().to_owned());
        let problems = load(&inputs).unwrap_err();
        assert!(problems[0].to_string().contains("cannot be read"), "{}", problems[0]);
    }

    #[test]
    fn a_file_that_was_asked_for_must_be_there() {
        let inputs = Inputs { file: Some("/nowhere/handoff.toml".into()), ..Inputs::default() };
        let problems = load(&inputs).unwrap_err();
        assert!(problems[0].to_string().contains("/nowhere/handoff.toml"), "{}", problems[0]);
    }

    #[test]
    fn what_is_wrong_in_file_environment_and_flags_is_said_at_once() {
        let (_dir, mut inputs) = inputs("[events]\ntypes_max = 0\n");
        inputs.variables = vec![("HANDOFF_EVENTS__TYPE_MAX".into(), "4".into())];
        inputs.flags = vec![("events.typs_max".into(), "--set".into(), "5".into())];
        let problems = load(&inputs).unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems[2].to_string().contains("did you mean events.types_max?"));
    }
}
