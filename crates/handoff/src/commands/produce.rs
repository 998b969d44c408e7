//! `handoff produce`

mod input;
mod progress;

use std::collections::VecDeque;
use std::time::Duration;

use handoff_sdk::streams::{
    Delivery, Message, Producer, ProducerOptions, Scope, SendError, Sent, Status,
};
use handoff_sdk::{Outcome, Time};
use tokio::time::{Instant, sleep_until};

use self::input::{Input, Piece, Source};
use self::progress::Progress;
use super::{Context, moment};
use crate::cli::ProduceArgs;
use crate::clock;
use crate::config::bytes;
use crate::exit::{Exit, Failure};
use crate::terminal::{List, Terminal, counted};

/// Sends messages and waits until each is answered.
pub(super) async fn run(context: Context<'_>, args: ProduceArgs) -> Result<(), Failure> {
    let terminal = context.terminal;
    let shape = Shape::of(&args)?;
    let source = match (args.messages, args.files) {
        (messages, _) if !messages.is_empty() => Source::Arguments(messages),
        (_, files) => Source::Files { files, whole: args.whole },
    };
    let shows = terminal.json || matches!(source, Source::Arguments(_));
    let mut input = Input::open(source)?;
    let client = context.surroundings.client(context.global)?;
    let mut options = ProducerOptions::new();
    match args.producer {
        // It counts as it did before.
        Some(guid) => options = options.producer(guid),
        None => options = options.scope(Scope::Topic).name("handoff produce"),
    }
    if let Some(batch) = args.batch {
        options = options.batch_messages_max(usize::try_from(batch).unwrap_or(usize::MAX));
    }
    let producer = client.streams().producer(options).await.map_err(Failure::of_change)?;
    let columns = &["status", "partition", "offset", "id"];
    let list = shows.then(|| terminal.list(columns));
    let progress = Progress::new(terminal, input.bytes());
    let mut sending = Sending {
        producer,
        topic: args.topic,
        deliveries: VecDeque::new(),
        list,
        progress,
        tally: Tally::default(),
        failure: None,
    };
    let sent = sending.all(&mut input, &shape, args.rate).await;
    sending.progress.clear();
    if let Some(list) = sending.list.take() {
        list.finish()?;
    }
    summary(terminal, &sending.tally, &sending.topic);
    sent?;
    match sending.failure {
        Some(error) => Err(failure(&error, &sending.tally)),
        None => Ok(()),
    }
}

/// What all messages have in common.
struct Shape {
    key: Option<String>,
    separator: Option<String>,
    headers: Vec<(String, String)>,
    partition: Option<u32>,
    deliver_at: Option<Time>,
    ttl: Option<Duration>,
}

impl Shape {
    fn of(args: &ProduceArgs) -> Result<Self, Failure> {
        let deliver_at = match (&args.deliver_at, args.after) {
            (Some(text), _) => Some(moment(text, "--deliver-at")?),
            (None, Some(after)) => {
                let due = clock::wall().checked_add(after).ok_or_else(|| {
                    Failure::new(Exit::Usage, "--in is longer than a clock can tell")
                })?;
                Some(Time::from(due))
            }
            (None, None) => None,
        };
        Ok(Self {
            key: args.key.clone(),
            separator: args.key_separator.clone(),
            headers: args.headers.clone(),
            partition: args.partition,
            deliver_at,
            ttl: args.ttl,
        })
    }

    /// A message of some octets. A line without the separator has no key.
    fn message(&self, mut octets: Vec<u8>) -> Message {
        let mut key = self.key.clone().map(String::into_bytes);
        if let Some(separator) = &self.separator {
            let separator = separator.as_bytes();
            let at = octets.windows(separator.len()).position(|window| window == separator);
            if let Some(at) = at {
                let payload = octets.split_off(at + separator.len());
                octets.truncate(at);
                key = Some(std::mem::replace(&mut octets, payload));
            }
        }
        let mut message = Message::new(octets);
        for (name, value) in &self.headers {
            message = message.header(name.clone(), value.clone());
        }
        message.key = key.map(Into::into);
        message.partition = self.partition;
        message.deliver_at.clone_from(&self.deliver_at);
        message.ttl = self.ttl;
        message
    }
}

/// What became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    stored: u64,
    duplicates: u64,
    scheduled: u64,
    failed: u64,
    unknown: u64,
    bytes: u64,
}

struct Sending {
    producer: Producer,
    topic: String,
    /// In the order they were sent.
    deliveries: VecDeque<(Delivery, u64)>,
    list: Option<List>,
    progress: Progress,
    tally: Tally,
    failure: Option<SendError>,
}

impl Sending {
    /// Sends everything. After the first failure nothing more is read.
    async fn all(
        &mut self,
        input: &mut Input,
        shape: &Shape,
        rate: Option<f64>,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        let mut taken: u64 = 0;
        let mut open = true;
        loop {
            let reads = open && self.failure.is_none();
            if !reads && self.deliveries.is_empty() {
                return Ok(());
            }
            let at = rate.map_or(begun, |rate| due(begun, taken, rate));
            tokio::select! {
                // All of these may be dropped: a delivery keeps its answer, a piece stays in its
                // queue, and a time comes again.
                biased;
                answered = next(&mut self.deliveries) => self.answered(answered)?,
                piece = async { sleep_until(at).await; input.next().await }, if reads => match piece {
                    Some(Ok(piece)) => {
                        taken += 1;
                        self.send(shape, piece).await?;
                    }
                    Some(Err(failure)) => {
                        self.rest().await?;
                        return Err(failure);
                    }
                    None => open = false,
                },
            }
        }
    }

    async fn send(&mut self, shape: &Shape, piece: Piece) -> Result<(), Failure> {
        let Piece { octets, read } = piece;
        let length = u64::try_from(octets.len()).unwrap_or(u64::MAX);
        let sending = self.producer.send(&self.topic, shape.message(octets)).await;
        match sending {
            Ok(delivery) => self.deliveries.push_back((delivery, length)),
            Err(error) => self.failed(error),
        }
        self.progress.read(read);
        Ok(())
    }

    /// Waits for what was sent.
    async fn rest(&mut self) -> Result<(), Failure> {
        while !self.deliveries.is_empty() {
            let answered = next(&mut self.deliveries).await;
            self.answered(answered)?;
        }
        Ok(())
    }

    fn answered(&mut self, (result, bytes): (Result<Sent, SendError>, u64)) -> Result<(), Failure> {
        let sent = match result {
            Ok(sent) => sent,
            Err(error) => {
                self.failed(error);
                return Ok(());
            }
        };
        match sent.status {
            Status::Duplicate => self.tally.duplicates += 1,
            Status::Scheduled => self.tally.scheduled += 1,
            _ => self.tally.stored += 1,
        }
        self.tally.bytes += bytes;
        self.progress.stored(self.tally.stored + self.tally.duplicates + self.tally.scheduled);
        let Some(list) = &mut self.list else { return Ok(()) };
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |n| n.to_string());
        let status = serde_json::to_value(sent.status).unwrap_or_default();
        let cells = [
            status.as_str().unwrap_or("-").to_owned(),
            number(sent.partition.map(u64::from)),
            number(sent.offset),
            sent.id.clone().unwrap_or_else(|| "-".to_owned()),
        ];
        list.row(&cells, &sent)
    }

    fn failed(&mut self, error: SendError) {
        self.tally.failed += 1;
        if error.outcome() == Outcome::Unknown {
            self.tally.unknown += 1;
        }
        self.failure.get_or_insert(error);
    }
}

/// The oldest answer, when it is there. It stays if this is dropped.
async fn next(deliveries: &mut VecDeque<(Delivery, u64)>) -> (Result<Sent, SendError>, u64) {
    let Some((delivery, bytes)) = deliveries.front_mut() else {
        return std::future::pending().await;
    };
    let (result, bytes) = (delivery.await, *bytes);
    deliveries.pop_front();
    (result, bytes)
}

/// When a message may go.
fn due(begun: Instant, taken: u64, rate: f64) -> Instant {
    let count = u32::try_from(taken).map_or(f64::from(u32::MAX), f64::from);
    Duration::try_from_secs_f64(count / rate).map_or(begun, |after| begun + after)
}

fn summary(terminal: &Terminal, tally: &Tally, topic: &str) {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let messages = counted(count(tally.stored), "message");
    let mut words = format!("{messages} stored in {topic}, {}", bytes::about(tally.bytes));
    for (number, what) in [
        (tally.scheduled, "scheduled"),
        (tally.duplicates, "stored before"),
        (tally.failed - tally.unknown, "not stored"),
        (tally.unknown, "perhaps stored"),
    ] {
        if number > 0 {
            words += &format!(", {number} {what}");
        }
    }
    terminal.talk(&words);
}

fn failure(error: &SendError, tally: &Tally) -> Failure {
    let failure = match error.error() {
        Some(cause) => Failure::of(cause),
        None => Failure::new(Exit::Refused, error.to_string()),
    };
    let failure = match error.remedy() {
        Some(remedy) if failure.remedy.is_none() => failure.remedy(remedy),
        _ => failure,
    };
    if tally.unknown == 0 {
        return failure;
    }
    // "Try again later" would be an invitation to store it twice.
    let remedy = "some may be stored: read the topic before you send them again";
    Failure { exit: Exit::Failed, ..failure }.remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::Shape;

    fn shape(separator: &str) -> Shape {
        Shape {
            key: None,
            separator: Some(separator.to_owned()),
            headers: Vec::new(),
            partition: None,
            deliver_at: None,
            ttl: None,
        }
    }

    #[test]
    fn a_line_is_parted_at_its_first_separator() {
        for (line, key, payload) in [
            ("k:v:w", Some("k"), "v:w"),
            (":v", Some(""), "v"),
            ("k:", Some("k"), ""),
            ("plain", None, "plain"),
            ("", None, ""),
        ] {
            let message = shape(":").message(line.as_bytes().to_vec());
            assert_eq!(message.key.as_deref(), key.map(str::as_bytes), "{line}");
            assert_eq!(message.payload, payload, "{line}");
        }
        let message = shape("=>").message(b"a=b=>c".to_vec());
        assert_eq!((message.key.as_deref(), &*message.payload), (Some(&b"a=b"[..]), &b"c"[..]));
    }
}
