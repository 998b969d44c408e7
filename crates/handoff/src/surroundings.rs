//! What the process was started with besides its arguments.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use handoff_sdk::calls::Redis;
use handoff_sdk::{Client, Options};

use crate::cli::{DEFAULT_URL, Global};
use crate::config::{Inputs, PLACES};
use crate::exit::{Exit, Failure};

/// The longest file with a token.
const TOKEN_FILE_BYTES_MAX: u64 = 64 << 10;

/// The environment.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    variables: Vec<(OsString, OsString)>,
    /// How this program was called, for lines that people copy.
    pub(crate) program: String,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let program = std::env::args().next().unwrap_or_else(|| "handoff".to_owned());
        Self { variables: std::env::vars_os().collect(), program }
    }

    /// Whether a variable is there and not empty.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.variable(name).is_some()
    }

    fn variable(&self, name: &str) -> Option<&OsStr> {
        let found = self.variables.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_os_str()).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> Result<Option<String>, Failure> {
        self.variable(name)
            .map(|value| {
                value.to_str().map(str::to_owned).ok_or_else(|| {
                    Failure::new(Exit::Usage, format!("the variable {name} is not UTF-8"))
                })
            })
            .transpose()
    }

    /// What a configuration is made from.
    pub(crate) fn inputs(
        &self,
        file: Option<PathBuf>,
        flags: Vec<(String, String, OsString)>,
    ) -> Inputs {
        let places = PLACES.iter().map(PathBuf::from).collect();
        Inputs { file, places, variables: self.variables.clone(), flags }
    }

    /// The URL of the server to ask.
    pub(crate) fn url(&self, global: &Global) -> Result<String, Failure> {
        let said = match &global.url {
            Some(url) => Some(url.clone()),
            None => self.text("HANDOFF_URL")?,
        };
        Ok(said.unwrap_or_else(|| DEFAULT_URL.to_owned()))
    }

    /// A client of the server to ask: a flag wins over a variable, a token over a file.
    pub(crate) fn client(&self, global: &Global) -> Result<Client, Failure> {
        self.client_with(Options::new(self.url(global)?), global)
    }

    /// A client with these options, and who we are.
    pub(crate) fn client_with(&self, options: Options, global: &Global) -> Result<Client, Failure> {
        let mut options = options.user_agent(concat!("handoff/", env!("CARGO_PKG_VERSION")));
        if let Some(token) = self.token(global)? {
            options = options.token(token);
        }
        if let Some(ca) = self.ca_file(global) {
            options = options.ca_file(ca);
        }
        Ok(Client::new(options)?)
    }

    /// The Redis that a flag names, or a variable if no flag names a server; none: there is a server.
    pub(crate) fn redis(
        &self,
        flag: Option<&str>,
        global: &Global,
    ) -> Result<Option<Redis>, Failure> {
        let url = match flag {
            Some(url) => Some(url.to_owned()),
            None if global.url.is_some() => None,
            None => self.text("HANDOFF_REDIS_URL")?,
        };
        let Some(url) = url else { return Ok(None) };
        let redis = Redis::new(url)?;
        Ok(Some(match self.ca_file(global) {
            Some(ca) => redis.ca_file(ca),
            None => redis,
        }))
    }

    /// Certificates to believe besides the public ones.
    pub(crate) fn ca_file(&self, global: &Global) -> Option<PathBuf> {
        global.ca_file.clone().or(self.variable("HANDOFF_CA_FILE").map(PathBuf::from))
    }

    /// The token to show.
    pub(crate) fn token(&self, global: &Global) -> Result<Option<String>, Failure> {
        if let Some(token) = &global.token {
            return Ok(Some(token.clone()));
        }
        if let Some(file) = &global.token_file {
            return read_token(file).map(Some);
        }
        if let Some(token) = self.text("HANDOFF_TOKEN")? {
            return Ok(Some(token));
        }
        let file = self.variable("HANDOFF_TOKEN_FILE").map(PathBuf::from);
        file.map(|file| read_token(&file)).transpose()
    }
}

/// The token in a file.
///
/// # Errors
/// [`Exit::Failed`], with words.
pub(crate) fn read_token(file: &Path) -> Result<String, Failure> {
    let bad = |why: String| {
        Failure::new(Exit::Failed, format!("the token file {} {why}", file.display()))
            .remedy("name a file that holds a token and nothing else")
    };
    let length = fs::metadata(file).map_err(|error| bad(format!("cannot be read: {error}")))?.len();
    if length > TOKEN_FILE_BYTES_MAX {
        return Err(bad(format!("has {length} bytes and cannot be one")));
    }
    let text = fs::read_to_string(file).map_err(|error| bad(format!("cannot be read: {error}")))?;
    match text.trim() {
        "" => Err(bad("is empty".to_owned())),
        token => Ok(token.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::Surroundings;
    use crate::cli::Cli;
    use clap::Parser;
    use std::fs;

    fn token(arguments: &[&str], variables: &[(&str, &str)]) -> Option<String> {
        let cli = Cli::parse_from(["handoff"].iter().chain(arguments).chain(&["version"]));
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let surroundings = Surroundings { variables, program: "handoff".to_owned() };
        surroundings.token(&cli.global).unwrap()
    }

    #[test]
    fn a_redis_is_that_of_the_flag_or_of_the_variable_unless_a_server_is_named() {
        let redis = |arguments: &[&str], flag: Option<&str>, variable: &str| {
            let cli = Cli::parse_from(["handoff"].iter().chain(arguments).chain(&["version"]));
            let variables = vec![("HANDOFF_REDIS_URL".into(), variable.into())];
            let surroundings = Surroundings { variables, program: "handoff".to_owned() };
            surroundings.redis(flag, &cli.global).map(|redis| format!("{redis:?}"))
        };
        let flag = Some("redis://me:secret@of-flag/1");
        let variable = "redis://of-env";
        assert_eq!(redis(&[], flag, variable).unwrap(), "Some(Redis(redis://of-flag:6379/1))");
        assert_eq!(redis(&[], None, variable).unwrap(), "Some(Redis(redis://of-env:6379/0))");
        assert_eq!(redis(&["--url", "http://here"], None, variable).unwrap(), "None");
        assert_eq!(redis(&[], None, "").unwrap(), "None", "an empty variable is none");
        let wrong = redis(&[], Some("redis://me:secret@there:x"), "").unwrap_err().to_string();
        assert!(
            wrong.contains("redis://user:password@host") && !wrong.contains("secret"),
            "{wrong}"
        );
    }

    #[test]
    fn a_flag_wins_over_a_variable_and_a_token_over_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        fs::write(&file, "of-file\n").unwrap();
        let file = file.to_str().unwrap();
        let variables = [("HANDOFF_TOKEN", "of-env"), ("HANDOFF_TOKEN_FILE", file)];
        assert_eq!(token(&["--token", "of-flag"], &variables).as_deref(), Some("of-flag"));
        assert_eq!(token(&["--token-file", file], &variables).as_deref(), Some("of-file"));
        assert_eq!(token(&[], &variables).as_deref(), Some("of-env"));
        assert_eq!(token(&[], &variables[1..]).as_deref(), Some("of-file"));
        assert_eq!(token(&[], &[("HANDOFF_TOKEN", "")]), None, "an empty variable is none");
    }
}
