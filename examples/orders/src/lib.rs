//! What the programs of this example have in common: how they find their server, and how they end.

use std::error::Error as StdError;
use std::process::ExitCode;

use handoff_sdk::streams::NewTopic;
use handoff_sdk::{Client, Error, Options};

/// Whatever goes wrong, in words.
pub type Failure = Box<dyn StdError + Send + Sync>;

/// The server that the environment names: `HANDOFF_URL` and `HANDOFF_TOKEN`.
///
/// # Errors
/// [`Error`] if the URL or the token cannot be used.
pub fn client() -> Result<Client, Error> {
    let url = std::env::var("HANDOFF_URL").unwrap_or_else(|_| "http://127.0.0.1:7070".to_owned());
    let mut options = Options::new(url);
    if let Ok(token) = std::env::var("HANDOFF_TOKEN") {
        options = options.token(token);
    }
    Client::new(options)
}

/// Makes a topic, unless it is there.
///
/// # Errors
/// [`Error`]
///
/// # Cancel safety
/// The topic may have been made.
pub async fn topic(client: &Client, name: &str, partitions: u32) -> Result<(), Error> {
    match client.streams().create(&NewTopic::new(name).partitions(partitions)).await {
        Err(error) if error.code() == Some("streams.topic_exists") => Ok(()),
        made => made.map(drop),
    }
}

/// Ends a program: nothing to say, or what went wrong on stderr.
#[allow(clippy::print_stderr, reason = "a program for people to watch")]
#[must_use]
pub fn end(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
