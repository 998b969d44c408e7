//! `handoff serve`

use std::io::{self, IsTerminal as _};

use handoff_log::directory;
use handoff_server::runtime::StartError;
use handoff_server::serve::{Hooks, Listeners, ServeError};
use handoff_server::settings::{LogFormat, Settings};
use handoff_server::telemetry;
use handoff_types::Code;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use super::doctor::reachable;
use super::{Context, load, version, wrong};
use crate::cli::{DEFAULT_URL, ServeArgs};
use crate::config;
use crate::doctor::{files_needed, holder};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

/// Threads that wait for disks or go through large bodies. Each keeps some megabytes for the next
/// one, so there are not more than can be of use.
const BLOCKING_THREADS_MAX: usize = 16;

/// Runs the server until it is told to stop.
pub(super) fn run(context: Context<'_>, args: ServeArgs) -> Result<(), Failure> {
    let mut flags = args.config.flags();
    for (key, flag, address) in [
        ("server.listen", "--listen", args.listen),
        ("events.listen", "--events-listen", args.events_listen),
        ("relay.listen", "--relay-listen", args.relay_listen),
    ] {
        if let Some(address) = address {
            flags.push((key.to_owned(), flag.to_owned(), address.to_string().into()));
        }
    }
    let inputs = context.surroundings.inputs(args.config.config.clone(), flags);
    let config = load(&inputs)?;
    let settings = config.settings;
    let logs = telemetry::init(settings.server.log_format, &settings.server.log_level)
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    raise_open_files(&settings, context.terminal);
    let greeting = Greeting {
        json: context.terminal.json,
        words: settings.server.log_format == LogFormat::Text && !context.terminal.quiet,
        program: context.surroundings.program.clone(),
        data_dir: std::path::absolute(&settings.server.data_dir)
            .unwrap_or_else(|_| settings.server.data_dir.clone())
            .display()
            .to_string(),
        auth: settings.auth.enabled,
    };
    let terminal = *context.terminal;
    let hooks = Hooks {
        version: version::RELEASE,
        logs,
        ready: Box::new(move |listeners| greeting.give(&terminal, listeners)),
        reload: Box::new(move || {
            config::load(&inputs).map(|config| config.settings).map_err(|problems| wrong(&problems))
        }),
        ..Hooks::none()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Exit::Failed, format!("no threads can be started: {error}"))
    })?;
    let served = runtime.block_on(handoff_server::serve::run(settings, hooks));
    // Whoever is told twice to stop does not wait for a disk that hangs.
    runtime.shutdown_background();
    served.map_err(|error| failed(&error))
}

/// Lets the process have as many files open as its settings may ask for, as far as it may.
fn raise_open_files(settings: &Settings, terminal: &Terminal) {
    let needed = files_needed(settings);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let Some(current) = current.filter(|current| *current < needed) else { return };
    let wanted = maximum.map_or(needed, |maximum| maximum.min(needed));
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        terminal
            .warn(&format!("only {current} files may be open, and no more can be had: {error}"));
    }
}

/// What is said once everything is up.
struct Greeting {
    json: bool,
    words: bool,
    program: String,
    data_dir: String,
    auth: bool,
}

#[derive(Serialize)]
struct Ready {
    event: &'static str,
    listeners: ReadyListeners,
}

#[derive(Serialize)]
struct ReadyListeners {
    http: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    events: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relay: Option<String>,
}

impl Greeting {
    fn give(self, terminal: &Terminal, listeners: &Listeners) {
        if self.words {
            terminal.talk(&self.text(listeners));
        }
        if self.json {
            let http = listeners.http.to_string();
            let events = listeners.events.map(|address| address.to_string());
            let relay = listeners.relay.map(|address| address.to_string());
            let ready = Ready { event: "ready", listeners: ReadyListeners { http, events, relay } };
            // Whoever does not read stdout is not waiting for it; the server serves all the same.
            drop(terminal.print_json(&ready));
        }
    }

    fn text(&self, listeners: &Listeners) -> String {
        let Self { program, data_dir, .. } = self;
        let scheme = if listeners.http_tls { "https" } else { "http" };
        let url = format!("{scheme}://{}", reachable(listeners.http));
        let mut text = format!("handoff {} is up; its data is in {data_dir}\n", version::RELEASE);
        text += &format!("  HTTP    {scheme}://{}\n", listeners.http);
        if let Some(events) = listeners.events {
            let tls = if listeners.events_tls { " (TLS)" } else { "" };
            text += &format!("  sevent  {events}{tls}\n");
        }
        if let Some(relay) = listeners.relay {
            let tls = if listeners.relay_tls { " (TLS)" } else { "" };
            text += &format!("  relay   {relay}{tls}\n");
        }
        if listeners.events.is_some() {
            text += "\nTry it in another terminal:\n";
            if url != DEFAULT_URL {
                text += &format!("  export HANDOFF_URL={url}\n");
            }
            if self.auth {
                text += "  export HANDOFF_TOKEN=…        # `handoff token create` on a stopped server makes the first\n";
            }
            text += &format!("  {program} event watch --type hello &\n");
            text += &format!(
                "  {program} event add --type hello --every 2s --times 3 \"hello, world\"\n"
            );
        }
        if io::stderr().is_terminal() {
            text += "\nStop it with Ctrl-C.\n";
        }
        text
    }
}

/// How a server's end is told. Its words say what to do already.
fn failed(error: &ServeError) -> Failure {
    let mut remedy = None;
    let (exit, more) = match error {
        ServeError::Start(StartError::Taken { address, .. }) => {
            let by = holder(address.port()).map(|by| format!("\n  note: it is {by}"));
            (Exit::Unavailable, by)
        }
        ServeError::Start(StartError::Directory(directory::Error::Disk { fault, .. })) => {
            remedy = Some(match fault.kind() {
                io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                    "a part of the path is a file; choose another with --data-dir or server.data_dir"
                }
                _ => error.code().remedy(),
            });
            (Exit::Failed, None)
        }
        ServeError::Start(error) => match error.code() {
            // Somebody else has it for now, or there is no space for now.
            Code::DirectoryInUse | Code::DiskFull => (Exit::Unavailable, None),
            _ => (Exit::Failed, None),
        },
        // A supervisor starts it again, and it recovers.
        _ => (Exit::Failed, None),
    };
    let reference = Some(error.code().text().to_owned());
    let remedy = remedy.map(str::to_owned);
    Failure {
        remedy,
        reference,
        ..Failure::new(exit, format!("{error}{}", more.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Greeting, Ready, ReadyListeners};
    use handoff_server::serve::Listeners;

    #[test]
    fn the_ready_line_is_as_others_rely_on_it() {
        let ready = |events, relay| Ready {
            event: "ready",
            listeners: ReadyListeners { http: "127.0.0.1:7070".to_owned(), events, relay },
        };
        let at = |port: u16| Some(format!("127.0.0.1:{port}"));
        let line = serde_json::to_string(&ready(at(5987), at(7071))).unwrap();
        assert_eq!(
            line,
            r#"{"event":"ready","listeners":{"http":"127.0.0.1:7070","events":"127.0.0.1:5987","relay":"127.0.0.1:7071"}}"#
        );
        let line = serde_json::to_string(&ready(None, None)).unwrap();
        assert_eq!(line, r#"{"event":"ready","listeners":{"http":"127.0.0.1:7070"}}"#);
    }

    #[test]
    fn the_greeting_has_lines_to_copy() {
        let greeting = Greeting {
            json: false,
            words: true,
            program: "target/release/handoff".to_owned(),
            data_dir: "handoff-data".to_owned(),
            auth: false,
        };
        let listeners = |http: &str| Listeners {
            http: http.parse().unwrap(),
            http_tls: false,
            events: Some("127.0.0.1:5987".parse().unwrap()),
            events_tls: false,
            relay: Some("127.0.0.1:7071".parse().unwrap()),
            relay_tls: false,
        };
        let text = greeting.text(&listeners("127.0.0.1:7070"));
        assert!(text.contains("target/release/handoff event add"), "{text}");
        assert!(!text.contains("HANDOFF_URL"), "the default needs no variable: {text}");
        let text = greeting.text(&listeners("0.0.0.0:8080"));
        assert!(text.contains("export HANDOFF_URL=http://127.0.0.1:8080"), "{text}");
    }
}
