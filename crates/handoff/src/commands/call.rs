//! `handoff call`

use std::io::Read as _;

use handoff_sdk::Outcome;
use handoff_sdk::calls::{CallError, Caller, CallerOptions, Pending};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::Context;
use super::links::tell_links;
use super::stopping::listen;
use super::through::Place;
use crate::cli::CallArgs;
use crate::exit::{Exit, Failure, known};
use crate::terminal::Terminal;

/// The longest parameters that are read: what no server takes is not kept in memory.
const PARAMS_BYTES_MAX: u64 = 64 << 20;

/// Calls, and prints the answer.
pub(super) async fn run(context: Context<'_>, args: CallArgs) -> Result<(), Failure> {
    let terminal = context.terminal;
    let params = params(args.params.as_deref())?;
    let place = Place::of(context, &args.through)?;
    let caller = place.caller(CallerOptions::new().name("handoff call")).await?;
    let talking = tokio::spawn(tell_links(*terminal, caller.links()));
    let stop = listen();
    let ended = call(terminal, &caller, &args, &params, stop).await;
    talking.abort();
    caller.close().await;
    ended
}

async fn call(
    terminal: &Terminal,
    caller: &Caller,
    args: &CallArgs,
    params: &RawValue,
    mut stop: watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut calling = caller.call::<_, Box<RawValue>>(&args.channel, params).timeout(args.timeout);
    if let Some(time) = args.queue_timeout {
        calling = calling.queue_timeout(time);
    }
    if let Some(key) = &args.key {
        calling = calling.key(key);
    }
    if args.only_with_worker {
        calling = calling.only_with_consumer();
    }
    if let Some(trace) = &args.traceparent {
        calling = calling.traceparent(trace);
    }
    let mut pending = calling.start().await.map_err(|error| failure(&error))?;
    let id = pending.id().to_string();
    if args.no_wait {
        return registered(terminal, pending, &id).await;
    }
    // Both may be dropped: a call keeps its answer, and that it is told to stop stays so.
    let answer = tokio::select! {
        answer = &mut pending => answer,
        _ = stop.wait_for(|stop| *stop) => {
            pending.cancel().await;
            pending.await
        }
    };
    let answer = answer.map_err(|error| failure(&error))?;
    if terminal.json {
        return terminal.print_json(&json!({ "id": id, "answer": answer }));
    }
    terminal.print(answer.get())
}

/// Waits until the call is with the server. One that was refused is over by then.
async fn registered(
    terminal: &Terminal,
    mut pending: Pending<Box<RawValue>>,
    id: &str,
) -> Result<(), Failure> {
    if !pending.registered().await {
        pending.await.map_err(|error| failure(&error))?;
    }
    if terminal.json { terminal.print_json(&json!({ "id": id })) } else { terminal.print(id) }
}

/// What the handler gets: JSON of an argument, or of stdin.
fn params(argument: Option<&str>) -> Result<Box<RawValue>, Failure> {
    let text = match argument {
        None | Some("-") => stdin()?,
        Some(text) => text.to_owned(),
    };
    let text = if text.trim().is_empty() { "null" } else { text.trim() };
    RawValue::from_string(text.to_owned()).map_err(|error| {
        let shown: String = text.chars().take(60).collect();
        Failure::new(Exit::Usage, format!("`{shown}` is no JSON: {error}"))
            .remedy("a text needs quotes of its own: '\"like this\"'")
    })
}

fn stdin() -> Result<String, Failure> {
    use std::io::IsTerminal as _;
    let mut text = String::new();
    let stdin = std::io::stdin();
    // Somebody at a terminal who gives nothing means nothing.
    if stdin.is_terminal() {
        return Ok(text);
    }
    let bad = |why: String| Failure::new(Exit::Usage, format!("stdin {why}"));
    let read = stdin.lock().take(PARAMS_BYTES_MAX + 1).read_to_string(&mut text);
    let read = read.map_err(|error| bad(format!("cannot be read: {error}")))?;
    match u64::try_from(read) {
        Ok(bytes) if bytes <= PARAMS_BYTES_MAX => Ok(text),
        _ => Err(bad(format!("has more than {PARAMS_BYTES_MAX} bytes"))),
    }
}

/// What the end of a call means for whoever called.
fn failure(error: &CallError) -> Failure {
    let exit = match error {
        CallError::Failed(failed) => match known(&failed.code) {
            Some(code) => return Failure::code(code, failed.message.clone()),
            None => Exit::Failed,
        },
        CallError::Closed { cause: Some(cause), .. } => return Failure::of(cause),
        CallError::TimedOut(_) | CallError::NoConsumer => Exit::Unavailable,
        CallError::TooLarge { .. } => Exit::Refused,
        CallError::Invalid(_) => Exit::Usage,
        _ if error.outcome() == Outcome::NotApplied => Exit::Unavailable,
        _ => Exit::Failed,
    };
    let failure = Failure::new(exit, error.to_string());
    let reference = error.code().filter(|code| !code.is_empty()).map(str::to_owned);
    let failure = Failure { reference, ..failure };
    match error {
        CallError::NoConsumer => failure.remedy("start a worker: handoff worker CHANNEL --exec …"),
        CallError::Unanswered { .. } if exit == Exit::Failed => {
            failure.remedy("it may have been run: `handoff calls show ID` says what became of it")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::{failure, params};
    use crate::exit::Exit;
    use handoff_sdk::calls::CallError;

    #[test]
    fn what_is_no_json_is_not_sent() {
        assert_eq!(params(Some(" {\"a\": 1} ")).unwrap().get(), "{\"a\": 1}");
        assert_eq!(params(Some("")).unwrap().get(), "null");
        let bad = params(Some("tea")).unwrap_err();
        assert_eq!(bad.exit, Exit::Usage);
        assert!(bad.to_string().contains("quotes"), "{bad}");
    }

    #[test]
    fn a_call_ends_as_the_table_says() {
        let check = |error: CallError, exit| assert_eq!(failure(&error).exit, exit, "{error}");
        check(CallError::NoConsumer, Exit::Unavailable);
        check(CallError::ExecutorLost, Exit::Failed);
        check(CallError::Cancelled, Exit::Failed);
        check(CallError::TooLarge { bytes: 2, max: 1 }, Exit::Refused);
        check(CallError::Invalid(String::new()), Exit::Usage);
    }
}
