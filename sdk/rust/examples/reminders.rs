//! Reminds of something after some seconds: registers an event and waits for it.
//!
//! ```text
//! cargo run --release -- serve                                                 # in one terminal
//! cargo run -p handoff-sdk --example reminders -- 5 "the tea is ready"         # in another
//! ```
//!
//! `HANDOFF_URL` and `HANDOFF_TOKEN` say which server and with which token.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for people to watch")]

use std::process::ExitCode;
use std::time::Duration;

use handoff_sdk::events::{Backoff, Filter, NewEvent, Notice, WatchOptions};
use handoff_sdk::{Client, Error, Options};

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(seconds) = arguments.next().and_then(|text| text.parse().ok()) else {
        eprintln!("usage: reminders SECONDS WORDS");
        return ExitCode::from(2);
    };
    let words = arguments.collect::<Vec<_>>().join(" ");
    match remind(Duration::from_secs(seconds), &words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            if let Some(remedy) = error.remedy() {
                eprintln!("what to do: {remedy}");
            }
            ExitCode::FAILURE
        }
    }
}

async fn remind(after: Duration, words: &str) -> Result<(), Error> {
    let url = std::env::var("HANDOFF_URL").unwrap_or_else(|_| "http://127.0.0.1:7070".to_owned());
    let mut options = Options::new(url);
    if let Ok(token) = std::env::var("HANDOFF_TOKEN") {
        options = options.token(token);
    }
    let client = Client::new(options)?;

    // Watched first and registered then, so that it cannot occur unseen. By its type and not by its
    // id: once it has occurred it is gone, and a watch of an event that is gone is refused.
    let reconnect = WatchOptions::new().reconnect(Backoff::default());
    let mut watch =
        client.events().watch_with(Filter::new().of_type("reminder"), reconnect).await?;
    let event = NewEvent::every(after, words).of_type("reminder").times(1);
    let registered = client.events().register(&event).await?;
    println!("event {} is registered, and on disk", registered.id);

    while let Some(notice) = watch.next().await {
        match notice? {
            Notice::Occurred(occurrence) if occurrence.id == registered.id => {
                println!("{}", occurrence.description);
                return Ok(());
            }
            Notice::Interrupted { cause } => eprintln!("{cause}; connecting again"),
            Notice::Reconnected { .. } => {
                // It may have occurred while nobody listened.
                match client.events().get(registered.id).await {
                    Ok(event) => eprintln!("connected again, still to come at {:?}", event.next_at),
                    Err(error) if error.code() == Some("event_not_found") => {
                        println!("{words} (missed while the connection was down)");
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            _ => {}
        }
    }
    Ok(())
}
