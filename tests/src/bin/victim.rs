//! The counter room on the real disk, for whoever wants to kill it. See [`handoff_tests::victim`].

use clap::Parser;
use handoff_tests::victim::{Arguments, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(end) => {
            eprintln!("victim: {end}");
            ExitCode::from(end.exit_code())
        }
    }
}
