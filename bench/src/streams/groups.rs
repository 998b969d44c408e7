//! Consuming as groups do: a lease is on disk before a message is handed over, and so is a commit
//! before it is answered.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use handoff_probe::{Load, now, overwrite, zero_filled};
use serde_json::{Value, json};

use super::packed::Packed;
use super::produce::produce;
use super::{
    BATCH, Bench, JSON, MESSAGE_BYTES, MSGPACK, RAW_BYTES, RECORD_BYTES, Run, create, once, row,
};
use crate::Failed;
use crate::http::{Requests, get, post};
use crate::load::{Offer, Wire as _, drive};

const PARTITIONS: u32 = 4;
const GROUPS: usize = 100;
/// Who reads at the same time.
const READERS: usize = 4;
/// How long a poll waits: a measurement ends that much later at most.
const WAIT: Duration = Duration::from_millis(500);
/// Nobody answers for so long: it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

impl Run<'_> {
    /// How soon a message is handed over, and how many are.
    pub(super) fn groups(&mut self) -> Result<(), Failed> {
        let short = self.plan.time.min(Duration::from_secs(2));
        (self.talk)("groups: floors");
        let corner = self.site.corner("raw")?;
        let raw = overwrite(&zero_filled(&corner.file("raw"), RAW_BYTES)?, RAW_BYTES, 4096, short)?;
        drop(corner);
        let bench = self.server("groups")?;
        let mut healthz = Requests::of(vec![get("/healthz", JSON)]);
        let hop = drive(bench.server.http(), Offer::of(1, 1, short), &mut healthz)?;
        // The message and its lease, one after the other.
        let floor = 2.0 * raw.micros_at(0.5) + hop.micros_at(0.5);
        self.latency(&bench, 1, floor)?;
        self.latency(&bench, GROUPS, floor)?;
        self.rates(&bench)?;
        bench.server.stop()?;
        Ok(())
    }

    /// From the moment a message is sent until the last of so many groups has it. The next one is sent
    /// when all have committed it.
    fn latency(&mut self, bench: &Bench, groups: usize, floor: f64) -> Result<(), Failed> {
        (self.talk)(&format!("groups: one message to {groups}"));
        let http = bench.server.http();
        let topic = format!("to-{groups}");
        create(http, &topic, 1)?;
        let members = (0..groups).map(|n| Member::join(http, &format!("{topic}.{n}"), &topic));
        let members: Vec<Member> = members.collect::<io::Result<_>>()?;
        let (done, arrivals) = sync_channel(groups);
        let over = AtomicBool::new(false);
        let load = thread::scope(|scope| {
            for mut member in members {
                let (done, over) = (done.clone(), &over);
                scope.spawn(move || member.listen(over, &done));
            }
            drop(done);
            let load = send_one_by_one(http, &topic, groups, &arrivals, self.plan.time);
            over.store(true, Ordering::Relaxed);
            load
        })?;
        let to = if groups == 1 { "handed over" } else { "the last of 100 groups has it" };
        let name = |share: &str| format!("from sent to {to}, {share}");
        let p50 = row(&format!("handed_{groups}_p50"), &name("p50"), "µs", load.micros_at(0.5));
        self.rows.push(p50.floor("2 syncs + healthz", &once(floor)));
        let p99 = load.micros_at(0.99);
        self.row(&format!("handed_{groups}_p99"), &name("p99"), "µs", p99);
        Ok(())
    }

    /// Messages a second that are there, leased, taken and committed, beside a plain read of them.
    fn rates(&mut self, bench: &Bench) -> Result<(), Failed> {
        let http = bench.server.http();
        let bytes = (self.plan.backlog_bytes / 16).clamp(8 << 20, 512 << 20);
        let requests = usize::try_from(bytes).unwrap_or(0) / (BATCH * MESSAGE_BYTES);
        (self.talk)(&format!("groups: {} messages to consume", requests * BATCH));
        create(http, "full", PARTITIONS)?;
        let mut fill = Requests::of(vec![produce("full", BATCH, MESSAGE_BYTES, &[])]);
        let offer = Offer { requests_max: requests, ..Offer::of(4, 1, Duration::MAX) };
        drive(http, offer, &mut fill)?;

        (self.talk)("groups: plain reads");
        let each = requests * BATCH / PARTITIONS as usize;
        let starts = (0..each.saturating_sub(BATCH)).step_by(BATCH);
        let path = |partition: u32, offset: usize| {
            format!(
                "/v1/streams/topics/full/partitions/{partition}/messages?offset={offset}&limit={BATCH}&maxBytes={}",
                4 << 20
            )
        };
        let reads = starts.flat_map(|start| (0..PARTITIONS).map(move |one| (one, start)));
        let reads = reads.map(|(partition, start)| get(&path(partition, start), MSGPACK)).collect();
        let mut reads = Requests::of(reads);
        let load = drive(http, Offer::of(READERS, 1, self.plan.time), &mut reads)?;
        let read = reads.bytes as f64 / (MESSAGE_BYTES + RECORD_BYTES) as f64;
        let floor = once(load.rate() * read / load.calls().max(1) as f64);

        for groups in [1, GROUPS] {
            (self.talk)(&format!("groups: {groups} consume"));
            let rate = consumed(http, groups, self.plan.time)?;
            let words = if groups == 1 { "1 group" } else { "100 groups" };
            let name = format!("messages of 1 KiB leased and committed, {words}");
            let rate = row(&format!("consume_{groups}_rate"), &name, "/s", rate);
            self.rows.push(rate.floor("plain reads", &floor));
        }
        let memory = bench.server.resident_bytes().map(|bytes| bytes as f64 / 1e6);
        self.row("consume_memory", "memory of the server then", "MB", memory);
        Ok(())
    }
}

/// Sends messages, each when the one before was taken by all groups.
fn send_one_by_one(
    http: SocketAddr,
    topic: &str,
    groups: usize,
    arrivals: &Receiver<io::Result<Instant>>,
    time: Duration,
) -> io::Result<Load> {
    let mut line = Line::to(http)?;
    let request = produce(topic, 1, MESSAGE_BYTES, &[]);
    let (begun, mut latencies) = (now(), Vec::new());
    while begun.elapsed() < time {
        let sent = now();
        line.ask(&request)?;
        let mut last = sent;
        for _ in 0..groups {
            let arrival = arrivals.recv_timeout(PATIENCE);
            let arrival = arrival.map_err(|_| io::Error::other("a message was not handed over"))?;
            last = last.max(arrival?);
        }
        latencies.push(last.saturating_duration_since(sent));
    }
    Ok(Load::of(latencies, begun.elapsed()))
}

/// Messages a second that groups take for a time, or until they have all of them.
fn consumed(http: SocketAddr, groups: usize, time: Duration) -> io::Result<f64> {
    // One group has as many members as there are readers; of many, each reader has its share.
    let places = groups.max(READERS);
    let name = |place: usize| format!("{groups}.{}", place % groups);
    let members = (0..places).map(|place| Member::join(http, &name(place), "full"));
    let members: Vec<Member> = members.collect::<io::Result<_>>()?;
    let mut readers: Vec<Vec<Member>> = (0..READERS).map(|_| Vec::new()).collect();
    for (place, member) in members.into_iter().enumerate() {
        if let Some(reader) = readers.get_mut(place % READERS) {
            reader.push(member);
        }
    }
    let (begun, taken) = (now(), AtomicU64::new(0));
    let read = |mut members: Vec<Member>| {
        while begun.elapsed() < time && !members.is_empty() {
            let mut rest = Vec::with_capacity(members.len());
            for mut member in members {
                let handed = member.poll(Duration::ZERO)?;
                if handed.is_empty() {
                    // There is nothing for it any more: nobody sends.
                    continue;
                }
                member.commit(&handed)?;
                let count = handed.iter().map(|one| one.count).sum();
                taken.fetch_add(count, Ordering::Relaxed);
                rest.push(member);
            }
            members = rest;
        }
        Ok(())
    };
    let outcomes: Vec<io::Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> =
            readers.into_iter().map(|members| scope.spawn(|| read(members))).collect();
        let ended = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("a reader panicked")))
        });
        ended.collect()
    });
    outcomes.into_iter().collect::<io::Result<()>>()?;
    Ok(taken.into_inner() as f64 / begun.elapsed().as_secs_f64())
}

/// What a member has to commit.
struct Handed {
    partition: u64,
    base: u64,
    count: u64,
}

/// A member of a group, on a connection of its own.
struct Member {
    line: Line,
    topic: String,
    path: String,
}

impl Member {
    fn join(http: SocketAddr, group: &str, topic: &str) -> io::Result<Self> {
        let mut line = Line::to(http)?;
        let path = format!("/v1/streams/groups/{group}/members");
        let body = json!({ "version": 1, "topics": [topic], "from": "earliest" }).to_string();
        let joined: Value =
            serde_json::from_slice(line.ask(&post(&path, JSON, body.as_bytes()))?)?;
        let member = joined.get("member").and_then(Value::as_str);
        let member = member.ok_or_else(|| io::Error::other("nobody joined"))?;
        let path = format!("{path}/{member}");
        Ok(Self { line, topic: topic.to_owned(), path })
    }

    fn poll(&mut self, wait: Duration) -> io::Result<Vec<Handed>> {
        let (path, length_max) = (&self.path, BATCH);
        let body = json!({
            "version": 1,
            "maxMessages": length_max,
            "maxBytes": 4 << 20,
            "waitMs": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        });
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "POST {path}/poll HTTP/1.1\r\nhost: localhost\r\naccept: {MSGPACK}\r\ncontent-type: {JSON}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let answer = self.line.ask(request.as_bytes())?;
        handed(answer).ok_or_else(|| io::Error::other("a poll was answered with something else"))
    }

    fn commit(&mut self, handed: &[Handed]) -> io::Result<()> {
        let result = |one: &Handed| {
            json!({
                "topic": self.topic,
                "partition": one.partition,
                "from": one.base,
                "to": one.base + one.count - 1,
                "status": "ok",
            })
        };
        let results: Vec<Value> = handed.iter().map(result).collect();
        let body = json!({ "version": 1, "results": results }).to_string();
        let request = post(&format!("{}/commit", self.path), JSON, body.as_bytes());
        let answer: Value = serde_json::from_slice(self.line.ask(&request)?)?;
        let results = answer.get("results").and_then(Value::as_array);
        let is_done = |one: &Value| one.get("outcome").and_then(Value::as_str) == Some("done");
        match results.is_some_and(|results| results.iter().all(is_done)) {
            true => Ok(()),
            false => Err(io::Error::other(format!("a commit did not count: {answer}"))),
        }
    }

    /// Takes and commits what comes and tells when it came.
    fn listen(&mut self, over: &AtomicBool, done: &SyncSender<io::Result<Instant>>) {
        while !over.load(Ordering::Relaxed) {
            let arrived = self.poll(WAIT).and_then(|handed| {
                let arrived = now();
                if handed.is_empty() {
                    return Ok(None);
                }
                self.commit(&handed).map(|()| Some(arrived))
            });
            let failed = arrived.is_err();
            let told = arrived.transpose().is_none_or(|arrived| done.send(arrived).is_ok());
            if failed || !told {
                return;
            }
        }
    }
}

/// What a poll handed over.
fn handed(answer: &[u8]) -> Option<Vec<Handed>> {
    let mut packed = Packed::new(answer);
    let mut handed = Vec::new();
    for _ in 0..packed.map()? {
        if packed.text()? != b"batches" {
            packed.skip()?;
            continue;
        }
        for _ in 0..packed.array()? {
            let mut one = Handed { partition: 0, base: 0, count: 0 };
            for _ in 0..packed.map()? {
                match packed.text()? {
                    b"partition" => one.partition = packed.unsigned()?,
                    b"baseOffset" => one.base = packed.unsigned()?,
                    b"count" => one.count = packed.unsigned()?,
                    _ => packed.skip()?,
                }
            }
            handed.push(one);
        }
    }
    Some(handed)
}

/// A connection that asks one thing at a time.
struct Line {
    stream: TcpStream,
    heard: Vec<u8>,
    answers: Requests,
}

impl Line {
    fn to(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, heard: vec![0; 64 << 10], answers: Requests::of(Vec::new()) })
    }

    /// The body of the answer.
    fn ask(&mut self, request: &[u8]) -> io::Result<&[u8]> {
        self.stream.write_all(request)?;
        let mut filled = 0;
        loop {
            if filled == self.heard.len() {
                self.heard.resize(2 * filled, 0);
            }
            let space = self.heard.get_mut(filled..).unwrap_or_default();
            match self.stream.read(space)? {
                0 => return Err(io::Error::other("the server closed a connection")),
                read => filled += read,
            }
            let heard = self.heard.get(..filled).unwrap_or_default();
            if self.answers.answer(heard)?.is_some() {
                return Ok(&self.answers.body);
            }
        }
    }
}
