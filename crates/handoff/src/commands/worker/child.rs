//! A command that is run by a shell, in a group of processes of its own: whoever ends it ends
//! everything it has started, and a Ctrl-C that is meant for the worker does not reach it.

use std::io;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

/// How much of what a command says on stderr is kept for its caller.
const TAIL_BYTES: usize = 2048;

/// The longest line of stderr that is passed on at once.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// A command that runs. Dropped, it is killed.
pub(super) struct Running {
    pub(super) child: Child,
    group: Option<u32>,
    tail: Arc<Mutex<Vec<u8>>>,
    hearing: Option<JoinHandle<()>>,
}

/// A command that is not started.
pub(super) fn command(text: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(text);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    command.process_group(0);
    command
}

impl Running {
    /// Starts a command. What it says on stderr is passed on, and the end of it kept.
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.kill_on_drop(true).spawn()?;
        let tail = Arc::<Mutex<Vec<u8>>>::default();
        let hearing = child.stderr.take().map(|stderr| {
            let tail = Arc::clone(&tail);
            tokio::spawn(async move { hear(stderr, &tail).await })
        });
        let group = child.id();
        Ok(Self { child, group, tail, hearing })
    }

    /// The last it said on stderr, once it has ended.
    pub(super) async fn last_words(&mut self) -> String {
        if let Some(hearing) = self.hearing.take() {
            // Whatever it has started may hold stderr open: then nobody waits for it.
            let patience = std::time::Duration::from_millis(500);
            drop(tokio::time::timeout(patience, hearing).await);
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&tail).trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        kill(self.group);
    }
}

/// Kills a command and everything it has started.
#[cfg(unix)]
fn kill(group: Option<u32>) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let group = group.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    if let Some(group) = group {
        // One that has ended has nobody to be killed.
        kill_process_group(group, Signal::KILL).unwrap_or_default();
    }
}

#[cfg(not(unix))]
fn kill(_: Option<u32>) {}

async fn hear(stderr: impl AsyncRead + Unpin, tail: &Mutex<Vec<u8>>) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            _ => return,
        }
        pass_on(&line);
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&line);
        let over = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..over);
    }
}

/// Nobody can be told that stderr is gone.
fn pass_on(line: &[u8]) {
    use std::io::Write as _;
    drop(std::io::stderr().lock().write_all(line));
}
