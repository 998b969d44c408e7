//! What each command does.

mod audit;
mod bench;
mod call;
mod calls;
mod config;
mod consume;
mod dead;
mod doctor;
mod event;
mod exchange;
mod group;
mod health;
mod links;
mod printer;
mod produce;
mod progress;
mod read;
mod relay;
mod serve;
mod stopping;
mod through;
mod token;
mod topic;
mod version;
mod worker;

use std::future::Future;
use std::time::SystemTime;

use clap::CommandFactory as _;
use handoff_sdk::Time;
use handoff_sdk::streams::Start;
use handoff_types::Code;

use crate::cli::{Cli, Global, Noun};
use crate::clock;
use crate::config::{Config, Inputs, Problem};
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::surroundings::Surroundings;
use crate::terminal::Terminal;

/// What every command is given.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    /// The flags that every command takes.
    pub(crate) global: &'a Global,
    /// Where words go.
    pub(crate) terminal: &'a Terminal,
    /// The environment.
    pub(crate) surroundings: &'a Surroundings,
}

/// Does what was asked.
///
/// # Errors
/// [`Failure`], with words.
pub(crate) fn run(
    cli: Cli,
    terminal: &Terminal,
    surroundings: &Surroundings,
) -> Result<(), Failure> {
    let Cli { global, noun } = cli;
    let context = Context { global: &global, terminal, surroundings };
    match noun {
        Noun::Serve(args) => serve::run(context, args),
        Noun::Event(verb) => wait(event::run(context, verb)),
        Noun::Topic(verb) => wait(topic::run(context, verb)),
        Noun::Produce(args) => wait(produce::run(context, args)),
        Noun::Read(args) => wait(read::run(context, args)),
        Noun::Consume(args) => wait(consume::run(context, args)),
        Noun::Group(verb) => wait(group::run(context, verb)),
        Noun::Dead(verb) => wait(dead::run(context, verb)),
        Noun::Exchange(verb) => wait(exchange::run(context, verb)),
        Noun::Call(args) => wait(call::run(context, args)),
        Noun::Worker(args) => wait(worker::run(context, args)),
        Noun::Calls(args) => wait(calls::run(context, args)),
        Noun::Relay(verb) => relay::run(context, verb),
        Noun::Token(verb) => token::run(context, verb),
        Noun::Audit(args) => wait(audit::run(context, args)),
        Noun::Config(verb) => config::run(context, verb),
        Noun::Doctor(args) => doctor::run(context, args),
        Noun::Health(args) => wait(health::run(context, args)),
        Noun::Bench { what } => bench::run(context, &what),
        Noun::Completions { shell } => completions(terminal, shell),
        Noun::Version => version::run(terminal),
    }
}

/// A moment of the calendar that a flag names.
///
/// # Errors
/// [`Exit::Usage`], with an example.
fn moment(text: &str, flag: &str) -> Result<Time, Failure> {
    match text.parse::<jiff::Timestamp>() {
        Ok(moment) => Ok(Time::new(moment.to_string())),
        Err(_) => Err(Failure::new(Exit::Usage, format!("`{text}` is no time for {flag}"))
            .remedy(format!("write it as in {flag} 2027-01-01T00:00:00Z"))),
    }
}

/// A place in a topic that a flag names: earliest, latest, an offset, a time, a length of time ago.
///
/// # Errors
/// [`Exit::Usage`], with an example; also for an offset of which nobody says the partition.
fn place(text: &str, flag: &str, offsets: bool) -> Result<Start, Failure> {
    match text {
        "earliest" => return Ok(Start::Earliest),
        "latest" => return Ok(Start::Latest),
        _ => {}
    }
    if let Ok(offset) = text.parse() {
        if !offsets {
            let what = "an offset is one of a partition, and nobody says of which";
            return Err(Failure::new(Exit::Usage, what).remedy("say --partition too, or a time"));
        }
        return Ok(Start::Offset(offset));
    }
    if let Ok(ago) = duration::parse(text) {
        let then = clock::wall().checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
        return Ok(Start::Time(Time::from(then)));
    }
    moment(text, flag).map(Start::Time).map_err(|_| {
        let what = format!("`{text}` is no place for {flag}");
        let places = "earliest, latest, an offset, 2027-01-01T00:00:00Z or 90m (ago)";
        Failure::new(Exit::Usage, what).remedy(format!("say {flag} with one of: {places}"))
    })
}

/// Waits for what a client does. One thread is enough to wait.
///
/// # Errors
/// Those of the work.
pub(crate) fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| {
        Failure::new(Exit::Failed, format!("nothing can be waited for: {error}"))
    })?;
    runtime.block_on(work)
}

fn completions(terminal: &Terminal, shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "handoff", &mut script);
    terminal.print(&String::from_utf8_lossy(&script))
}

/// The configuration, or everything that is wrong with it in one failure.
///
/// # Errors
/// [`Exit::Failed`]
pub(crate) fn load(inputs: &Inputs) -> Result<Config, Failure> {
    crate::config::load(inputs).map_err(|problems| {
        let remedy = "mend it; `handoff config check` says the same without starting anything";
        wrong_in(&problems, remedy)
    })
}

/// Everything that is wrong with a configuration in one failure.
fn wrong_in(problems: &[Problem], remedy: &str) -> Failure {
    let failure = Failure::new(Exit::Failed, wrong(problems)).remedy(remedy);
    Failure { reference: Some(code(problems).text().to_owned()), ..failure }
}

/// What all of it is, if it is all the same.
pub(crate) fn code(problems: &[Problem]) -> Code {
    match problems {
        [first, rest @ ..] if rest.iter().all(|problem| problem.code == first.code) => first.code,
        _ => Code::ConfigInvalid,
    }
}

/// Everything that is wrong, in words.
pub(crate) fn wrong(problems: &[Problem]) -> String {
    let head = match problems.len() {
        1 => "the configuration has a problem:".to_owned(),
        n => format!("the configuration has {n} problems:"),
    };
    problems.iter().fold(head, |text, problem| format!("{text}\n{problem}"))
}
