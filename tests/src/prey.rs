//! A victim as its hunter sees it: a process, its lines, and the signals one may send it.
//!
//! Writing and reading have threads of their own, so that the hunter never waits for a victim
//! that is stopped. Only the process that was started here is ever signalled.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

/// How many lines wait in either direction. A hunter has far fewer requests underway.
const LINES_WAITING_MAX: usize = 4096;

/// How a victim is started.
#[derive(Clone, Debug)]
pub struct Lair {
    /// The victim's program.
    pub program: PathBuf,
    /// Its data directory.
    pub data_dir: PathBuf,
    /// Where its stderr is kept.
    pub talk: PathBuf,
    /// What stands before every argument.
    pub verb: Option<String>,
    /// More arguments.
    pub arguments: Vec<String>,
    /// What is in its environment besides.
    pub environment: Vec<(String, String)>,
}

/// What comes from a victim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// A whole line.
    Line(String),
    /// Nothing, for as long as one waited.
    Silent,
    /// Nothing any more: it is gone, and all it ever said was heard.
    Gone,
}

/// A running victim. Dropping it kills it.
#[derive(Debug)]
pub struct Prey {
    child: Child,
    lines: Receiver<String>,
    to_say: Option<SyncSender<String>>,
    talk: PathBuf,
}

impl Lair {
    /// A victim's program and the directory of its own that it lives in.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>, place: &Path) -> Self {
        Self {
            program: PathBuf::from(program.as_ref()),
            data_dir: place.join("data"),
            talk: place.join("victim.stderr"),
            verb: None,
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// The same program asked to do this.
    #[must_use]
    pub fn verb(mut self, verb: &str) -> Self {
        self.verb = Some(verb.to_owned());
        self
    }

    /// The same with a variable in its environment.
    #[must_use]
    pub fn set(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same without a variable in its environment.
    #[must_use]
    pub fn unset(mut self, name: &str) -> Self {
        self.environment.retain(|(known, _)| known != name);
        self
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Starts a victim.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn start(&self) -> io::Result<Prey> {
        // A write above a limit must be an error and not a signal; what is ignored here stays
        // ignored in the program that takes the shell's place.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(&self.program);
        command.args(&self.verb).envs(self.environment.iter().cloned());
        command.arg("--data-dir").arg(&self.data_dir).args(&self.arguments);
        Prey::start(&mut command, &self.talk)
    }
}

impl Prey {
    /// Starts a program as a victim, and keeps its stderr.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn start(command: &mut Command, talk: &Path) -> io::Result<Self> {
        let stderr = File::options().create(true).append(true).open(talk)?;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr).spawn()?;
        let (said, lines) = sync_channel(LINES_WAITING_MAX);
        let (to_say, saying) = sync_channel(LINES_WAITING_MAX);
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || listen(stdout, &said));
        }
        if let Some(stdin) = child.stdin.take() {
            thread::spawn(move || speak(stdin, &saying));
        }
        Ok(Self { child, lines, to_say: Some(to_say), talk: talk.to_owned() })
    }

    /// Says a line, sooner or later. A victim that is gone does not mind.
    pub fn say(&self, line: String) {
        if let Some(to_say) = &self.to_say {
            drop(to_say.send(line));
        }
    }

    /// Waits for the next line.
    pub fn listen(&self, patience: Duration) -> Said {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Said::Line(line),
            Err(RecvTimeoutError::Timeout) => Said::Silent,
            Err(RecvTimeoutError::Disconnected) => Said::Gone,
        }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it, wherever it is (`SIGKILL`).
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Asks it to end (`SIGTERM`).
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(kill_process(self.pid(), Signal::TERM)?)
    }

    /// Freezes it (`SIGSTOP`).
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn freeze(&self) -> io::Result<()> {
        Ok(kill_process(self.pid(), Signal::STOP)?)
    }

    /// Asks it to read its configuration again (`SIGHUP`).
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn reload(&self) -> io::Result<()> {
        Ok(kill_process(self.pid(), Signal::HUP)?)
    }

    /// Lets it go on (`SIGCONT`).
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn thaw(&self) -> io::Result<()> {
        Ok(kill_process(self.pid(), Signal::CONT)?)
    }

    /// Ends its stdin, so that it finishes what it was asked and ends.
    pub fn close(&mut self) {
        self.to_say = None;
    }

    /// Lets no file of it grow above so many bytes from now on; `None` lifts the limit.
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn limit_files(&self, bytes: Option<u64>) -> io::Result<()> {
        let limit = Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit)?;
        Ok(())
    }

    /// How it ended. Call it when it is [`Said::Gone`].
    ///
    /// # Errors
    /// Whatever the operating system answers.
    pub fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// The last words on its stderr.
    #[must_use]
    pub fn last_words(&self) -> String {
        let talk = std::fs::read_to_string(&self.talk).unwrap_or_default();
        let lines: Vec<&str> = talk.lines().collect();
        lines.split_at(lines.len().saturating_sub(12)).1.join("\n")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Prey {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Hands on whole lines. A line without its end was never said.
fn listen(stdout: ChildStdout, said: &SyncSender<String>) {
    let mut reader = BufReader::new(stdout);
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(1..) if line.pop() == Some('\n') => {
                if said.send(line).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn speak(mut stdin: ChildStdin, saying: &Receiver<String>) {
    for mut line in saying {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).is_err() {
            return;
        }
    }
}
