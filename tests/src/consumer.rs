//! A consumer of a group as a process of its own, made to be killed and frozen.
//!
//! ```text
//!  stdin: at 127.0.0.1:4711 ──▶ joins, polls, commits ──▶ stdout: a word for everything it was
//!         calm; ok, retry, failed                                handed, asks and is told
//! ```
//!
//! * Whatever it was handed it says before it does anything with it, and whatever it asks before it
//!   asks: whoever listens knows what a consumer that is killed may have done.
//! * A server that is gone is followed by another, whose address comes on stdin.
//! * The end of stdin is the end of the consumer: it leaves its group.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use handoff_sim::dice::Dice;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock;
use crate::http::{Answer, Http};
use crate::member::{self, Batch, Member, Outcome, Verdict};
use crate::served::PATIENCE;

/// Where copies of messages go that are stored with a commit.
pub const COPIES: &str = "copies";

/// One in so many messages is copied.
pub const COPIED: u64 = 3;

/// Lines that wait on stdin.
const LINES_MAX: usize = 64;

/// How long a server that has no time is left alone.
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// How a consumer is started.
#[derive(Clone, Debug, clap::Parser)]
pub struct Arguments {
    /// The group it joins
    #[arg(long)]
    pub group: String,
    /// What it reads; what the group reads if absent
    #[arg(long = "topic")]
    pub topics: Vec<String>,
    /// What it says it is
    #[arg(long, default_value = "")]
    pub client: String,
    /// For how long it may be silent
    #[arg(long, default_value_t = 30_000)]
    pub session_ms: u64,
    /// How many messages it takes at once at most
    #[arg(long, default_value_t = 40)]
    pub messages_max: u64,
    /// Its chance
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Waits for a line with what to say of what it was handed, instead of drawing it
    #[arg(long)]
    pub obedient: bool,
}

/// What a consumer says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Word {
    /// It is in.
    Joined {
        /// Under this id.
        member: String,
    },
    /// It was handed something.
    Got {
        /// What.
        batches: Vec<Got>,
    },
    /// It commits.
    Asks {
        /// The number of the commit, its own count.
        commit: u64,
        /// What it says.
        results: Vec<Verdict>,
    },
    /// A commit was taken.
    Told {
        /// Which.
        commit: u64,
        /// What became of it.
        results: Vec<Outcome>,
        /// It had been asked before, and nobody knows what became of that.
        again: bool,
    },
    /// A commit was refused, and nothing of it is.
    Refused {
        /// Which.
        commit: u64,
        /// Why.
        code: String,
        /// It had been asked before, and nobody knows what became of that.
        again: bool,
    },
    /// The server says that it is not in the group any more.
    Gone,
    /// It left.
    Left,
}

/// Messages that it was handed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Got {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: u32,
    /// The first offset.
    pub base: u64,
    /// How often they were handed out.
    pub attempt: u32,
    /// Under which lease.
    pub lease: u64,
    /// The messages.
    pub messages: Vec<Message>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its key.
    pub key: Option<String>,
    /// What its payload begins with.
    pub head: String,
    /// The checksum of all of it.
    pub crc: u32,
}

/// Why a consumer stopped what it was doing.
#[derive(Debug)]
enum Failure {
    /// The server is gone, or has no time.
    Cut,
    /// It says what it should not.
    Wrong(String),
    /// There is nothing more on stdin.
    Over,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Self::Cut
    }
}

/// Something that must not happen.
#[derive(Debug)]
pub struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a message is copied with the commit that finishes it.
#[must_use]
pub fn is_copied(offset: u64) -> bool {
    offset.is_multiple_of(COPIED)
}

/// What the copy of a message says.
#[must_use]
pub fn copy_of(group: &str, topic: &str, partition: u32, offset: u64) -> String {
    format!("{group} {topic} {partition} {offset}")
}

/// Consumes until stdin ends.
///
/// # Errors
/// [`Wrong`] when the server says what it should not.
pub fn run(arguments: &Arguments) -> Result<(), Wrong> {
    let (heard, lines) = sync_channel(LINES_MAX);
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if heard.send(line).is_err() {
                return;
            }
        }
    });
    let mut consumer = Consumer {
        arguments,
        dice: Dice::new(arguments.seed),
        lines,
        server: None,
        http: None,
        member: None,
        commits: 0,
        sequence: 1,
        unanswered: None,
        calm: false,
    };
    loop {
        match consumer.step() {
            Ok(()) => {}
            Err(Failure::Cut) => consumer.http = None,
            Err(Failure::Over) => {
                // A server that is gone forgets it by itself.
                drop(consumer.leave());
                return Ok(());
            }
            Err(Failure::Wrong(words)) => return Err(Wrong(words)),
        }
    }
}

/// A commit that can be said again.
#[derive(Clone, Debug)]
struct Commit {
    number: u64,
    results: Vec<Verdict>,
    produce: Option<Value>,
}

struct Consumer<'a> {
    arguments: &'a Arguments,
    dice: Dice,
    lines: Receiver<String>,
    server: Option<SocketAddr>,
    http: Option<Http>,
    member: Option<Member>,
    commits: u64,
    /// Of its producer.
    sequence: u64,
    unanswered: Option<Commit>,
    /// Everything goes well from now on.
    calm: bool,
}

impl Consumer<'_> {
    fn step(&mut self) -> Result<(), Failure> {
        self.hear_news()?;
        self.connect()?;
        if self.member.is_none() {
            self.join()?;
        }
        if let Some(commit) = self.unanswered.take() {
            self.commit(&commit, true)?;
        }
        let more = match self.arguments.obedient {
            true => json!({ "maxMessages": self.arguments.messages_max, "waitMs": 500 }),
            false => json!({
                "maxMessages": 1 + self.dice.below(self.arguments.messages_max),
                "waitMs": self.dice.below(100),
            }),
        };
        let polled = self.ask(|member, http| member.poll(http, &more))?;
        let Some(answer) = polled else { return Ok(()) };
        let batches = Batch::all(&answer).map_err(wrong)?;
        if batches.is_empty() {
            return Ok(());
        }
        self.say(&Word::Got { batches: batches.iter().map(got).collect() });
        match self.arguments.obedient {
            true => self.obey(&batches),
            false => self.work(&batches),
        }
    }

    /// Takes what came on stdin meanwhile.
    fn hear_news(&mut self) -> Result<(), Failure> {
        loop {
            match self.lines.recv_timeout(Duration::ZERO) {
                Ok(line) => drop(self.heard(&line)?),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
                Err(RecvTimeoutError::Disconnected) => return Err(Failure::Over),
            }
        }
    }

    /// Waits for a line; gives what it was told to say, if that is what it was.
    fn hear(&mut self) -> Result<Option<String>, Failure> {
        let line = self.lines.recv().map_err(|_| Failure::Over)?;
        self.heard(&line)
    }

    fn heard(&mut self, line: &str) -> Result<Option<String>, Failure> {
        if line == "calm" {
            self.calm = true;
            return Ok(None);
        }
        let Some(address) = line.strip_prefix("at ") else { return Ok(Some(line.to_owned())) };
        let address = address.parse().map_err(|_| Failure::Wrong(format!("no address: {line}")))?;
        if self.server != Some(address) {
            self.server = Some(address);
            self.http = None;
        }
        Ok(None)
    }

    fn connect(&mut self) -> Result<(), Failure> {
        while self.http.is_none() {
            let Some(server) = self.server else {
                self.hear()?;
                continue;
            };
            match Http::connect(server, PATIENCE) {
                Ok(http) => self.http = Some(http),
                // It is gone for good; the next one is somewhere else.
                Err(_) => self.server = None,
            }
        }
        Ok(())
    }

    fn join(&mut self) -> Result<(), Failure> {
        let Arguments { group, topics, client, session_ms, .. } = self.arguments;
        let more = json!({ "topics": topics, "client": client, "sessionTimeoutMs": session_ms });
        let http = self.http.as_mut().ok_or(Failure::Cut)?;
        let answer = member::join(http, group, &more)?;
        if answer.status >= 500 {
            return self.busy();
        }
        let member = Member::of(group, &answer).map_err(wrong)?;
        self.say(&Word::Joined { member: member.id.clone() });
        self.member = Some(member);
        Ok(())
    }

    /// Asks as a member. None: it is none any more.
    fn ask(
        &mut self,
        ask: impl FnOnce(&Member, &mut Http) -> io::Result<Answer>,
    ) -> Result<Option<Answer>, Failure> {
        let http = self.http.as_mut().ok_or(Failure::Cut)?;
        let member = self.member.as_ref().ok_or(Failure::Cut)?;
        let answer = ask(member, http)?;
        if answer.status >= 500 {
            self.busy()?;
        }
        if member::code(&answer) == "streams.member_gone" {
            self.member = None;
            self.say(&Word::Gone);
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// The server stops, or has no time for this.
    fn busy(&mut self) -> Result<(), Failure> {
        match self.lines.recv_timeout(BUSY_PAUSE) {
            Ok(line) => drop(self.heard(&line)?),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::Over),
        }
        Err(Failure::Cut)
    }

    fn obey(&mut self, batches: &[Batch]) -> Result<(), Failure> {
        let said = loop {
            if let Some(said) = self.hear()? {
                break said;
            }
        };
        self.connect()?;
        let results = batches.iter().map(|batch| batch.verdict(&said)).collect();
        self.commit_new(results, None)
    }

    /// Does what consumers do, and what they should not.
    fn work(&mut self, batches: &[Batch]) -> Result<(), Failure> {
        if !self.calm && self.dice.one_in(80) {
            // Forgotten: the lease will be over.
            return Ok(());
        }
        if !self.calm && self.dice.one_in(8) {
            // So much work that its session may be over before it is done.
            let millis = self.dice.below(2 * self.arguments.session_ms);
            self.toil(Duration::from_millis(millis))?;
        }
        if !self.calm && self.dice.one_in(12) {
            let extended = batches.iter().map(|batch| batch.verdict("extend")).collect();
            self.commit_new(extended, None)?;
        }
        let (mut plain, mut copied) = (Vec::new(), Vec::new());
        for batch in batches {
            for offset in batch.offsets() {
                let status = match self.dice.below(100) {
                    _ if self.calm => "ok",
                    0..4 => "failed",
                    4..12 => "retry",
                    _ => "ok",
                };
                let results = match status {
                    "ok" if is_copied(offset) => &mut copied,
                    _ => &mut plain,
                };
                let mut verdict = batch.part(offset, offset, status);
                if status == "retry" && self.dice.one_in(2) {
                    verdict.delay_ms = Some(self.dice.below(60));
                }
                add(results, verdict);
            }
        }
        let copies = self.copies(&copied);
        if !copied.is_empty() && self.dice.one_in(2) {
            self.commit_new(copied, Some(copies))?;
            return self.commit_new(plain, None);
        }
        self.commit_new(plain, None)?;
        self.commit_new(copied, Some(copies))
    }

    /// Takes its time. Servers may come and go meanwhile.
    fn toil(&mut self, time: Duration) -> Result<(), Failure> {
        let begun = clock();
        loop {
            match self.lines.recv_timeout(time.saturating_sub(begun.elapsed())) {
                Ok(line) => drop(self.heard(&line)?),
                Err(RecvTimeoutError::Timeout) => return self.connect(),
                Err(RecvTimeoutError::Disconnected) => return Err(Failure::Over),
            }
        }
    }

    /// What is stored with the commit of these. Half of all consumers number what they store, and
    /// say it again when nobody answered.
    fn copies(&mut self, results: &[Verdict]) -> Value {
        let group = &self.arguments.group;
        let of = |result: &Verdict| {
            let Verdict { topic, partition, from, to, .. } = result.clone();
            (from..=to).map(move |offset| copy_of(group, &topic, partition, offset))
        };
        let messages: Vec<Value> =
            results.iter().flat_map(of).map(|text| json!({ "payload": text })).collect();
        if !self.is_numbered() {
            return json!([{ "topic": COPIES, "messages": messages }]);
        }
        let sequence = self.sequence;
        self.sequence += messages.len() as u64;
        let seed = self.arguments.seed;
        let producer = format!("{:08x}-0000-4000-9000-{:012x}", seed >> 32, seed & 0xffff_ffff);
        json!([{
            "topic": COPIES, "producer": producer, "sequence": sequence, "messages": messages,
        }])
    }

    fn is_numbered(&self) -> bool {
        self.arguments.seed.is_multiple_of(2)
    }

    fn commit_new(&mut self, results: Vec<Verdict>, produce: Option<Value>) -> Result<(), Failure> {
        if results.is_empty() || self.member.is_none() {
            return Ok(());
        }
        self.commits += 1;
        let commit = Commit { number: self.commits, results, produce };
        self.say(&Word::Asks { commit: commit.number, results: commit.results.clone() });
        self.commit(&commit, false)
    }

    fn commit(&mut self, commit: &Commit, again: bool) -> Result<(), Failure> {
        // What is not numbered is not said twice if something is stored with it.
        if commit.produce.is_none() || self.is_numbered() {
            self.unanswered = Some(commit.clone());
        }
        let Commit { number, results, produce } = commit;
        let asked = self.ask(|member, http| member.commit(http, results, produce.as_ref()))?;
        self.unanswered = None;
        let Some(answer) = asked else { return Ok(()) };
        let word = match answer.status {
            200 => {
                let results = member::outcomes(&answer).map_err(wrong)?;
                Word::Told { commit: *number, results, again }
            }
            409 => Word::Refused { commit: *number, code: member::code(&answer), again },
            _ => return Err(Failure::Wrong(format!("a commit: {answer:?}"))),
        };
        self.say(&word);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Failure> {
        let left = self.ask(|member, http| member.leave(http))?;
        if left.is_some_and(|answer| answer.status == 200) {
            self.say(&Word::Left);
        }
        Ok(())
    }

    /// Says a word, whole or not at all.
    fn say(&self, word: &Word) {
        let mut line = serde_json::to_string(word).unwrap_or_default();
        line.push('\n');
        let mut stdout = io::stdout().lock();
        // Whoever does not listen any more has ended stdin too.
        drop(stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()));
    }
}

/// Puts a verdict behind others; what is said of neighbours is said once.
fn add(results: &mut Vec<Verdict>, verdict: Verdict) {
    match results.last_mut() {
        Some(last)
            if last.to + 1 == verdict.from
                && (&last.topic, last.partition, last.lease, &last.status, last.delay_ms)
                    == (
                        &verdict.topic,
                        verdict.partition,
                        verdict.lease,
                        &verdict.status,
                        verdict.delay_ms,
                    ) =>
        {
            last.to = verdict.to;
        }
        _ => results.push(verdict),
    }
}

fn got(batch: &Batch) -> Got {
    let message = |message: &Value| {
        let text = |name: &str| message.get(name).and_then(Value::as_str).map(str::to_owned);
        let payload = text("payload").unwrap_or_default();
        let head = payload.chars().take(24).collect();
        Message { key: text("key"), head, crc: crc32c::crc32c(payload.as_bytes()) }
    };
    Got {
        topic: batch.topic.clone(),
        partition: batch.partition,
        base: batch.base,
        attempt: batch.attempt,
        lease: batch.lease,
        messages: batch.messages.iter().map(message).collect(),
    }
}

fn wrong(error: io::Error) -> Failure {
    Failure::Wrong(error.to_string())
}
