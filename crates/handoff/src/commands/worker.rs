//! `handoff worker`

mod child;
mod exec;
mod lines;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use handoff_sdk::calls::{Channel, HandlerError, Job, Link, WorkerOptions};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use self::exec::Exec;
use self::lines::Lines;
use super::Context;
use super::links::tell_links;
use super::stopping::listen;
use super::through::Place;
use crate::cli::WorkerArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// Serves channels until it is told to stop.
pub(super) async fn run(context: Context<'_>, args: WorkerArgs) -> Result<(), Failure> {
    let terminal = *context.terminal;
    let mut stop = listen();
    let place = Place::of(context, &args.through)?;
    let desk = Arc::new(Desk {
        terminal,
        how: How::of(&args)?,
        max: args.max.unwrap_or(u64::MAX),
        done: AtomicU64::new(0),
        enough: Notify::new(),
    });
    let most = args.max.and_then(|max| u32::try_from(max).ok()).unwrap_or(u32::MAX);
    let mut worker = place.worker(WorkerOptions::new().name(&args.name));
    for name in &args.channels {
        let desk = Arc::clone(&desk);
        let channel = Channel::new(name).concurrency(args.concurrency.min(most));
        worker = worker.serve(channel, move |params: Box<RawValue>, job: Job| {
            let desk = Arc::clone(&desk);
            async move { desk.work(params, job).await }
        });
    }
    let serving = worker.start().await?;
    terminal.talk(&format!("serving {}", args.channels.join(", ")));
    let links = serving.links();
    let talking = tokio::spawn(tell_links(terminal, links.clone()));
    // All of them may be dropped: what they tell stays so.
    let over = tokio::select! {
        _ = stop.wait_for(|stop| *stop) => None,
        () = desk.enough.notified() => None,
        why = over(links) => Some(why),
    };
    talking.abort();
    if let Some(why) = over {
        return Err(Failure::new(Exit::Refused, format!("the server does not take it: {why}")));
    }
    let running = serving.drain(args.drain).await;
    let done = usize::try_from(desk.done.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    terminal.talk(&format!("{} served", counted(done, "call")));
    if running > 0 {
        let what = format!("{} did not end in time and was left", counted(running, "call"));
        return Err(Failure::new(Exit::Failed, what).remedy("allow more with --drain"));
    }
    Ok(())
}

/// Waits until there will be no connection any more, and gives why.
async fn over(mut links: handoff_sdk::calls::Links) -> String {
    while let Some(link) = links.next().await {
        if let Link::Over { why: Some(why) } = link {
            return why;
        }
    }
    "the session ended".to_owned()
}

/// How a call is answered.
enum How {
    Exec(Exec),
    Lines(Lines),
}

impl How {
    fn of(args: &WorkerArgs) -> Result<Self, Failure> {
        match (&args.exec, &args.lines) {
            (Some(command), _) => Ok(Self::Exec(Exec::new(command, args))),
            (None, Some(command)) => Ok(Self::Lines(Lines::new(command, args))),
            (None, None) => Err(Failure::new(Exit::Usage, "--exec or --lines is missing")),
        }
    }
}

/// Where calls are worked on, and counted.
struct Desk {
    terminal: Terminal,
    how: How,
    max: u64,
    done: AtomicU64,
    enough: Notify,
}

impl Desk {
    async fn work(&self, params: Box<RawValue>, job: Job) -> Result<Box<RawValue>, HandlerError> {
        let result = match &self.how {
            How::Exec(exec) => exec.run(&params, &job).await,
            How::Lines(lines) => lines.run(&params, &job).await,
        };
        let place = format!("{} {} (attempt {})", job.channel(), job.id(), job.attempt());
        if let Err(error) = &result {
            self.terminal.talk(&format!("{place}: {error}"));
        }
        if self.terminal.json {
            let error = result.as_ref().err().map(ToString::to_string);
            // Nobody who reads it is left: the work goes on all the same.
            drop(self.terminal.print_json(&json!({
                "id": job.id(), "channel": job.channel(), "attempt": job.attempt(),
                "fence": job.fence(), "error": error,
            })));
        }
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 >= self.max {
            self.enough.notify_one();
        }
        result
    }
}
