//! A program that keeps samples, for whoever wants to kill it. See [`handoff_tests::keeper`].

use clap::Parser;
use handoff_tests::keeper::{Arguments, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("keeper: {wrong}");
            ExitCode::FAILURE
        }
    }
}
