//! A command for each message.

use std::io::{ErrorKind, Write as _};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use handoff_sdk::streams::{Consumer, Delivered, Verdict};
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::{ConsumeArgs, OnFailure};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

/// No lease is extended more often than this.
const EXTEND_MIN: Duration = Duration::from_millis(100);

/// Runs a shell's command with a message as its stdin.
pub(super) struct Handler<'a> {
    terminal: &'a Terminal,
    command: &'a str,
    group: &'a str,
    on_failure: OnFailure,
    delay: Option<Duration>,
    lease: Duration,
}

impl<'a> Handler<'a> {
    pub(super) fn new(
        terminal: &'a Terminal,
        command: &'a str,
        args: &'a ConsumeArgs,
        lease: Duration,
    ) -> Self {
        let ConsumeArgs { group, on_failure, delay, .. } = args;
        Self { terminal, command, group, on_failure: *on_failure, delay: *delay, lease }
    }

    /// Runs the command to its end, and says what it means for the message.
    ///
    /// # Errors
    /// When no command can be run at all: the message is delivered again.
    pub(super) async fn run(
        &self,
        consumer: &Consumer,
        message: &Delivered,
    ) -> Result<Verdict, Failure> {
        let command = self.prepared(message);
        let payload = message.message.payload.clone();
        let mut running = tokio::task::spawn_blocking(move || run(command, &payload));
        let mut ticks = interval((self.lease / 3).max(EXTEND_MIN));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.reset();
        let ended = loop {
            // A task that is waited for by reference is still there, and a tick is told again.
            tokio::select! {
                ended = &mut running => break ended,
                _ = ticks.tick() => {
                    // A lease that cannot be extended is found out by the commit.
                    drop(consumer.commit(message.extend()).await);
                }
            }
        };
        let status = ended.map_err(std::io::Error::other).and_then(|status| status);
        let status = status.map_err(|error| {
            Failure::new(Exit::Failed, format!("`{}` cannot be run: {error}", self.command))
        })?;
        if status.success() {
            return Ok(message.ok());
        }
        let why = match status.code() {
            Some(code) => format!("`{}` ended with {code}", self.command),
            None => format!("`{}` was killed: {status}", self.command),
        };
        let place =
            format!("{} {} {}", message.topic(), message.message.partition, message.message.offset);
        self.terminal.talk(&format!("{place}: {why} (attempt {})", message.attempt()));
        Ok(match self.on_failure {
            OnFailure::Dead => message.failed(why),
            OnFailure::Retry => {
                let verdict = message.retry().error(why);
                match self.delay {
                    Some(delay) => verdict.delay(delay),
                    None => verdict,
                }
            }
        })
    }

    fn prepared(&self, message: &Delivered) -> Command {
        let Delivered { message: received, .. } = message;
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(self.command).stdin(Stdio::piped());
        command.env("HANDOFF_TOPIC", message.topic());
        command.env("HANDOFF_PARTITION", received.partition.to_string());
        command.env("HANDOFF_OFFSET", received.offset.to_string());
        command.env("HANDOFF_ATTEMPT", message.attempt().to_string());
        command.env("HANDOFF_GROUP", self.group);
        // Octets that no environment can hold are in the message itself, not here.
        let key = received.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        match key.filter(|key| !key.contains('\0')) {
            Some(key) => command.env("HANDOFF_KEY", key),
            None => command.env_remove("HANDOFF_KEY"),
        };
        command
    }
}

/// Runs a command to its end. One that does not read its stdin is not at fault.
fn run(mut command: Command, payload: &[u8]) -> std::io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(payload) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                drop(child.kill());
                drop(child.wait());
                return Err(error);
            }
            _ => {}
        }
    }
    child.wait()
}
