//! The server that is measured: a process of its own.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use handoff_probe::now;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const SETTLE_MIN: Duration = Duration::from_secs(3);
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Waits until no checkpoint of a room is under way, and what was written is on the disk.
pub(crate) fn settled(data: &Path, room: &str) {
    let begun = now();
    let writing = data.join(format!("checkpoints/{room}.writing"));
    // One that is due begins within a second.
    while begun.elapsed() < SETTLE_MIN || (writing.exists() && begun.elapsed() < SETTLE_MAX) {
        thread::park_timeout(Duration::from_millis(100));
    }
    rustix::fs::sync();
}

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    http: SocketAddr,
    events: SocketAddr,
}

impl Server {
    /// Starts a server and waits until it says that it is ready.
    pub(crate) fn start(program: &Path, data: &Path) -> io::Result<Self> {
        Self::start_with(program, data, &[])
    }

    /// The same with variables in its environment.
    pub(crate) fn start_with(
        program: &Path,
        data: &Path,
        environment: &[(&str, &str)],
    ) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args([
                "serve",
                "--json",
                "--quiet",
                "--listen",
                "127.0.0.1:0",
                "--relay-listen",
                "127.0.0.1:0",
                "--events-listen",
                "127.0.0.1:0",
            ])
            .arg("--data-dir")
            .arg(data)
            .env("HANDOFF_SERVER__LOG_LEVEL", "warn")
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = |name: &str| {
            let text = ready.get("listeners")?.get(name)?.as_str()?;
            text.parse::<SocketAddr>().ok()
        };
        match (address("http"), address("events")) {
            (Some(http), Some(events)) => Ok(Self { child, http, events }),
            _ => {
                drop(child.kill());
                drop(child.wait());
                Err(io::Error::other("the server did not start; its words are above"))
            }
        }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.http
    }

    pub(crate) fn events(&self) -> SocketAddr {
        self.events
    }

    /// Memory it has, if the system shows it.
    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024)
    }

    /// Files it has open, if the system shows it.
    pub(crate) fn open_files(&self) -> Option<usize> {
        Some(fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?.count())
    }

    /// How much of one processor it takes while nobody asks anything, in percent.
    pub(crate) fn processor_share(&self, time: Duration) -> Option<f64> {
        let before = self.processor_time()?;
        let begun = now();
        while begun.elapsed() < time {
            thread::park_timeout(time.saturating_sub(begun.elapsed()));
        }
        let used = self.processor_time()?.saturating_sub(before);
        Some(100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64())
    }

    /// Processor time of all its threads so far.
    fn processor_time(&self) -> Option<Duration> {
        let mut nanos = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()? {
            let stat = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            nanos += stat.split_ascii_whitespace().next()?.parse::<u64>().ok()?;
        }
        Some(Duration::from_nanos(nanos))
    }

    /// Ends it where it is.
    pub(crate) fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Lets it end in order.
    pub(crate) fn stop(mut self) -> io::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        self.child.wait().map(drop)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
