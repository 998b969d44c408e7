//! `handoff read`

use std::time::SystemTime;

use handoff_sdk::Client;
use handoff_sdk::streams::{Lost, ReadQuery, Reader, Received, Start, TailOptions, Told, Topic};

use super::printer::Printer;
use super::{Context, place};
use crate::cli::ReadArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::Terminal;

const COLUMNS: &[&str] = &["partition", "offset", "time", "key", "message"];

/// Prints messages.
pub(super) async fn run(context: Context<'_>, args: ReadArgs) -> Result<(), Failure> {
    let terminal = context.terminal;
    let start = start(&args)?;
    let client = context.surroundings.client(context.global)?;
    let mut printer = Printer::new(terminal, args.output_format, (!args.follow).then_some(COLUMNS));
    let left = args.limit.unwrap_or(u64::MAX);
    if args.follow {
        follow(&client, terminal, &args, start, &mut printer, left).await?;
    } else {
        let count = browse(&client, terminal, &args, &start, &mut printer, left).await?;
        if count == 0 {
            terminal.talk("there is nothing to read");
        }
    }
    printer.finish()
}

/// Where to begin.
fn start(args: &ReadArgs) -> Result<Start, Failure> {
    let Some(text) = args.from.as_deref() else {
        return Ok(if args.follow { Start::Latest } else { Start::Earliest });
    };
    place(text, "--from", args.partition.is_some())
}

/// Prints what is there now. All partitions at once are merged by the times of their messages.
async fn browse(
    client: &Client,
    terminal: &Terminal,
    args: &ReadArgs,
    start: &Start,
    printer: &mut Printer,
    mut left: u64,
) -> Result<u64, Failure> {
    let topic = client.streams().topic(&args.topic).await?;
    let mut lines = open(client, &topic, args, start);
    let mut count = 0;
    for line in &mut lines {
        line.step(terminal).await?;
    }
    while left > 0 {
        let first = lines.iter_mut().filter(|line| line.head.is_some());
        let Some(line) = first.min_by_key(|line| (line.time, line.number)) else { break };
        if let Some(message) = line.head.take() {
            printer.print(&cells(&message), &message, &message.payload)?;
            count += 1;
            left -= 1;
        }
        if left > 0 {
            line.step(terminal).await?;
        }
    }
    Ok(count)
}

/// The partitions to be read, as far as they go now.
fn open(client: &Client, topic: &Topic, args: &ReadArgs, start: &Start) -> Vec<Line> {
    let wanted = |number: u32| args.partition.is_none_or(|only| only == number);
    let query = |number: u32, start: Start| {
        let query = ReadQuery::new(&args.topic, number).from(start);
        match &args.key {
            Some(key) => query.key(key),
            None => query,
        }
    };
    let mut lines = Vec::new();
    for partition in topic.partition_list.iter().filter(|p| wanted(p.partition)) {
        let (number, end) = (partition.partition, partition.end);
        if *start == Start::Latest || partition.start >= end {
            continue;
        }
        let reader = client.streams().reader(query(number, start.clone()));
        lines.push(Line { number, end, reader, head: None, time: None });
    }
    if let Some(only) = args.partition.filter(|only| *only >= topic.partitions) {
        // The server says best that there is no such partition.
        let reader = client.streams().reader(query(only, Start::Earliest));
        lines.push(Line { number: only, end: u64::MAX, reader, head: None, time: None });
    }
    lines
}

/// One partition, and its next message.
struct Line {
    number: u32,
    /// Messages from here on came later.
    end: u64,
    reader: Reader,
    head: Option<Received>,
    /// When the head got its offset.
    time: Option<SystemTime>,
}

impl Line {
    async fn step(&mut self, terminal: &Terminal) -> Result<(), Failure> {
        let next = self.reader.next().await.transpose()?;
        for lost in self.reader.take_corrupt() {
            damaged(terminal, self.number, lost);
        }
        self.head = next.filter(|message| message.offset < self.end);
        self.time = self.head.as_ref().and_then(|message| message.timestamp.to_system_time());
        Ok(())
    }
}

/// Prints what is there and what comes.
async fn follow(
    client: &Client,
    terminal: &Terminal,
    args: &ReadArgs,
    start: Start,
    printer: &mut Printer,
    mut left: u64,
) -> Result<(), Failure> {
    let mut options = TailOptions::new().from(start);
    if let Some(partition) = args.partition {
        options = options.partition(partition);
    }
    if let Some(key) = &args.key {
        options = options.key(key);
    }
    let mut tail = client.streams().tail(&args.topic, options).await?;
    terminal.talk(&format!("following {} on {}; stop with Ctrl-C", args.topic, client.url()));
    while left > 0 {
        let told = tokio::select! {
            // Both may be dropped: a tail loses nothing by it, a signal is told again.
            told = tail.next() => told,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        match told {
            Some(Ok(Told::Message(message))) => {
                printer.print(&cells(&message), &message, &message.payload)?;
                printer.flush()?;
                left -= 1;
            }
            Some(Ok(Told::Trimmed { partition, lost })) => terminal.warn(&format!(
                "partition {partition}: offsets {} to {} were past their retention",
                lost.from, lost.to
            )),
            Some(Ok(Told::Corrupt { partition, lost })) => damaged(terminal, partition, lost),
            Some(Ok(Told::Interrupted { cause })) => {
                terminal.talk(&format!("{cause}; connecting again"));
            }
            Some(Ok(Told::Reconnected)) => terminal.talk("connected again; nothing is missing"),
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error.into()),
            None => return Err(Failure::new(Exit::Unavailable, "the server ended the tail")),
        }
    }
    Ok(())
}

fn damaged(terminal: &Terminal, partition: u32, lost: Lost) {
    terminal.warn(&format!(
        "partition {partition}: the server's disk does not give back offsets {} to {}",
        lost.from, lost.to
    ));
}

/// A message as a line of columns.
pub(super) fn cells(message: &Received) -> [String; 5] {
    let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
    [
        message.partition.to_string(),
        message.offset.to_string(),
        message.timestamp.to_string(),
        message.key.as_deref().map_or_else(|| "-".to_owned(), text),
        text(&message.payload),
    ]
}
