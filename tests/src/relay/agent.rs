//! The agent as a process.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::ledger::wait;
use super::samples::{Taken, body_v1};
use crate::clock;
use crate::http::{Answer, Http};
use crate::prey::{Prey, Said};
use crate::served::{PATIENCE, program};

/// Everything is quick here, so that nobody waits for what takes seconds elsewhere.
const QUICK: &str = "\
[agent]
name = \"edge\"
disk_free_min = 0
stop_secs_max = \"4s\"
[relay]
window_secs = \"300ms\"
retry_first_ms = 20
retry_ms_max = 200
segment_samples = 64
linger_ms = 50
";

/// Where an agent lives, and how it is started.
#[derive(Clone, Debug)]
pub struct Den {
    place: PathBuf,
    config: PathBuf,
    listen: SocketAddr,
}

/// An agent that is ready. Dropped, it is killed.
#[derive(Debug)]
pub struct Agent {
    /// The process.
    pub prey: Prey,
    /// Where samples go.
    pub http: SocketAddr,
}

impl Den {
    /// A den in a directory of its own. `keys` are `section.key=value` besides those that make
    /// everything quick.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn new(place: &Path, destinations: &[(&str, SocketAddr)]) -> io::Result<Self> {
        let (place, config) = (place.to_owned(), place.join("relay.toml"));
        let den = Self { place, config, listen: SocketAddr::from(([127, 0, 0, 1], 0)) };
        den.send_to(destinations)?;
        Ok(den)
    }

    /// A den somewhere else for an agent of the same name: the same configuration, and a copy of the
    /// data directory as it is at this moment.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn copied_to(&self, place: &Path) -> io::Result<Self> {
        let (place, config) = (place.to_owned(), place.join("relay.toml"));
        fs::copy(&self.config, &config)?;
        let den = Self { place, config, listen: self.listen };
        copy_all(&self.data_dir(), &den.data_dir())?;
        Ok(den)
    }

    /// Puts the data directory of another den in the place of its own.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn restore(&self, older: &Self) -> io::Result<()> {
        fs::remove_dir_all(self.data_dir())?;
        copy_all(&older.data_dir(), &self.data_dir())
    }

    /// The same with agents that listen here, one after the other.
    #[must_use]
    pub const fn at(mut self, listen: SocketAddr) -> Self {
        self.listen = listen;
        self
    }

    /// Writes the configuration anew, for the next agent.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn send_to(&self, destinations: &[(&str, SocketAddr)]) -> io::Result<()> {
        let urls = destinations.iter().map(|(_, address)| format!("handoff://{address}"));
        let urls: Vec<String> = urls.collect();
        let names = destinations.iter().map(|(name, _)| *name);
        let all: Vec<_> = names.zip(&urls).map(|(name, url)| (name, url.as_str(), "")).collect();
        self.send_by(&all)
    }

    /// The same by names, addresses and further lines of their tables.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn send_by(&self, destinations: &[(&str, &str, &str)]) -> io::Result<()> {
        let mut text = QUICK.to_owned();
        for (name, url, more) in destinations {
            write!(text, "[[relay.destination]]\nname = \"{name}\"\nurl = \"{url}\"\n{more}")
                .map_err(io::Error::other)?;
        }
        fs::write(&self.config, text)
    }

    /// Starts a process with these flags besides.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn start(&self, flags: &[&str]) -> io::Result<Prey> {
        let mut command = Command::new(program());
        command.args(["relay", "run", "--json"]).arg(format!("--listen={}", self.listen));
        command.arg("--config").arg(&self.config).arg("--data-dir").arg(self.data_dir());
        Prey::start(command.args(flags), &self.place.join("agent.stderr"))
    }

    /// Starts an agent and waits until it is ready.
    ///
    /// # Errors
    /// With its last words when it ends before that.
    pub fn agent(&self, flags: &[&str]) -> io::Result<Agent> {
        Agent::ready(self.start(flags)?)
    }

    /// Waits until its refill files are as they should be.
    ///
    /// # Panics
    /// When they are not for too long.
    #[track_caller]
    pub fn wait_until(&self, as_they_should: impl Fn(&[String]) -> bool) {
        let over = clock() + PATIENCE;
        loop {
            let files = self.files().unwrap_or_default();
            if as_they_should(&files) {
                return;
            }
            assert!(clock() < over, "the spool has {files:?}");
            wait(Duration::from_millis(10));
        }
    }

    /// Where its refill files are.
    #[must_use]
    pub fn spool(&self) -> PathBuf {
        self.data_dir().join("spool")
    }

    /// The names of its refill files.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn files(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.spool())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Its data directory.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.place.join("data")
    }
}

impl Agent {
    /// Waits until an agent is ready.
    ///
    /// # Errors
    /// With its last words when it ends before that.
    pub fn ready(mut prey: Prey) -> io::Result<Self> {
        let line = match prey.listen(PATIENCE) {
            Said::Line(line) => line,
            Said::Silent => return Err(io::Error::other("the agent says nothing")),
            Said::Gone => {
                let (status, words) = (prey.ended()?, prey.last_words());
                return Err(io::Error::other(format!("the agent ended, {status}: {words}")));
            }
        };
        let ready: Value = serde_json::from_str(&line)?;
        let http = ready.get("listeners").and_then(|all| all.get("http")?.as_str()?.parse().ok());
        let http = http.ok_or_else(|| io::Error::other(format!("no listener in {line}")))?;
        Ok(Self { prey, http })
    }

    /// A connection to it.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn connect(&self) -> io::Result<Http> {
        Http::connect(self.http, PATIENCE)
    }

    /// Sends samples as remote write 1.0 and waits for the answer.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn post(&self, samples: &[Taken]) -> io::Result<Answer> {
        post(&mut self.connect()?, &body_v1(samples))
    }

    /// What a line of its metrics says.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn metric(&self, line: &str) -> io::Result<Option<f64>> {
        self.scraped(line)
    }

    /// The same of something that is counted.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn count(&self, line: &str) -> io::Result<usize> {
        Ok(self.scraped(line)?.unwrap_or_default())
    }

    fn scraped<T: std::str::FromStr>(&self, line: &str) -> io::Result<Option<T>> {
        let answer = self.connect()?.ask("GET", "/metrics", None)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let found = text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok());
        Ok(found)
    }

    /// A line of the kernel's status of it, in kilobytes.
    ///
    /// # Errors
    /// When it is gone.
    pub fn memory(&self, line: &str) -> io::Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.prey.id()))?;
        let found =
            status.lines().find_map(|one| one.strip_prefix(line)?.split_whitespace().next());
        found.and_then(|kilobytes| kilobytes.parse().ok()).ok_or(io::ErrorKind::NotFound.into())
    }

    /// Tells it to end and waits until it has.
    ///
    /// # Errors
    /// When it does not end with success.
    pub fn stop(mut self) -> io::Result<()> {
        self.prey.terminate()?;
        let status = self.prey.ended()?;
        if status.success() {
            return Ok(());
        }
        Err(io::Error::other(format!("the agent ended, {status}: {}", self.prey.last_words())))
    }
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (old, new) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_all(&old, &new)?;
            continue;
        }
        match fs::copy(&old, &new) {
            // A file that is delivered meanwhile is gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            copied => drop(copied?),
        }
    }
    Ok(())
}

/// Sends a body of remote write 1.0 and waits for the answer.
///
/// # Errors
/// When the connection is gone.
pub(super) fn post(http: &mut Http, body: &[u8]) -> io::Result<Answer> {
    let headers = [("content-type", "application/x-protobuf"), ("content-encoding", "snappy")];
    http.send_octets("POST", "/api/v1/write", &headers, body)?;
    http.answer()
}
