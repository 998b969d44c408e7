//! Asks for prices and waits for the answers.

#![allow(clippy::print_stdout, reason = "a program for people to watch")]

use std::process::ExitCode;
use std::time::Duration;

use handoff_example_orders::{Failure, client, end, topic};
use handoff_sdk::streams::RequesterOptions;

#[tokio::main]
async fn main() -> ExitCode {
    end(run().await)
}

async fn run() -> Result<(), Failure> {
    let client = client()?;
    topic(&client, "price-questions", 1).await?;
    let options = RequesterOptions::new().timeout(Duration::from_secs(10));
    let requester = client.streams().requester(options).await?;
    for what in std::env::args().skip(1) {
        let answer = requester.request("price-questions", what).await?;
        println!("{}", String::from_utf8_lossy(&answer.payload));
    }
    // It takes the topic of its answers with it.
    requester.close().await?;
    Ok(())
}
