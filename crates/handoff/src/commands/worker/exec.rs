//! A command for each call.

use std::process::ExitStatus;
use std::time::Duration;

use handoff_sdk::calls::{HandlerError, Job};
use serde_json::value::{RawValue, to_raw_value};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

use super::child::{Running, command};
use crate::cli::WorkerArgs;

/// The longest answer that is read.
pub(super) const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// Runs a shell's command for each call.
pub(super) struct Exec {
    command: String,
    time_limit: Option<Duration>,
    text: bool,
    terminal: Vec<i32>,
}

impl Exec {
    pub(super) fn new(command: &str, args: &WorkerArgs) -> Self {
        let WorkerArgs { time_limit, text, terminal, .. } = args;
        let command = command.to_owned();
        Self { command, time_limit: *time_limit, text: *text, terminal: terminal.clone() }
    }

    /// Runs the command to its end. Dropped, or when nobody wants its answer, it is killed with
    /// everything it has started.
    pub(super) async fn run(
        &self,
        params: &RawValue,
        job: &Job,
    ) -> Result<Box<RawValue>, HandlerError> {
        let mut prepared = command(&self.command);
        describe(&mut prepared, job);
        let mut running = Running::start(prepared).map_err(|error| cannot_run(&error))?;
        let limit = self.time_limit.unwrap_or(Duration::MAX);
        // All of them may be dropped: the command is killed then.
        let ended = tokio::select! {
            ended = timeout(limit, converse(&mut running, params)) => ended,
            () = job.cancelled() => return Err(unwanted()),
        };
        let (status, answer) = match ended {
            Ok(Ok(ended)) => ended,
            Ok(Err(error)) => return Err(cannot_run(&error)),
            Err(_) => return Err(too_slow(limit)),
        };
        if !status.success() {
            return Err(self.failed(status, &running.last_words().await));
        }
        read(answer, self.text)
    }

    fn failed(&self, status: ExitStatus, words: &str) -> HandlerError {
        let what = match words {
            "" => format!("the command ended: {status}"),
            words => words.to_owned(),
        };
        let error = HandlerError::new("CommandFailed", what);
        match status.code() {
            Some(code) if self.terminal.contains(&code) => {
                error.code(format!("exit_{code}")).terminal()
            }
            Some(code) => error.code(format!("exit_{code}")),
            None => error.code("killed"),
        }
    }
}

/// Gives the command what the caller sent, and takes what it says until it has ended.
async fn converse(
    running: &mut Running,
    params: &RawValue,
) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let (stdin, stdout) = (running.child.stdin.take(), running.child.stdout.take());
    let giving = async {
        if let Some(mut stdin) = stdin {
            // One that does not read its stdin is not at fault.
            drop(stdin.write_all(params.get().as_bytes()).await);
            drop(stdin.write_all(b"\n").await);
        }
    };
    let taking = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer).await?;
        }
        Ok::<_, std::io::Error>(answer)
    };
    let ((), answer) = tokio::join!(giving, taking);
    let answer = answer?;
    if answer.len() as u64 > ANSWER_BYTES_MAX {
        return Err(std::io::Error::other("it says more than any caller can be told"));
    }
    Ok((running.child.wait().await?, answer))
}

/// What a command said, as an answer.
pub(super) fn read(answer: Vec<u8>, text: bool) -> Result<Box<RawValue>, HandlerError> {
    let bad = |why: String| HandlerError::new("BadAnswer", why).code("bad_answer").terminal();
    let said = String::from_utf8(answer).map_err(|_| bad("the answer is not UTF-8".to_owned()))?;
    if text {
        let said = said.strip_suffix('\n').unwrap_or(&said);
        return to_raw_value(said).map_err(|error| bad(error.to_string()));
    }
    let said = if said.trim().is_empty() { "null" } else { said.trim() };
    RawValue::from_string(said.to_owned()).map_err(|error| {
        let shown: String = said.chars().take(60).collect();
        bad(format!("the answer is no JSON ({error}): {shown}"))
    })
}

/// Tells a command about its call.
fn describe(command: &mut Command, job: &Job) {
    command.env("HANDOFF_CALL", job.id().to_string());
    command.env("HANDOFF_CHANNEL", job.channel());
    command.env("HANDOFF_ATTEMPT", job.attempt().to_string());
    command.env("HANDOFF_FENCE", job.fence().to_string());
    command.env("HANDOFF_DEADLINE_MS", job.time_left().as_millis().to_string());
    let told = [
        ("HANDOFF_CALLER", job.caller().map(|caller| caller.to_string())),
        ("HANDOFF_TRACEPARENT", job.traceparent().map(str::to_owned)),
    ];
    for (name, value) in told {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

pub(super) fn cannot_run(error: &std::io::Error) -> HandlerError {
    HandlerError::new("CommandFailed", format!("the command cannot be run: {error}"))
        .code("cannot_run")
}

pub(super) fn too_slow(limit: Duration) -> HandlerError {
    let what = format!("the command took longer than {} s", limit.as_secs_f64());
    HandlerError::new("TimeLimit", what).code("time_limit")
}

pub(super) fn unwanted() -> HandlerError {
    HandlerError::new("Cancelled", "nobody wants the answer any more").code("cancelled")
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_a_command_says_is_json_or_text_as_was_agreed() {
        let said =
            |text: &str, as_text| read(text.into(), as_text).map(|answer| answer.to_string());
        assert_eq!(said(" {\"a\": 1}\n", false).unwrap(), "{\"a\": 1}");
        assert_eq!(said("", false).unwrap(), "null");
        assert_eq!(said("7\n", true).unwrap(), "\"7\"");
        assert!(said("tea", false).is_err());
        assert!(read(vec![0xff], true).is_err());
    }
}
