//! Works on orders as a member of the group `warehouse`: an order is done and its bill is written
//! in one step, so there is one bill for each order, whoever crashes. Start as many as you like.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people to watch")]

use std::process::ExitCode;

use handoff_example_orders::{Failure, client, end, topic};
use handoff_sdk::streams::{
    Commit, Consumer, ConsumerOptions, Delivered, Message, Notice, Notices,
};

#[tokio::main]
async fn main() -> ExitCode {
    end(run().await)
}

async fn run() -> Result<(), Failure> {
    let client = client()?;
    topic(&client, "orders", 3).await?;
    topic(&client, "bills", 1).await?;
    let mut options = ConsumerOptions::new("warehouse").topic("orders").client("example");
    if let Some(name) = std::env::args().nth(1) {
        // After a restart it has the partitions that it had.
        options = options.instance(name);
    }
    let mut consumer = client.streams().consumer(options).await?;
    if let Some(notices) = consumer.notices() {
        tokio::spawn(tell(notices));
    }
    println!("working as {:?}; stop with Ctrl-C", consumer.member());
    loop {
        let order = tokio::select! {
            // Both may be dropped: a consumer loses nothing by it.
            order = consumer.next() => order,
            _ = tokio::signal::ctrl_c() => break,
        };
        let Some(order) = order else { break };
        work(&consumer, &order?).await?;
    }
    // What it has not done goes to others at once.
    consumer.leave().await?;
    Ok(())
}

async fn work(consumer: &Consumer, order: &Delivered) -> Result<(), Failure> {
    let what = String::from_utf8_lossy(&order.message.payload);
    let commit = if what.trim().is_empty() {
        // It will never be any better: to the dead letters, with the reason.
        Commit::of(order.failed("an order without anything in it"))
    } else {
        let mut bill = Message::new(format!("bill: {what}"));
        bill.key.clone_from(&order.message.key);
        Commit::of(order.ok()).produce("bills", bill)
    };
    match consumer.commit(commit).await {
        Ok(_) => println!("{}:{} {what}", order.message.partition, order.message.offset),
        // Somebody else has it by now, and nothing was billed here.
        Err(error) if error.is_fenced() => eprintln!("too late for {what}: {error}"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

async fn tell(mut notices: Notices) {
    while let Some(notice) = notices.next().await {
        match notice {
            Notice::Assigned { gained, lost, .. } => {
                eprintln!("{} partitions more, {} fewer", gained.len(), lost.len());
            }
            Notice::Interrupted { cause } => eprintln!("{cause}; trying again"),
            Notice::Reconnected => eprintln!("connected again"),
            Notice::Gone => eprintln!("taken for dead; joining again"),
            _ => {}
        }
    }
}
