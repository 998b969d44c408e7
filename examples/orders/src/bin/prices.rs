//! Answers questions for prices: the answer is stored in the same step as the question is done.

#![allow(clippy::print_stdout, reason = "a program for people to watch")]

use std::process::ExitCode;

use handoff_example_orders::{Failure, client, end, topic};
use handoff_sdk::streams::ConsumerOptions;

#[tokio::main]
async fn main() -> ExitCode {
    end(run().await)
}

async fn run() -> Result<(), Failure> {
    let client = client()?;
    topic(&client, "price-questions", 1).await?;
    let options = ConsumerOptions::new("prices").topic("price-questions").client("example");
    let mut consumer = client.streams().consumer(options).await?;
    println!("answering; stop with Ctrl-C");
    loop {
        let question = tokio::select! {
            // Both may be dropped: a consumer loses nothing by it.
            question = consumer.next() => question,
            _ = tokio::signal::ctrl_c() => break,
        };
        let Some(question) = question else { break };
        let question = question?;
        let what = String::from_utf8_lossy(&question.message.payload);
        let price = format!("{what} costs {}", what.len());
        match consumer.reply(&question, price.clone()).await {
            Ok(_) => println!("{price}"),
            // It will be asked again, or somebody else has answered.
            Err(error) if error.is_fenced() => {}
            Err(error) => return Err(error.into()),
        }
    }
    consumer.leave().await?;
    Ok(())
}
