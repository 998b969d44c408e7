//! Sends orders: each is stored once, whatever is lost on the way.

#![allow(clippy::print_stdout, reason = "a program for people to watch")]

use std::process::ExitCode;

use handoff_example_orders::{Failure, client, end, topic};
use handoff_sdk::streams::{Message, ProducerOptions};

#[tokio::main]
async fn main() -> ExitCode {
    let orders = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    end(run(orders).await)
}

async fn run(orders: u32) -> Result<(), Failure> {
    let client = client()?;
    topic(&client, "orders", 3).await?;
    let producer = client.streams().producer(ProducerOptions::new().name("shop")).await?;
    for order in 1..=orders {
        // Orders of one customer keep their order.
        let customer = format!("customer-{}", order % 7);
        let message = Message::new(format!("{order} cups of tea for {customer}")).key(customer);
        // What becomes of it is told by the flush.
        drop(producer.send("orders", message).await?);
    }
    producer.flush().await?;
    println!("{orders} orders are on disk");
    Ok(())
}
