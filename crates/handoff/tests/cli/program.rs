//! Starts the program, and stops whatever it started.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A small journal: a test must not write a gigabyte of zeros.
const SMALL: [(&str, &str); 4] = [
    ("HANDOFF_LOG__JOURNAL_BYTES_MAX", "8MiB"),
    ("HANDOFF_LOG__JOURNAL_FILE_BYTES", "1MiB"),
    ("HANDOFF_LOG__JOURNAL_RESERVE_BYTES", "1MiB"),
    ("HANDOFF_LOG__CHANGE_BYTES_MAX", "4MiB"),
];

/// An empty directory to work in, with nothing of the environment that concerns the program.
pub(crate) struct Place {
    dir: TempDir,
    variables: Vec<(String, String)>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// The same for a server, or for who looks at its directory.
    pub(crate) fn small() -> Self {
        SMALL.iter().fold(Self::new(), |place, (name, value)| place.variable(name, value))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let value = value.as_ref().to_str().unwrap().to_owned();
        self.variables.push((name.to_owned(), value));
        self
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handoff"));
        command.args(arguments).current_dir(self.dir.path()).env_clear().stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(arguments, self.command(arguments).output().unwrap())
    }

    /// A command that goes on while the test does something else.
    pub(crate) fn start(&self, arguments: &[&str]) -> Going {
        let mut command = self.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let talk = BufReader::new(child.stderr.take().unwrap()).lines();
        Going { child: Some(child), talk }
    }

    /// A server in this place, with these flags besides.
    pub(crate) fn serve(&self, flags: &[&str]) -> Server {
        self.serve_at("127.0.0.1:0", flags)
    }

    /// The same, at an address.
    pub(crate) fn serve_at(&self, address: &str, flags: &[&str]) -> Server {
        let mut command = self.command(&["serve", "--json", "--data-dir", "data"]);
        command.args(["--listen", address, "--events-listen", "127.0.0.1:0"]);
        command.args(["--relay-listen", "127.0.0.1:0"]);
        let piped = command.args(flags).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        let talk = Talk::of(child.stderr.take().unwrap());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let ready: Value = match serde_json::from_str(&line) {
            Ok(ready) => ready,
            Err(error) => {
                drop(child.kill());
                drop(child.wait());
                panic!("no ready line ({error}) but {line:?}; talk:\n{}", talk.end());
            }
        };
        assert_eq!(ready["event"], "ready");
        let url = format!("http://{}", ready["listeners"]["http"].as_str().unwrap());
        Server { child, _stdout: stdout, talk: Some(talk), ready, url }
    }
}

/// A command that ends with the test, if not by itself.
pub(crate) struct Going {
    child: Option<Child>,
    talk: Lines<BufReader<ChildStderr>>,
}

impl Going {
    /// The next line on stderr.
    pub(crate) fn hears(&mut self) -> String {
        self.talk.next().unwrap().unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.as_ref().unwrap().id();
        kill_process(Pid::from_raw(i32::try_from(id).unwrap()).unwrap(), signal).unwrap();
    }

    /// How it ended by itself, and what it said besides what was heard.
    pub(crate) fn end(mut self) -> Ran {
        let talk: Vec<String> = self.talk.by_ref().map(Result::unwrap).collect();
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        Ran { talk: talk.join("\n"), ..Ran::of(&["(started)"], output) }
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// A server that ends with the test.
pub(crate) struct Server {
    child: Child,
    /// Kept open: a server whose stdout is closed is another case.
    _stdout: BufReader<ChildStdout>,
    talk: Option<Talk>,
    pub(crate) ready: Value,
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(id, signal).unwrap();
    }

    /// Waits until it has said these words.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) {
        self.talk.as_ref().unwrap().wait_for(words);
    }

    /// Stops it in order. Gives how it ended and everything it said.
    pub(crate) fn stop(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let status = self.child.wait().unwrap();
        (status, self.talk.take().unwrap().end())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        if let Some(talk) = self.talk.take() {
            drop(talk.end());
        }
    }
}

/// What a server says, as it says it.
struct Talk {
    heard: Arc<(Mutex<String>, Condvar)>,
    reader: JoinHandle<()>,
}

impl Talk {
    fn of(stderr: ChildStderr) -> Self {
        let heard = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let told = Arc::clone(&heard);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let mut text = told.0.lock().unwrap_or_else(PoisonError::into_inner);
                text.push_str(&line.unwrap());
                text.push('\n');
                told.1.notify_all();
            }
        });
        Self { heard, reader }
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        let text = self.heard.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |text: &mut String| !text.contains(words);
        let patience = Duration::from_secs(60);
        let waited = self.heard.1.wait_timeout_while(text, patience, missing);
        let text = waited.unwrap_or_else(PoisonError::into_inner).0.clone();
        assert!(text.contains(words), "the server does not say {words}:\n{text}");
    }

    /// Everything, once there is no more.
    fn end(self) -> String {
        self.reader.join().unwrap();
        self.heard.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// How a command ended.
pub(crate) struct Ran {
    arguments: String,
    pub(crate) code: Option<i32>,
    pub(crate) data: String,
    pub(crate) talk: String,
}

impl Ran {
    pub(crate) fn of(arguments: &[&str], output: Output) -> Self {
        Self {
            arguments: arguments.join(" "),
            code: output.status.code(),
            data: String::from_utf8(output.stdout).unwrap(),
            talk: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn ended(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "handoff {}\nstdout: {}\nstderr: {}",
            self.arguments,
            self.data,
            self.talk
        );
        self
    }

    /// All of these words are on stderr.
    #[track_caller]
    pub(crate) fn said(self, words: &[&str]) -> Self {
        for word in words {
            assert!(
                self.talk.contains(word),
                "handoff {} does not say `{word}`:\n{}",
                self.arguments,
                self.talk
            );
        }
        self
    }

    /// All of these words are on stdout.
    #[track_caller]
    pub(crate) fn printed(self, words: &[&str]) -> Self {
        for word in words {
            assert!(
                self.data.contains(word),
                "handoff {} does not print `{word}`:\n{}",
                self.arguments,
                self.data
            );
        }
        self
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        match serde_json::from_str(&self.data) {
            Ok(value) => value,
            Err(error) => {
                panic!("handoff {} prints no JSON ({error}): {}", self.arguments, self.data)
            }
        }
    }

    /// One JSON object a line.
    #[track_caller]
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.data.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn lines(&self) -> Vec<&str> {
        self.data.lines().collect()
    }
}

/// The names in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| name(entry).into_string().unwrap()).collect();
    names.sort();
    names
}
