//! A caller, a consumer or a guardian of calls on Redis, for whoever wants to kill or freeze it. See
//! [`handoff_tests::node`].

use clap::Parser;
use handoff_tests::node::{Arguments, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("node: {wrong}");
            ExitCode::FAILURE
        }
    }
}
