//! A consumer of a group, for whoever wants to kill or freeze it. See [`handoff_tests::consumer`].

use clap::Parser;
use handoff_tests::consumer::{Arguments, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("consumer: {wrong}");
            ExitCode::FAILURE
        }
    }
}
