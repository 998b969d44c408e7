//! `handoff relay run`

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;

use handoff_relay_agent::{AgentError, Hooks, Outside};
use handoff_server::clock::Clock;
use handoff_server::dice::Dice;
use handoff_server::settings::{LogFormat, Tls};
use handoff_server::telemetry;
use handoff_server::tls::Certificates;
use handoff_types::Code;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::cli::RelayRunArgs;
use crate::commands::{Context, doctor::reachable, stopping, version, wrong_in};
use crate::config::relay::{self, PLACES, RelayConfig};
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

/// Threads of an agent besides the one that has to do with its disk.
const THREADS: usize = 2;

/// Runs an agent until it is told to stop.
pub(super) fn run(context: Context<'_>, args: RelayRunArgs) -> Result<(), Failure> {
    let mut flags = Vec::new();
    for (key, value) in args.assignments {
        flags.push((key, "--set".to_owned(), value.into()));
    }
    if let Some(dir) = args.data_dir {
        flags.push(("agent.data_dir".to_owned(), "--data-dir".to_owned(), dir.into()));
    }
    if let Some(listen) = args.listen {
        let address = listen.to_string();
        flags.push(("agent.listen".to_owned(), "--listen".to_owned(), address.into()));
    }
    let mut inputs = context.surroundings.inputs(args.config, flags);
    inputs.places = PLACES.iter().map(Into::into).collect();
    let config = relay::load(&inputs).map_err(|problems| wrong_in(&problems, "mend it"))?;
    telemetry::init(config.log_format, &config.log_level)
        .map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    let outside = outside()?;
    let tls = match (&config.tls_cert_file, &config.tls_key_file) {
        (Some(cert_file), Some(key_file)) => {
            let files = Tls { cert_file: cert_file.clone(), key_file: key_file.clone() };
            let held = Certificates::load(&files);
            let held = held.map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
            Some(held.server_config(&[b"http/1.1"]))
        }
        _ => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Exit::Failed, format!("no threads can be started: {error}"))
    })?;
    let greeting = Greeting::new(&config, *context.terminal, tls.is_some());
    let settings = config.settings;
    let ran = runtime.block_on(async {
        let stop = CancellationToken::new();
        let mut told = stopping::listen();
        let stopping = stop.clone();
        tokio::spawn(async move {
            // Its end without a word is no signal.
            if told.wait_for(|told| *told).await.is_ok() {
                stopping.cancel();
            }
        });
        let ready = Box::new(move |address| greeting.give(address));
        handoff_relay_agent::run(settings, Hooks { outside, tls, ready, stop }).await
    });
    // Whoever is told to stop does not wait for a disk that hangs.
    runtime.shutdown_background();
    ran.map_err(|error| failed(&error))
}

/// The clock and the dice of this process.
pub(super) fn outside() -> Result<Outside, Failure> {
    let clock = Clock::resume(None);
    let dice = Dice::new().map_err(|error| Failure::new(Exit::Failed, error.to_string()))?;
    Ok(Outside::new(move || clock.now(), move || dice.roll()))
}

/// What is said once everything is up.
struct Greeting {
    terminal: Terminal,
    words: bool,
    text: String,
    scheme: &'static str,
}

impl Greeting {
    fn new(config: &RelayConfig, terminal: Terminal, tls: bool) -> Self {
        let settings = &config.settings;
        let data_dir = std::path::absolute(&settings.data_dir);
        let data_dir = data_dir.unwrap_or_else(|_| settings.data_dir.clone());
        let mut text = format!(
            "handoff {} relays as {}; what it cannot deliver is kept in {}\n",
            version::RELEASE,
            settings.name,
            data_dir.display()
        );
        for one in &settings.destinations {
            text += &format!("  to    {} ({})\n", one.name, one.address);
        }
        let words = config.log_format == LogFormat::Text && !terminal.quiet;
        Self { terminal, words, text, scheme: if tls { "https" } else { "http" } }
    }

    fn give(self, address: SocketAddr) {
        let Self { terminal, words, mut text, scheme } = self;
        if words {
            let url = format!("{scheme}://{}/api/v1/write", reachable(address));
            text += &format!("  from  remote_write: [{{url: {url}}}]\n");
            if io::stderr().is_terminal() {
                text += "\nStop it with Ctrl-C.\n";
            }
            terminal.talk(&text);
        }
        if terminal.json {
            let ready = json!({ "event": "ready", "listeners": { "http": address.to_string() } });
            // Whoever does not read stdout is not waiting for it.
            drop(terminal.print_json(&ready));
        }
    }
}

/// How an agent's end is told. Its words say what to do already.
fn failed(error: &AgentError) -> Failure {
    let exit = match error.code() {
        Code::PortTaken | Code::DirectoryInUse | Code::DiskFull => Exit::Unavailable,
        _ => Exit::Failed,
    };
    let reference = Some(error.code().text().to_owned());
    Failure { reference, ..Failure::new(exit, error.to_string()) }
}
