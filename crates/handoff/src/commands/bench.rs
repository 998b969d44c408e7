//! `handoff bench`

use super::Context;
use crate::exit::{Exit, Failure};

/// Measures what is asked; where a server is measured, it is this same program.
pub(super) fn run(context: Context<'_>, what: &handoff_bench::cli::What) -> Result<(), Failure> {
    let terminal = context.terminal;
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Failed, format!("this program does not find itself: {error}"))
    })?;
    let report = handoff_bench::cli::run(what, &program, &|words| terminal.talk(words)).map_err(
        |failed| {
            let exit = if failed.is_refusal() { Exit::Refused } else { Exit::Failed };
            Failure::new(exit, failed.to_string())
        },
    )?;
    if terminal.json {
        terminal.print_json(&report)
    } else {
        terminal.print(report.to_string().trim_end())
    }
}
