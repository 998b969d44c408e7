//! Runs seeds of the simulator: `cargo run -p handoff-sim -- --seeds 1000 --from 1`.
//!
//! The table on stdout is data, everything on stderr is talk. Exits 1 at the first seed that
//! fails, with the command that shows it again.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Parser;
use handoff_sim::history::{Census, Keep, Kind};
use handoff_sim::scenario::{Scenario, run};

/// How many seeds pass between two lines of talk.
const TALK_EVERY: u64 = 100;

/// Runs worlds from seeds and checks them after every step.
#[derive(Debug, Parser)]
#[command(name = "handoff-sim")]
struct Options {
    /// How many seeds to run
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// One world only
    #[arg(long)]
    scenario: Option<Scenario>,
    /// How many steps each seed has
    #[arg(long)]
    steps: Option<u64>,
    /// Prints everything that happens
    #[arg(long)]
    trace: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let scenarios = options.scenario.map_or(Scenario::ALL.to_vec(), |one| vec![one]);
    for scenario in scenarios {
        match run_seeds(scenario, &options) {
            Ok(table) => print(&table),
            Err(failure) => {
                eprintln!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn run_seeds(scenario: Scenario, options: &Options) -> Result<String, String> {
    let keep = if options.trace { Keep::All } else { Keep::Last };
    let steps = options.steps.unwrap_or(scenario.steps());
    let mut census = Census::default();
    for done in 0..options.seeds {
        let seed = options.from.wrapping_add(done);
        let history = run(scenario, seed, steps, keep).map_err(|failure| failure.to_string())?;
        if options.trace {
            history.lines().for_each(|line| eprintln!("{line}"));
            eprintln!("seed {seed} of {}: {:016x}", scenario.name(), history.hash());
        } else if (done + 1).is_multiple_of(TALK_EVERY) {
            eprintln!("{}: {} of {} seeds", scenario.name(), done + 1, options.seeds);
        }
        census.merge(history.census());
    }
    Ok(table(scenario, options, &census))
}

/// Commands by outcome, then everything else that happened.
fn table(scenario: Scenario, options: &Options, census: &Census) -> String {
    let mut table = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| {
        table.push_str(&text.to_string());
        table.push('\n');
    };
    let (seeds, steps) = (options.seeds, census.total(Kind::Step));
    line(format_args!("{}: {seeds} seeds from {}, {steps} steps", scenario.name(), options.from));
    let outcomes = [Kind::Sent, Kind::Acknowledged, Kind::Repeated, Kind::Refused, Kind::Unknown];
    line(format_args!(
        "{:<28}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "command", "sent", "done", "repeated", "refused", "unknown"
    ));
    for (command, _) in census.of_kind(Kind::Sent) {
        let mut row = format!("{command:<28}");
        for outcome in outcomes {
            if write!(row, "{:>10}", census.of(outcome, command)).is_err() {
                row.push('?');
            }
        }
        line(format_args!("{row}"));
    }
    let others = [
        (Kind::Refusal, "refusals"),
        (Kind::Performed, "actions"),
        (Kind::Injected, "faults injected"),
        (Kind::Broker, "brokers"),
        (Kind::NotAdmitted, "not admitted"),
        (Kind::Storage, "storage"),
        (Kind::Restart, "restarts"),
    ];
    for (kind, title) in others.into_iter().filter(|(kind, _)| census.total(*kind) > 0) {
        line(format_args!("{title:<28}{:>10}", census.total(kind)));
        for (what, count) in census.of_kind(kind) {
            line(format_args!("  {what:<26}{count:>10}"));
        }
    }
    table
}

#[expect(clippy::print_stdout, reason = "the table is what this program is asked for")]
fn print(table: &str) {
    print!("{table}");
}
