//! Runs benchmarks: `handoff-bench bench log`, as `handoff bench log` will.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use handoff_bench::Failed;
use handoff_bench::log::{self, Part, Plan};

/// Something failed on the way.
const FAILED: u8 = 1;
/// Nothing was begun; the words say what to change.
const REFUSED: u8 = 4;

#[derive(Debug, Parser)]
#[command(name = "handoff-bench", about = "Measures Handoff against floors of the same run")]
struct Cli {
    #[command(subcommand)]
    noun: Noun,
}

#[derive(Debug, Subcommand)]
enum Noun {
    /// Measure what this machine gives
    Bench {
        #[command(subcommand)]
        what: What,
    },
}

#[derive(Debug, Subcommand)]
enum What {
    /// The journal and its segments, against plain group commit on the same disk
    Log(LogArgs),
}

#[derive(Debug, Args)]
struct LogArgs {
    /// Write into a fresh directory in this one; it is removed at the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// How long each measurement runs, in seconds
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: Duration,
    /// Everything once and short: shows that it works, the figures mean little
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Measure one part only
    #[arg(long, value_name = "PART")]
    only: Option<PartName>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PartName {
    Callers,
    Bulk,
    Neighbours,
    Recovery,
}

impl From<PartName> for Part {
    fn from(name: PartName) -> Self {
        match name {
            PartName::Callers => Self::Callers,
            PartName::Bulk => Self::Bulk,
            PartName::Neighbours => Self::Neighbours,
            PartName::Recovery => Self::Recovery,
        }
    }
}

fn main() -> ExitCode {
    let Noun::Bench { what: What::Log(args) } = Cli::parse().noun;
    match measure_log(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            talk(&failed.to_string());
            ExitCode::from(if failed.is_refusal() { REFUSED } else { FAILED })
        }
    }
}

fn measure_log(args: &LogArgs) -> Result<(), Failed> {
    let plan = if args.quick { Plan::quick(&args.dir) } else { Plan::of(&args.dir, args.seconds) };
    let plan = args.only.map_or(plan.clone(), |part| plan.only(part.into()));
    let report = log::run(&plan, &talk)?;
    if args.json {
        print(&serde_json::to_string(&report).map_err(std::io::Error::from)?);
    } else {
        print(report.to_string().trim_end());
    }
    Ok(())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.1..=60.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("must be from 0.1 to 60".to_owned())
    }
}

#[expect(clippy::print_stdout, reason = "data goes to stdout")]
fn print(data: &str) {
    println!("{data}");
}

fn talk(words: &str) {
    eprintln!("{words}");
}
