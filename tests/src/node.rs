//! A caller, a consumer or a guardian of calls on Redis as a process of its own. It says on stdout what
//! it does, line by line, and ends when its stdin does.

use std::io::{self, Write};

use bytes::Bytes;
use clap::{Parser, ValueEnum};
use handoff_calls::Outcome;
use handoff_store_redis::{Client, Guardian, Job, Options, Request, Service};
use tokio::io::{AsyncBufReadExt, BufReader};

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Says `begun CALL ATTEMPT FENCE` and echoes; what contains `hold` it never answers.
    Consumer,
    /// For every line on stdin, calls with it and says `ended LINE ANSWER`.
    Caller,
    /// Says `guards` or `idle` when that changes.
    Guardian,
}

/// How it is started.
#[derive(Debug, Parser)]
pub struct Arguments {
    /// Where Redis is
    #[arg(long)]
    address: String,
    /// What it is
    #[arg(long)]
    role: Role,
    /// The channel it serves or calls
    #[arg(long, default_value = "work")]
    channel: String,
    /// How many calls at once
    #[arg(long, default_value_t = 16)]
    concurrency: u32,
}

/// Does it until stdin ends.
///
/// # Errors
/// Words, when it cannot.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        match arguments.role {
            Role::Guardian => guardian(arguments).await,
            Role::Consumer => consumer(arguments).await,
            Role::Caller => caller(arguments).await,
        }
    })
}

fn say(line: &str) {
    let mut out = io::stdout().lock();
    // Whoever listened is gone, and this process will be, too.
    writeln!(out, "{line}").and_then(|()| out.flush()).unwrap_or_default();
}

/// Lines of stdin, read on a thread of their own.
fn lines() -> tokio::io::Lines<BufReader<tokio::io::Stdin>> {
    BufReader::new(tokio::io::stdin()).lines()
}

async fn until_stdin_ends() {
    let mut lines = lines();
    while let Ok(Some(_)) = lines.next_line().await {}
}

async fn guardian(arguments: &Arguments) -> Result<(), String> {
    let options = Options { name: "guardian".to_owned(), ..Options::default() };
    let mut guardian =
        Guardian::start(&arguments.address, options).await.map_err(|error| error.to_string())?;
    let watch = async {
        loop {
            guardian.guards(true).await;
            say("guards");
            guardian.guards(false).await;
            say("idle");
        }
    };
    tokio::select! {
        () = watch => {}
        () = until_stdin_ends() => {}
    }
    Ok(())
}

async fn consumer(arguments: &Arguments) -> Result<(), String> {
    let channel = arguments.channel.parse().map_err(|error| format!("{error}"))?;
    let service = Service::new(channel, arguments.concurrency, |job: Job| async move {
        say(&format!("begun {} {} {}", job.call, job.attempt, job.fence));
        let holds = job.params.windows(4).any(|window| window == b"hold");
        if holds {
            std::future::pending::<()>().await;
        }
        Ok(job.params)
    });
    let options = Options { name: "consumer".to_owned(), ..Options::default() };
    let client = Client::connect(&arguments.address, options, vec![service]).await;
    let client = client.map_err(|error| error.to_string())?;
    say(&format!("here {}", client.id()));
    until_stdin_ends().await;
    Ok(())
}

async fn caller(arguments: &Arguments) -> Result<(), String> {
    let channel: handoff_calls::ChannelName =
        arguments.channel.parse().map_err(|error| format!("{error}"))?;
    let options = Options { name: "caller".to_owned(), ..Options::default() };
    let client = Client::connect(&arguments.address, options, Vec::new()).await;
    let client = client.map_err(|error| error.to_string())?;
    say(&format!("here {}", client.id()));
    let mut lines = lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let (client, channel) = (client.clone(), channel.clone());
        tokio::spawn(async move {
            let request = Request::new(channel, Bytes::from(line.clone()));
            let end = match client.call(request).await {
                Ok(answer) => match answer.outcome {
                    Outcome::Answer(body) => String::from_utf8_lossy(&body).into_owned(),
                    other => format!("{other:?}"),
                },
                Err(error) => error.to_string(),
            };
            say(&format!("ended {line} {end}"));
        });
    }
    Ok(())
}
