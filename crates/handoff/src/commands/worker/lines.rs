//! A command that lives: a line for each call in, a line out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use handoff_sdk::calls::{HandlerError, Job};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::child::{Running, command};
use super::exec::{ANSWER_BYTES_MAX, cannot_run, read, too_slow, unwanted};
use crate::cli::WorkerArgs;

/// Commands that live, each with one call at a time. Those without one wait for the next; there are
/// never more than calls at once.
pub(super) struct Lines {
    command: String,
    time_limit: Option<Duration>,
    text: bool,
    idle: Mutex<Vec<Servant>>,
}

/// A command that lives.
struct Servant {
    running: Running,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Lines {
    pub(super) fn new(command: &str, args: &WorkerArgs) -> Self {
        let WorkerArgs { time_limit, text, .. } = args;
        let (command, idle) = (command.to_owned(), Mutex::new(Vec::new()));
        Self { command, time_limit: *time_limit, text: *text, idle }
    }

    /// Gives a line to a command and takes one. A command that ends, hangs, or is dropped in the
    /// middle of a line is not used again.
    pub(super) async fn run(
        &self,
        params: &RawValue,
        job: &Job,
    ) -> Result<Box<RawValue>, HandlerError> {
        let mut servant = self.servant().map_err(|error| cannot_run(&error))?;
        let limit = self.time_limit.unwrap_or(Duration::MAX);
        // All of them may be dropped: the command is killed then.
        let said = tokio::select! {
            said = timeout(limit, servant.ask(params)) => said,
            () = job.cancelled() => return Err(unwanted()),
        };
        let line = match said {
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => return Err(servant.ended().await),
            Ok(Err(error)) => return Err(cannot_run(&error)),
            Err(_) => return Err(too_slow(limit)),
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(servant);
        read(line, self.text)
    }

    /// One that waits and lives, or a new one.
    fn servant(&self) -> std::io::Result<Servant> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut servant) = idle else { return Servant::start(&self.command) };
            if matches!(servant.running.child.try_wait(), Ok(None)) {
                return Ok(servant);
            }
        }
    }
}

impl Servant {
    fn start(text: &str) -> std::io::Result<Self> {
        let mut running = Running::start(command(text))?;
        let pipes = (running.child.stdin.take(), running.child.stdout.take());
        let (Some(stdin), Some(stdout)) = pipes else {
            return Err(std::io::Error::other("it has no stdin or no stdout"));
        };
        Ok(Self { running, stdin, stdout: BufReader::new(stdout) })
    }

    /// A line in, a line out; none if it has ended.
    async fn ask(&mut self, params: &RawValue) -> std::io::Result<Option<Vec<u8>>> {
        // JSON may have line breaks between its parts, and none inside of them.
        let line: String = params.get().chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
        let given = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.stdin.write_all(b"\n").await?;
            self.stdin.flush().await
        };
        if given.await.is_err() {
            return Ok(None);
        }
        let mut line = Vec::new();
        (&mut self.stdout).take(ANSWER_BYTES_MAX + 1).read_until(b'\n', &mut line).await?;
        match line.last() {
            Some(b'\n') => Ok(Some(line)),
            Some(_) if line.len() as u64 > ANSWER_BYTES_MAX => {
                Err(std::io::Error::other("it says more than any caller can be told"))
            }
            // The rest of a line that was never finished is no answer.
            _ => Ok(None),
        }
    }

    /// Why it has ended.
    async fn ended(mut self) -> HandlerError {
        let patience = Duration::from_secs(1);
        let status = match timeout(patience, self.running.child.wait()).await {
            Ok(Ok(status)) => status.to_string(),
            _ => "it closed its stdin or stdout".to_owned(),
        };
        let what = match self.running.last_words().await {
            words if words.is_empty() => format!("the command ended: {status}"),
            words => words,
        };
        HandlerError::new("CommandEnded", what).code("command_ended")
    }
}
