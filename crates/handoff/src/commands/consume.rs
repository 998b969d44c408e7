//! `handoff consume`

mod handler;

use std::time::Duration;

use handoff_sdk::Client;
use handoff_sdk::streams::{Commit, Consumer, ConsumerOptions, Delivered, Notice, Notices};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use self::handler::Handler;
use super::printer::Printer;
use super::read::cells;
use super::stopping::listen;
use super::{Context, place};
use crate::cli::ConsumeArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{Terminal, counted};

/// How many are taken at once if nobody says.
const BATCH: u32 = 100;

/// How long a lease is if the server does not say.
const LEASE: Duration = Duration::from_secs(30);

/// Takes messages, prints them or runs a command for each, and commits them.
pub(super) async fn run(context: Context<'_>, args: ConsumeArgs) -> Result<(), Failure> {
    let terminal = context.terminal;
    let options = options(&args)?;
    let client = context.surroundings.client(context.global)?;
    let mut consumer = client.streams().consumer(options).await?;
    let (group, url) = (&args.group, client.url());
    terminal.talk(&format!("consuming for group {group} on {url}; stop with Ctrl-C"));
    let notices = consumer.notices();
    let work = match &args.exec {
        Some(command) => {
            let lease = lease(&client, &args.group).await;
            Work::Run(Handler::new(terminal, command, &args, lease))
        }
        None => Work::Print(Printer::new(terminal, args.output_format, None)),
    };
    let stop = listen();
    let commits = !args.no_commit;
    let mut consuming = Consuming { terminal, consumer, notices, stop, work, commits, count: 0 };
    let ended = consuming.all(args.max.unwrap_or(u64::MAX), args.idle).await;
    let Consuming { consumer, count, .. } = consuming;
    // A name to come back under is kept for its session: leaving would give its partitions away.
    let left = if args.instance.is_some() { Ok(()) } else { consumer.leave().await };
    let count = counted(usize::try_from(count).unwrap_or(usize::MAX), "message");
    terminal.talk(&format!("{count} consumed by group {}", args.group));
    ended?;
    if let Err(error) = left {
        terminal.warn(&format!("the group could not be left in order: {error}"));
    }
    Ok(())
}

fn options(args: &ConsumeArgs) -> Result<ConsumerOptions, Failure> {
    let usual = if args.exec.is_some() { 1 } else { BATCH };
    let most = args.max.and_then(|max| u32::try_from(max).ok()).unwrap_or(u32::MAX);
    // More than will be printed would only come back, one attempt older.
    let batch = args.batch.unwrap_or(usual).min(most);
    let mut options =
        ConsumerOptions::new(&args.group).client("handoff consume").max_messages(batch);
    for topic in &args.topics {
        options = options.topic(topic);
    }
    if let Some(name) = &args.instance {
        options = options.instance(name);
    }
    if let Some(text) = &args.from {
        options = options.from(place(text, "--from", true)?);
    }
    if let Some(time) = args.session_timeout {
        options = options.session_timeout(time);
    }
    Ok(options)
}

/// How long the group gives for a message. Whoever may consume may not be allowed to look.
async fn lease(client: &Client, group: &str) -> Duration {
    let shown = client.streams().groups().show(group).await.ok();
    shown.and_then(|group| group.lease_ms).map_or(LEASE, Duration::from_millis)
}

enum Work<'a> {
    Print(Printer),
    Run(Handler<'a>),
}

struct Consuming<'a> {
    terminal: &'a Terminal,
    consumer: Consumer,
    notices: Option<Notices>,
    stop: watch::Receiver<bool>,
    work: Work<'a>,
    commits: bool,
    count: u64,
}

impl Consuming<'_> {
    async fn all(&mut self, mut left: u64, idle: Option<Duration>) -> Result<(), Failure> {
        while left > 0 && !*self.stop.borrow() {
            let Some(mut messages) = self.next(idle).await? else { return Ok(()) };
            messages.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left = left.saturating_sub(u64::try_from(messages.len()).unwrap_or(left));
            self.work(&messages).await?;
        }
        Ok(())
    }

    /// The next messages. None: it is told to stop, or nothing came for too long.
    async fn next(&mut self, idle: Option<Duration>) -> Result<Option<Vec<Delivered>>, Failure> {
        let Self { terminal, consumer, notices, stop, work, .. } = self;
        let single = matches!(work, Work::Run(_));
        let until = idle.map(|idle| Instant::now() + idle);
        loop {
            let told = async {
                match notices {
                    Some(notices) => notices.next().await,
                    None => std::future::pending().await,
                }
            };
            let turn = async {
                // All of them may be dropped: a consumer loses nothing by it, nor do its notices,
                // and that it is told to stop stays so.
                tokio::select! {
                    messages = next(consumer, single) => Turn::Messages(messages),
                    Some(notice) = told => Turn::Notice(notice),
                    _ = stop.wait_for(|stop| *stop) => Turn::Stop,
                }
            };
            let turn = match until {
                Some(until) => timeout_at(until, turn).await.unwrap_or(Turn::Stop),
                None => turn.await,
            };
            match turn {
                Turn::Messages(Some(messages)) => return Ok(Some(messages?)),
                Turn::Messages(None) => {
                    let what = "the group does not take this consumer any more";
                    return Err(Failure::new(Exit::Unavailable, what));
                }
                Turn::Notice(notice) => tell(terminal, &notice),
                Turn::Stop => return Ok(None),
            }
        }
    }

    async fn work(&mut self, messages: &[Delivered]) -> Result<(), Failure> {
        match &mut self.work {
            Work::Print(printer) => {
                for message in messages {
                    printer.print(&line(message), message, &message.message.payload)?;
                }
                // What nobody could read must be delivered again.
                printer.flush()?;
                if self.commits {
                    let commit = messages.iter().map(Delivered::ok).collect();
                    settle(self.terminal, &self.consumer, commit).await?;
                }
                self.count += u64::try_from(messages.len()).unwrap_or_default();
            }
            Work::Run(handler) => {
                for message in messages {
                    if *self.stop.borrow() {
                        break;
                    }
                    let verdict = handler.run(&self.consumer, message).await?;
                    settle(self.terminal, &self.consumer, verdict.into()).await?;
                    self.count += 1;
                }
            }
        }
        Ok(())
    }
}

type Taken = Result<Vec<Delivered>, handoff_sdk::Error>;

/// What is next: one message, or many that are committed together. One by one if each may be a
/// retry: then others that came with it are not to be worked on before it.
async fn next(consumer: &mut Consumer, single: bool) -> Option<Taken> {
    if single {
        return consumer.next().await.map(|message| message.map(|message| vec![message]));
    }
    let batch = consumer.next_batch().await;
    batch.map(|batch| batch.map(|batch| batch.into_messages().collect()))
}

enum Turn {
    Messages(Option<Taken>),
    Notice(Notice),
    Stop,
}

/// Commits. What belongs to somebody else by now is no reason to end.
async fn settle(terminal: &Terminal, consumer: &Consumer, commit: Commit) -> Result<(), Failure> {
    match consumer.commit(commit).await {
        Ok(committed) => {
            for range in committed.fenced() {
                again(
                    terminal,
                    &format!(
                        "{} {}: offsets {} to {}",
                        range.topic, range.partition, range.from, range.to
                    ),
                );
            }
            Ok(())
        }
        Err(error) if error.is_fenced() => {
            again(terminal, "what was printed last");
            Ok(())
        }
        Err(error) => Err(Failure::of(&error.cause)),
    }
}

fn again(terminal: &Terminal, what: &str) {
    terminal.warn(&format!("{what}: the lease was over before the commit; delivered again"));
}

fn tell(terminal: &Terminal, notice: &Notice) {
    match notice {
        Notice::Assigned { assignment, .. } => {
            let all: Vec<String> =
                assignment.iter().map(|one| format!("{} {}", one.topic, one.partition)).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            terminal.talk(&format!("partitions now: {all}"));
        }
        Notice::Gone => terminal.talk("taken for dead by the server; joining again"),
        Notice::Rejoined { member, .. } => terminal.talk(&format!("joined again as {member}")),
        Notice::Interrupted { cause } => terminal.talk(&format!("{cause}; trying again")),
        Notice::Reconnected => terminal.talk("connected again"),
        _ => {}
    }
}

fn line(message: &Delivered) -> Vec<String> {
    let topic = [message.topic().to_owned()];
    topic.into_iter().chain(cells(&message.message)).collect()
}
