//! `handoff`: the one program. Reads arguments, environment and configuration, and puts the rest
//! together; nothing else in the workspace does.

mod cli;
mod clock;
mod commands;
mod config;
mod doctor;
mod duration;
mod exit;
mod surroundings;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::Cli;
use crate::surroundings::Surroundings;
use crate::terminal::Terminal;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let surroundings = Surroundings::of_process();
    let terminal = Terminal::of_process(
        cli.global.json,
        cli.global.quiet,
        cli.global.yes,
        surroundings.is_set("NO_COLOR"),
    );
    match commands::run(cli, &terminal, &surroundings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            terminal.fail(&failure);
            failure.exit.into()
        }
    }
}
